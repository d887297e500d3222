"""Content and addresses of heartbeats (P-4, P-8, B-21).

Pure: `HeartbeatPlan` turns the groups of one client into a body and a list of addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Protocol

from pocketmq.client.routes import RouteTable
from pocketmq.protocol.bodies.clients import ConsumerData, HeartbeatData, ProducerData
from pocketmq.protocol.messages.subscription import SubscriptionData


class MessageModel(Enum):
    """Which members of a group get a message."""

    CLUSTERING = "CLUSTERING"
    """One member."""
    BROADCASTING = "BROADCASTING"
    """Every member."""


class ConsumeType(Enum):
    """Whether the application or the client pulls."""

    ACTIVELY = "CONSUME_ACTIVELY"
    """The application pulls."""
    PASSIVELY = "CONSUME_PASSIVELY"
    """Messages are pushed to a listener."""


class ConsumeFromWhere(Enum):
    """Where a group begins in a queue for which no offset is stored (C-33)."""

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    """After the messages that are there; but see B-34: young queues often begin at 0 anyway."""
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"
    """At `consume_timestamp`, by default half an hour before the consumer was made."""


class ConsumerMember(Protocol):
    """What a heartbeat says of a consumer."""

    @property
    def group(self) -> str: ...
    @property
    def consume_type(self) -> ConsumeType: ...
    @property
    def message_model(self) -> MessageModel: ...
    @property
    def consume_from_where(self) -> ConsumeFromWhere: ...
    @property
    def announced(self) -> Sequence[SubscriptionData]: ...


def heartbeat_data(
    client_id: str, producer_groups: Iterable[str], consumers: Iterable[ConsumerMember]
) -> HeartbeatData | None:
    """The body for every broker; None when there is nothing to tell (P-8)."""
    producers = [ProducerData(group_name=group) for group in producer_groups]
    consumer_datas = [
        ConsumerData(
            group_name=consumer.group,
            consume_type=consumer.consume_type.value,
            message_model=consumer.message_model.value,
            consume_from_where=consumer.consume_from_where.value,
            subscription_data_set=list(consumer.announced),
        )
        for consumer in consumers
    ]
    if not producers and not consumer_datas:
        return None
    return HeartbeatData(
        client_id=client_id, producer_data_set=producers, consumer_data_set=consumer_datas
    )


# behaviour 7
def heartbeat_addresses(routes: RouteTable, *, has_consumers: bool) -> list[tuple[str, int, str]]:
    """Every known broker; with nothing but producers only the masters (P-8)."""
    return routes.addresses(masters_only=not has_consumers)
