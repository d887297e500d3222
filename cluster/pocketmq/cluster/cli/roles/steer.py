"""`pocketmq ps`, `logs`, `freeze`, `thaw`, `kill`, `restart`, `seed`: over the control address."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from pocketmq.cluster.cli.common.complete_roles import complete_role
from pocketmq.cluster.cli.common.output import Output, OutputFormat, Sentences, show, tell
from pocketmq.cluster.cli.common.tables import Table
from pocketmq.cluster.control_address.client import VARIABLE, ControlClient, part
from pocketmq.cluster.control_address.declarations import (
    ClusterDescription,
    Done,
    Logs,
    Seeded,
)
from pocketmq.cluster.control_address.seeds import read_seed
from pocketmq.runtime.words import counted

PS_HELP = """Show the roles of a cluster that `pocketmq up` started.

\b
Examples:
  pocketmq ps
  pocketmq ps --data ./cluster               the cluster with this data folder
"""

LOGS_HELP = """Show the end of a role's log.

\b
Example:
  pocketmq logs broker-a --lines 100
"""

FREEZE_HELP = """Suspend a role's process (SIGSTOP) until `pocketmq thaw`.

\b
Example:
  pocketmq freeze broker-a
      after 120 s nameservers remove it from routes
"""

THAW_HELP = """Resume a frozen role (SIGCONT).

\b
Example:
  pocketmq thaw broker-a
"""

KILL_HELP = """Kill a role's process with SIGKILL. The role can save nothing.

\b
Example:
  pocketmq kill broker-a && pocketmq restart broker-a
"""

RESTART_HELP = """Restart a role that has ended, with its port and files.

\b
Example:
  pocketmq restart broker-a
"""

SEED_HELP = """Create topics and send messages, as a seed file says.

\b
Example:
  pocketmq seed orders.toml
      [[topics]] name, queues; [[messages]] topic, body, ...
"""

Control = Annotated[
    str | None,
    typer.Option("--control", metavar="URL", help=f"Control address.  [env var: {VARIABLE}]"),
]
Data = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="Data folder of the cluster.")
]
RoleName = Annotated[
    str,
    typer.Argument(
        help="Name of a role. `pocketmq ps` shows all names.", autocompletion=complete_role
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("ps", help=PS_HELP)(ps)
    app.command("logs", help=LOGS_HELP)(logs)
    for name, help_text in (
        ("freeze", FREEZE_HELP),
        ("thaw", THAW_HELP),
        ("kill", KILL_HELP),
        ("restart", RESTART_HELP),
    ):
        app.command(name, help=help_text)(_role_command(name))
    app.command("seed", help=SEED_HELP)(seed)


def ps(output: Output = None, control: Control = None, data: Data = None) -> None:
    cluster = ControlClient.found(control, data).get("/cluster", ClusterDescription)
    rows = [(role.name, role.address, role.state) for role in cluster.roles]
    show(output, msgspec.to_builtins(cluster), Table("role", ("role", "address", "state"), rows))


def logs(
    role: RoleName,
    lines: Annotated[int, typer.Option(min=1, max=1000, help="How many lines.")] = 50,
    output: Sentences = None,
    control: Control = None,
    data: Data = None,
) -> None:
    client = ControlClient.found(control, data)
    found = client.get(f"/roles/{part(role)}/logs", Logs, lines=lines)
    tell(output, msgspec.to_builtins(found), *found.lines)


def seed(
    file: Annotated[Path, typer.Argument(help="TOML, JSON or JSONL file.")],
    output: Sentences = None,
    control: Control = None,
    data: Data = None,
) -> None:
    # Read here and not by the cluster, as the path is on this machine.
    wanted = read_seed(file)
    made = ControlClient.found(control, data).post("/seed", Seeded, wanted)
    counts = [counted(made.topics, "topic"), counted(made.messages, "message")]
    counts += [counted(made.groups, "group")] if made.groups else []
    counts += [counted(made.offsets, "offset")] if made.offsets else []
    tell(output, msgspec.to_builtins(made), ", ".join(counts))


def tell_done(output: OutputFormat | None, done: Done) -> None:
    """Print what the control address did."""
    tell(output, msgspec.to_builtins(done), done.done)


def _role_command(verb: str):  # type: ignore[no-untyped-def]  # typer reads the inner signature
    def command(
        role: RoleName, output: Sentences = None, control: Control = None, data: Data = None
    ) -> None:
        client = ControlClient.found(control, data)
        tell_done(output, client.post(f"/roles/{part(role)}/{verb}", Done))

    return command
