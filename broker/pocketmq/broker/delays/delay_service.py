"""Delivers delayed messages when they are due: RocketMQ's ScheduleMessageService (B-92 to B-95).

RocketMQ checks each of the 18 levels every 100 ms. Here one service sleeps until the first message
of any level is due. It wakes earlier when an idle level gets a message.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from pocketmq.broker.delays.delay import DelayPlanner, from_schedule_topic
from pocketmq.broker.stats.broker_stats import BrokerStats
from pocketmq.broker.store import GetStatus, MessageStore, PutStatus, StoredMessage
from pocketmq.broker.subject import Service
from pocketmq.protocol.messages.validation import SCHEDULE_TOPIC
from pocketmq.protocol.stored.record import decode_records
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.periodic import AT_REST, PeriodicService

log = structlog.get_logger()

FIRST_RUN_S = 1.0
AFTER_FAILURE_S = 10.0
RETRY_PUT_MS = 100

LONGEST_WAIT_S = 10.0
"""Setting the wall clock forward wakes no sleeping task, so the clock is read this often."""

BATCH = 32


class ScheduleMessageService(Service):
    """Moves due messages from SCHEDULE_TOPIC_XXXX to their real topics.

    Args:
        planner: progress and deadlines of the levels.
        store: read from and delivered to.
        clock: its wall clock says what is due.
        stats: counts what is delivered.
    """

    def __init__(
        self, planner: DelayPlanner, store: MessageStore, clock: Clock, stats: BrokerStats
    ) -> None:
        self._stats = stats
        self._planner = planner
        self._store = store
        self._clock = clock
        self._service = PeriodicService(
            "schedule", clock, AFTER_FAILURE_S, self._run, initial_delay_s=FIRST_RUN_S
        )

    @property
    def runs(self) -> int:
        """How many times it has checked for due messages."""
        return self._service.runs

    def recovered(self) -> None:
        """Bring the levels' offsets within the queues that the store has recovered (B-94)."""
        store = self._store
        self._planner.clamp(
            {
                level: (
                    store.reads.min_offset(SCHEDULE_TOPIC, level - 1),
                    store.reads.max_offset(SCHEDULE_TOPIC, level - 1),
                )
                for level in self._planner.levels
            }
        )

    async def start(self) -> None:
        """Look at every level after a second, then at each when it is due."""
        now_ms = self._clock.time_ms()
        for level in self._planner.levels:
            self._planner.look_at(level, now_ms)
        self._service.start()

    async def stop(self) -> None:
        """Return when no delivery is under way."""
        await self._service.stop()

    def arrived(
        self, _topic: str, queue_id: int, _max_offset: int, due_at_ms: Sequence[int]
    ) -> None:
        """Messages of SCHEDULE_TOPIC_XXXX became readable; their tags codes are due times.

        A queue that is no level holds what no broker put there: nobody reads it.
        """
        if queue_id < self._planner.max_level and self._planner.arrived(queue_id + 1, due_at_ms[0]):
            self._service.wakeup()

    async def _run(self) -> float:
        """Deliver what is due; seconds until the next message is."""
        planner, clock = self._planner, self._clock
        while due := planner.due(clock.time_ms()):
            for level in due:
                self._deliver(level)
            await clock.sleep(0)  # a backlog of hours must not keep the broker from answering
        next_ms = planner.next_deadline_ms()
        if next_ms is None:
            return AT_REST  # until something arrives
        return min(LONGEST_WAIT_S, max(1, next_ms - clock.time_ms()) / 1000)

    def _deliver(self, level: int) -> None:
        """One batch of a level; notes when to look at the level again."""
        planner, store = self._planner, self._store
        now_ms = self._clock.time_ms()
        queue_id = level - 1
        offset = planner.offset(level)
        found = store.reads.get_message(SCHEDULE_TOPIC, queue_id, offset, BATCH)
        if found.status is not GetStatus.FOUND:
            if found.status in _MOVED:
                planner.moved(level, found.next_begin_offset)  # outside the queue (B-93)
                planner.look_at(level, now_ms)
            else:
                # The level's queue has no more messages: `arrived` schedules the next look.
                planner.look_at(level, None)
            return
        messages: list[StoredMessage] = []
        ends: list[int] = []
        # If all of these are due, later ones may be due too: look again at once.
        next_at_ms: int | None = now_ms
        for record in decode_records(b"".join(found.records)):
            due_at_ms = planner.due_at_ms(level, record.store_timestamp_ms, now_ms)
            if due_at_ms > now_ms:
                # All messages of a level wait equally long, so later ones are due no earlier.
                next_at_ms = due_at_ms
                break
            message = from_schedule_topic(record)
            if message is None:
                log.warning("delayed.dropped", level=level, offset=record.queue_offset)
            else:
                messages.append(message)
                ends.append(record.queue_offset + 1)
            offset = record.queue_offset + 1
        planner.look_at(level, next_at_ms)
        if messages and not self._put(level, messages, ends):
            planner.look_at(level, now_ms + RETRY_PUT_MS)
            return
        # `_put` moves only past stored messages; dropped ones at the end are passed here.
        planner.moved(level, offset)

    def _put(self, level: int, messages: list[StoredMessage], ends: list[int]) -> bool:
        """Store the messages; False when one was not, and everything before it is delivered."""
        delivered_to: int | None = None
        failed = None
        results = self._store.put_messages(messages)
        now = self._clock.monotonic()
        for message, result, end in zip(messages, results, ends, strict=True):
            if result.status.is_of_message:
                log.error("delayed.undeliverable", level=level, offset=end - 1)
                continue  # it would fail again, and the level would stand still behind it
            if result.status is not PutStatus.PUT_OK:
                failed = result.status
                break
            delivered_to = end
            self._stats.note_delivered(message.topic, level - 1, result.size, now)
        if delivered_to is not None:
            # The next attempt must not store the messages before the failure again.
            self._planner.moved(level, delivered_to)
        if failed is not None:
            log.warning("delayed.put_failed", level=level, status=failed.name)
            return False
        return True


_MOVED = frozenset(
    {
        GetStatus.OFFSET_TOO_SMALL,
        GetStatus.OFFSET_OVERFLOW_BADLY,
        GetStatus.OFFSET_FOUND_NULL,
        GetStatus.NO_MATCHED_MESSAGE,
        GetStatus.MESSAGE_WAS_REMOVING,
    }
)
