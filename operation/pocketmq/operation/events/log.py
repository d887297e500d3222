"""`EventLog`: keeps the last events of one role, until somebody fetches them. Pure.

It is off until it is read for the first time, and off again when nobody reads it any more; one that
keeps everything from the start is for who wants a whole recording. It never grows beyond a bound:
who reads too late is told how many events it has missed.

At thousands of messages a second, telling each of them would cost more than handling it. Then only
a sample is told one by one: of every 2nd, 4th, 8th, ... message, by the counter of its unique key,
so that a message of the sample has all its events. The others are counted, and `EventsCounted`
tells their number every half second.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, NamedTuple

from pocketmq.operation.events.event import Event
from pocketmq.operation.events.roles import EventsCounted
from pocketmq.operation.events.sink import Counted, Place, Stamp

MOST_EVENTS: Final = 20_000
"""Kept for who reads."""

MOST_PER_READ: Final = 2_000

LEASE_US: Final = 10_000_000
"""It stays on for so long after a reading."""

WINDOW_US: Final = 100_000
"""So often the sample is chosen anew."""

COUNTS_US: Final = 500_000
"""Counted events are told so often."""

SINGLE_PER_WINDOW: Final = 2
"""Events of one kind in a window that are told one by one in the long run."""

MOST_SAVED: Final = 300
"""So many more may come at once, after a time in which fewer came, before it becomes a sample."""

NONE_MASK: Final = (1 << 62) - 1
"""Hardly any number has none of these bits."""

MOST_FACTS: Final = 1_000
"""The oldest is given up."""

MOST_LEVEL: Final = 12
"""At most one message of 2**12 is told: the counter of a key has 16 bits."""


_EVERY: Final = 7
"""Of the calls for a kind, every 8th looks whether the window is over."""


class Reading(NamedTuple):
    """What a reader gets."""

    events: list[Event]
    """Those behind the one that it knew, oldest first."""
    missed: int
    """So many before them were forgotten."""
    last: int
    """Number of the last of them: what to ask for next."""
    now_us: int
    """When it was read; later events have at least this `real_us`."""


class EventLog:
    """An `EventSink` that remembers.

    Args:
        by: The name of the role or client.
        now_ms: Its protocol time.
        now_us: Real time of the machine; virtual time in a simulation.
        always: On from the start, and never off.
        samples: Tell only a sample of frequent events; else every event is told.
        most: Events kept.
    """

    def __init__(
        self,
        by: str,
        now_ms: Callable[[], int],
        now_us: Callable[[], int],
        *,
        always: bool = False,
        samples: bool = True,
        most: int = MOST_EVENTS,
    ) -> None:
        self.is_on = always
        self.by = by
        self._now_ms = now_ms
        self._now_us = now_us
        self._always = always
        self._samples = samples
        self._events: deque[Event] = deque(maxlen=most)
        self._seq = 0
        self._off_us = 0
        self._window_us = 0
        self._counts_us = 0
        self._rates: dict[type[Event], _Rate] = {}
        self._counted: dict[tuple[type[Event], Place], Counted] = {}
        self._facts: OrderedDict[str, Callable[[Stamp], Event]] = OrderedDict()

    # -- from the role ----------------------------------------------------------------------

    def stamp(self) -> Stamp:
        self._seq += 1
        return Stamp(self._now_ms(), self.by, self._seq, self._now_us())

    def emit(self, event: Event) -> None:
        self._events.append(event)

    def fact(self, key: str, make: Callable[[Stamp], Event]) -> None:
        # Remove an older one first, so that the newest fact stands last and the oldest is dropped.
        self._facts.pop(key, None)
        self._facts[key] = make
        if len(self._facts) > MOST_FACTS:
            self._facts.popitem(last=False)
        # Without a reader the fact is only kept, for those who begin to read later.
        if self.is_on:
            self.emit(make(self.stamp()))

    def wants(self, kind: type[Event], number: int = 0) -> bool:
        if not self._samples:
            return True
        rate = self._rates.get(kind)
        if rate is None:
            rate = self._rates[kind] = _Rate()
        seen = rate.seen = rate.seen + 1
        if seen & _EVERY == 1:  # a clock is not asked for nothing
            self._look_at_time()
            # `_look_at_time` may have turned the log off.
            if not self.is_on:
                return False
        # The sample was chosen by the last window, and a burst may exceed the bound of this one.
        if number & rate.mask or rate.told >= rate.most:
            return False
        rate.told += 1
        return True

    def mask(self, kind: type[Event], count: int) -> int:
        if not self._samples:
            return 0
        rate = self._rates.get(kind)
        if rate is None:
            rate = self._rates[kind] = _Rate()
        before = rate.seen
        seen = rate.seen = before + count
        # Look when the count begins or crosses a multiple of eight.
        if (seen ^ before) & ~_EVERY or not before:
            self._look_at_time()
        # The mask lets this many of `count` through, on average.
        rate.told += (count + rate.mask) // (rate.mask + 1)
        # Over the bound none is reported: a part would not show whole messages.
        return rate.mask if rate.told <= rate.most else NONE_MASK

    def counter(self, kind: type[Event], place: Place) -> Counted:
        counted = self._counted.get((kind, place))
        if counted is None:
            counted = self._counted[kind, place] = Counted()
        return counted

    def count(self, kind: type[Event], place: Place, messages: int = 1, size: int = 0) -> None:
        self.counter(kind, place).add(messages, size)

    # -- to the reader ----------------------------------------------------------------------

    def read(self, after: int, most: int = MOST_PER_READ) -> Reading:
        """The events behind number `after`; turns the log on for a while.

        Args:
            after: The number of the last event that is known; 0 for all that are kept, -1 for
                those from now on, and facts if nobody has read for long. A number that there is
                not yet, of an earlier life of the role, is as 0.
            most: Events at once.
        """
        now_us, before = self._now_us(), self._seq
        # The lease may have ended without an event that noticed.
        was_on = self.is_on and (self._always or now_us < self._off_us)
        self._off_us = now_us + LEASE_US
        self.is_on = True
        if not was_on:
            # A new reader has missed the events behind these facts. Iterate over a copy: the role
            # adds facts in its own thread.
            for make in list(self._facts.values()):
                self.emit(make(self.stamp()))
        if now_us >= self._counts_us:
            self._counts_us = now_us + COUNTS_US
            self._tell_counted()
        if after < 0:
            # A reader that begins now also gets the facts, whose numbers come after `before`.
            return Reading([], 0, self._seq if was_on else before, now_us)
        if after > self._seq:
            # The role was started again and counts from 1: all its events are new.
            after = 0
        if after == self._seq:
            return Reading([], 0, after, now_us)
        found, first = self._behind(after, most)
        # A first read of a log that was off has missed nothing.
        missed = max(0, first - after - 1) if after or self._always else 0
        last = found[-1].seq if found else self._seq
        return Reading(found, missed, last, now_us)

    def _behind(self, after: int, most: int) -> tuple[list[Event], int]:
        """The events behind number `after`, and the number of the first that is kept."""
        events, last = self._events, self._seq
        kept = len(events)
        # Numbers in the deque have no gaps, so an index follows from a number.
        begin = max(0, kept - (last - after))
        found = [events[at] for at in range(begin, min(kept, begin + most))]
        # Both ends are compared: the role's thread may have pushed events out at the front
        # meanwhile.
        if (
            found
            and found[0].seq == max(after + 1, last - kept + 1) == found[-1].seq - len(found) + 1
        ):
            return found, last - kept + 1
        copied = list(events)  # at once: the role has told more in its thread meanwhile
        first = copied[0].seq if copied else last + 1
        return [each for each in copied if each.seq > after][:most], first

    # -- inside -----------------------------------------------------------------------------

    def _look_at_time(self) -> None:
        now_us = self._now_us()
        if now_us >= self._window_us:
            self._next_window(now_us)

    def _next_window(self, now_us: int) -> None:
        # After a pause several windows have passed, in which nothing came.
        windows = max(1, (now_us - self._window_us) // WINDOW_US + 1)
        self._window_us = now_us + WINDOW_US
        if not self._always and now_us >= self._off_us:
            # Nobody has read for the whole lease: events would cost the role and serve nobody.
            self.is_on = False
            self._events.clear()
            self._rates.clear()
            # Reset the counters but keep them: the role holds references to them.
            for counted in self._counted.values():
                counted.count = counted.messages = counted.size = 0
            return
        for rate in self._rates.values():
            rate.next_window(windows)
        if now_us >= self._counts_us:
            self._counts_us = now_us + COUNTS_US
            self._tell_counted()

    def _tell_counted(self) -> None:
        at_ms, now_us = self._now_ms(), self._now_us()
        # A copy, since the role's thread adds places meanwhile.
        for (kind, place), counted in list(self._counted.items()):
            count, messages, size = counted.count, counted.messages, counted.size
            if not count:
                continue
            # What the role's thread has added meanwhile stays.
            counted.count -= count
            counted.messages -= messages
            counted.size -= size
            # `stamp` would read two clocks for each place.
            self._seq += 1
            event = EventsCounted(
                at_ms,
                self.by,
                self._seq,
                now_us,
                kind=kind.name(),
                count=count,
                topic=place.topic,
                queue=place.queue,
                broker=place.broker,
                group=place.group,
                messages=messages,
                size=size,
            )
            self.emit(event)


class _Rate:
    """How many events of a kind come, and which part of them is told."""

    __slots__ = ("mask", "most", "seen", "told")

    def __init__(self) -> None:
        self.mask = 0
        """Messages whose number has none of these bits are told."""
        self.most = MOST_SAVED
        """Events that may be told in this window."""
        self.seen = 0
        self.told = 0

    def next_window(self, windows: int) -> None:
        """Choose the sample of the next window by what came in the one before."""
        per_window = self.seen / windows
        # What was not used is saved for a burst, up to `MOST_SAVED`.
        saved = max(0, self.most - self.told) + SINGLE_PER_WINDOW * windows
        self.most = min(saved, MOST_SAVED)
        level = 0
        # Halve the sample until it fits: all roles choose by the same bits, so a coarser sample is
        # part of a finer one.
        while per_window / (1 << level) > self.most and level < MOST_LEVEL:
            level += 1
        self.mask = (1 << level) - 1
        self.seen = self.told = 0
