"""Where a role leaves its events: `EventSink`, handed over when the role is built. Pure.

    if events.is_on:  # the one thing that costs anything while nobody watches
        events.emit(PullHeld(*events.stamp(), topic=topic, ...))

`log.py` has the sink that keeps them; `NO_EVENTS` keeps none, and is the default everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, TypeAlias

from pocketmq.operation.events.event import Event


class Stamp(NamedTuple):
    """The fields that all events have; handed to an event's class as `*events.stamp()`."""

    at_ms: int
    by: str
    seq: int
    real_us: int


class Place(NamedTuple):
    """Where events happen that are counted."""

    topic: str
    queue: int
    broker: str
    group: str | None = None


class Counted:
    """How many events of a kind were counted at one place since that was told last."""

    __slots__ = ("count", "messages", "size")

    def __init__(self) -> None:
        self.count = 0
        self.messages = 0
        self.size = 0

    def add(self, messages: int, size: int) -> None:
        """One more event, about so many messages of so many bytes."""
        self.count += 1
        self.messages += messages
        self.size += size


class EventSink(Protocol):
    """Takes the events of one role or client."""

    @property
    def is_on(self) -> bool:
        """Whether anybody wants events; ask before making one."""

    def stamp(self) -> Stamp:
        """Time and number of the next event; each stamp is for one event, to be emitted."""

    def emit(self, event: Event) -> None:
        """Take an event."""

    def fact(self, key: str, make: Callable[[Stamp], Event]) -> None:
        """Tell something that stays true: now, and to whoever begins to read later.

        Args:
            key: The same for what takes the place of an earlier fact.
            make: Makes the event, for each that it is told.
        """
        return

    def wants(self, kind: type[Event], number: int = 0) -> bool:
        """Whether one more of a frequent kind is to be told singly; else `count` it.

        Args:
            kind: The event's class.
            number: Of the message (`sample_number`): of a few messages all events are told,
                whichever role they are of.
        """

    def mask(self, kind: type[Event], count: int) -> int:
        """Announce so many events of a kind, each about a message.

        Returns:
            Those whose `sample_number` has none of these bits are to be told, the others counted.
        """
        return 0

    def counter(self, kind: type[Event], place: Place) -> Counted:
        """Where events are counted that happen very often; it may be kept."""
        return Counted()

    def count(self, kind: type[Event], place: Place, messages: int = 1, size: int = 0) -> None:
        """Count an event that is not told singly; who tells all of them, or none, counts nothing.

        Args:
            kind: The event's class.
            place: Where it happened.
            messages: It is about so many,
            size: of so many bytes.
        """
        return


class NoEvents(EventSink):
    """Takes nothing."""

    is_on: Final = False

    def stamp(self) -> Stamp:
        return Stamp(0, "", 0, 0)

    def emit(self, event: Event) -> None:
        pass

    def wants(self, kind: type[Event], number: int = 0) -> bool:
        return False


NO_EVENTS: Final = NoEvents()


def sample_number(unique_key: str | None, offset: int = 0) -> int:
    """A number that all roles agree on: the counter at the end of the unique key (S-8), where it
    has one, else the offset."""
    if unique_key:
        try:
            # The key ends in a counter, which differs between messages; time and process do not.
            return int(unique_key[-4:], 16)
        # A producer may set any key; then roles that know the offset still agree.
        except ValueError:
            pass
    return offset


SinkMaker: TypeAlias = Callable[[str, Callable[[], int]], EventSink]
"""(by, its protocol time in ms): the sink of one role or client. Who makes roles or clients hands
it over, as their names are known later."""


def no_events(by: str, now_ms: Callable[[], int]) -> EventSink:
    """The `SinkMaker` of those who want none."""
    return NO_EVENTS
