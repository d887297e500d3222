"""The demo's report, and how it is printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from rich.console import Console
from rich.table import Table

from pocketmq.cluster.demo.allocation import Rebalance
from pocketmq.cluster.demo.spark_step import SparkStep

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """Figures of one process of the run."""

    name: str
    messages: int
    """Messages that it sent, stored or consumed, depending on its role."""
    active_s: float
    """Real seconds during which it worked on messages."""
    cpu_s: float
    peak_own_bytes: int
    """Peak of its own memory, without shared memory and mapped files."""
    peak_rss_bytes: int
    """Peak of its resident memory, which includes a broker's mapped store files."""

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.messages / self.active_s if self.active_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class DemoReport:
    """All figures that are printed at the end; `is_good` decides the exit status."""

    sent: int
    """Acknowledged sends."""
    stored: int
    """Messages in the queues, by their maximum offsets."""
    consumed: int
    """Distinct messages in the consumers' files."""
    redelivered: int
    lost: int
    """Sent flights that are in no consumer's file."""
    unread: int
    """Stored messages that no consumer consumed."""
    means: Mapping[str, Fraction | None]
    """Mean departure delay per carrier, from the consumed messages."""
    csv_means: Mapping[str, Fraction | None]
    rebalances: Sequence[Rebalance] = ()
    consumers: Sequence[str] = ()
    processes: Sequence[ProcessFigures] = ()
    send_s: float = 0.0
    """Real seconds from the first to the last acknowledgement."""
    consume_s: float = 0.0
    took_s: float = 0.0
    notes: Sequence[str] = field(default=())
    complaints: Sequence[str] = ()
    """Problems that the mode's tally found."""
    spark: SparkStep | None = None
    """The result of Spark's step; None when it was not asked for."""

    @property
    def figures_agree(self) -> bool:
        """Whether every carrier's mean is exactly that of the CSV."""
        # Exact fractions: floats would depend on the order of the additions.
        return dict(self.means) == dict(self.csv_means)

    @property
    def is_good(self) -> bool:
        """Whether nothing was lost, the figures agree, and there is no other problem."""
        wrong = self.lost or self.unread or self.complaints or self.spark_complaints
        return not wrong and self.figures_agree

    @property
    def spark_complaints(self) -> Sequence[str]:
        """Problems with Spark's table."""
        return () if self.spark is None else self.spark.complaints(self.stored, self.csv_means)


def render(report: DemoReport, console: Console) -> None:
    """Print the whole report."""
    # With pop through the proxy nobody owns queues, so there is no table.
    if report.rebalances:
        console.print(_allocation_table(report))
    for number, rebalance in enumerate(report.rebalances, start=1):
        console.print(_rebalance_line(number, rebalance), highlight=False)
    console.print()
    console.print(_means_table(report))
    console.print(_process_table(report.processes))
    console.print(_messages_table(report))
    for note in report.notes:
        console.print(note, highlight=False, soft_wrap=True)
    if report.spark is not None:
        console.print(report.spark.line, highlight=False, soft_wrap=True)
    verdict = (
        "nothing was lost, and the figures are those of the CSV"
        if report.is_good
        else "NOT GOOD: " + "; ".join(_complaints(report))
    )
    console.print(f"{verdict} ({report.took_s:.1f} s in all)", highlight=False)


def mean_text(mean: Fraction | None) -> str:
    """A mean with all digits of a float."""
    return "-" if mean is None else repr(float(mean))


def _complaints(report: DemoReport) -> list[str]:
    found = []
    if report.lost:
        found.append(f"{report.lost:,} flights were lost")
    if report.unread:
        found.append(f"{report.unread:,} stored messages were not consumed")
    if not report.figures_agree:
        found.append("the mean delays differ from the CSV's")
    return [*found, *report.complaints, *report.spark_complaints]


def _allocation_table(report: DemoReport) -> Table:
    """A column per rebalance, a row per consumer."""
    table = Table(title="Who owns which queue", title_justify="left", show_lines=True)
    table.add_column("consumer")
    for number in range(1, len(report.rebalances) + 1):
        table.add_column(f"after rebalance {number}")
    for consumer in report.consumers:
        table.add_row(consumer, *(_queues_text(each, consumer) for each in report.rebalances))
    return table


def _queues_text(rebalance: Rebalance, consumer: str) -> str:
    queues = rebalance.queues_of(consumer)
    if len(queues) > 1 and len(queues) == len(rebalance.owners):
        return f"all {len(queues)}"
    return " ".join(map(str, queues)) or "-"


def _rebalance_line(number: int, rebalance: Rebalance) -> str:
    took = (
        f"settled in {rebalance.took_ms} ms"
        if rebalance.took_ms is not None
        else "not settled before the next event"
    )
    queues = "queue" if rebalance.moved == 1 else "queues"
    return f"rebalance {number}: {rebalance.reason}; {took}; {rebalance.moved} {queues} moved"


def _means_table(report: DemoReport) -> Table:
    table = Table(title="Mean departure delay in minutes", title_justify="left")
    table.add_column("carrier")
    table.add_column("from the consumed messages")
    table.add_column("from the CSV")
    tables = [report.means, report.csv_means]
    if report.spark is not None and report.spark.means is not None:
        table.add_column("from the brokers, by Spark")
        tables.append(report.spark.means)
    table.add_column("equal")
    for carrier in sorted(set().union(*tables)):
        means = [each.get(carrier) for each in tables]
        # `None` may be a mean as well, so a carrier that is missing in a table needs its own check.
        equal = len(set(means)) == 1 and all(carrier in each for each in tables)
        table.add_row(carrier, *map(mean_text, means), "yes" if equal else "NO")
    return table


def _process_table(processes: Sequence[ProcessFigures]) -> Table:
    table = Table(title="Processes", title_justify="left")
    table.add_column("process")
    for column in ("messages", "msg/s", "CPU s", "peak own MiB", "peak RSS MiB"):
        table.add_column(column, justify="right")
    for each in processes:
        table.add_row(
            each.name,
            f"{each.messages:,}" if each.messages else "-",
            f"{each.rate:,.0f}" if each.messages else "-",
            f"{each.cpu_s:.1f}",
            f"{each.peak_own_bytes / MIB:.0f}",
            f"{each.peak_rss_bytes / MIB:.0f}",
        )
    return table


def _messages_table(report: DemoReport) -> Table:
    table = Table(title="Messages", title_justify="left", show_header=False)
    table.add_column("what")
    table.add_column("number", justify="right")
    table.add_column("rate", justify="right")
    table.add_row("sent", f"{report.sent:,}", _rate(report.sent, report.send_s))
    table.add_row("stored", f"{report.stored:,}", "")
    table.add_row(
        "consumed, distinct", f"{report.consumed:,}", _rate(report.consumed, report.consume_s)
    )
    table.add_row("redelivered", f"{report.redelivered:,}", "")
    table.add_row("lost", f"{report.lost:,}", "")
    return table


def _rate(messages: int, seconds: float) -> str:
    return f"{messages / seconds:,.0f} msg/s in {seconds:.1f} s" if seconds > 0 else ""
