"""Topics into tables that people keep, incrementally and each message once, without Spark.

    export("orders", DeltaTarget("tables/orders"), nameServer="127.0.0.1:9876")

A target says how far it has come in each queue, and that is written in the same commit as the rows:
whoever is killed anywhere and runs again makes the same table. Offsets that were exported and are
beyond the end of a queue now (a topic made anew) stop the export.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from pocketmq.pipeline.offsets import Offsets
from pocketmq.protocol.message import MessageQueue

if TYPE_CHECKING:
    import pyarrow as pa

    from pocketmq.pipeline.cluster_client import ClusterClient
    from pocketmq.pipeline.settings import ReadSettings
    from pocketmq.pipeline.wire_read import PullPart

ROWS_PER_COMMIT: Final = 100_000


class Target(Protocol):
    """A table that remembers how far each queue was exported."""

    def offsets(self, queues: Sequence[MessageQueue]) -> Offsets:
        """The next offset of those queues that it has ranges of."""

    def append(self, rows: pa.Table, moved: Mapping[MessageQueue, tuple[int, int]]) -> None:
        """Add rows, and in the same commit that these ranges of offsets are in the table."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export has done so far."""

    rows: int = 0
    bytes: int = 0
    commits: int = 0


def export(
    topic: str,
    target: Target,
    *,
    rows_per_commit: int = ROWS_PER_COMMIT,
    on_commit: Callable[[Exported], None] | None = None,
    **options: str,
) -> Exported:
    """Add to a table what a topic has and the table has not, up to the present ends.

    Args:
        topic: One topic, or several separated by commas.
        target: The table.
        rows_per_commit: Most rows of a commit; they are held in memory.
        on_commit: Called after each commit.
        options: Of the data source `pocketmq`; `columns` chooses the table's columns.

    Raises:
        OptionError: An option is wrong, or the topic does not exist.
        DataLossError: Messages were removed before they were exported.
    """
    import pyarrow as pa

    from pocketmq.pipeline import plan_reads
    from pocketmq.pipeline.arrow import arrow_schema
    from pocketmq.pipeline.loop import shared_loop
    from pocketmq.pipeline.row_filter import RowFilter
    from pocketmq.pipeline.settings import ReadSettings
    from pocketmq.pipeline.topic_read import reading

    settings = ReadSettings({"topic": topic, **options})
    client = settings.access.client()
    queues = shared_loop().run(plan_reads.find_queues(client, settings))
    parts = shared_loop().run(_plan(client, settings, queues, target.offsets(queues)))
    read = reading(settings, settings.columns, RowFilter.of_tags(settings.tags))
    done = Exported()
    for chunk in _chunks(parts, rows_per_commit):
        batches = [batch for part in chunk for batch in read.batches(part)]
        rows = pa.Table.from_batches(batches, arrow_schema(settings.columns))
        moved: dict[MessageQueue, tuple[int, int]] = {}
        for part in chunk:
            start, _ = moved.get(part.queue, (part.start, 0))
            moved[part.queue] = (start, part.end)
        target.append(rows, moved)
        done = Exported(done.rows + len(rows), done.bytes + rows.nbytes, done.commits + 1)
        if on_commit is not None:
            on_commit(done)
    return done


async def _plan(
    client: ClusterClient, settings: ReadSettings, queues: Sequence[MessageQueue], exported: Offsets
) -> list[PullPart]:
    from pocketmq.pipeline import plan_reads
    from pocketmq.pipeline.wire_read import PullPart

    bounds = await client.bounds(queues)
    start = await plan_reads.resolve(client, settings, settings.start, bounds)
    start |= exported
    end = await plan_reads.resolve(client, settings, settings.end, bounds)
    start = plan_reads.checked(settings, start, bounds)
    end = plan_reads.checked(settings, end, bounds)
    numbers = plan_reads.kafka_partitions(queues)
    return [
        PullPart(queue, start[queue], end[queue], numbers[queue])
        for queue in sorted(queues)
        if start[queue] < end[queue]
    ]


def _chunks(parts: list[PullPart], most: int) -> Iterator[list[PullPart]]:
    """The parts in their order, cut so that a chunk has at most so many offsets."""
    chunk: list[PullPart] = []
    room = most
    for part in parts:
        at = part.start
        while at < part.end:
            end = min(part.end, at + room)
            chunk.append(replace(part, start=at, end=end))
            room -= end - at
            at = end
            if room == 0:
                yield chunk
                chunk, room = [], most
    if chunk:
        yield chunk
