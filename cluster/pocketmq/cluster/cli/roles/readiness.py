"""`pocketmq ready`, `down`: whether a cluster can be used, and its end."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
import typer

from pocketmq.cluster.cli.common.complete import complete_group, complete_topic
from pocketmq.cluster.cli.common.output import Sentences, tell
from pocketmq.cluster.cli.roles.steer import Control, Data
from pocketmq.cluster.control_address.client import ControlClient
from pocketmq.cluster.control_address.declarations import Readiness, Stopping

READY_HELP = """Check whether clients can work.

If clients cannot work, the exit status is 1, and standard error shows what is missing, one item on
each line.

\b
Examples:
  pocketmq ready
  pocketmq ready --topic orders --group billing   these must be usable, too
"""

DOWN_HELP = """Stop the cluster that `pocketmq up` started.

The command returns when the cluster has ended.

\b
Examples:
  pocketmq down
  pocketmq down --data ./cluster             the cluster with this data folder
"""

STOP_LIMIT_S = 60.0
"""Real seconds that a cluster takes at most to stop."""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("ready", help=READY_HELP)(ready)
    app.command("down", help=DOWN_HELP)(down)


def ready(
    topic: Annotated[
        str | None, typer.Option(help="It must have its route.", autocompletion=complete_topic)
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(help="It must have all of its queues.", autocompletion=complete_group),
    ] = None,
    output: Sentences = None,
    control: Control = None,
    data: Data = None,
) -> int:
    client = ControlClient.found(control, data)
    found = client.get("/readyz", Readiness, topic=topic, group=group)
    if output != "json":
        for each in found.missing:
            typer.echo(f"not ready: {each}", err=True)
    # The word "ready" would be wrong otherwise; JSON has its own field.
    if found.ready or output == "json":
        tell(output, msgspec.to_builtins(found), "ready")
    return 0 if found.ready else 1


def down(output: Sentences = None, control: Control = None, data: Data = None) -> int:
    from pocketmq.cluster.background import until_gone  # psutil

    stopping = ControlClient.found(control, data).post("/stop", Stopping)
    pid = stopping.pid

    async def wait() -> None:
        # could be better: the pid belongs to the cluster's machine, which with --control may be
        # another one.
        async with asyncio.timeout(STOP_LIMIT_S):
            await until_gone(pid)

    try:
        asyncio.run(wait())
    except TimeoutError:
        typer.echo(f"process {pid} still runs after {STOP_LIMIT_S:g} s", err=True)
        return 1
    tell(output, msgspec.to_builtins(stopping))
    return 0
