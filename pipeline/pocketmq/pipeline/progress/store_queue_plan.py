"""What a stream of stores by their queues reads next: each queue up to its last message.

Offsets are stored as a stream of topics stores them (`checkpoint`), with the same names where a
store's directory is called as its broker. So a query can go on from the brokers where it was in
their stores, and the reverse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from pocketmq.pipeline.options.offsets import Offsets, limited, split_ranges
from pocketmq.pipeline.options.row_filter import RowFilter
from pocketmq.pipeline.progress.checkpoint import Checkpoint, Mark
from pocketmq.pipeline.progress.cut_short import cuts_by
from pocketmq.pipeline.progress.losses import Loss
from pocketmq.pipeline.progress.marks import stored_marks
from pocketmq.pipeline.progress.missing_queues import tell_away
from pocketmq.pipeline.progress.resume import Losses, left, marked_places, others, resume
from pocketmq.pipeline.stores.store_bounds import Slice
from pocketmq.pipeline.stores.store_files import log_files
from pocketmq.pipeline.stores.store_plan import (
    QueuePart,
    check_queues,
    check_topics,
    choose_queues,
    is_named,
    snapshot,
)
from pocketmq.pipeline.stores.store_read import StoreSettings, find_stores
from pocketmq.pipeline.stores.store_roots import Root
from pocketmq.protocol.messages.message import MessageQueue

ADVICE: Final = "set failOnDataLoss=false to go on with what there is, or start elsewhere"

MOST_ROWS: Final = 250_000
"""Of a task."""

Bounds = dict[MessageQueue, tuple[int, int]]


class _Seen(NamedTuple):
    """The queues of all stores at one moment."""

    bounds: Bounds
    roots: Mapping[MessageQueue, Root]


class StoreQueuePlan:
    """One stream's state on the driver.

    Args:
        settings: Of the source.

    Raises:
        OptionError: A path is no store or has no queues, no store has the topic, or two are of one
            broker.
    """

    def __init__(self, settings: StoreSettings) -> None:
        self._settings = settings
        self._roots = find_stores(settings)
        check_queues(self._roots, lambda problem: settings.options.error("path", problem))
        check_topics(
            self._roots,
            settings.topics,
            lambda problem, **more: settings.options.error("topic", problem, **more),
        )
        self._losses = Losses(fails=settings.fail_on_data_loss, advice=ADVICE)
        self._target: Offsets | None = None
        self._judged: tuple[Checkpoint, Offsets] | None = None
        """Where the last planned batch begins; what is lost by that was told."""
        self._planned = 0

    def counts(self) -> dict[str, int | None]:
        """What this process has counted since the query started, and the size of the batch."""
        # When rows are filtered on the way, their number is not known at planning.
        leaves_out = bool(self._settings.tags) or self._settings.mode == "PERMISSIVE"
        return {"lost": self._losses.count, "planned": None if leaves_out else self._planned}

    def initial(self) -> Checkpoint:
        """Where a new stream begins."""
        seen = self._look()
        at = 0 if self._settings.starts_earliest else 1
        offsets = {queue: bounds[at] for queue, bounds in seen.bounds.items()}
        return Checkpoint(offsets, self._marks_before(seen, offsets))

    def ends(self) -> Offsets:
        """The present end of every queue."""
        return {queue: high for queue, (_, high) in self._look().bounds.items()}

    def set_target(self) -> None:
        """Read up to the present ends and no further."""
        self._target = self.ends()

    def latest(self, start: Checkpoint, most: int | None) -> Checkpoint:
        """Where the next batch ends; `start` while there is nothing to read.

        Args:
            start: Where it begins.
            most: Most messages of a batch; None for all.

        Raises:
            DataLossError: Messages are gone that were not read, or a queue is another one.
        """
        seen = self._look()
        begins = self._begins(start, seen)
        self._judged = (start, begins)
        # Never before the begin: the queue may end before the offset to read on from.
        ends = {queue: max(at, self._end(queue, seen)) for queue, at in begins.items()}
        if most is not None:
            ends = limited(begins, ends, most)
        self._planned = sum(ends[queue] - begins[queue] for queue in ends)
        moved = {
            queue: at
            for queue, at in ends.items()
            if start.offsets.get(queue) != at or begins[queue] != at  # made anew, and as long
        }
        # A queue that has come back is reported again if it is lost again.
        gone = (start.gone | self._losses.gone) - seen.bounds.keys()
        if not moved and gone == start.gone:
            return start
        # The marks of what was read show later whether another queue took the name.
        return Checkpoint(
            {**start.offsets, **ends},
            {
                **{queue: mark for queue, mark in start.marks.items() if queue not in moved},
                **self._marks_before(seen, moved),
            },
            gone=gone,
            early={queue: each for queue, each in start.early.items() if queue not in moved},
            partitions=start.partitions,
        )

    def parts(self, start: Checkpoint, end: Checkpoint) -> list[QueuePart]:
        """What the tasks of a batch read.

        Raises:
            DataLossError: Messages of the batch are gone, or a queue is another one.
        """
        seen = self._look()
        # The query was restarted, so this batch was planned by another process.
        if self._judged is None or self._judged[0] != start:
            self._judged = (start, self._begins(start, seen))
        begins = self._judged[1]
        spans: dict[MessageQueue, tuple[int, int]] = {}
        lost: list[Loss] = []
        # Files may have changed since the plan. Only moved queues are compared: of the others
        # retention may have removed the last message, which was read.
        moved = {queue: end.offsets[queue] for queue in end.marks if end.has_moved(queue, start)}
        now = self._marks_before(seen, moved)
        for queue, until in end.offsets.items():
            if queue not in seen.bounds:
                continue  # told of when the batch was planned, or of a topic that is not named now
            high = seen.bounds[queue][1]
            if high < until or (queue in moved and now.get(queue) != end.marks[queue]):
                what = "it was cut short or made anew after this batch was planned"
                lost.append(Loss(queue, until, high, max(0, until - high), what))
            # Only what is stored: the rest is reported as lost.
            spans[queue] = (begins.get(queue, until), min(until, high))
        self._losses.judge(lost)
        found = []
        for queue, low, high in split_ranges(spans, self._settings.least_parts, MOST_ROWS):
            root = seen.roots[queue]
            here = Slice(queue.topic, queue.queue_id, low, high)
            found.append(QueuePart(root.path, root.broker_name, (here,)))
        return found

    def _end(self, queue: MessageQueue, seen: _Seen) -> int:
        high = seen.bounds[queue][1]
        return high if self._target is None else min(high, self._target.get(queue, 0))

    def _begins(self, start: Checkpoint, seen: _Seen) -> Offsets:
        """Where reading goes on in each queue that there is."""
        places = marked_places(start, seen.bounds)
        now = self._marks(seen)(places)
        cut = cuts_by(
            self._marks(seen),
            start,
            others(start, seen.bounds, now),
            {queue: low for queue, (low, _) in seen.bounds.items()},
            {queue: high for queue, (_, high) in seen.bounds.items()},
        )
        resumed = {
            queue: resume(queue, start, bounds, now.get(queue), cut.get(queue))
            for queue, bounds in sorted(seen.bounds.items())
        }
        # Nothing is known about the queues of stores that are not read now.
        brokers = {root.broker_name for root in self._roots}
        missing = {
            queue
            for queue in start.offsets.keys() - seen.bounds.keys()
            if is_named(queue.topic, self._settings.topics)  # others stay where they are
        }
        tell_away({queue.broker_name for queue in missing} - brokers)
        gone = [left(queue, start) for queue in missing if queue.broker_name in brokers]
        self._losses.judge([*(each.loss for each in resumed.values()), *gone])
        return {queue: each.offset for queue, each in resumed.items()}

    def _look(self) -> _Seen:
        found: Bounds = {}
        of_queue: dict[MessageQueue, Root] = {}
        for root in self._roots:
            chosen = choose_queues(root, self._settings.topics, RowFilter())
            with log_files(root.path) as log:
                slices, _ = snapshot(root, chosen, log)
            for files, low, high in slices:
                # Closed at once, as a store may have thousands of queues.
                files.row.close()
                queue = MessageQueue(files.topic, root.broker_name, files.queue_id)
                # Both would use the same queue, and half of the messages would never be read.
                if queue in of_queue:
                    where = f"{of_queue[queue].path} and {root.path}"
                    problem = f"{where} are both of broker {root.broker_name!r}; name them"
                    raise self._settings.options.error("brokerName", problem)
                of_queue[queue], found[queue] = root, (low, high)
        return _Seen(found, of_queue)

    def _marks(self, seen: _Seen) -> Callable[[Offsets], dict[MessageQueue, Mark]]:
        def of(offsets: Offsets) -> dict[MessageQueue, Mark]:
            found: dict[MessageQueue, Mark] = {}
            for root in self._roots:
                here = {queue: at for queue, at in offsets.items() if seen.roots[queue] is root}
                found |= stored_marks(root.path, here) if here else {}
            return found

        return of

    def _marks_before(self, seen: _Seen, offsets: Offsets) -> dict[MessageQueue, Mark]:
        """Marks of the messages before these offsets, of queues that there are."""
        return self._marks(seen)(
            {queue: at - 1 for queue, at in offsets.items() if at > 0 and queue in seen.bounds}
        )
