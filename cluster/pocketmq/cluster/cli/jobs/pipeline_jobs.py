"""`pocketmq pipeline audit|latency|trace|rebalance`: jobs that read, and print tables."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from pocketmq.cluster.cli.common.output import Output, OutputFormat, is_table, show
from pocketmq.cluster.cli.common.run import (
    DEFAULT_NAMESERVERS,
    Nameservers,
    told_or_found,
    told_or_found_for,
)
from pocketmq.cluster.cli.common.tables import Table
from pocketmq.cluster.cli.jobs.pipeline_spark import Master, tell_starting
from pocketmq.cluster.cli.roles.clock import moment_text
from pocketmq.runtime.words import counted

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

AUDIT_HELP = """Check stores completely.

Stop the brokers first. The job checks records, queue entries and index entries as `pocketmq store
verify` does. It also checks that committed offsets are in range. With --replicas, give the stores
of one broker's replicas, and the master's store as the first. The job then compares each other
store with the master's store, and prints each difference with its file and byte. The exit status is
1 if something is wrong.

\b
Examples:
  pocketmq pipeline audit ~/store
  pocketmq pipeline audit ./cluster --out findings.parquet
  pocketmq pipeline audit --replicas cluster/broker-a cluster/broker-a-s1
"""

LATENCY_HELP = """Measure latencies, retries, keys and skew, with Spark.

The job also counts dead letters. SOURCE is store:DIR, parquet:DIR, delta:TABLE,
iceberg:DIR/NAMESPACE.NAME or topic:NAME. The latency from born to store is the difference between a
record's born time and its store time. A store does not contain the times at which groups commit
their offsets. To measure these times, run the command with --sample while the consumers run. The
command then writes samples of the committed offsets. A message counts as committed at the first
sample whose offset is past the message. The column `error` is the time between two samples. The job
needs Java 17 or later and `pip install 'pocketmq[spark]'`.

\b
Examples:
  pocketmq pipeline latency --sample looks.jsonl --every 1 --rounds 600
  pocketmq pipeline latency store:cluster/broker-a,cluster/broker-b \\
      --samples looks.jsonl
  pocketmq pipeline latency delta:tables/orders --out latency.parquet \\
      --chart latency.svg
"""

TRACE_HELP = """Show the life of a key or of a message, with Spark.

The steps of a message are: stored, sent back, retried, dead, committed. WANTED is a key, a unique
id (UNIQ_KEY) or an offset id. Each source is store:DIR, parquet:DIR, delta:TABLE,
iceberg:DIR/NAMESPACE.NAME or topic:NAME. The job needs Java 17 or later and `pip install
'pocketmq[spark]'`.

\b
Examples:
  pocketmq pipeline trace order-17 store:cluster/broker-a \\
      store:cluster/broker-b
  pocketmq pipeline trace 7F0000010E1A2A139A5500000000001C delta:tables/orders
"""

REBALANCE_HELP = """Simulate groups whose consumers come and go.

The strategies are the client's own.

\b
Examples:
  pocketmq pipeline rebalance --groups 100 --queues 64 --consumers 8
  pocketmq pipeline rebalance --groups 1000 --queues 1000 --consumers 20 \\
      --workers 2
"""

_MOST_SHOWN: Final = 50

Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write all rows: .parquet, .json or .jsonl.", show_default=False
    ),
]
FailOnDataLoss = Annotated[
    bool,
    typer.Option(
        "--fail-on-data-loss/--no-fail-on-data-loss",
        help=(
            "If messages were deleted before the job read them, the job stops. With "
            "--no-fail-on-data-loss, the job counts the lost messages and goes on."
        ),
    ),
]


def register(group: typer.Typer) -> None:
    """Add the commands to `pocketmq pipeline`."""
    group.command("audit", help=AUDIT_HELP)(audit)
    group.command("latency", help=LATENCY_HELP)(latency)
    group.command("trace", help=TRACE_HELP)(trace)
    group.command("rebalance", help=REBALANCE_HELP)(rebalance)


# -- audit ----------------------------------------------------------------------------------------


def audit(
    stores: Annotated[list[Path], typer.Argument(metavar="STORE...", help="Store directories.")],
    replicas: Annotated[
        bool, typer.Option("--replicas", help="Compare each store with the first.")
    ] = False,
    out: Out = None,
    output: Output = None,
) -> int:
    from pocketmq.pipeline.jobs import Finding
    from pocketmq.pipeline.jobs import audit as run
    from pocketmq.pipeline.jobs.output import check_path, write_rows

    # Checked before the work: a wrong ending of the name must not cost the result.
    if out is not None:
        check_path(out)
    with progress_bar() as progress:

        def on_read(store: str, done: int, total: int) -> None:
            progress(os.path.basename(store), done, total)

        found = run(stores, against_first=replicas, workers=os.cpu_count() or 1, progress=on_read)
    if out is not None:
        write_rows(found.findings, out, Finding)
    facts = {"count": found.count, "findings": dicts(found.findings), "notes": found.notes}
    # For programs the notes are among the facts.
    if is_table(output):
        for note in found.notes:
            typer.echo(f"note: {note}")
    show(
        output,
        facts,
        table_of("finding", dicts(found.findings), Finding, most=most_of(output)),
        Table(
            "store",
            ("store", "records", "queue entries", "index entries"),
            [(each.root, each.records, each.entries, each.index_entries) for each in found.stores],
        ),
        heading=counted(found.count, "finding") if found.count else "all right",
        summary=Table("audit", ("findings",), [(found.count,)]),
    )
    tell_hidden(output, found.count)
    return 1 if found.count else 0


# -- latency --------------------------------------------------------------------------------------


def latency(
    source: Annotated[str, typer.Argument(help="Where the messages are.", show_default=False)] = "",
    samples: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Looks that --sample took.", show_default=False),
    ] = None,
    topic: Annotated[str, typer.Option(help="Only these topics, separated by commas.")] = "",
    sample: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="While consumers run, write samples of the committed offsets into this file.",
            show_default=False,
        ),
    ] = None,
    every: Annotated[float, typer.Option(min=0.01, help="Seconds between looks.")] = 1.0,
    rounds: Annotated[int, typer.Option(min=1, help="How many looks.")] = 60,
    chart: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A picture: .png, .svg.", show_default=False)
    ] = None,
    master: Master = "",
    out: Out = None,
    output: Output = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> int:
    from pocketmq.pipeline.jobs import GroupRow, KeyRow, LatencyRow, QueueRow, latency_chart
    from pocketmq.pipeline.jobs import latency as run
    from pocketmq.pipeline.jobs import sample as take_samples
    from pocketmq.pipeline.jobs.chart import check_matplotlib
    from pocketmq.pipeline.jobs.output import ResultTable, check_path, write_tables
    from pocketmq.runtime.errors import CallerError

    if bool(source) == (sample is not None):
        raise CallerError(
            "give either a source to read, or --sample FILE to take samples, but not both"
        )
    if sample is not None:
        with progress_bar() as progress:
            lines = take_samples(
                sample,
                nameservers=told_or_found(nameservers),
                every_s=every,
                rounds=rounds,
                on_round=lambda done: progress("looks", done, rounds),
            )
        typer.echo(f"{lines:,} looks added to {sample}")
        return 0
    if out is not None:
        check_path(out)
    # Before Spark runs for minutes: Matplotlib may be missing.
    if chart is not None:
        check_matplotlib()
    topics = [word.strip() for word in topic.split(",") if word.strip()]
    found = run(
        source,
        samples=samples,
        topics=topics,
        nameservers=told_or_found_for([source], nameservers),
        master=master,
        starting=tell_starting,
    )
    rest = (
        ("group", found.groups, GroupRow),
        ("queue", found.queues, QueueRow),
        ("key", found.keys, KeyRow),
    )
    if out is not None:
        # In files beside the latencies: their columns differ, so they cannot be in one table.
        beside = (ResultTable(f"{name}s", rows, kind) for name, rows, kind in rest)
        write_tables(out, ResultTable("", found.rows, LatencyRow), *beside)
    if chart is not None:
        latency_chart.draw(found.rows, chart)
    # The table for people shows the time of day; programs get the number below.
    latencies = [
        {**row, "minute_ms": latency_chart.minute_text(row["minute_ms"])}
        for row in dicts(found.rows)
    ]
    show(
        output,
        {
            "messages": found.messages,
            "clockAhead": found.clock_ahead,
            "committedBefore": found.committed_before,
            "latencies": dicts(found.rows),
            "groups": dicts(found.groups),
            "queues": dicts(found.queues),
            "keys": dicts(found.keys),
        },
        table_of("latency in ms", latencies, LatencyRow, most=most_of(output)),
        *(table_of(name, dicts(rows), kind, most=most_of(output)) for name, rows, kind in rest),
        heading=f"{counted(found.messages, 'message')}; "
        f"{found.clock_ahead:,} stored before they were born; "
        f"{found.committed_before:,} committed before the first look",
        summary=Table(
            "sum",
            ("messages", "stored before they were born", "committed before the first look"),
            [(found.messages, found.clock_ahead, found.committed_before)],
        ),
    )
    tell_hidden(output, len(latencies), *(len(rows) for _, rows, _ in rest))
    if is_table(output):
        for line in list(latency_chart.bars(found.rows))[:_MOST_SHOWN]:
            typer.echo(line)
    return 0


# -- trace ----------------------------------------------------------------------------------------


def trace(
    wanted: Annotated[str, typer.Argument(help="A key or a message id.")],
    sources: Annotated[list[str], typer.Argument(metavar="SOURCES...", help="Where to look.")],
    master: Master = "",
    out: Out = None,
    output: Output = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> int:
    from pocketmq.pipeline.jobs import Step
    from pocketmq.pipeline.jobs import trace as run
    from pocketmq.pipeline.jobs.output import check_path, write_rows

    if out is not None:
        check_path(out)
    steps = run(
        wanted,
        sources,
        nameservers=told_or_found_for(sources, nameservers),
        master=master,
        starting=tell_starting,
    )
    if out is not None:
        write_rows(steps, out, Step)
    found = counted(len({step.message for step in steps}), "message")
    show(
        output,
        dicts(steps),
        Table(
            "step",
            ("message", "keys", "time", "group", "what", "topic", "place", "offset"),
            [
                (
                    *(step.message, step.keys, moment_text(step.time_ms), step.group, step.what),
                    *(step.topic, f"{step.broker}/{step.queue_id}", step.offset),
                )
                for step in steps
            ],
        ),
        heading=found if steps else f"nothing has the key or id {wanted}",
    )
    return 0 if steps else 1


# -- rebalance ------------------------------------------------------------------------------------


def rebalance(
    groups: Annotated[
        int, typer.Option(min=1, help="Number of groups. Each group has a topic of its own.")
    ] = 100,
    queues: Annotated[int, typer.Option(min=1, help="Number of queues of each topic.")] = 64,
    consumers: Annotated[int, typer.Option(min=1, help="Number of consumers of each group.")] = 8,
    brokers: Annotated[
        int, typer.Option(min=1, help="Number of brokers that share a topic's queues.")
    ] = 10,
    steps: Annotated[int, typer.Option(min=0, help="How often consumers leave or join.")] = 4,
    churn: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="Share of consumers that leave or join in one step, from 0 to 1."
        ),
    ] = 0.1,
    strategy: Annotated[
        str,
        typer.Option(
            help="Allocation strategies, separated by commas. Name your own class as module:Class."
        ),
    ] = "averagely,circle,consistent-hash",
    seed: Annotated[int, typer.Option(help="Seed: decides which consumers leave.")] = 7,
    workers: Annotated[int, typer.Option(min=1, help="Number of processes.")] = 1,
    out: Out = None,
    output: Output = None,
) -> int:
    from pocketmq.pipeline.jobs import Fleet, FleetStep
    from pocketmq.pipeline.jobs import rebalance as run
    from pocketmq.pipeline.jobs.output import check_path, write_rows

    if out is not None:
        check_path(out)
    fleet = Fleet(groups, queues, consumers, brokers, steps, churn, seed)
    names = [name.strip() for name in strategy.split(",") if name.strip()]
    with progress_bar() as progress:
        found = run(
            fleet,
            names,
            workers=workers,
            progress=lambda done, total: progress("groups", done, total),
        )
    if out is not None:
        write_rows(found, out, FleetStep)
    show(output, dicts(found), table_of("rebalance", dicts(found), FleetStep, most=most_of(output)))
    tell_hidden(output, len(found))
    return 0


# -- printing -------------------------------------------------------------------------------------


def dicts(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Rows as JSON has them."""
    from pocketmq.pipeline.jobs.output import as_dicts

    return as_dicts(rows)


def table_of(
    name: str, rows: Sequence[Mapping[str, Any]], kind: type[Any], *, most: int | None
) -> Table:
    """A table of a job's rows.

    Args:
        name: Singular.
        rows: As `dicts` makes them.
        kind: Their class, whose fields name the columns.
        most: Maximum rows.
    """
    columns = tuple(
        field.name.removesuffix("_ms").replace("_", " ") for field in dataclasses.fields(kind)
    )
    return Table(name, columns, [tuple(row.values()) for row in rows[:most]])


def most_of(output: OutputFormat | None) -> int | None:
    """How many rows of each table are printed: programs get all."""
    return _MOST_SHOWN if is_table(output) else None


def tell_hidden(output: OutputFormat | None, *counts: int) -> None:
    """Say that a table was cut."""
    hidden = sum(max(0, count - _MOST_SHOWN) for count in counts)
    if hidden and is_table(output):
        typer.echo(f"... and {hidden:,} more; --out FILE has them all")


class ShowProgress:
    """Updates a bar: what, done, of how many."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, what: str, done: int, total: int | None) -> None:
        task = self._tasks.get(what)
        if task is None:
            task = self._tasks[what] = self._bar.add_task(what, total=total)
        self._bar.update(task, completed=done, total=total, refresh=True)


@contextmanager
def progress_bar() -> Iterator[ShowProgress]:
    """A bar on standard error without a thread of its own; nothing without a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    # With FORCE_COLOR set, Rich would draw the bar even into a log.
    console = Console(stderr=True, force_terminal=sys.stderr.isatty())
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns,
        console=console,
        transient=True,
        # No threads of Rich's own may run while an audit forks its workers.
        auto_refresh=False,
        disable=not console.is_terminal,
    ) as bar:
        yield ShowProgress(bar)
