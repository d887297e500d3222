"""Asks brokers, gRPC proxies and members for the facts that `findings` checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pocketmq.client import Admin
from pocketmq.cluster.explain.findings import GroupFacts
from pocketmq.cluster.explain.refusals import refusals
from pocketmq.cluster.group_view import UnknownGroupError, known_groups
from pocketmq.cluster.steering.group_state import GroupState, MemberState, client_ids
from pocketmq.protocol.bodies.clients import ConsumerConnection, ConsumerRunningInfo
from pocketmq.protocol.body import parse_mq_key
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import BrokerError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.subscription import TAG, SubscriptionData
from pocketmq.protocol.messages.validation import dlq_topic, is_retry, retry_topic
from pocketmq.protocol.scalars import Perm

LAST_MESSAGES = 32
"""Last messages of each queue whose tags are looked at."""


async def gather_facts(admin: Admin, group: str, *, clock_stands: bool = False) -> GroupFacts:
    """Ask for all facts about a group.

    Args:
        admin: Client of the cluster.
        group: The group's name.
        clock_stands: Whether the cluster is on a manual clock.

    Raises:
        UnknownGroupError: No broker knows the group, though all would make it.
    """
    connections = await admin.consumer_connections(group)
    at_proxies = await admin.proxy_consumers(group)
    progress = await admin.consume_stats(group)
    refused_at, not_made_at = await refusals(admin, group)
    # For groups that never existed brokers also answer all of these, with nothing.
    explained = connections or at_proxies or progress or refused_at or not_made_at
    if not explained and group not in await known_groups(admin):
        raise UnknownGroupError(group)
    infos: dict[str, ConsumerRunningInfo] = {}
    silent: list[str] = []
    for client_id in client_ids(connections):
        try:
            infos[client_id] = await admin.consumer_running_info(group, client_id)
        # It is connected but does not answer: it is suspended, or another kind of client.
        except BrokerError:
            silent.append(client_id)
    # Committed offsets name the group's topics even without members.
    topics = {
        data.topic
        for each in (*connections.values(), *at_proxies.values())
        for data in each.subscription_table.values()
    } or {queue.topic for queue in progress}
    without_route, unreadable, ends = [], {}, {}
    for topic in sorted(topics):
        route = await admin.route(topic)
        if route is None:
            if not is_retry(topic):
                without_route.append(topic)
            continue
        closed = [each.broker_name for each in route.queue_datas if not each.perm & Perm.READ]
        if closed:
            unreadable[topic] = tuple(sorted(closed))
        stats = await admin.topic_stats(topic)
        ends.update({queue: bounds.max_offset for queue, bounds in stats.items()})
    disabled = [
        broker
        for broker in await admin.brokers()
        if (config := (await admin.groups(broker)).get(group)) and not config.consume_enable
    ]
    members = tuple(MemberState.of(client_id, info) for client_id, info in infos.items())
    committed = {queue: each.consumer_offset for queue, each in progress.items()}
    retry = retry_topic(group)
    return GroupFacts(
        state=GroupState(
            group,
            members,
            tuple(silent),
            broadcasting=any(e.message_model == "BROADCASTING" for e in connections.values()),
            ends=ends,
            committed=committed,
        ),
        subscriptions={
            # The members' own subscriptions: a broker's table keeps only the last one of a group.
            client_id: {data.topic: data for data in info.subscription_set}
            for client_id, info in infos.items()
        }
        | _of_sdks(at_proxies),
        sdks={
            each.client_id: f"{each.language} at {proxy}"
            for proxy, found in at_proxies.items()
            for each in found.connection_set
        },
        same_id=_same_ids(connections),
        without_route=tuple(without_route),
        unreadable=unreadable,
        disabled_at=tuple(disabled),
        refused_at=refused_at,
        not_made_at=not_made_at,
        last_tags=await _last_tags(admin, ends),
        unlocked=_unlocked(infos),
        in_order=any(map(_is_orderly, infos.values())),
        dead_letters=await _stored(admin, dlq_topic(group)),
        retrying=sum(
            # A queue may have messages before the group has committed anything.
            max(0, end - max(0, committed.get(queue, 0)))
            for queue, end in ends.items()
            if queue.topic == retry
        ),
        clock_stands=clock_stands,
    )


def _of_sdks(
    at_proxies: Mapping[str, ConsumerConnection],
) -> dict[str, dict[str, SubscriptionData]]:
    """Client id -> topic -> what it subscribes to; a proxy tells it of all its members together."""
    return {
        each.client_id: {
            # A proxy reports expressions without their parsed tags, which are needed for
            # comparison.
            data.topic: SubscriptionData.parse(data.topic, data.sub_string, 0)
            if data.expression_type == TAG
            else data
            for data in found.subscription_table.values()
        }
        for found in at_proxies.values()
        for each in found.connection_set
    }


def _same_ids(connections: dict[str, ConsumerConnection]) -> dict[str, int]:
    most: Counter[str] = Counter()
    for found in connections.values():
        for client_id, count in Counter(e.client_id for e in found.connection_set).items():
            # Each client has one connection to each broker, so the maximum at one broker counts.
            most[client_id] = max(most[client_id], count)
    return {client_id: count for client_id, count in sorted(most.items()) if count > 1}


def _is_orderly(info: ConsumerRunningInfo) -> bool:
    return info.properties.get("PROP_CONSUMEORDERLY") == "true"


def _unlocked(infos: dict[str, ConsumerRunningInfo]) -> dict[MessageQueue, str]:
    return {
        parse_mq_key(key): client_id
        for client_id, info in infos.items()
        if _is_orderly(info)
        for key, held in info.mq_table.items()
        # A dropped queue is moving to another member, and needs no lock.
        if not held.locked and not held.droped
    }


async def _stored(admin: Admin, topic: str) -> int:
    if await admin.route(topic) is None:
        return 0
    stats = await admin.topic_stats(topic)
    return sum(each.max_offset - each.min_offset for each in stats.values())


async def _last_tags(admin: Admin, ends: dict[MessageQueue, int]) -> dict[str, tuple[str, ...]]:
    """The tags of the last messages of each topic."""
    tags: dict[str, list[str]] = {}
    for queue, end in ends.items():
        # Retries keep their messages' tags, and an empty queue has no messages.
        if is_retry(queue.topic) or end == 0:
            continue
        begin = max(await admin.min_offset(queue), end - LAST_MESSAGES)
        try:
            pulled = await admin.read(queue, begin, max_count=LAST_MESSAGES)
        except BrokerError as exc:
            if exc.code != ResponseCode.NO_PERMISSION:
                raise
            continue  # a finding of its own
        tags.setdefault(queue.topic, []).extend(each.tags or "" for each in pulled.messages)
    return {topic: tuple(found) for topic, found in tags.items()}
