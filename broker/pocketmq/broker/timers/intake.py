"""Takes in what is stored in the wheel topic: into the timer log and its slot (T-120 to T-122).

wheel topic --> take in --> timer log + slot
                   |
                   +------> real topic               what is over already is delivered at once
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import structlog

from pocketmq.broker.stats.meters import Meters
from pocketmq.broker.store import GetStatus, MessageStore
from pocketmq.broker.timers.delivering import TimerDelivery
from pocketmq.broker.timers.late_copies import LateCopies
from pocketmq.broker.timers.layout import DELETE, NORMAL, RECORD_SIZE, ROLL, LogRecord, pack_record
from pocketmq.broker.timers.rules import NEVER_WAITED_MS, topic_hash
from pocketmq.broker.timers.state import TimerState
from pocketmq.operation.metrics import DELAY_LATENCY, TIMER_ENQUEUED
from pocketmq.protocol.java import java_integer
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.properties import stored_name, stored_value
from pocketmq.protocol.messages.validation import TIMER_TOPIC
from pocketmq.protocol.stored.record import decode_records
from pocketmq.runtime.clock import Clock

log = structlog.get_logger()

BATCH = 32


class _Target(msgspec.Struct, gc=False, frozen=True):
    """When and where a message is delivered."""

    out_ms: int
    topic: str
    topic_hash: int


class _Arrival(msgspec.Struct, gc=False):
    """A message of the wheel topic that is to be logged."""

    record: MessageExt
    target: _Target
    cancels: bool


class _New(msgspec.Struct, gc=False):
    """What comes into one slot."""

    first: int
    """Position of the first record."""
    last: int
    """Of the slot's newest one so far."""
    change: int


class TimerIntake:
    """Reads the wheel topic from where it stopped.

    Args:
        store: read from.
        clock: its wall clock says what is due.
        state: what waits.
        delivering: delivers what is over already.
        late: what was.
        meters: count what is taken in.
    """

    def __init__(
        self,
        store: MessageStore,
        clock: Clock,
        state: TimerState,
        delivering: TimerDelivery,
        late: LateCopies,
        meters: Meters,
    ) -> None:
        self._meters = meters
        self.queue_offset = 0
        """Next offset of the wheel topic to be taken in."""
        self._store, self._reads = store, store.reads
        self._clock = clock
        self._rules, self._wheel, self._log = state.rules, state.wheel, state.log
        self._files, self._counts = state.files, state.counts
        self._delivering = delivering
        self._late = late
        self._old_master = (0, 0)
        """(time, offset) of the wheel topic: what was due before, and lies below, is delivered."""

    def recovered(self, *, undamaged: bool) -> None:
        """Find where to go on.

        Args:
            undamaged: Whether the log is as long as the checkpoint promised.
        """
        self.queue_offset = self._logged_up_to(undamaged=undamaged)
        self._late.forget()
        # A broker that has taken over from a master fills its wheel from the master's place
        # (T-150).
        checkpoint = self._files.checkpoint
        followed = checkpoint.flushed_position == 0 or self._log.last_record() is None
        if followed and checkpoint.master_queue_offset > self.queue_offset:
            self._old_master = (checkpoint.read_ms, checkpoint.master_queue_offset)

    def _logged_up_to(self, *, undamaged: bool) -> int:
        """Where to take in from: behind the last record of the log, within the queue."""
        store = self._store
        # If the log lacks what the check point promised, read the wheel topic from its beginning.
        offset = self._files.checkpoint.queue_offset if undamaged else 0
        # The newest log record whose message is still the same one marks how far it was logged.
        for entry in self._log.newest_first():
            if entry.physical_offset < store.commit_log.min_offset:
                break
            record = store.lookup(entry.physical_offset)
            if record is not None:
                (message,) = decode_records(record)
                if self._rules.is_of(message, entry):
                    offset = max(offset, message.queue_offset + 1)
                    break
        # The queue may have become shorter: a slave's log can be cut.
        low, high = self._reads.min_offset(TIMER_TOPIC, 0), self._reads.max_offset(TIMER_TOPIC, 0)
        return min(max(offset, low), high)

    @property
    def offset_behind(self) -> int:
        """Messages of the wheel topic that are not yet taken in."""
        return max(0, self._reads.max_offset(TIMER_TOPIC, 0) - self.queue_offset)

    def take_in(self) -> int | None:
        """Log the next messages of the wheel topic; how many, or None to try again later.

        While copies of late ones are not safe, none: `LateCopies` says when to go on.
        """
        late = self._late
        # Copies of late messages are not safe yet: after a restart, records logged now would hide
        # them.
        if not late.are_safe:
            return 0
        again = max(late.offsets, default=-1) + 1 - self.queue_offset
        count = again if again > 0 else BATCH  # nothing more, or a stop would wait once more
        found = self._reads.get_message(TIMER_TOPIC, 0, self.queue_offset, count)
        if found.status is not GetStatus.FOUND:
            # The messages there are gone, so go on where the queue begins now.
            if found.status in _MOVED and found.next_begin_offset != self.queue_offset:
                log.warning("timers.moved", to=found.next_begin_offset, status=found.status.name)
                self.queue_offset = found.next_begin_offset
                return 1
            return 0
        now_ms = self._clock.time_ms()
        write_ms = self._rules.floor(now_ms)
        to_log: list[_Arrival] = []
        over: list[tuple[MessageExt, int]] = []
        log_bytes = b"".join(found.records)
        records = decode_records(log_bytes)
        targets: dict[bytes, _Target] = {}
        end = 0
        for record in records:
            end += record.store_size
            # A record ends with its properties; search their bytes instead of decoding them.
            text = b"\x02" + log_bytes[end - record.properties_size : end]
            target = self._target(text, targets)
            if target is None:
                log.warning("timers.no_time", offset=record.queue_offset)
            elif self._is_delivered(record, target.out_ms):
                pass  # or rolled: then its next record is in the topic too
            elif target.out_ms < write_ms:
                # Due while it was on its way: deliver it without logging it (T-121).
                if record.queue_offset not in late.offsets:
                    over.append((record, NEVER_WAITED_MS))
            else:
                cancels = _CANCEL in text and stored_value(text, _CANCEL) is not None
                to_log.append(_Arrival(record, target, cancels))
        # Before anything of this batch is logged, because logged messages count as taken in.
        if over:
            left = self._delivering.put(over, now_ms)
            stored = [
                record.queue_offset
                for (record, _), is_left in zip(over, left, strict=True)
                if not is_left
            ]
            are_safe = not stored or late.delivered(stored)
            # The store refuses now: the same batch comes again.
            if True in left:
                return None
            if not are_safe:
                return 0
        logged = 0
        try:
            # Usually the file has room for all of them: one write.
            begin = self._log.place_of(len(to_log))
            if begin is not None:
                self._log_together(to_log, write_ms, begin)
                logged = len(to_log)
            else:
                for arrival in to_log:
                    self._log_one(arrival, write_ms)
                    self.queue_offset = arrival.record.queue_offset + 1
                    logged += 1
        finally:  # a full disk: those before are logged
            self._count(to_log[:logged], now_ms)
        self.queue_offset = found.next_begin_offset
        late.forget()
        return len(records)

    def _target(self, text: bytes, known: dict[bytes, _Target]) -> _Target | None:
        """When and where a message is delivered; None: its properties tell no time.

        Args:
            text: its properties, as `stored_value` wants them.
            known: by the ends of other texts: acks of one second, and whatever else is delivered
                together, have all from the time on in common.
        """
        end = text[text.rfind(_OUT_MS) :]
        target = known.get(end)
        if target is None:
            target = self._read_target(text)
            if _REAL_TOPIC in end and target is not None and target == self._read_target(end):
                known[end] = target
        return target

    def _read_target(self, text: bytes) -> _Target | None:
        out_ms = java_integer(stored_value(text, _OUT_MS) or "", 64)
        if out_ms is None:
            return None
        topic = stored_value(text, _REAL_TOPIC) or ""
        # A client may have written the time, or a broker whose slots had another width.
        return _Target(self._rules.floor(out_ms), topic, topic_hash(topic))

    def _count(self, logged: Sequence[_Arrival], now_ms: int) -> None:
        changes: Counter[str] = Counter()
        ahead_s: Counter[tuple[str, int]] = Counter()
        for arrival in logged:
            target = arrival.target
            changes[target.topic] += -1 if arrival.cancels else 1
            ahead_ms = target.out_ms - arrival.record.born_timestamp_ms
            ahead_s[target.topic, max(0, ahead_ms) // 1000] += 1
        for topic, change in changes.items():
            self._counts.change(topic, change, now_ms)
        for (topic, seconds), count in ahead_s.items():
            self._meters.add(TIMER_ENQUEUED, topic, count=count)
            self._meters.note(DELAY_LATENCY, seconds, topic, count=count)

    def _is_delivered(self, record: MessageExt, out_ms: int) -> bool:
        """Whether the master that this broker followed has delivered it."""
        before_ms, below = self._old_master
        # The old master never took in messages from this offset on.
        if record.queue_offset >= below:
            return False
        slot_ms, _ = self._rules.slot_of(out_ms, self._rules.floor(record.store_timestamp_ms))
        return slot_ms < before_ms

    def _log_one(self, arrival: _Arrival, write_ms: int) -> None:
        slot_ms, rolls = self._slot(arrival.target.out_ms, write_ms)
        # Each record points to the slot's previous one (T-112).
        previous = self._wheel.get(slot_ms).last
        record = LogRecord(*_log_fields(arrival, previous, slot_ms, write_ms, rolls=rolls))
        position = self._log.append(record)
        self._wheel.add(slot_ms, position, -1 if arrival.cancels else 1)

    def _log_together(self, arrivals: Sequence[_Arrival], write_ms: int, begin: int) -> None:
        """`_log_one` of each, in one write; the log has the place at `begin`."""
        packed: list[bytes] = []
        news: dict[int, _New] = {}
        slots: dict[int, tuple[int, bool, _New]] = {}
        position = begin
        for arrival in arrivals:
            out_ms = arrival.target.out_ms
            # Neighbouring messages are mostly due at the same time.
            known = slots.get(out_ms)
            if known is None:
                slot_ms, rolls = self._slot(out_ms, write_ms)
                new = news.get(slot_ms)
                if new is None:  # what rolls comes into slots of others
                    new = news[slot_ms] = _New(position, self._wheel.get(slot_ms).last, 0)
                known = slots[out_ms] = slot_ms, rolls, new
            slot_ms, rolls, new = known
            packed.append(
                pack_record(*_log_fields(arrival, new.last, slot_ms, write_ms, rolls=rolls))
            )
            new.last = position
            new.change += -1 if arrival.cancels else 1
            position += RECORD_SIZE
        # The log first: a slot must not lead to a missing record.
        self._log.append_packed(b"".join(packed))
        for slot_ms, new in news.items():
            self._wheel.add(slot_ms, new.first, new.change, last=new.last)

    def _slot(self, out_ms: int, write_ms: int) -> tuple[int, bool]:
        """Where it waits, and whether it rolls there."""
        slot_ms, rolls = self._rules.slot_of(out_ms, write_ms)
        delivered = self._delivering.slots
        if slot_ms < delivered.until_ms:  # the clock was set back
            self._wheel.forget_between(slot_ms, delivered.until_ms)
            delivered.begin_at(slot_ms)
        return slot_ms, rolls


def _log_fields(
    arrival: _Arrival, previous: int, slot_ms: int, write_ms: int, *, rolls: bool
) -> tuple[int, int, int, int, int, int, int]:
    """Of its `LogRecord`."""
    record = arrival.record
    return (
        previous,
        NORMAL | (ROLL if rolls else 0) | (DELETE if arrival.cancels else 0),
        write_ms,
        slot_ms - write_ms,
        record.commit_log_offset,
        record.store_size,
        arrival.target.topic_hash,
    )


_OUT_MS, _REAL_TOPIC, _CANCEL = map(
    stored_name, (names.TIMER_OUT_MS, names.REAL_TOPIC, names.TIMER_DEL_UNIQKEY)
)

_MOVED = frozenset(
    {
        GetStatus.OFFSET_TOO_SMALL,
        GetStatus.OFFSET_OVERFLOW_BADLY,
        GetStatus.OFFSET_FOUND_NULL,
        GetStatus.NO_MATCHED_MESSAGE,
        GetStatus.MESSAGE_WAS_REMOVING,
    }
)
