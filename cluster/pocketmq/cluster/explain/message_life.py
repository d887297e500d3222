"""The whole life of one message, from the copies that brokers stored of it: pure.

A delay, a transaction and each retry store a message once more, under the same unique id and in
another topic. `life` puts the copies in their order, and says for each group where it is now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pocketmq.client import MessageExt, MessageQueue
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.subscription import SubscriptionData
from pocketmq.protocol.messages.validation import (
    DLQ_PREFIX,
    HALF_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    dlq_topic,
    is_dlq,
    is_retry,
    is_system_topic,
    retry_topic,
)
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.runtime.words import counted, ordinal


@dataclass(frozen=True, slots=True)
class LifeFacts:
    """What brokers know about one message."""

    message_id: str
    copies: Sequence[MessageExt]
    """In the order in which they were stored."""
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Topic -> consumer groups of it."""
    committed: Mapping[tuple[str, MessageQueue], int] = field(default_factory=dict)
    """Group and queue -> offset of the next message; missing where nothing is committed."""
    subscriptions: Mapping[str, Mapping[str, SubscriptionData]] = field(default_factory=dict)
    """Group -> topic -> subscription of its members that are connected."""
    broadcasting: frozenset[str] = frozenset()
    """Groups whose members keep their offsets themselves."""
    decided: frozenset[MessageQueue] = frozenset()
    """Queues of half messages whose transaction of this message is over."""
    levels_ms: Sequence[int] = ()
    """Delay of level 1, 2, ..."""


@dataclass(frozen=True, slots=True)
class Step:
    """One copy."""

    time_ms: int
    topic: str
    broker: str
    queue: int
    offset: int
    what: str

    @property
    def place(self) -> str:
        """Queue and offset."""
        return f"{self.broker}/{self.queue} {self.offset}"


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of it in one group."""

    group: str
    state: str
    """`consumed`, `waits`, `retries`, `dead`, `passed over` or `unknown`."""
    sent_back: int
    what: str


@dataclass(frozen=True, slots=True)
class Life:
    """The answer."""

    message_id: str
    steps: tuple[Step, ...]
    groups: tuple[Fate, ...]
    now: str


def life(facts: LifeFacts) -> Life:
    """Tell it; `facts.copies` must not be empty."""
    steps = tuple(
        Step(
            copy.store_timestamp_ms, copy.topic, copy.broker_name, copy.queue_id,
            copy.queue_offset, _what(copy, facts.levels_ms),
        )
        for copy in facts.copies
    )  # fmt: skip
    fates = tuple(_fates(facts))
    return Life(facts.message_id, steps, fates, _now(facts, fates))


def due_ms(copy: MessageExt, levels_ms: Sequence[int]) -> int | None:
    """When a message that waits is delivered, epoch ms; None if it does not wait for a time."""
    # In the schedule topic the queue id is the delay level, counted from 0.
    if copy.topic == SCHEDULE_TOPIC and 0 <= copy.queue_id < len(levels_ms):
        return copy.store_timestamp_ms + levels_ms[copy.queue_id]
    if copy.topic == TIMER_TOPIC:
        text = copy.properties.get(names.TIMER_OUT_MS, "")
        return int(text) if text.isascii() and text.isdigit() else None
    return None


def _what(copy: MessageExt, levels_ms: Sequence[int]) -> str:
    real = copy.properties.get(names.REAL_TOPIC, "?")
    # Both topics hold a message for a time; the real topic is in a property.
    if copy.topic in (SCHEDULE_TOPIC, TIMER_TOPIC):
        due = due_ms(copy, levels_ms)
        wait = "" if due is None else f" for {(due - copy.store_timestamp_ms) / 1000:g} s"
        return f"waits{wait}, then goes to {real}"
    if copy.topic == HALF_TOPIC:
        producers = copy.properties.get(names.PRODUCER_GROUP, "?")
        return f"half message for {real}; {producers} decides"
    if copy.topic == TRANS_CHECK_MAX_TIME_TOPIC:
        return "given up: its transaction was never decided"
    if is_retry(copy.topic):
        return f"{ordinal(copy.reconsume_times)} retry of {copy.topic.removeprefix(RETRY_PREFIX)}"
    if is_dlq(copy.topic):
        return f"given up by {copy.topic.removeprefix(DLQ_PREFIX)}"
    # The commit of a transaction stores the message again, with this flag.
    if copy.sys_flag & MessageSysFlag.TRANSACTION_MASK == MessageSysFlag.TRANSACTION_COMMIT:
        return "committed"
    if names.ORIGIN_MESSAGE_ID in copy.properties:
        return "sent again"
    # A message keeps this property after its delay.
    return "delivered" if names.REAL_TOPIC in copy.properties else "sent"


def _fates(facts: LifeFacts) -> Iterator[Fate]:
    seen = {group for groups in facts.groups.values() for group in groups}
    for copy in facts.copies:
        # A waiting message goes to the topic in its property later.
        topic = copy.properties.get(names.REAL_TOPIC, "") if _waits(copy) else copy.topic
        for prefix in (RETRY_PREFIX, DLQ_PREFIX):
            if topic.startswith(prefix):
                seen.add(topic.removeprefix(prefix))
    for group in sorted(seen):
        copies = [copy for copy in facts.copies if _concerns(copy, group, facts)]
        if copies:
            # A message that waits before its first delivery concerns no group yet.
            yield _fate(group, copies, facts)


def _waits(copy: MessageExt) -> bool:
    return copy.topic in (SCHEDULE_TOPIC, TIMER_TOPIC)


def _concerns(copy: MessageExt, group: str, facts: LifeFacts) -> bool:
    if _waits(copy):
        return copy.properties.get(names.REAL_TOPIC) == retry_topic(group)
    if copy.topic in (retry_topic(group), dlq_topic(group)):
        return True
    return not is_system_topic(copy.topic) and group in facts.groups.get(copy.topic, ())


def _fate(group: str, copies: Sequence[MessageExt], facts: LifeFacts) -> Fate:
    # The message is where its last copy is.
    last = copies[-1]
    back = max(copy.reconsume_times for copy in copies)
    often = f" after {counted(back, 'send-back')}" if back else ""
    # The order of the checks matters: a later state hides an earlier one.
    if last.topic == dlq_topic(group):
        return Fate(group, "dead", back, f"in {last.topic}{often}")
    if _waits(last):
        due = due_ms(last, facts.levels_ms)
        wait = "" if due is None else f", due {(due - last.store_timestamp_ms) / 1000:g} s after"
        return Fate(group, "retries", back, f"waits for its {ordinal(back)} retry{wait}")
    subscription = facts.subscriptions.get(group, {}).get(last.topic)
    # Before the offset, which also moves past messages that the subscription leaves out.
    if subscription is not None and not subscription.matches_tag(last.tags):
        tag = f"its tag is {last.tags}" if last.tags else "it has no tag"
        what = f"{group} subscribes to {subscription.sub_string}, and {tag}"
        return Fate(group, "passed over", back, what)
    if group in facts.broadcasting:
        return Fate(group, "unknown", back, "members of a broadcasting group keep their offsets")
    committed = facts.committed.get((group, last.queue))
    if committed is None:
        return Fate(group, "waits", back, f"the group has committed nothing in {_queue(last)}")
    # The committed offset is the next one to consume.
    if committed > last.queue_offset:
        return Fate(group, "consumed", back, f"its offset in {_queue(last)} is {committed}{often}")
    before = last.queue_offset - committed
    return Fate(group, "waits", back, f"{counted(before, 'message')} before it in {_queue(last)}")


def _queue(copy: MessageExt) -> str:
    topic = f"{copy.topic} " if is_retry(copy.topic) else ""
    return f"{topic}{copy.broker_name}/{copy.queue_id}"


def _now(facts: LifeFacts, fates: Sequence[Fate]) -> str:
    last = facts.copies[-1]
    real = last.properties.get(names.REAL_TOPIC, "?")
    if last.topic == HALF_TOPIC:
        # A half message that was rolled back stays in its queue; only an op record shows it.
        if last.queue in facts.decided:
            return "rolled back: no consumer gets it"
        return f"a half message: it waits for the transaction, and nobody sees it in {real}"
    if last.topic == TRANS_CHECK_MAX_TIME_TOPIC:
        return f"in {last.topic}: no consumer gets it"
    # A waiting retry concerns only its group, whose state says so.
    if _waits(last) and not is_retry(real):
        return f"waits for its time; nobody sees it in {real} before"
    if not fates:
        return f"in {last.topic}; no group consumes it"
    states = [fate.state for fate in fates]
    return ", ".join(f"{state}: {states.count(state)}" for state in dict.fromkeys(states))
