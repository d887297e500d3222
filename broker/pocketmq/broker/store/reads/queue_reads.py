"""What can be asked of a store's queues: messages, first and last offsets, and times.

A pull's batch is read from the entries of its queue, then from the records they point to (B-59 to
B-62). Nothing is copied. Records that lie back to back in the log come out as one view, so a queue
that has the log to itself costs one slice per pull; the reply joins the views once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pocketmq.broker.store.config import ENTRY_SIZE, StoreConfig
from pocketmq.broker.store.log.commit_log import CommitLog
from pocketmq.broker.store.queues.consume_queue import (
    ENTRY,
    FILLER_SIZE,
    ConsumeQueue,
    ConsumeQueues,
)
from pocketmq.broker.store.queues.lookup import (
    Boundary,
    GetResult,
    GetStatus,
    offset_by_time,
    offset_nearest_time,
    outside,
)
from pocketmq.broker.store.reads.mend import Mender
from pocketmq.protocol.messages.properties import MAX_PROPERTIES_BYTES
from pocketmq.runtime.profile.broker import BrokerProfile

Accept = Callable[[int], bool]
"""Whether a message with this tags code is wanted."""

AcceptRecord = Callable[[memoryview], bool]
"""Whether the message of this record is wanted."""

TruePlace = Callable[[ConsumeQueue, int, int, int], tuple[int, int] | None]
"""(queue, offset, physical offset, size): where the record of an old entry is; None if lost."""

_MIN_SCAN_BYTES = 16_000
MOST_FILTERED_BYTES = 512 * 1024
"""Of properties and expressions, in one request; they take up to 0.05 us a byte."""
_TAG_BYTES = 5
"""As many bytes of properties take as long as one tags code."""

_MAX_BATCH_BYTES = 128 * 1024 * 1024


@dataclass(slots=True)
class PullLimits:
    """Where a batch ends (B-61)."""

    memory_bytes: int
    """How much of the log's end counts as being in memory: 40 % of the machine's."""
    bytes_in_memory: int
    count_in_memory: int
    bytes_on_disk: int
    count_on_disk: int

    @classmethod
    def of(cls, config: StoreConfig, machine_memory_bytes: int) -> PullLimits:
        """The limits that a configuration sets on this machine."""
        # A share of the machine's memory stands for the page cache, whose content is unknown
        # (B-61).
        return cls(
            machine_memory_bytes * config.access_message_in_memory_max_ratio // 100,
            config.max_transfer_bytes_on_message_in_memory,
            config.max_transfer_count_on_message_in_memory,
            config.max_transfer_bytes_on_message_in_disk,
            config.max_transfer_count_on_message_in_disk,
        )


class LimitsNow:
    """The limits as the options are now; made again when those change."""

    def __init__(self, config: Callable[[], StoreConfig], machine_memory_bytes: int) -> None:
        self._config = config
        self._memory_bytes = machine_memory_bytes
        self._made_of = config()
        self._limits = PullLimits.of(self._made_of, machine_memory_bytes)

    def __call__(self) -> PullLimits:
        """The limits of the next pull."""
        config = self._config()
        # Compare by identity: every change of options makes a new object.
        if config is not self._made_of:
            self._made_of = config
            self._limits = PullLimits.of(config, self._memory_bytes)
        return self._limits


class QueueReads:
    """The reading side of a store. Nothing here writes, and nothing waits.

    Args:
        commit_log: Where the messages are.
        consume_queues: Where each queue's messages lie in it.
        mender: Finds the true place of a message whose entry is wrong.
        limits: What one read may bring, as the options are now.
        profile: In what RocketMQ 4.9 and 5.x differ.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        consume_queues: ConsumeQueues,
        mender: Mender,
        limits: LimitsNow,
        profile: BrokerProfile,
    ) -> None:
        self.commit_log = commit_log
        self.consume_queues = consume_queues
        self._mender = mender
        self._limits = limits
        self._profile = profile

    def get_message(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        *,
        max_bytes: int | None = None,
        accept: Accept | None = None,
        accept_record: AcceptRecord | None = None,
        record_weight: int = 0,
        most_filtered_bytes: int = MOST_FILTERED_BYTES,
    ) -> GetResult:
        """The messages of a queue from `offset` on, as views of the log (B-59 to B-62).

        Args:
            topic: whose messages.
            queue_id: which of its queues.
            offset: position in the queue.
            max_count: most messages wanted.
            max_bytes: most bytes wanted; one message comes even when it is longer.
            accept: takes or refuses a tags code, before its message is touched; None takes all.
            accept_record: the same for the record; it is read for this.
            record_weight: what that costs for each record, in bytes of properties.
            most_filtered_bytes: what `accept_record` may cost in all; one record is always read.
        """
        queue = self.consume_queues.get(topic, queue_id)
        # Only a message makes a queue, not a read (S-36).
        if queue is None:
            return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
        return get_messages(
            queue,
            self.commit_log,
            offset,
            max_count,
            self._limits(),
            self._mender.true_place,
            accept,
            max_bytes,
            accept_record,
            record_weight,
            most_filtered_bytes,
        )

    def min_offset(self, topic: str, queue_id: int) -> int:
        """First offset that can be read; 0 for an unknown queue (S-36)."""
        queue = self.consume_queues.get(topic, queue_id)
        return 0 if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> int:
        """One behind the last message that can be read; 0 for an unknown queue (S-36)."""
        queue = self.consume_queues.get(topic, queue_id)
        return 0 if queue is None else queue.max_offset

    def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """When a message was stored, in epoch milliseconds; -1 when it cannot be read."""
        queue = self.consume_queues.get(topic, queue_id)
        entry = None if queue is None else queue.entry(offset)
        return -1 if entry is None else self.commit_log.store_time(entry[0])

    def physical_offset(self, topic: str, queue_id: int, offset: int) -> int | None:
        """Where in the log a message lies; None outside the queue."""
        queue = self.consume_queues.get(topic, queue_id)
        entry = None if queue is None else queue.entry(offset)
        return None if entry is None else entry[0]

    def earliest_store_time(self, topic: str, queue_id: int) -> int:
        """When the oldest readable message was stored; -1 when there is none."""
        return self.store_time(topic, queue_id, self.min_offset(topic, queue_id))

    def offset_by_time(
        self, topic: str, queue_id: int, time_ms: int, boundary: Boundary = Boundary.LOWER
    ) -> int:
        """The offset that a store time means (S-40, S-41); 0 without queue or message (S-42)."""
        queue = self.consume_queues.get(topic, queue_id)
        if queue is None:
            return 0

        def stored_at(offset: int) -> int:
            return max(0, self.store_time(topic, queue_id, offset))  # unreadable counts as old

        low, high = queue.min_offset, queue.max_offset
        if self._profile.search_nearest_time:
            return offset_nearest_time(time_ms, low, high, stored_at)
        return offset_by_time(time_ms, low, high, stored_at, boundary)

    def queues(self) -> Iterator[tuple[str, int]]:
        """(topic, queue id) of every queue that holds or held a message."""
        for queue in self.consume_queues:
            yield queue.topic, queue.queue_id


def get_messages(
    queue: ConsumeQueue,
    log: CommitLog,
    offset: int,
    max_count: int,
    limits: PullLimits,
    true_place: TruePlace,
    accept: Accept | None = None,
    max_bytes: int | None = None,
    accept_record: AcceptRecord | None = None,
    record_weight: int = 0,
    most_filtered_bytes: int = MOST_FILTERED_BYTES,
) -> GetResult:
    """The messages of `queue` from `offset` on, as many as one reply may carry.

    Args:
        queue: where the entries are.
        log: where the records are.
        offset: number of the first entry to look at.
        max_count: most messages wanted.
        limits: the broker's own ends of a batch.
        true_place: tests entries that an earlier process wrote.
        accept: takes or refuses a tags code; None takes all.
        max_bytes: most bytes wanted; at least one message comes all the same.
        accept_record: takes or refuses a record; None takes all.
        record_weight: what `accept_record` costs for each record, in bytes of properties.
        most_filtered_bytes: a read ends when these, and what may be properties, come to so much.
    """
    min_offset, max_offset = queue.min_offset, queue.max_offset
    if max_offset < offset <= queue.next_offset:  # there, and not visible yet: no need to move
        return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, offset, min_offset, max_offset)
    if not min_offset <= offset < max_offset:
        return GetResult(*outside(offset, min_offset, max_offset), min_offset, max_offset)
    # A filter that refuses nearly all would otherwise read a whole queue in one turn of the loop;
    # the client asks again from `next_offset` on.
    scan_limit = max(_MIN_SCAN_BYTES, max_count * ENTRY_SIZE) // ENTRY_SIZE + 1
    entries = queue.entries(offset, min(scan_limit, max_offset - offset))
    if entries is None:
        status = GetStatus.OFFSET_FOUND_NULL
        return GetResult(status, queue.next_file_offset(offset), min_offset, max_offset)

    log_start, log_end = log.files.min_offset, log.files.max_offset
    # Data older than this has probably left the page cache, and costs the disk a seek.
    memory_from = log_end - limits.memory_bytes
    byte_limit = _MAX_BATCH_BYTES if max_bytes is None else max_bytes
    records: list[memoryview] = []
    count = total = last_physical = 0
    run_start = run_end = -1  # the stretch of log that is being gathered; never crosses a file
    next_offset = offset
    missing = False
    filtered_bytes = 0
    checked_below = queue.checked_below
    for physical, size, tags_code in ENTRY.iter_unpack(entries):
        # Limits end a batch that has a message: a first one comes however long it is, or a consumer
        # with a small limit would ask for it for ever.
        if count:
            if physical >= memory_from:
                most_bytes, most_count = limits.bytes_in_memory, limits.count_in_memory
            else:
                most_bytes, most_count = limits.bytes_on_disk, limits.count_on_disk
            if (
                count >= max_count
                or count >= most_count
                or total + size > most_bytes
                or total + size > byte_limit
            ):
                break
        current = next_offset
        next_offset += 1
        # The tag's hash is in the entry: what it refuses costs no look into the log. Tags of equal
        # hashes are told apart by the client.
        if size == FILLER_SIZE or (accept is not None and not accept(tags_code)):
            continue
        if current < checked_below:  # from before the last start: it may be wrong (mend.py)
            place = true_place(queue, current, physical, size)
            if place is None:
                # If its record expired, the status says that messages are being removed (B-59).
                missing = missing or physical < log_start
                continue
            # The entry was wrong; this is the record's true place.
            physical, size = place
        elif physical < log_start:  # deleted; its entry goes a little later
            missing = True
            continue
        if accept_record is not None:
            if filtered_bytes > most_filtered_bytes:
                next_offset = current  # not looked at: the next pull begins with it
                break
            record = _view(log, physical, physical + size)
            # The filter reads the properties, which are at most this long.
            filtered_bytes += record_weight + min(size, MAX_PROPERTIES_BYTES)
            if not accept_record(record):
                continue
        # Neighbours in the log leave as one view: a reply has few buffers then, not one a message.
        if physical == run_end:
            run_end += size
        else:
            # Each contiguous run becomes one view of the log.
            if count:
                records.append(_view(log, run_start, run_end))
            run_start, run_end = physical, physical + size
        total += size
        count += 1
        last_physical = physical
    # Count all entries looked at, whether they matched or not.
    if accept is not None:
        filtered_bytes += _TAG_BYTES * (next_offset - offset)
    if count:
        records.append(_view(log, run_start, run_end))
        status = GetStatus.FOUND
    elif missing:
        status = GetStatus.MESSAGE_WAS_REMOVING
    else:
        status = GetStatus.NO_MATCHED_MESSAGE
    return GetResult(
        status,
        next_offset,
        min_offset,
        max_offset,
        records,
        count,
        total,
        # The message is probably no longer in memory, so the answer suggests a slave (B-62, B-63).
        log_end - last_physical > limits.memory_bytes if count else False,
        filtered_bytes,
    )


def _view(log: CommitLog, start: int, end: int) -> memoryview:
    view = log.files.read(start, end - start)
    assert view is not None, "an entry of this process points to a record that it wrote"
    return view
