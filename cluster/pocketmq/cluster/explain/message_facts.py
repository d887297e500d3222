"""Asks brokers for what `message_life` needs of one message."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

from pocketmq.client import Admin, MessageExt, MessageQueue
from pocketmq.cluster.explain.message_life import LifeFacts
from pocketmq.cluster.messages.finding import find_copies, find_message
from pocketmq.cluster.messages.reading import QueueRange, read_range
from pocketmq.protocol.bodies.clients import ConsumerConnection
from pocketmq.protocol.errors import BrokerError, TopicNotFoundError
from pocketmq.protocol.messages.subscription import SubscriptionData
from pocketmq.protocol.messages.validation import (
    DLQ_PREFIX,
    HALF_TOPIC,
    OP_HALF_TOPIC,
    RETRY_PREFIX,
    is_dlq,
    is_retry,
    is_system_topic,
)

LAST_OPS: Final = 1000
"""Op records of each queue among which that of a half message is looked for."""
_UNITS_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


async def gather_life(admin: Admin, words: Sequence[str], topics: Sequence[str] = ()) -> LifeFacts:
    """Find every copy of a message, and how far each group of its topics is.

    Args:
        admin: Client of the cluster.
        words: An id; or a topic, a queue and an offset.
        topics: Only these are searched; by default all.

    Raises:
        UnknownMessageError: There is no such message.
    """
    first = await find_message(admin, words, topics)
    # Other clients may send without a unique id; then the copies cannot be found.
    copies = [first] if first.uniq_key is None else await find_copies(admin, first.uniq_key, topics)
    copies = copies or [first]  # the index may lack one that is just being stored
    groups = await _groups(admin, copies)
    everyone = {group for found in groups.values() for group in found}
    connections = {group: await admin.consumer_connections(group) for group in everyone}
    return LifeFacts(
        message_id=first.msg_id,
        copies=tuple(copies),
        groups=groups,
        committed=await _committed(admin, copies, groups),
        subscriptions={group: _topics(found.values()) for group, found in connections.items()},
        broadcasting=frozenset(
            group
            for group, found in connections.items()
            if any(each.message_model == "BROADCASTING" for each in found.values())
        ),
        decided=await _decided(admin, copies),
        levels_ms=await _levels_ms(admin, copies[0].broker_name),
    )


async def _groups(admin: Admin, copies: Iterable[MessageExt]) -> dict[str, tuple[str, ...]]:
    """Topic -> groups, for those topics that consumers read."""
    found: dict[str, tuple[str, ...]] = {}
    for topic in {copy.topic for copy in copies}:
        # Taken from the name: nobody subscribes to a dead letter topic, and a retry's members may
        # be gone.
        if is_retry(topic):
            found[topic] = (topic.removeprefix(RETRY_PREFIX),)
        elif is_dlq(topic):
            found[topic] = (topic.removeprefix(DLQ_PREFIX),)
        elif not is_system_topic(topic):
            try:
                found[topic] = tuple(await admin.topic_consumers(topic))
            # The topic of a found message may just have been deleted.
            except TopicNotFoundError:
                found[topic] = ()
    return found


async def _committed(
    admin: Admin, copies: Iterable[MessageExt], groups: dict[str, tuple[str, ...]]
) -> dict[tuple[str, MessageQueue], int]:
    found: dict[tuple[str, MessageQueue], int] = {}
    for queue in {copy.queue for copy in copies}:
        for group in groups.get(queue.topic, ()):
            offset = await admin.consumer_offset(group, queue)
            if offset is not None:
                found[group, queue] = offset
    return found


def _topics(connections: Iterable[ConsumerConnection]) -> dict[str, SubscriptionData]:
    return {data.topic: data for found in connections for data in found.subscription_table.values()}


async def _decided(admin: Admin, copies: Iterable[MessageExt]) -> frozenset[MessageQueue]:
    """Queues whose half message of these an op record names."""
    found = set()
    for half in copies:
        if half.topic != HALF_TOPIC:
            continue
        op_queue = MessageQueue(OP_HALF_TOPIC, half.broker_name, half.queue_id)
        async for op in _last(admin, op_queue):
            # An op record holds the offsets of half messages as text, separated by commas.
            if str(half.queue_offset) in op.body.decode("ascii", "replace").split(","):
                found.add(half.queue)
    return frozenset(found)


async def _last(admin: Admin, queue: MessageQueue) -> AsyncIterator[MessageExt]:
    try:
        end = await admin.max_offset(queue)
        # Not from the beginning: most of the ops there belong to transactions that ended long ago.
        begin = max(await admin.min_offset(queue), end - LAST_OPS)
        async for op in read_range(admin, QueueRange(queue, begin, end)):
            yield op
    except BrokerError:
        return  # no transaction has ended here yet


async def _levels_ms(admin: Admin, broker_name: str) -> tuple[int, ...]:
    """The broker's delay levels; none if it does not tell them."""
    # Asked for, since each broker may have its own levels.
    text = (await admin.broker_config(broker_name)).get("messageDelayLevel", "")
    try:
        return tuple(int(word[:-1]) * _UNITS_MS[word[-1]] for word in text.split())
    except (ValueError, KeyError):
        return ()
