"""Topics into tables that people keep, incrementally and each message once, without Spark.

    export("orders", DeltaTarget("tables/orders"), nameServer="127.0.0.1:9876")
    export("orders", DeltaTarget("tables/orders"), stores="cluster/broker-a")

A target says how far it has come in each queue, and that is written in the same commit as the rows:
whoever is killed anywhere and runs again makes the same table. Offsets that were exported and are
beyond the end of a queue now (a topic made anew) stop the export.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from pocketmq.pipeline.offsets import Offsets
from pocketmq.protocol.message import MessageQueue

if TYPE_CHECKING:
    import pyarrow as pa

    from pocketmq.pipeline.lake.feeds import Feed, Range

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
    stores: str = "",
    rows_per_commit: int = ROWS_PER_COMMIT,
    on_commit: Callable[[Exported], None] | None = None,
    **options: str,
) -> Exported:
    """Add to a table what a topic has and the table has not, up to the present ends.

    Args:
        topic: One topic, or several separated by commas.
        target: The table.
        stores: Store directories to read instead of asking the brokers, separated by commas.
        rows_per_commit: Most rows of a commit; they are held in memory.
        on_commit: Called after each commit.
        options: Of the data source `pocketmq`, or with `stores` of `pocketmq-store`; `columns`
            chooses the table's columns.

    Raises:
        OptionError: An option is wrong, or the topic does not exist.
        DataLossError: Messages were removed before they were exported.
    """
    from pocketmq.pipeline.lake.feeds import StoreFeed, TopicFeed

    feed: Feed
    if stores:
        feed = StoreFeed({"path": stores, "topic": topic, **options})
    else:
        feed = TopicFeed({"topic": topic, **options})
    done = Exported()
    for chunk in _chunks(feed.ranges(target.offsets(feed.queues())), rows_per_commit):
        done = _commit(feed, chunk, target, done)
        if on_commit is not None:
            on_commit(done)
    return done


def _commit(feed: Feed, chunk: list[Range], target: Target, done: Exported) -> Exported:
    """Read these ranges and append them; the rows are let go before the next ones are read."""
    import pyarrow as pa

    from pocketmq.pipeline.arrow import arrow_schema

    rows = pa.Table.from_batches(feed.batches(chunk), arrow_schema(feed.columns))
    moved: dict[MessageQueue, tuple[int, int]] = {}
    for part in chunk:
        start, _ = moved.get(part.queue, (part.start, 0))
        moved[part.queue] = (start, part.end)
    target.append(rows, moved)
    return Exported(done.rows + len(rows), done.bytes + rows.nbytes, done.commits + 1)


def _chunks(parts: list[Range], most: int) -> Iterator[list[Range]]:
    """The parts in their order, cut so that a chunk has at most so many offsets."""
    chunk: list[Range] = []
    room = most
    for part in parts:
        at = part.start
        while at < part.end:
            end = min(part.end, at + room)
            chunk.append(part.part(at, end))
            room -= end - at
            at = end
            if room == 0:
                yield chunk
                chunk, room = [], most
    if chunk:
        yield chunk
