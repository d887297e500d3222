"""Events of nameservers, brokers and controllers, of the clock, and of faults. Pure."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from pocketmq.operation.events.event import Event

Forgotten: TypeAlias = Literal["expired", "closed", "unregistered"]
"""Why a nameserver dropped a broker."""


Elected: TypeAlias = Literal["first", "closed", "silent", "lost", "asked", "designated"]
"""Why a master was elected: the name had none before; the connection of the one before closed; it
was silent for too long; a controller that leads anew found it dead; a replica asked, for there was
none; a tool designated this one, or a master whose disk failed."""


class RoleStarted(Event, frozen=True, kw_only=True):
    """A role began a life, or goes on after it was frozen."""

    role: str
    kind: str | None = None
    """`nameserver`, `controller` or `broker`; None: its name says it."""


class RoleStopped(Event, frozen=True, kw_only=True):
    """A role has ended, or stands still."""

    role: str
    how: str
    """`ended` or `frozen`."""


class OfRegistration(Event, frozen=True, kw_only=True):
    """Base of those that a nameserver tells of a broker."""

    broker: str
    nameserver: str
    broker_id: int = 0
    address: str | None = None


class BrokerRegistered(OfRegistration, frozen=True, kw_only=True):
    """A nameserver knows a broker that it did not know before."""

    RULE: ClassVar[str | None] = "B-2"


class BrokerForgotten(OfRegistration, frozen=True, kw_only=True):
    """A nameserver has dropped a broker: silent for too long, or its connection closed."""

    RULE: ClassVar[str | None] = "N-21"

    how: Forgotten


class RoleChanged(Event, frozen=True, kw_only=True):
    """A broker became a master or a slave, or a slave acts as master from now on."""

    RULE: ClassVar[str | None] = "H-1"

    broker: str
    broker_id: int
    role: str
    """`ASYNC_MASTER`, `SYNC_MASTER`, `SLAVE`, or `ACTING_MASTER`: a slave while there is none.
    `MASTER` of one that was not seen to begin."""


class MasterElected(Event, frozen=True, kw_only=True):
    """The controllers agreed on the master of a broker name."""

    RULE: ClassVar[str | None] = "D-25"

    broker: str
    broker_id: int | None
    epoch: int
    in_sync: list[int]
    """Broker ids whose log has all that was acknowledged."""
    why: Elected | None = None
    """None: of a recording that does not say it."""


class LeaderElected(Event, frozen=True, kw_only=True):
    """A controller leads the others, in a new term."""

    controller: str
    term: int


class ClockMoved(Event, frozen=True, kw_only=True):
    """A manual clock was moved."""

    from_ms: int


class FaultBegan(Event, frozen=True, kw_only=True):
    """A fault rule holds from now on."""

    rule: str
    do: str
    role: str | None = None
    """Where; None: at every role."""
    other: str | None = None
    """Of a partition: from whom `role` is cut off, a role, `others` (all of them) or `clients`."""


class FaultEnded(Event, frozen=True, kw_only=True):
    """A fault rule was taken back."""

    rule: str


class FaultFired(Event, frozen=True, kw_only=True):
    """A fault rule fired at a request or at the disk."""

    rule: str
    do: str
    role: str
    code: int | None = None
    topic: str | None = None
    group: str | None = None
    path: str | None = None


class TroubleBegan(Event, frozen=True, kw_only=True):
    """Somebody breaks something, or operates on it: a happening of a simulation."""

    kind: str
    """As `partition`, `power cut`, `slow disk`, `join`."""
    who: str
    """A role or a client."""
    other: str | None = None
    """The other side, or a group."""
    lasts_ms: int = 0


class InvariantViolated(Event, frozen=True, kw_only=True):
    """Something was seen that must never be; the simulation ends with it."""

    words: str


class EventsCounted(Event, frozen=True, kw_only=True):
    """So many events of one kind were counted instead of told, as there were too many at once."""

    kind: str
    """The name of the events."""
    count: int
    """So many events."""
    topic: str
    queue: int
    broker: str | None = None
    group: str | None = None
    messages: int = 0
    """Which are about so many messages,"""
    size: int = 0
    """of so many bytes."""


class EventsDropped(Event, frozen=True, kw_only=True):
    """So many events were lost, because who watches did not fetch them in time."""

    of: str
    """Whose events they were."""
    count: int
