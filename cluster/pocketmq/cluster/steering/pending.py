"""What brokers hold back: for a delay, a retry, a delivery time or the end of a transaction.

A wait that failed names them, so that its reader sees how far the clock has to go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from pocketmq.client import Admin, MessageExt, MessageQueue
from pocketmq.cluster.durations import LEVELS, parse_duration_ms
from pocketmq.operation.metrics import HALF_MESSAGES
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.validation import REVIVE_TOPIC_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC
from pocketmq.runtime.errors import PocketMQError
from pocketmq.runtime.words import counted

MOST_NAMED: Final = 3
"""Of them; the number of the rest is said."""
MOST_READ: Final = 32
"""Of each delay level, and of the timer's topic."""


@dataclass(frozen=True, slots=True, order=True)
class Pending:
    """A message that is delivered later."""

    due_ms: int
    """Epoch ms at which a clock has to stand for it to come."""
    where: str
    """`orders/0`: topic and queue."""
    why: str
    """`delay level 3, offset 7`, or `at its time`."""


@dataclass(frozen=True, slots=True)
class HeldBack:
    """What brokers have and consumers do not get yet."""

    later: tuple[Pending, ...] = ()
    """By time; the next one first."""
    open_transactions: Mapping[str, int] = field(default_factory=dict)
    """Topic -> messages whose producers have neither committed nor rolled them back."""


async def held_back(admin: Admin, brokers: Iterable[str], now_ms: int) -> HeldBack:
    """What brokers deliver later; of a broker that cannot say, nothing."""
    found: list[Pending] = []
    undecided: Counter[str] = Counter()
    for name in brokers:
        # This text only explains another error, so its own errors are ignored, each by itself:
        # brokers of 4.9 have no timers, and RocketMQ's own tell no figures.
        with suppress(PocketMQError):
            found += await _delayed(admin, name)
        with suppress(PocketMQError):
            found += await _timed(admin, name, now_ms)
        with suppress(PocketMQError):
            for each in (await admin.broker_metrics(name)).numbers:
                if each.name == HALF_MESSAGES.name and each.value > 0:
                    undecided[each.labels[0]] += each.value
    return HeldBack(tuple(sorted(found)), undecided)


def held_back_text(held: HeldBack, now_ms: int) -> str:
    """The end of a sentence about a wait; empty if nothing is held back. Pure."""
    said = ""
    if held.later:
        named = [
            f"{each.where} in {max(0, each.due_ms - now_ms) / 1000:g} s ({each.why})"
            for each in held.later[:MOST_NAMED]
        ]
        more = len(held.later) - MOST_NAMED
        rest = f", and {more} more" if more > 0 else ""
        said = f"; waiting to be delivered: {', '.join(named)}{rest}"
    if held.open_transactions:
        topics = sorted(held.open_transactions.items())
        said += (
            f"; in open transactions: {', '.join(_for(*each) for each in topics[:MOST_NAMED])}, "
            "which come when their producer commits them, itself or asked by the broker"
        )
    return said


def _for(topic: str, count: int) -> str:
    return f"{counted(count, 'message')} for {topic}"


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
    # A slot is delivered when it is over: so much later than the time that the message has (T-125).
    slot_ms = int((await admin.broker_config(broker_name)).get("timerPrecisionMs", "1000"))
    # Only the last messages: the timer's log also keeps those delivered long ago.
    read = (await admin.read(queue, max(0, end - MOST_READ), max_count=MOST_READ)).messages
    cancelled = {each.properties.get(names.TIMER_DEL_UNIQKEY) for each in read} - {None}
    found: dict[str, Pending] = {}
    for each in read:
        key = each.properties.get(names.UNIQ_KEY, "")
        topic = each.properties.get(names.REAL_TOPIC, "")
        due_ms = int(each.properties.get(names.TIMER_OUT_MS, "0")) + slot_ms
        # Messages that came stay in the log, and so do cancels and what they took back (T-136).
        is_taken_back = names.TIMER_DEL_UNIQKEY in each.properties or not cancelled.isdisjoint(
            (key, f"{topic}+{key}")
        )
        if due_ms <= now_ms or is_taken_back:
            continue
        if topic.startswith(REVIVE_TOPIC_PREFIX):
            # The broker's own notes of pops: it brings back what was not acknowledged. Said once.
            popped = Pending(due_ms, "popped messages", "unless they are acknowledged before")
            found[REVIVE_TOPIC_PREFIX] = min(popped, found.get(REVIVE_TOPIC_PREFIX, popped))
        else:
            # By its key: a message far ahead is logged again on the way.
            found[key or each.msg_id] = _of(each, due_ms, "at its time")
    return list(found.values())


def _of(message: MessageExt, due_ms: int, why: str) -> Pending:
    topic = message.properties.get(names.REAL_TOPIC, message.topic)
    return Pending(due_ms, f"{topic}/{message.properties.get(names.REAL_QUEUE_ID, '0')}", why)
