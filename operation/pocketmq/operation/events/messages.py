"""Events in the life of a message, in the order in which they happen to it. Pure.

Sent, stored, dispatched and consumed find each other by `unique_key`, and from `message-stored` on
by `topic`, `broker`, `queue` and `offset` as well. Where an event is about a run of messages, these
are `count` of one queue, from `offset` on.
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from pocketmq.operation.events.event import Event

Consumed: TypeAlias = Literal["success", "later", "suspend"]
"""What the listener said; `later` and `suspend`: it comes again."""

Woken: TypeAlias = Literal["arrived", "deadline", "topic-deleted", "master-returned"]


class OfQueue(Event, frozen=True, kw_only=True):
    """Base of those that happen to a queue."""

    topic: str
    broker: str
    queue: int


class OfPull(OfQueue, frozen=True, kw_only=True):
    """Base of those about a pull that waits."""

    offset: int
    group: str
    peer: str
    """Address of the consumer's connection."""


class MessageSent(OfQueue, frozen=True, kw_only=True):
    """A producer sends a message to a queue; a second try is a second event."""

    RULE: ClassVar[str | None] = "P-30"

    unique_key: str
    client_id: str
    group: str
    """Of producers."""
    size: int
    """Bytes of the body."""
    keys: str | None = None
    tags: str | None = None
    count: int = 1
    """Messages of the batch."""
    batched: list[str] = []  # noqa: RUF012 - msgspec copies empty defaults
    """Of a batch: the unique keys of its other messages, which follow in the queue."""


class SendAnswered(OfQueue, frozen=True, kw_only=True):
    """A producer has the answer to a send."""

    RULE: ClassVar[str | None] = "B-144"

    unique_key: str
    client_id: str
    status: str
    """SEND_OK and its kin; else the name of what went wrong."""
    offset: int | None = None
    """Queue offset, of what is stored."""


class MessageStored(OfQueue, frozen=True, kw_only=True):
    """A message is in the commit log of a broker."""

    RULE: ClassVar[str | None] = "S-5"

    offset: int
    physical_offset: int
    size: int
    """Bytes of the record."""
    unique_key: str | None = None
    keys: str | None = None
    attempt: int = 0
    """How often it was consumed in vain before: `reconsumeTimes`."""


class MessageDispatched(OfQueue, frozen=True, kw_only=True):
    """Messages are in their consume queue: from now on they can be pulled."""

    RULE: ClassVar[str | None] = "S-20"

    offset: int
    count: int
    physical_end: int
    """Physical offset behind the last of them."""


class MessagePulled(OfQueue, frozen=True, kw_only=True):
    """A broker answers a pull with messages, or a pop."""

    RULE: ClassVar[str | None] = "B-64"

    offset: int
    count: int
    size: int
    """Bytes of the records."""
    group: str
    end: int | None = None
    """It has `count` of the messages from `offset` to before `end`: a filter may have left some
    out."""
    peer: str | None = None
    """Address of the consumer's connection."""
    client_id: str | None = None
    how: Literal["pull", "pop"] = "pull"


class PullHeld(OfPull, frozen=True, kw_only=True):
    """A pull found nothing, and waits at the broker."""

    RULE: ClassVar[str | None] = "B-70"


class PullWoken(OfPull, frozen=True, kw_only=True):
    """A held pull waits no longer: it is carried out again."""

    RULE: ClassVar[str | None] = "B-72"

    trigger: Woken


class MessageConsumed(OfQueue, frozen=True, kw_only=True):
    """A listener has returned.

    `topic` is as the listener saw it: of a retry the topic that it came from first, while `queue`
    and `offset` are those of the retry topic.
    """

    RULE: ClassVar[str | None] = "C-54"

    offset: int
    group: str
    client_id: str
    status: Consumed
    unique_key: str | None = None
    attempt: int = 0
    physical_offset: int | None = None


class MessageAcknowledged(OfQueue, frozen=True, kw_only=True):
    """A broker took the acknowledgement of a message that was popped."""

    RULE: ClassVar[str | None] = "K-51"

    offset: int
    group: str


class OfReturned(Event, frozen=True, kw_only=True):
    """Base of those about a message that could not be consumed."""

    topic: str
    """In which it comes again, or lies as a dead letter."""
    broker: str
    group: str
    origin_topic: str
    attempt: int
    """Tries that are behind it, this one included."""
    unique_key: str | None = None


class MessageSentBack(OfReturned, frozen=True, kw_only=True):
    """A consumer could not consume a message; it comes again by the group's retry topic."""

    RULE: ClassVar[str | None] = "B-83"

    physical_offset: int
    """Of the message that was sent back."""
    delay_level: int


class MessageDead(OfReturned, frozen=True, kw_only=True):
    """A message has used up its tries; it lies in the group's dead letter topic."""

    RULE: ClassVar[str | None] = "B-83"

    physical_offset: int | None = None
    """Of the message that was sent back; None: the consumer sent it to the retry topic itself."""


class OffsetCommitted(OfQueue, frozen=True, kw_only=True):
    """A broker took the offset of a group: the next message to consume."""

    RULE: ClassVar[str | None] = "B-32"

    offset: int
    group: str
    before: int | None = None


class StoreFlushed(Event, frozen=True, kw_only=True):
    """The commit log is on the disk up to an offset: a power cut takes only what lies behind."""

    RULE: ClassVar[str | None] = "S-50"

    broker: str
    physical_from: int
    physical_to: int
    physical_end: int | None = None
    """End of the log, where somebody who begins to watch has asked for it."""
    dispatched: int | None = None
    """Physical offset up to which consume queues have the log; asked for likewise."""
