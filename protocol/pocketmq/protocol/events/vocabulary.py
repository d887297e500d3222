"""Every event, with its fields and the rule that it shows. Pure.

An event's name is its class's in kebab case (`broker-registered`); that is the `event` of a
server-sent event, and its fields are the `data`, as JSON.
"""

from __future__ import annotations

from typing import ClassVar, Final

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all events."""

    NAME: ClassVar[str] = ""
    RULE: ClassVar[str | None] = None
    """Of docs/rules, where the event shows one."""

    at_ms: int
    """Protocol time of the cluster."""


class RoleStarted(Event, frozen=True, kw_only=True):
    """A role began a life, or goes on after it was frozen."""

    NAME: ClassVar[str] = "role-started"

    role: str


class RoleStopped(Event, frozen=True, kw_only=True):
    """A role has ended, or stands still."""

    NAME: ClassVar[str] = "role-stopped"

    role: str
    how: str
    """`ended` or `frozen`."""


class BrokerRegistered(Event, frozen=True, kw_only=True):
    """A nameserver knows a broker that it did not know before."""

    NAME: ClassVar[str] = "broker-registered"
    RULE: ClassVar[str | None] = "B-2"

    broker: str
    nameserver: str


class BrokerForgotten(Event, frozen=True, kw_only=True):
    """A nameserver has dropped a broker: silent for too long, or its connection closed."""

    NAME: ClassVar[str] = "broker-forgotten"
    RULE: ClassVar[str | None] = "N-21"

    broker: str
    nameserver: str


class ClockMoved(Event, frozen=True, kw_only=True):
    """A manual clock was moved."""

    NAME: ClassVar[str] = "clock-moved"

    from_ms: int


class FaultFired(Event, frozen=True, kw_only=True):
    """A fault rule fired at a request or at the disk."""

    NAME: ClassVar[str] = "fault-fired"

    rule: str
    do: str
    role: str
    code: int | None = None
    topic: str | None = None
    group: str | None = None
    path: str | None = None


class MemberJoined(Event, frozen=True, kw_only=True):
    """A consumer is a member of a group."""

    NAME: ClassVar[str] = "member-joined"
    RULE: ClassVar[str | None] = "B-24"

    group: str
    client_id: str


class MemberLeft(Event, frozen=True, kw_only=True):
    """A consumer is no member of its group any more."""

    NAME: ClassVar[str] = "member-left"
    RULE: ClassVar[str | None] = "B-26"

    group: str
    client_id: str


class Rebalanced(Event, frozen=True, kw_only=True):
    """A member owns other queues than before."""

    NAME: ClassVar[str] = "rebalanced"
    RULE: ClassVar[str | None] = "C-22"

    group: str
    client_id: str
    queues: list[str]
    """`topic broker/queue`, sorted."""


VOCABULARY: Final[tuple[type[Event], ...]] = (
    RoleStarted,
    RoleStopped,
    BrokerRegistered,
    BrokerForgotten,
    ClockMoved,
    FaultFired,
    MemberJoined,
    MemberLeft,
    Rebalanced,
)
"""All of them."""
