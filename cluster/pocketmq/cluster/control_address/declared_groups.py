"""Types of the answers about consumer groups."""

from __future__ import annotations

import msgspec


class GroupMember(msgspec.Struct, forbid_unknown_fields=True):
    """One client of a group."""

    client_id: str
    address: str
    """Its address as the first broker sees it."""
    language: str
    version: int
    """The client's protocol version, as RocketMQ's number."""
    brokers: list[str]
    """The brokers that have its heartbeat."""
    answers: bool
    """Whether it answered which queues it owns."""


class GroupSubscription(msgspec.Struct, forbid_unknown_fields=True):
    """One topic that a group consumes."""

    topic: str
    expression: str
    expression_type: str


class GroupQueue(msgspec.Struct, forbid_unknown_fields=True):
    """One queue and a group's progress in it."""

    topic: str
    broker: str
    queue: int
    broker_offset: int
    """The offset of the next message to be stored."""
    consumer_offset: int
    """The offset of the next message to be consumed; -1 when none was committed."""
    owners: list[str]
    """Client ids of its owners; several with broadcasting, or briefly during a rebalance."""
    lag: int
    """Messages not consumed yet."""


class GroupDescription(msgspec.Struct, forbid_unknown_fields=True):
    """A consumer group, as `pocketmq group show -o json` prints it."""

    group: str
    consume_type: str
    """`CONSUME_PASSIVELY`, `CONSUME_ACTIVELY` or `CONSUME_POP`; empty without a member."""
    message_model: str
    """`CLUSTERING` or `BROADCASTING`; empty without a member."""
    consume_from_where: str
    members: list[GroupMember]
    subscriptions: list[GroupSubscription]
    queues: list[GroupQueue]
    lag: int
    """Messages not consumed yet, in all queues."""
