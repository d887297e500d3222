"""`pocketmq pipeline replay`: messages of a store, a table or a topic to a topic again."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pocketmq.cluster.cli.common.output import Output, show
from pocketmq.cluster.cli.common.run import DEFAULT_NAMESERVERS, Nameservers, told_or_found
from pocketmq.cluster.cli.common.tables import Table
from pocketmq.cluster.cli.jobs.pipeline_jobs import FailOnDataLoss, Out, progress_bar
from pocketmq.cluster.cli.jobs.pipeline_spark import Master, tell_starting

REPLAY_HELP = """Send stored messages once more, with Spark.

SOURCE is store:DIR, parquet:DIR, delta:TABLE, iceberg:DIR/NAMESPACE.NAME or topic:NAME. Spark reads
the messages, and sorts them by their store times. This process sends the messages in that order.
All messages with the same key go to the same queue. Each message keeps its body, tags, keys and
properties. Its new properties REPLAY_FROM, REPLAY_BORN_MS and REPLAY_STORE_MS contain its former
place and times. With --state, a killed replay continues where it stopped. Only the messages that it
was sending may be sent twice. If the source deleted messages before they were sent, or is not the
same topic or store as before, the job fails. With --no-fail-on-data-loss, the job counts the lost
messages and continues. The job needs Java 17 or later and `pip install 'pocketmq[spark]'`.

\b
Examples:
  pocketmq topic create orders-again
  pocketmq pipeline replay delta:tables/orders orders-again --dry-run
  pocketmq pipeline replay delta:tables/orders orders-again --speed 10 \\
      --state replay.json
  pocketmq pipeline replay store:cluster/broker-a orders-again \\
      --topic orders --rate 500
"""


def register(group: typer.Typer) -> None:
    """Add the command to `pocketmq pipeline`."""
    group.command("replay", help=REPLAY_HELP)(replay)


def replay(
    source: Annotated[str, typer.Argument(help="Where the messages are.")],
    to: Annotated[str, typer.Argument(metavar="TOPIC", help="Where they go; it must exist.")],
    topic: Annotated[str, typer.Option(help="Only these topics of the source.")] = "",
    speed: Annotated[
        float,
        typer.Option(
            min=0,
            help=(
                "Speed of the replay. 1: the original speed. N: N times as fast. 0: as fast as "
                "possible."
            ),
        ),
    ] = 1.0,
    rate: Annotated[float, typer.Option(min=0, help="Most messages a second; 0: no limit.")] = 0.0,
    state: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Go on as this file says.", show_default=False),
    ] = None,
    state_rows: Annotated[int, typer.Option(min=1, help="Messages between two states.")] = 10_000,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be sent.")
    ] = False,
    fail_on_data_loss: FailOnDataLoss = True,
    master: Master = "",
    out: Out = None,
    output: Output = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> int:
    from pocketmq.pipeline.jobs import Replayed, ReplayOptions
    from pocketmq.pipeline.jobs import replay as run
    from pocketmq.pipeline.jobs.output import check_path, write_rows

    # Checked before the first message is sent, as a second run would send them all again.
    if out is not None:
        check_path(out)
    options = ReplayOptions(speed, rate, state, state_rows, fail_on_data_loss=fail_on_data_loss)
    with progress_bar() as progress:

        def on_state(done: Replayed) -> None:
            progress("messages", done.messages, None)

        done = run(
            source,
            to,
            topics=[word.strip() for word in topic.split(",") if word.strip()],
            nameservers=told_or_found(nameservers),
            options=options,
            dry_run=dry_run,
            on_state=on_state,
            master=master,
            starting=tell_starting,
        )
    if out is not None:
        write_rows([done], out, Replayed)
    verb = "would be sent" if dry_run else "sent"
    show(
        output,
        asdict(done),
        Table(
            "replay",
            (
                *("messages", "bytes", "keys", "seconds at least"),
                *("there before", "without body", "lost"),
            ),
            [
                (
                    *(done.messages, done.bytes, done.keys, round(done.lasts_s, 3)),
                    *(done.already_sent, done.skipped_empty, done.lost),
                )
            ],
        ),
        heading=f"{verb} to {to}",
    )
    return 0
