"""`pocketmq snapshot` and `wipe`: the data of a cluster, saved, brought back, removed."""

from __future__ import annotations

import sys
from typing import Annotated

import msgspec
import typer

from pocketmq.cluster.cli.common.asking import ask
from pocketmq.cluster.cli.common.complete_roles import complete_snapshot
from pocketmq.cluster.cli.common.output import Output, Sentences, show, tell
from pocketmq.cluster.cli.common.tables import Table
from pocketmq.cluster.cli.roles.steer import Control, Data, tell_done
from pocketmq.cluster.control_address.client import ControlClient, part
from pocketmq.cluster.control_address.declarations import ClusterDescription, Done, NewSnapshot
from pocketmq.cluster.steering.snapshots import SnapshotInfo

SAVE_HELP = """Copy the brokers' stores and the nameservers' KV configuration.

The command stops each role for a moment, one after the other. If the cluster has controllers, the
command stops all controllers and brokers together. The snapshot is in the data folder of the
cluster. The snapshot contains RocketMQ stores, which `pocketmq store` can read.

\b
Example:
  pocketmq snapshot save before-the-lecture
"""

LOAD_HELP = """Replace the data of the cluster with the data of a snapshot.

\b
Example:
  pocketmq snapshot load before-the-lecture
"""

LIST_HELP = """Show the snapshots of a cluster, oldest first.

\b
Example:
  pocketmq snapshot list
"""

WIPE_HELP = """Remove all data of a cluster. Its roles start again, empty.

The command removes topics, messages, offsets and the KV configuration. On a terminal, the command
asks first. In a script, it does not ask. To change only a group's offsets, use `pocketmq group
reset`.

\b
Example:
  pocketmq wipe
  pocketmq wipe --yes     asks nothing
"""

RESET_HELP = """The old name of `pocketmq wipe`. The next release removes this name.

\b
Example:
  pocketmq reset --yes
"""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("save", help=SAVE_HELP)(save)
    group.command("load", help=LOAD_HELP)(load)
    group.command("list", help=LIST_HELP)(list_snapshots)
    app.add_typer(group, name="snapshot", help="Snapshots of a cluster: save, load, list.")
    app.command("wipe", help=WIPE_HELP)(wipe)
    app.command("reset", help=RESET_HELP, hidden=True)(reset)


def save(
    name: Annotated[str, typer.Argument(help="Name of the snapshot.")],
    with_secrets: Annotated[
        bool, typer.Option("--with-secrets", help="Also users and rules, with passwords.")
    ] = False,
    output: Sentences = None,
    control: Control = None,
    data: Data = None,
) -> None:
    client = ControlClient.found(control, data)
    saved = client.post("/snapshots", SnapshotInfo, NewSnapshot(name, with_secrets))
    tell(output, msgspec.to_builtins(saved), _line(saved))


def load(
    name: Annotated[
        str, typer.Argument(help="Name of the snapshot.", autocompletion=complete_snapshot)
    ],
    output: Sentences = None,
    control: Control = None,
    data: Data = None,
) -> None:
    client = ControlClient.found(control, data)
    loaded = client.post(f"/snapshots/{part(name)}/load", SnapshotInfo)
    tell(output, msgspec.to_builtins(loaded), _line(loaded))


def list_snapshots(output: Output = None, control: Control = None, data: Data = None) -> None:
    found = ControlClient.found(control, data).get("/snapshots", list[SnapshotInfo])
    rows = [(each.name, ", ".join(each.roles), f"{each.bytes / 1024:,.0f} KiB") for each in found]
    show(
        output,
        msgspec.to_builtins(found),
        Table("snapshot", ("snapshot", "roles", "size"), rows),
    )


def wipe(
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    output: Sentences = None,
    control: Control = None,
    data: Data = None,
) -> None:
    client = ControlClient.found(control, data)
    # Scripts are not asked, as they could not answer.
    if not yes and sys.stdin.isatty():
        folder = client.get("/cluster", ClusterDescription).data
        ask(f"Remove all data in {folder}?", "nothing was removed")
    tell_done(output, client.post("/reset", Done))


def reset(
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    output: Sentences = None,
    control: Control = None,
    data: Data = None,
) -> None:
    typer.echo(
        "pocketmq: `reset` is called `wipe` now; the old name goes with the next release", err=True
    )
    wipe(yes, output, control, data)


def _line(info: SnapshotInfo) -> str:
    return f"{info.name}: {', '.join(info.roles)}; {info.bytes / 1024:,.0f} KiB"
