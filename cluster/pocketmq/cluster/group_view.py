"""The state of a consumer group in a running cluster: members, subscriptions, offsets.

Brokers are asked for members, subscriptions and offsets; each member for the queues that it owns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pocketmq.client import Admin
from pocketmq.protocol.bodies.clients import ConsumerConnection
from pocketmq.protocol.body import parse_mq_key
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.errors import CallerError, PocketMQError


class UnknownGroupError(CallerError):
    """No broker knows the group."""

    def __init__(self, group: str) -> None:
        self.group = group
        super().__init__(
            f"no broker knows group {group!r}: it has no member and no offset; "
            "see `pocketmq group list`"
        )


@dataclass(frozen=True, slots=True)
class MemberView:
    """One client of the group."""

    client_id: str
    address: str
    """Its address as the first broker sees it."""
    language: str
    version: int
    """The client's protocol version, as RocketMQ's number."""
    brokers: tuple[str, ...]
    """The brokers that have its heartbeat; of a client of a gRPC proxy, the proxy."""
    answers: bool
    """Whether it answered which queues it owns."""


@dataclass(frozen=True, slots=True)
class SubscriptionView:
    """One topic that the group consumes."""

    topic: str
    expression: str
    expression_type: str


@dataclass(frozen=True, slots=True)
class QueueView:
    """One queue and the group's progress in it."""

    topic: str
    broker: str
    queue: int
    broker_offset: int
    """The offset of the next message to be stored."""
    consumer_offset: int
    """The offset of the next message to be consumed; -1 when none was committed."""
    owners: tuple[str, ...]
    """Client ids of its owners; several with broadcasting, or briefly during a rebalance."""

    @property
    def lag(self) -> int:
        """Messages not consumed yet; without a committed offset, all that were ever stored."""
        return max(0, self.broker_offset - max(0, self.consumer_offset))


@dataclass(frozen=True, slots=True)
class GroupView:
    """Everything about one group."""

    group: str
    consume_type: str
    """`CONSUME_PASSIVELY`, `CONSUME_ACTIVELY` or `CONSUME_POP`; empty without a member."""
    message_model: str
    """`CLUSTERING` or `BROADCASTING`; empty when no member is connected."""
    consume_from_where: str
    members: tuple[MemberView, ...]
    subscriptions: tuple[SubscriptionView, ...]
    queues: tuple[QueueView, ...]

    @property
    def lag(self) -> int:
        """Messages not consumed yet, in all queues."""
        return sum(queue.lag for queue in self.queues)

    def as_dict(self) -> dict[str, Any]:
        """As an object for JSON."""
        plain = asdict(self)
        for queue, made in zip(self.queues, plain["queues"], strict=True):
            made["lag"] = queue.lag
        return {**plain, "lag": self.lag}


async def look_at(admin: Admin, group: str) -> GroupView:
    """Ask every broker, and every member through one of them.

    Raises:
        UnknownGroupError: No broker knows the group.
        PocketMQError: Name servers or brokers do not answer.
    """
    at_brokers = await admin.consumer_connections(group)
    connections = at_brokers | await admin.proxy_consumers(group)
    progress = await admin.consume_stats(group)
    # For groups that never existed brokers also answer all of these, with nothing.
    if not connections and not progress and group not in await known_groups(admin):
        raise UnknownGroupError(group)
    subscriptions = {
        data.topic: SubscriptionView(data.topic, data.sub_string, data.expression_type)
        for found in connections.values()
        for data in found.subscription_table.values()
    }
    ids = sorted(
        {each.client_id for found in connections.values() for each in found.connection_set}
    )
    asked = sorted(
        {each.client_id for found in at_brokers.values() for each in found.connection_set}
    )  # a proxy's clients own no queues
    # All at once, as each silent member costs a request's whole time limit.
    owned = dict(
        zip(asked, await asyncio.gather(*(_owned(admin, group, i) for i in asked)), strict=True)
    )
    queues: dict[MessageQueue, tuple[int, int]] = {
        queue: (each.broker_offset, each.consumer_offset) for queue, each in progress.items()
    }
    # Queues without a committed offset do not appear in the progress.
    for topic in subscriptions:
        for queue, bounds in (await _bounds(admin, topic)).items():
            queues.setdefault(queue, (bounds, -1))
    # Members should agree; `group explain` shows where they do not.
    first = next(iter(connections.values()), ConsumerConnection(message_model=""))
    return GroupView(
        group=group,
        consume_type=first.consume_type if connections else "",
        message_model=first.message_model,
        consume_from_where=first.consume_from_where if connections else "",
        # A proxy's client is not asked, so it does not count as silent.
        members=tuple(_member(i, connections, answers=i not in owned or owned[i] is not None)
            for i in ids
        ),
        subscriptions=tuple(subscriptions[topic] for topic in sorted(subscriptions)),
        queues=tuple(
            QueueView(
                queue.topic, queue.broker_name, queue.queue_id, broker_offset, consumer_offset,
                owners=tuple(i for i in ids if queue in (owned.get(i) or ())),
            )
            for queue, (broker_offset, consumer_offset) in sorted(queues.items())
        ),
    )  # fmt: skip


async def known_groups(admin: Admin) -> list[str]:
    """Names of all groups that any broker knows, sorted."""
    found: set[str] = set()
    for broker in await admin.brokers():
        found.update(await admin.groups(broker))
    return sorted(found)


async def _owned(admin: Admin, group: str, client_id: str) -> set[MessageQueue] | None:
    """A member's queues; None when it does not answer, for example because it is frozen."""
    try:
        info = await admin.consumer_running_info(group, client_id)
    # Any error: one member's failure must not hide the others.
    except PocketMQError:
        return None
    # A dropped queue was given up, and has another owner.
    return {parse_mq_key(key) for key, held in info.mq_table.items() if not held.droped}


async def _bounds(admin: Admin, topic: str) -> Mapping[MessageQueue, int]:
    """Ends of a topic's queues; empty when the topic does not exist (yet)."""
    if await admin.route(topic) is None:
        return {}
    return {queue: each.max_offset for queue, each in (await admin.topic_stats(topic)).items()}


def _member(
    client_id: str, connections: Mapping[str, ConsumerConnection], *, answers: bool
) -> MemberView:
    here = {
        broker: each
        for broker, found in connections.items()
        for each in found.connection_set
        if each.client_id == client_id
    }
    first = next(iter(here.values()))
    return MemberView(
        client_id, first.client_addr, first.language, first.version, tuple(here), answers
    )
