"""What brokers hold back: messages that wait for a delay, a retry or their delivery time.

A wait that failed names them, so that its reader sees how far the clock has to go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pocketmq.client import Admin, MessageExt, MessageQueue
from pocketmq.cluster.durations import LEVELS, parse_duration_ms
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.validation import SCHEDULE_TOPIC, TIMER_TOPIC
from pocketmq.runtime.errors import PocketMQError

MOST_NAMED: Final = 3
"""Of them; the number of the rest is said."""
MOST_READ: Final = 32
"""Of each delay level, and of the timer's topic."""


@dataclass(frozen=True, slots=True, order=True)
class Pending:
    """A message that is delivered later."""

    due_ms: int
    """Epoch ms."""
    topic: str
    queue_id: int
    why: str
    """`delay level 3, offset 7 there`, or `at its time`."""


async def pending_deliveries(
    admin: Admin, brokers: Iterable[str], now_ms: int
) -> tuple[Pending, ...]:
    """The messages that brokers deliver later, the next one first; of a broker that cannot say,
    none."""
    found: list[Pending] = []
    for name in brokers:
        try:
            found += await _delayed(admin, name)
            found += await _timed(admin, name, now_ms)
        except PocketMQError:
            # This text only explains another error, so its own errors are ignored.
            continue
    return tuple(sorted(found))


def pending_text(pending: Sequence[Pending], now_ms: int) -> str:
    """The end of a sentence about a wait; empty if nothing is pending. Pure."""
    if not pending:
        return ""
    named = [
        f"{each.topic}/{each.queue_id} in {max(0, each.due_ms - now_ms) / 1000:g} s ({each.why})"
        for each in pending[:MOST_NAMED]
    ]
    more = len(pending) - MOST_NAMED
    rest = f", and {more} more" if more > 0 else ""
    return f"; waiting to be delivered: {', '.join(named)}{rest}"


async def _delayed(admin: Admin, broker_name: str) -> list[Pending]:
    found: list[Pending] = []
    info = await admin.broker_runtime_info(broker_name)
    for level, length in enumerate(LEVELS, 1):
        # RocketMQ's brokers report `delivered,stored` for each level.
        delivered, _, end = info.get(f"scheduleMessageOffset_{level}", "0,0").partition(",")
        if int(delivered) >= int(end):
            continue
        queue = MessageQueue(SCHEDULE_TOPIC, broker_name, level - 1)
        for each in (await admin.read(queue, int(delivered), max_count=MOST_READ)).messages:
            due_ms = each.store_timestamp_ms + parse_duration_ms(length)
            found.append(_of(each, due_ms, f"delay level {level}, offset {each.queue_offset}"))
    return found


async def _timed(admin: Admin, broker_name: str, now_ms: int) -> list[Pending]:
    queue = MessageQueue(TIMER_TOPIC, broker_name, 0)
    if not (end := await admin.max_offset(queue)):
        return []
    # Only the last messages: the timer's log also keeps those delivered long ago.
    read = await admin.read(queue, max(0, end - MOST_READ), max_count=MOST_READ)
    due = [(int(each.properties.get(names.TIMER_OUT_MS, "0")), each) for each in read.messages]
    # Messages that are due were delivered, but stay in the log.
    return [_of(each, at_ms, "at its time") for at_ms, each in due if at_ms > now_ms]


def _of(message: MessageExt, due_ms: int, why: str) -> Pending:
    topic = message.properties.get(names.REAL_TOPIC, message.topic)
    return Pending(due_ms, topic, int(message.properties.get(names.REAL_QUEUE_ID, "0")), why)
