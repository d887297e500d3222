"""What an export reads: the queues of topics, asked of the brokers, or those of stores."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from pocketmq.pipeline.columns.arrow import Shape
from pocketmq.pipeline.lake.notes import Scope
from pocketmq.pipeline.options.offsets import Offsets
from pocketmq.pipeline.options.row_filter import RowFilter
from pocketmq.pipeline.progress import plan_reads
from pocketmq.pipeline.progress.checkpoint import Checkpoint, Mark
from pocketmq.pipeline.progress.cut_short import cuts, cuts_by
from pocketmq.pipeline.progress.losses import Loss
from pocketmq.pipeline.progress.marks import read_marks, stored_marks
from pocketmq.pipeline.progress.missing_queues import missing_losses, tell_away
from pocketmq.pipeline.progress.resume import (
    Losses,
    Resumed,
    is_known,
    left,
    marked_places,
    others,
    resume,
)
from pocketmq.pipeline.progress.topic_read import reading
from pocketmq.pipeline.stores.store_bounds import Slice
from pocketmq.pipeline.stores.store_files import log_files
from pocketmq.pipeline.stores.store_plan import QueuePart, check_topics, choose_queues, snapshot
from pocketmq.pipeline.stores.store_read import NAME as STORE
from pocketmq.pipeline.stores.store_read import StoreSettings
from pocketmq.pipeline.stores.store_roots import Root, find_roots
from pocketmq.pipeline.stores.store_scan import Scan
from pocketmq.pipeline.topics.partition_numbers import partition_numbers
from pocketmq.pipeline.topics.settings import ReadSettings
from pocketmq.pipeline.topics.wire_read import PullPart
from pocketmq.pipeline.workers.loop import shared_loop
from pocketmq.protocol.messages.message import MessageQueue

if TYPE_CHECKING:
    import pyarrow as pa

    from pocketmq.pipeline.topics.cluster_client import ClusterClient


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets [start, end) of a queue."""

    queue: MessageQueue
    start: int
    end: int

    def part(self, start: int, end: int) -> Range:
        """Some of these offsets."""
        return replace(self, start=start, end=end)


ADVICE: Final = (
    "set failOnDataLoss=false (--no-fail-on-data-loss) to go on with what there is, or export to "
    "another table"
)


class Feed(Protocol):
    """Queues whose offsets can be read range by range."""

    columns: dict[str, str]

    @property
    def lost(self) -> int:
        """With `failOnDataLoss=false`: messages that were not there, so far."""

    @property
    def gone(self) -> Collection[MessageQueue]:
        """With `failOnDataLoss=false`: queues that were exported and are not there any more."""

    def scope(self) -> Scope:
        """Its topics, the brokers it asks, and all queues that there are."""

    def ranges(self, stand: Checkpoint) -> list[Range]:
        """What each queue has behind what was exported; it may be nothing.

        Raises:
            DataLossError: Offsets are not stored any more, or the queue is another one or gone.
        """

    def marks(self, offsets: Offsets) -> dict[MessageQueue, Mark]:
        """Marks of these messages; those that are not stored are missing."""

    def batches(self, parts: Sequence[Range]) -> Iterator[pa.RecordBatch]:
        """The rows of some ranges; those of a queue in its order."""


class TopicFeed:
    """Queues of topics.

    Args:
        options: Of the data source `pocketmq`.

    Raises:
        OptionError: One is wrong, or the topic does not exist.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._settings = ReadSettings(options)
        self.columns = self._settings.columns
        self._client = self._settings.access.client()
        self._queues = shared_loop().run(plan_reads.find_queues(self._client, self._settings))
        self._numbers = partition_numbers(self._queues) if self._settings.kafka_compatible else {}
        self._read = reading(self._settings, self.columns, RowFilter.of_tags(self._settings.tags))
        self._losses = Losses(fails=self._settings.pull.fail_on_data_loss, advice=ADVICE)

    @property
    def lost(self) -> int:
        """What was removed before the export began, or meanwhile."""
        return self._losses.count + self._read.lost

    @property
    def gone(self) -> Collection[MessageQueue]:
        """Those whose brokers run without them."""
        return self._losses.gone

    def scope(self) -> Scope:
        """As the name servers know them."""
        brokers = shared_loop().run(self._client.brokers())
        named = {queue.broker_name for queue in self._queues}
        return Scope({queue.topic for queue in self._queues}, brokers | named, self._queues)

    def ranges(self, stand: Checkpoint) -> list[Range]:
        """Up to the present ends."""
        loop = shared_loop()
        resumed, ends = loop.run(_resumed(self._client, self._settings, self._queues, stand))
        missing = stand.offsets.keys() - set(self._queues)
        lost = loop.run(missing_losses(self._client, stand, missing))
        self._losses.judge([*(each.loss for each in resumed.values()), *lost])
        return [
            Range(queue, each.offset, max(each.offset, ends[queue]))
            for queue, each in sorted(resumed.items())
        ]

    def marks(self, offsets: Offsets) -> dict[MessageQueue, Mark]:
        """Asked of the brokers."""
        group = self._settings.pull.group
        return shared_loop().run(read_marks(self._client, group, offsets)) if offsets else {}

    def batches(self, parts: Sequence[Range]) -> Iterator[pa.RecordBatch]:
        """Pulled from the brokers."""
        for part in parts:
            number = self._numbers.get(part.queue, 0)
            yield from self._read.batches(PullPart(part.queue, part.start, part.end, number))


async def _resumed(
    client: ClusterClient,
    settings: ReadSettings,
    queues: Sequence[MessageQueue],
    stand: Checkpoint,
) -> tuple[dict[MessageQueue, Resumed], Offsets]:
    """Where each queue goes on, and where it is to end."""
    bounds = await client.bounds(queues)
    start = await plan_reads.resolve(client, settings, settings.start, bounds)
    end = await plan_reads.resolve(client, settings, settings.end, bounds)
    end = plan_reads.checked(settings, end, bounds)
    now = await read_marks(client, settings.pull.group, marked_places(stand, bounds))
    known = {queue for queue in queues if is_known(queue, stand)}
    start = {queue: at for queue, at in start.items() if queue not in known}
    first = plan_reads.checked(settings, start, bounds)
    suspects = others(stand, bounds, now)
    lows = {queue: each.low for queue, each in bounds.items()}
    ends = {queue: each.high for queue, each in bounds.items()}
    cut = await cuts(client, settings.pull.group, stand, suspects, lows, ends)
    found = {
        queue: resume(queue, stand, bounds[queue], now.get(queue), cut.get(queue))
        for queue in known
    }
    return found | {queue: Resumed(at) for queue, at in first.items()}, end


class StoreFeed:
    """Queues of store directories; a queue's broker is called as its directory.

    So a table that was begun from a broker called `broker-a` goes on from its store `.../broker-a`.

    Args:
        options: Of the data source `pocketmq-store`.

    Raises:
        OptionError: One is wrong, or no store has the topic.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._settings = StoreSettings(options)
        self.columns = self._settings.columns
        roots = find_roots(self._settings.paths, self._settings.broker_names, STORE)
        check_topics(
            roots,
            self._settings.topics,
            lambda problem, **more: self._settings.options.error("topic", problem, **more),
        )
        named = bool(self._settings.broker_names)
        self._roots = [root if named else Root(root.path, root.path.name) for root in roots]
        self._losses = Losses(fails=self._settings.fail_on_data_loss, advice=ADVICE)
        self._of_queue: dict[MessageQueue, Root] = {}
        self._bounds: dict[MessageQueue, tuple[int, int]] = {}
        for root in self._roots:
            self._look_at(root)

    def _look_at(self, root: Root) -> None:
        chosen = choose_queues(root, self._settings.topics, RowFilter())
        with log_files(root.path) as log:
            slices, _ = snapshot(root, chosen, log)
        for files, low, high in slices:
            files.row.close()
            queue = MessageQueue(files.topic, root.broker_name, files.queue_id)
            if queue in self._of_queue:
                where = f"{self._of_queue[queue].path} and {root.path}"
                problem = f"{where} are both of broker {root.broker_name!r}; name them"
                raise self._settings.options.error("brokerName", problem)
            self._of_queue[queue], self._bounds[queue] = root, (low, high)

    @property
    def lost(self) -> int:
        """What was removed before the export began."""
        return self._losses.count

    @property
    def gone(self) -> Collection[MessageQueue]:
        """Those that have no directory any more in their broker's store."""
        return self._losses.gone

    def scope(self) -> Scope:
        """Queues are those that have a directory."""
        brokers = {root.broker_name for root in self._roots}
        topics = {queue.topic for queue in self._of_queue} | set(self._settings.topics)
        return Scope(topics, brokers, list(self._of_queue))

    def ranges(self, stand: Checkpoint) -> list[Range]:
        """Up to what was stored when this feed was made."""
        now = self.marks(marked_places(stand, self._bounds))
        cut = cuts_by(
            self.marks,
            stand,
            others(stand, self._bounds, now),
            {queue: low for queue, (low, _) in self._bounds.items()},
            {queue: high for queue, (_, high) in self._bounds.items()},
        )
        resumed = {
            queue: resume(queue, stand, bounds, now.get(queue), cut.get(queue))
            for queue, bounds in sorted(self._bounds.items())
        }
        self._losses.judge([*(each.loss for each in resumed.values()), *self._missing(stand)])
        return [
            Range(queue, each.offset, max(each.offset, self._bounds[queue][1]))
            for queue, each in resumed.items()
        ]

    def _missing(self, stand: Checkpoint) -> list[Loss | None]:
        """What is lost of queues that these stores do not have; brokers of others are not asked."""
        brokers = {root.broker_name for root in self._roots}
        missing = stand.offsets.keys() - self._of_queue.keys()
        tell_away({queue.broker_name for queue in missing} - brokers)
        return [left(queue, stand) for queue in missing if queue.broker_name in brokers]

    def marks(self, offsets: Offsets) -> dict[MessageQueue, Mark]:
        """Read from each store's files."""
        found: dict[MessageQueue, Mark] = {}
        for root in self._roots:
            here = {queue: at for queue, at in offsets.items() if self._of_queue[queue] is root}
            found |= stored_marks(root.path, here) if here else {}
        return found

    def batches(self, parts: Sequence[Range]) -> Iterator[pa.RecordBatch]:
        """Read from each store's files, in the order of its log."""
        settings = self._settings
        shape = Shape(self.columns, settings.max_body_bytes, settings.verify_crc)
        row_filter = RowFilter.of_tags(settings.tags)
        permissive = settings.mode == "PERMISSIVE"
        scan = Scan(shape, row_filter, permissive, settings.topics, by_queue=True)
        for root in self._roots:
            slices = tuple(
                Slice(part.queue.topic, part.queue.queue_id, part.start, part.end)
                for part in parts
                if self._of_queue[part.queue] is root
            )
            if slices:
                yield from scan.batches(QueuePart(root.path, root.broker_name, slices))
