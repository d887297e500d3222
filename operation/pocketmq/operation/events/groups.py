"""Events of consumer groups: who is a member, who is told, and who gets which queue. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal, TypeAlias

from pocketmq.operation.events.event import Event
from pocketmq.protocol.messages.message import MessageQueue


def queue_texts(queues: Iterable[MessageQueue]) -> list[str]:
    """Queues as events name them: `topic broker/queue`, sorted."""
    return [
        f"{queue.topic} {queue.broker_name}/{queue.queue_id}"
        for queue in sorted(queues, key=lambda each: (each.topic, each.broker_name, each.queue_id))
    ]


Trigger: TypeAlias = Literal["start", "notification", "period", "other"]
"""What woke a rebalance."""


class OfMember(Event, frozen=True, kw_only=True):
    """Base of those that a member of a group tells."""

    group: str
    client_id: str


class OfMembership(OfMember, frozen=True, kw_only=True):
    """Base of those that a broker tells of a member."""

    broker: str


class MemberJoined(OfMembership, frozen=True, kw_only=True):
    """A consumer is a member of a group, at this broker."""

    RULE: ClassVar[str | None] = "B-24"

    model: str = "CLUSTERING"
    """`BROADCASTING`: every member owns every queue."""


class MemberRefused(OfMembership, frozen=True, kw_only=True):
    """A broker takes no member of this group, and answers success: nothing is consumed."""

    RULE: ClassVar[str | None] = "B-40"

    reason: str
    """What is wrong with the group, as the end of a sentence."""


class MemberLeft(OfMembership, frozen=True, kw_only=True):
    """A consumer is no member of its group any more, at this broker."""

    RULE: ClassVar[str | None] = "B-26"

    how: Literal["unregistered", "closed"]


class MemberSilent(Event, frozen=True, kw_only=True):
    """A broker has not heard of a client for so long that it drops it. Nobody is notified."""

    RULE: ClassVar[str | None] = "B-27"

    client_id: str
    broker: str
    silent_ms: int


class SdkJoined(Event, frozen=True, kw_only=True):
    """A client of RocketMQ 5's SDKs is connected to a gRPC proxy; brokers do not know it."""

    RULE: ClassVar[str | None] = "G-26"

    client_id: str
    proxy: str
    kind: Literal["producer", "consumer"]
    sdk: str
    """Language and version, as `GO 5.1.4`."""
    group: str | None = None
    """Of a consumer."""


class SdkLeft(Event, frozen=True, kw_only=True):
    """A gRPC proxy has forgotten a client."""

    RULE: ClassVar[str | None] = "G-41"

    client_id: str
    proxy: str
    how: Literal["unregistered", "silent"]


class MemberNotified(OfMembership, frozen=True, kw_only=True):
    """A broker tells a member that its group changed."""

    RULE: ClassVar[str | None] = "B-24"


class NotificationHeard(OfMember, frozen=True, kw_only=True):
    """A client was told that a group changed; its rebalance wakes."""

    RULE: ClassVar[str | None] = "C-21"


class RouteLearned(Event, frozen=True, kw_only=True):
    """A client has another route of a topic than before."""

    RULE: ClassVar[str | None] = "P-11"

    client_id: str
    topic: str
    queues: list[str]
    """All that it knows, as `broker/queue`."""


class Allocated(OfMember, frozen=True, kw_only=True):
    """A member has worked out which queues of a topic are its own."""

    RULE: ClassVar[str | None] = "C-22"

    topic: str
    strategy: str
    queues: list[str]
    """All of the topic, in order, as `broker/queue`."""
    members: list[str]
    """All client ids, in order."""
    own: list[str]
    """The part that is its own."""
    arithmetic: str
    """How the strategy came to it, in words."""


class Rebalanced(OfMember, frozen=True, kw_only=True):
    """A member owns other queues than before."""

    RULE: ClassVar[str | None] = "C-25"

    queues: list[str]
    """All that it owns now: `topic broker/queue`, sorted."""
    gained: list[str] = []  # noqa: RUF012 - msgspec copies empty defaults
    lost: list[str] = []  # noqa: RUF012


class QueuesLocked(OfMembership, frozen=True, kw_only=True):
    """A broker was asked for the locks of queues by an ordered consumer."""

    RULE: ClassVar[str | None] = "B-46"

    queues: list[str]
    """Those whose lock it has now: `topic broker/queue`, sorted."""
    refused: list[str] = []  # noqa: RUF012
    """Those that another client holds."""


class QueuesUnlocked(OfMembership, frozen=True, kw_only=True):
    """An ordered consumer gave locks of queues back."""

    RULE: ClassVar[str | None] = "B-48"

    queues: list[str]
