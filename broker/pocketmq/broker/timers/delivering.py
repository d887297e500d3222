"""Delivers the messages of slots that are over to their topics (T-125 to T-130).

real topic  <-- deliver <-- slot that is over
wheel topic <-- again   <--                          what waits longer than the wheel is wide
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import structlog

from pocketmq.broker.stats.broker_stats import BrokerStats
from pocketmq.broker.store import MessageStore, PutStatus, StoredMessage
from pocketmq.broker.timers.delivered import DeliveredSlots, WhenKept
from pocketmq.broker.timers.layout import LogRecord
from pocketmq.broker.timers.rules import NEVER_WAITED_MS, delivery, is_deleted, names_cancel, rolled
from pocketmq.broker.timers.state import TimerState
from pocketmq.operation.metrics import TIMER_DEQUEUED
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.stored.record import decode_record
from pocketmq.runtime.clock import Clock

log = structlog.get_logger()

DELIVERY_BATCH = 128

READ_AT_ONCE = 2_000
"""Records of a slot that are looked through before other work goes on."""

_CANCEL_COSTS = 8
"""A cancel takes as long as so many records: its message is read as well."""


class _SlotWork(msgspec.Struct):
    """A slot that is being delivered. The wheel has it until all of it is."""

    slot_ms: int
    newest: int
    """Position of its newest record."""
    unread: int
    """Position of the next record to look through, from the newest to the oldest; -1: none."""
    positions: list[int] = []
    """Of those that were, newest first: the next to deliver is the last."""
    deleted: set[str] = set()
    """What their cancels name."""
    delivered: int = -1
    """Position up to which the slot was delivered before, while the clock was set back."""


class TimerDelivery:
    """Delivers slot by slot, in the order of their times.

    Args:
        store: delivered to.
        clock: its wall clock says what is due.
        state: what waits.
        stats: counts what is delivered.
        when_kept: see `DeliveredSlots`.
    """

    def __init__(
        self,
        store: MessageStore,
        clock: Clock,
        state: TimerState,
        stats: BrokerStats,
        when_kept: WhenKept | None = None,
    ) -> None:
        self.slots = DeliveredSlots(store, state.files, when_kept)
        self._store = store
        self._clock = clock
        self._rules, self._wheel, self._log = state.rules, state.wheel, state.log
        self._counts = state.counts
        self._stats = stats
        self._work: _SlotWork | None = None
        self._came_on: dict[int, _SlotWork] = {}
        """By slot: what was delivered of it before more came, as the clock was set back."""
        self._delivered_end = 0
        """Log offset behind the last message that was delivered."""

    @property
    def is_between_slots(self) -> bool:
        """Whether no slot is delivered in part."""
        return self._work is None

    @property
    def behind_s(self) -> int:
        """How late deliveries are, in seconds."""
        next_ms = self._work.slot_ms if self._work is not None else self._wheel.next_ms()
        if next_ms is None:
            return 0
        return max(0, self._clock.time_ms() - self._rules.delivered_at_ms(next_ms)) // 1000

    @property
    def is_caught_up(self) -> bool:
        """Whether all slots that are over are delivered, and can be read where they belong."""
        if self._work is not None:
            return False
        if self._store.queue_dispatcher.offset < self._delivered_end:
            return False  # SYNC_FLUSH: not yet on the disk, so not yet in its queue
        next_ms = self._wheel.next_ms()
        now_ms = self._rules.floor(self._clock.time_ms())
        return next_ms is None or self._rules.delivered_at_ms(next_ms) > now_ms

    def deliver(self) -> int | None:
        """Some of the first slot that is over; how much, or None to try again later.

        The newest record leads to the others and any of them may be a cancel, so nothing is
        delivered before all are looked through.
        """
        # Finish a slot that is half done first: slots are delivered in order (T-126).
        work = self._work = self._work or self._next_work()
        if work is None:
            return 0
        # Find all cancels before anything is delivered.
        read = self._look_through(work)
        if work.unread >= 0:
            return read
        # One portion, so that a slot of a million messages does not block the loop.
        count = min(DELIVERY_BATCH, len(work.positions))
        batch = work.positions[len(work.positions) - count :]
        now_ms = self._clock.time_ms()
        due: list[tuple[int, MessageExt, int]] = []
        again: list[tuple[int, MessageExt, int]] = []
        for position in reversed(batch):
            entry = self._log.read(position)
            record = None if entry is None else self._message(entry)
            if entry is None or record is None:
                # The commit log has deleted the message, which waited longer than the log is kept
                # (T-130).
                log.warning("timers.message_gone", position=position)  # T-130
            # Further ahead than the wheel reaches: back into the wheel topic (T-122).
            elif entry.is_roll:
                again.append((position, record, entry.logged_ms))
            elif entry.is_delete:
                pass  # done with (T-129)
            elif is_deleted(record, work.deleted):
                log.debug("timers.cancelled", offset=record.commit_log_offset)
            else:
                due.append((position, record, entry.logged_ms))
        # Both puts may fail in part; the positions that failed are tried again.
        left = self._put_again(again, now_ms)
        waits = self.put([(record, logged_ms) for _, record, logged_ms in due], now_ms)
        left += [position for (position, _, _), is_left in zip(due, waits, strict=True) if is_left]
        # Keep the positions that failed. The order within a slot is free (T-126).
        work.positions[len(work.positions) - count :] = sorted(left, reverse=True)
        # The disk or the store refuses now: the caller tries the same portion again (T-128).
        if left:
            return None
        # Only after the whole slot: a restart in between repeats deliveries, but loses none.
        if not work.positions:
            self._finish(work)
        return max(1, count)

    def forget(self) -> None:
        """Forget what is delivered of slots: the files say what waits."""
        self._work = None
        self._came_on.clear()
        self.slots.forget()

    def _next_work(self) -> _SlotWork | None:
        slot_ms = self._wheel.next_ms()
        now_ms = self._clock.time_ms()
        # Wait until the slot is over: messages for it may still come (T-125).
        if slot_ms is None or self._rules.delivered_at_ms(slot_ms) > self._rules.floor(now_ms):
            return None
        newest = self._wheel.get(slot_ms).last
        # After the clock was set back, more came into a delivered slot: only its rest is new.
        before = self._came_on.get(slot_ms)
        if before is None:
            return _SlotWork(slot_ms, newest, unread=newest)
        return _SlotWork(
            slot_ms, newest, unread=newest, deleted=before.deleted, delivered=before.newest
        )

    def _look_through(self, work: _SlotWork) -> int:
        """Find some more records of a slot; how many."""
        positions: list[int] = []
        position, cost = work.unread, 0
        # Count costs, not records: a cancel also reads its message.
        while position > work.delivered and cost < READ_AT_ONCE:
            entry = self._log.read(position)
            # The log was cut or is damaged: earlier records of the chain cannot be found.
            if entry is None or entry.slot_ms != work.slot_ms:
                log.warning("timers.chain_broken", slot_ms=work.slot_ms, position=position)
                position = -1
                break
            positions.append(position)
            cost += 1
            # A cancel names its message by key; both lie in the same slot (T-135).
            if entry.is_delete and not entry.is_roll:
                cost += _CANCEL_COSTS
                record = self._message(entry)
                if record is not None:
                    work.deleted.add(record.properties.get(names.TIMER_DEL_UNIQKEY, ""))
            if entry.previous >= position:  # damage: it would lead round and round
                log.warning("timers.chain_broken", slot_ms=work.slot_ms, position=position)
                position = -1
                break
            position = entry.previous
        work.positions += positions
        # -1: the chain has ended, or the rest was delivered in an earlier round.
        work.unread = position if position > work.delivered else -1
        return len(positions)

    def _finish(self, work: _SlotWork) -> None:
        """All of a slot is delivered: note it.

        If the clock was set back meanwhile, what came for this slot or an earlier one still waits,
        and a restart has to find it: the slot comes once more with the rest, or is not noted.
        """
        self._work = None
        # The slot has grown since, as the clock was set back: it is not done.
        if self._wheel.get(work.slot_ms).last != work.newest:
            self._came_on[work.slot_ms] = work
            return
        self._came_on.pop(work.slot_ms, None)
        self._wheel.done(work.slot_ms)
        next_ms = self._wheel.next_ms()
        # Earlier slots still hold messages: do not note this one before they are delivered.
        if next_ms is None or next_ms > work.slot_ms:
            self.slots.finished(self._rules.delivered_at_ms(work.slot_ms))

    def _message(self, entry: LogRecord) -> MessageExt | None:
        view = self._store.lookup(entry.physical_offset)
        if view is None:
            return None
        record = decode_record(view)
        return record if self._rules.is_of(record, entry) else None

    def _put_again(self, again: Sequence[tuple[int, MessageExt, int]], now_ms: int) -> list[int]:
        """Store what waits on in the wheel topic; the positions of those to try again later."""
        waits = self._put_all([rolled(record, at_ms, now_ms) for _, record, at_ms in again])
        for (_, record, _), is_left in zip(again, waits, strict=True):
            if not is_left:
                # Take it off the counts: it is counted again when it arrives once more.
                cancels = names.TIMER_DEL_UNIQKEY in record.properties
                topic = record.properties.get(names.REAL_TOPIC)
                self._counts.change(topic, 1 if cancels else -1, now_ms)
        return [position for (position, _, _), is_left in zip(again, waits, strict=True) if is_left]

    def put(self, due: Sequence[tuple[MessageExt, int]], now_ms: int) -> list[bool]:
        """Store messages, each with when it was logged, where they belong.

        Returns:
            Of each, whether it could not be stored now: try it again later.
        """
        left = [False] * len(due)
        messages: list[StoredMessage] = []
        places: list[int] = []
        for place, (record, enqueued_ms) in enumerate(due):
            if names_cancel(record):
                continue  # a cancel that came too late
            message = delivery(record, enqueued_ms, now_ms)
            if message is None:
                log.warning("timers.no_topic", offset=record.commit_log_offset)
                continue
            messages.append(message)
            places.append(place)
        waited: Counter[str] = Counter()
        for place, message, is_left in zip(places, messages, self._put_all(messages), strict=True):
            left[place] = is_left
            # A message that was due on arrival was never counted as waiting.
            if not is_left and due[place][1] != NEVER_WAITED_MS:
                waited[message.topic] += 1
        for topic, count in waited.items():
            self._counts.change(topic, -count, now_ms)
            self._stats.meters.add(TIMER_DEQUEUED, topic, count=count)
        return left

    def _put_all(self, messages: list[StoredMessage]) -> list[bool]:
        """Store all; of each whether it could not be now. What never can be is reported."""
        results = self._store.put_messages(messages) if messages else ()
        now = self._clock.monotonic()
        left = [False] * len(messages)
        for place, (message, result) in enumerate(zip(messages, results, strict=True)):
            # It can never be stored, and must not hold up the slot.
            if result.status.is_of_message:
                log.error("timers.undeliverable", status=result.status.name)
            elif result.status is not PutStatus.PUT_OK:
                left[place] = True
            else:
                # `is_caught_up` needs the end of the last message.
                self._delivered_end = result.physical_offset + result.size
                self._stats.note_put(message.topic, 1, result.size, now)
        if True in left:
            status = results[left.index(True)].status.name
            log.warning("timers.put_failed", status=status, count=sum(left))
        return left
