"""The timer service: logs what is stored in the wheel topic, and delivers what is due.

    wheel topic --> take in --> timer log + slot          (T-120 to T-122)
                                      |
    real topic  <-- deliver <-- slot that is over         (T-125 to T-130)

RocketMQ steps through every second. Here one service sleeps until the first slot in which anything
waits is over. What arrives is taken in at the end of the turn of the loop, all of it at once, and
wakes the service only if it is due before everything else. Both halves repeat work after a kill
rather than lose it; nothing is noted as done before it is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec
import structlog

from pocketmq.broker.core import defer
from pocketmq.broker.stats import BrokerStats
from pocketmq.broker.store import GetStatus, MessageStore, PutStatus, StoredMessage
from pocketmq.broker.subject import Service
from pocketmq.broker.timers.counts import TimerCounts
from pocketmq.broker.timers.delivered import DeliveredSlots
from pocketmq.broker.timers.files import TimerFiles
from pocketmq.broker.timers.layout import DELETE, NORMAL, ROLL, Checkpoint, LogRecord
from pocketmq.broker.timers.log import TimerLog
from pocketmq.broker.timers.rules import NEVER_WAITED_MS, TimerRules, delivery, is_deleted, rolled
from pocketmq.broker.timers.wheel import TimerWheel
from pocketmq.protocol import properties as names
from pocketmq.protocol.java import java_hash
from pocketmq.protocol.message import MessageExt
from pocketmq.protocol.properties import stored_name, stored_value
from pocketmq.protocol.record import decode_records
from pocketmq.protocol.validation import TIMER_TOPIC
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.periodic import AT_REST, PeriodicService

log = structlog.get_logger()

FLUSH_S = 1.0
CLEAN_S = 30.0
AFTER_FAILURE_S = 0.5
LONGEST_WAIT_S = 10.0
"""Setting the wall clock forward wakes no sleeping task, so the clock is read this often."""

BATCH = 32
DELIVERY_BATCH = 128


class _Arrival(msgspec.Struct, gc=False):
    """A message of the wheel topic that is to be logged."""

    record: MessageExt
    out_ms: int
    topic: str
    """Where it is delivered."""
    cancels: bool


class _SlotWork(msgspec.Struct):
    """A slot that is being delivered."""

    slot_ms: int
    positions: list[int]
    """Of its records, newest first: the next to deliver is the last."""
    deleted: set[str]


class TimerService(Service):
    """Takes timer messages in, and delivers them when their slot is over.

    Args:
        store: read from and delivered to.
        clock: its wall clock says what is due.
        rules: what time means.
        wheel: what waits.
        timer_log: where it is logged.
        files: keeps both.
        counts: by topic.
        stats: counts what is delivered.
    """

    def __init__(
        self,
        store: MessageStore,
        clock: Clock,
        rules: TimerRules,
        wheel: TimerWheel,
        timer_log: TimerLog,
        files: TimerFiles,
        counts: TimerCounts,
        stats: BrokerStats,
    ) -> None:
        self._stats = stats
        self.queue_offset = 0
        """Next offset of the wheel topic to be taken in."""
        self._store = store
        self._clock = clock
        self._rules = rules
        self._wheel = wheel
        self._log = timer_log
        self._files = files
        self._counts = counts
        self._work: _SlotWork | None = None
        self._delivered = DeliveredSlots(store, files)
        self._old_master = (0, 0)
        """(time, offset) of the wheel topic: what was due before, and lies below, is delivered."""
        self._delivered_end = 0
        """Log offset behind the last message that was delivered."""
        self._cleaned_at = 0.0
        self._next_ms: int | None = None
        """The slot that the service sleeps for."""
        self._is_deferred = False
        self._service = PeriodicService(
            "timers", clock, AFTER_FAILURE_S, self._run, initial_delay_s=0
        )
        self._flushing = PeriodicService("flush timers", clock, FLUSH_S, self._flush)

    # -- start and stop ---------------------------------------------------------------------------

    async def load(self) -> None:
        """Read the counts; the rest has to wait for the store."""
        await self._files.load_counts()

    def recovered(self) -> None:
        """Find what waits (T-145).

        Raises:
            StoreFileError: a file is there and is no timer file.
        """
        files, wheel = self._files, self._wheel
        known = files.load_checkpoint()
        read_ms = files.checkpoint.read_ms
        self._log.load()
        files.load_wheel(read_ms)

        def found(position: int, record: LogRecord) -> None:
            if record.slot_ms >= read_ms:
                wheel.point_at(record.slot_ms, position)

        flushed = files.checkpoint.flushed_position
        end = self._log.recover(flushed, found)
        wheel.drop_behind(end)
        self.queue_offset = self._logged_up_to(undamaged=end >= flushed)
        checkpoint = files.checkpoint
        if self._log.last_record() is None and checkpoint.master_queue_offset > self.queue_offset:
            self._old_master = (checkpoint.read_ms, checkpoint.master_queue_offset)
        if not known:
            self._delivered.begin_at(self._rules.floor(self._clock.time_ms()))
        log.info("timers.loaded", slots=len(wheel), queue_offset=self.queue_offset)

    def _logged_up_to(self, *, undamaged: bool) -> int:
        """Where to take in from: behind the last record of the log, within the queue."""
        store = self._store
        offset = self._files.checkpoint.queue_offset if undamaged else 0
        last = self._log.last_record()
        if last is not None:
            record = store.lookup(last.physical_offset)
            if record is not None:
                (message,) = decode_records(record)
                if message.topic == TIMER_TOPIC:
                    offset = max(offset, message.queue_offset + 1)
        low, high = store.min_offset(TIMER_TOPIC, 0), store.max_offset(TIMER_TOPIC, 0)
        return min(max(offset, low), high)

    async def start(self) -> None:
        """Begin; what became due meanwhile is delivered at once."""
        self._files.start()
        self._service.start()
        self._flushing.start()

    async def stop(self) -> None:
        """Return when nothing is under way and everything is on the disk."""
        await self._service.stop()
        await self._flushing.stop(final_run=True)
        self._files.close()

    def arrived(self) -> None:
        """A message was stored in the wheel topic: take it in when this turn of the loop is over.

        A task would cost more than taking it in.
        """
        if not self._service.running:
            self._service.wakeup()
        elif not self._is_deferred:
            self._is_deferred = True
            defer(self._take_in_soon)

    # -- figures (T-155) ------------------------------------------------------------------------

    @property
    def behind_s(self) -> int:
        """How late deliveries are, in seconds."""
        next_ms = self._work.slot_ms if self._work is not None else self._wheel.next_ms()
        if next_ms is None:
            return 0
        return max(0, self._clock.time_ms() - self._rules.delivered_at_ms(next_ms)) // 1000

    @property
    def is_caught_up(self) -> bool:
        """Whether all that is due by now is delivered, and can be read where it was delivered."""
        if self._work is not None or self.offset_behind:
            return False
        if self._store.queue_dispatcher.offset < self._delivered_end:
            return False  # SYNC_FLUSH: not yet on the disk, so not yet in its queue
        next_ms = self._wheel.next_ms()
        now_ms = self._rules.floor(self._clock.time_ms())
        return next_ms is None or self._rules.delivered_at_ms(next_ms) > now_ms

    @property
    def offset_behind(self) -> int:
        """Messages of the wheel topic that are not yet taken in."""
        return max(0, self._store.max_offset(TIMER_TOPIC, 0) - self.queue_offset)

    # -- work -----------------------------------------------------------------------------------

    async def _run(self) -> float:
        """Take in and deliver all there is; seconds until the next slot is over."""
        while True:
            try:
                taken = self._take_in()
                delivered = self._deliver()
            except DiskError as exc:
                log.error("timers.disk_failed", reason=str(exc))
                return AFTER_FAILURE_S
            if taken is None or delivered is None:
                return AFTER_FAILURE_S
            if not taken and not delivered:
                break
            await self._clock.sleep(0)  # a backlog of hours must not keep the broker from answering
        self._next_ms = next_ms = self._wheel.next_ms()
        if next_ms is None:
            return AT_REST  # until something arrives
        left_ms = self._rules.delivered_at_ms(next_ms) - self._clock.time_ms()
        return min(LONGEST_WAIT_S, max(1, left_ms) / 1000)

    def _take_in_soon(self) -> None:
        """Take in what arrived in the last turn; the service goes on when it has more to do."""
        self._is_deferred = False
        if not self._service.running:
            return
        try:
            taken = self._take_in()
        except DiskError:
            taken = None  # the service meets it again, reports it and waits
        next_ms = self._wheel.next_ms()
        is_sooner = next_ms is not None and (self._next_ms is None or next_ms < self._next_ms)
        if taken is None or is_sooner or self.offset_behind:
            self._service.wakeup()

    def _take_in(self) -> int | None:
        """Log the next messages of the wheel topic; how many, or None to try again later."""
        found = self._store.get_message(TIMER_TOPIC, 0, self.queue_offset, BATCH)
        if found.status is not GetStatus.FOUND:
            if found.status in _MOVED and found.next_begin_offset != self.queue_offset:
                log.warning("timers.moved", to=found.next_begin_offset, status=found.status.name)
                self.queue_offset = found.next_begin_offset
                return 1
            return 0
        now_ms = self._clock.time_ms()
        write_ms = self._rules.floor(now_ms)
        to_log: list[_Arrival] = []
        over: list[tuple[MessageExt, int]] = []
        records = decode_records(b"".join(found.records))
        for record in records:
            text = b"\x02" + record.raw_properties
            out_ms = _number(stored_value(text, _OUT_MS))
            if out_ms is None:
                log.warning("timers.no_time", offset=record.queue_offset)
            elif self._is_delivered(record, out_ms):
                continue  # or rolled: then its next record is in the topic too
            elif out_ms < write_ms:
                over.append((record, NEVER_WAITED_MS))
            else:
                topic, cancels = stored_value(text, _REAL_TOPIC) or "", stored_value(text, _CANCEL)
                to_log.append(_Arrival(record, out_ms, topic, cancels is not None))
        if over and not self._put_delivered(over, now_ms):
            return None
        changes: dict[str, int] = {}
        try:
            for arrival in to_log:
                self._log_one(arrival, write_ms)
                self.queue_offset = arrival.record.queue_offset + 1
                topic = arrival.topic
                changes[topic] = changes.get(topic, 0) + (-1 if arrival.cancels else 1)
        finally:  # a full disk: those before are logged
            for topic, change in changes.items():
                self._counts.change(topic, change, now_ms)
        self.queue_offset = found.next_begin_offset
        self._flushing.resume()
        return len(records)

    def _is_delivered(self, record: MessageExt, out_ms: int) -> bool:
        """Whether the master that this broker followed has delivered it."""
        before_ms, below = self._old_master
        if record.queue_offset >= below:
            return False
        slot_ms, _ = self._rules.slot_of(out_ms, self._rules.floor(record.store_timestamp_ms))
        return slot_ms < before_ms

    def follow(self, master: Checkpoint) -> None:
        """Note how far the master's timers are (T-114); this broker's own rest.

        Its wheel and log are not copied: when this broker leads, it takes in the wheel topic from
        the first message that the master has not delivered.
        """
        self._files.write_checkpoint(
            Checkpoint(master.read_ms, 0, 0, master.queue_offset, master.version)
        )

    def _log_one(self, arrival: _Arrival, write_ms: int) -> None:
        slot_ms, rolls = self._rules.slot_of(arrival.out_ms, write_ms)
        if slot_ms < self._files.checkpoint.read_ms:  # the clock was set back
            self._wheel.forget_between(slot_ms, self._files.checkpoint.read_ms)
            self._delivered.begin_at(slot_ms)
        record, cancels = arrival.record, arrival.cancels
        position = self._log.append(
            LogRecord(
                self._wheel.get(slot_ms).last,
                NORMAL | (ROLL if rolls else 0) | (DELETE if cancels else 0),
                write_ms,
                slot_ms - write_ms,
                record.commit_log_offset,
                record.store_size,
                _topic_hash(arrival.topic),
            )
        )
        self._wheel.add(slot_ms, position, -1 if cancels else 1)

    # -- delivering -----------------------------------------------------------------------------

    def _deliver(self) -> int | None:
        """Some of the first slot that is over; how much, or None to try again later."""
        work = self._work or self._next_work()
        if work is None:
            return 0
        self._work = work
        count = min(DELIVERY_BATCH, len(work.positions))
        batch = work.positions[len(work.positions) - count :]
        now_ms = self._clock.time_ms()
        due: list[tuple[MessageExt, int]] = []
        again: list[MessageExt] = []
        for position in reversed(batch):
            entry = self._log.read(position)
            record = None if entry is None else self._message(entry)
            if entry is None or record is None:
                log.warning("timers.message_gone", position=position)  # T-130
            elif entry.is_roll:
                again.append(record)
            elif entry.is_delete:
                pass  # done with (T-129)
            elif is_deleted(record, work.deleted):
                log.debug("timers.cancelled", offset=record.commit_log_offset)
            else:
                due.append((record, entry.logged_ms))
        if again and not self._put_all([rolled(record) for record in again]):
            return None
        if again:
            for record in again:
                cancels = names.TIMER_DEL_UNIQKEY in record.properties
                topic = record.properties.get(names.REAL_TOPIC)
                self._counts.change(topic, 1 if cancels else -1, now_ms)
        if due and not self._put_delivered(due, now_ms):
            return None
        del work.positions[len(work.positions) - count :]
        if not work.positions:
            self._work = None
            self._delivered.finished(self._rules.delivered_at_ms(work.slot_ms))
            self._flushing.resume()
        return max(1, count)

    def _next_work(self) -> _SlotWork | None:
        slot_ms = self._wheel.next_ms()
        now_ms = self._clock.time_ms()
        if slot_ms is None or self._rules.delivered_at_ms(slot_ms) > self._rules.floor(now_ms):
            return None
        positions: list[int] = []
        deleted: set[str] = set()
        position = self._wheel.get(slot_ms).last
        while position >= 0:
            entry = self._log.read(position)
            if entry is None or entry.slot_ms != slot_ms:
                log.warning("timers.chain_broken", slot_ms=slot_ms, position=position)
                break
            positions.append(position)
            if entry.is_delete and not entry.is_roll:
                record = self._message(entry)
                if record is not None:
                    deleted.add(record.properties.get(names.TIMER_DEL_UNIQKEY, ""))
            position = entry.previous
        self._wheel.done(slot_ms)
        return _SlotWork(slot_ms, positions, deleted)

    def _message(self, entry: LogRecord) -> MessageExt | None:
        view = self._store.lookup(entry.physical_offset)
        if view is None:
            return None
        (message,) = decode_records(view)
        return message

    def _put_delivered(self, due: Sequence[tuple[MessageExt, int]], now_ms: int) -> bool:
        messages = []
        for record, enqueued_ms in due:
            if names.TIMER_DEL_UNIQKEY in record.properties:
                continue  # a cancel that came too late
            message = delivery(record, enqueued_ms, now_ms)
            if message is None:
                log.warning("timers.no_topic", offset=record.commit_log_offset)
                continue
            messages.append(message)
            if enqueued_ms != NEVER_WAITED_MS:
                self._counts.change(message.topic, -1, now_ms)
        return self._put_all(messages)

    def _put_all(self, messages: list[StoredMessage]) -> bool:
        """Store all; False when one could not be stored now. What never can be is reported."""
        results = self._store.put_messages(messages) if messages else ()
        now = self._clock.monotonic()
        for message, result in zip(messages, results, strict=True):
            if result.status in _NEVER:
                log.error("timers.undeliverable", status=result.status.name)
            elif result.status is not PutStatus.PUT_OK:
                log.warning("timers.put_failed", status=result.status.name)
                return False
            else:
                self._delivered_end = result.physical_offset + result.size
                self._stats.note_put(message.topic, 1, result.size, now)
        return True

    # -- the disk -------------------------------------------------------------------------------

    async def _flush(self) -> float | None:
        """Bring everything to the disk; what `PeriodicService` wants."""
        queue_offset = self.queue_offset
        try:
            await self._delivered.flush()
            await self._files.flush(queue_offset)
        except DiskError as exc:
            log.error("timers.flush_failed", reason=str(exc))
            return None
        now = self._clock.monotonic()
        if now - self._cleaned_at >= CLEAN_S:
            self._cleaned_at = now
            self._log.clean(self._store.commit_log.min_offset)
        is_clean = (
            queue_offset == self.queue_offset
            and self._delivered.all_noted
            and not self._wheel.is_dirty
            and not self._counts.unsaved
            and self._work is None
        )
        return AT_REST if is_clean else None


def _number(text: str | None) -> int | None:
    try:
        return int(text) if text else None
    except ValueError:
        return None


_topic_hash = lru_cache(maxsize=1024)(java_hash)
_OUT_MS, _REAL_TOPIC, _CANCEL = map(
    stored_name, (names.TIMER_OUT_MS, names.REAL_TOPIC, names.TIMER_DEL_UNIQKEY)
)

_NEVER = frozenset({PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED})

_MOVED = frozenset(
    {
        GetStatus.OFFSET_TOO_SMALL,
        GetStatus.OFFSET_OVERFLOW_BADLY,
        GetStatus.OFFSET_FOUND_NULL,
        GetStatus.NO_MATCHED_MESSAGE,
        GetStatus.MESSAGE_WAS_REMOVING,
    }
)
