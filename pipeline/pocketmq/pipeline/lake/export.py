"""Topics into tables that people keep, incrementally and each message once, without Spark.

    export("orders", DeltaTarget("tables/orders"), nameServer="127.0.0.1:9876")
    export("orders", DeltaTarget("tables/orders"), stores="cluster/broker-a")

A target says how far it has come in each queue, and that is written in the same commit as the rows:
whoever is killed anywhere and runs again makes the same table. It also says which message comes
before that (a mark), so that a topic made anew is noticed, however long it has become.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from pocketmq.pipeline.installed import check_arrow
from pocketmq.pipeline.lake.notes import Move, Moves, Scope
from pocketmq.pipeline.options.offsets import Offsets
from pocketmq.pipeline.progress.checkpoint import Checkpoint
from pocketmq.pipeline.progress.resume import as_continued, check_unchanged, moved_on
from pocketmq.protocol.messages.message import MessageQueue

if TYPE_CHECKING:
    import pyarrow as pa

    from pocketmq.pipeline.lake.feeds import Feed, Range

ROWS_PER_COMMIT: Final = 100_000


class Target(Protocol):
    """A table that remembers how far each queue was exported."""

    def stand(self, scope: Scope) -> Checkpoint:
        """Of all queues that it has of these topics, whether they are still there or not, the next
        offset and the mark of the message before it."""

    def append(self, rows: pa.Table, moved: Moves) -> None:
        """Add rows, and note in the same commit how far the table goes in these queues."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export has done so far."""

    rows: int = 0
    bytes: int = 0
    commits: int = 0
    lost: int = 0
    """With `failOnDataLoss=false`: messages that were removed before they were exported, as far as
    one knows."""


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
            chooses the table's columns; with `failOnDataLoss=false` what is lost is counted and
            told, and a topic made anew is read from its new beginning.

    Raises:
        OptionError: An option is wrong, or the topic does not exist.
        DataLossError: Messages were removed before they were exported, a topic was made anew, or a
            queue went away.
        MissingToolError: PyArrow or NumPy is not installed.
    """
    check_arrow("export")
    from pocketmq.pipeline.lake.feeds import StoreFeed, TopicFeed

    feed: Feed
    if stores:
        feed = StoreFeed({"path": stores, "topic": topic, **options})
    else:
        feed = TopicFeed({"topic": topic, **options})
    stand = target.stand(feed.scope())
    ranges = feed.ranges(stand)
    starts = {each.queue: each.start for each in ranges}
    told = {
        queue: Move(at, at, stand.marks.get(queue), is_gone=True)
        for queue, at in stand.offsets.items()
        if queue in feed.gone
    }
    stand = as_continued(stand, starts)
    # The first commit notes where each queue begins: what is removed before the queue has rows
    # in the table is missed then.
    begins = {
        queue: at
        for queue, at in starts.items()
        if stand.offsets.get(queue) != at or queue in stand.gone
    }
    # What was told of queues is noted even if there is nothing to read, and is not told again.
    is_told = bool(told or begins.keys() & stand.offsets.keys())
    done = Exported(lost=feed.lost)
    for chunk in _chunks(ranges, rows_per_commit, is_told=is_told):
        rows, moved = _read(feed, chunk, stand, begins)
        target.append(rows, {**moved, **told})
        stand = moved_on(stand, {queue: (move.end, move.mark) for queue, move in moved.items()})
        begins, told = {}, {}
        done = Exported(
            done.rows + len(rows), done.bytes + rows.nbytes, done.commits + 1, feed.lost
        )
        del rows  # let go before the next ones are read
        if on_commit is not None:
            on_commit(done)
    return done


def _read(
    feed: Feed, chunk: list[Range], stand: Checkpoint, begins: Offsets
) -> tuple[pa.Table, dict[MessageQueue, Move]]:
    """The rows of these ranges, and what a commit of them notes.

    Raises:
        DataLossError: A queue is not the one any more that the rows before were of.
    """
    import pyarrow as pa

    from pocketmq.pipeline.columns.arrow import arrow_schema

    spans = {queue: (start, start) for queue, start in begins.items()}
    for part in chunk:
        start, _ = spans.get(part.queue, (part.start, 0))
        spans[part.queue] = (start, part.end)
    # The new marks are taken first, and the old ones compared last: if those have not changed, the
    # queue was the same all the while.
    ends = {queue: end - 1 for queue, (start, end) in spans.items() if start < end}
    marks = {queue: mark for queue, mark in stand.marks.items() if queue not in ends}
    marks |= feed.marks(ends)
    rows = pa.Table.from_batches(feed.batches(chunk), arrow_schema(feed.columns))
    before = {queue: stand.offsets[queue] - 1 for queue in stand.marks if queue in spans}
    check_unchanged(stand, feed.marks(before))
    return rows, {
        queue: Move(start, end, marks.get(queue), is_anew=start < stand.offsets.get(queue, 0))
        for queue, (start, end) in spans.items()
    }


def _chunks(parts: list[Range], most: int, *, is_told: bool) -> Iterator[list[Range]]:
    """The parts in their order, cut so that a chunk has at most so many offsets; if something was
    told, one chunk at least."""
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
    if chunk or (is_told and not any(part.start < part.end for part in parts)):
        yield chunk
