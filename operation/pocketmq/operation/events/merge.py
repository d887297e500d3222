"""Puts the events of several roles into causal order. Pure.

Each role is asked in turn, and says with its events up to when it has told all (`now_us`). An event
is passed on when every role has told all up to its time: nothing that happened before it can come.
"""

from __future__ import annotations

from collections.abc import Iterable

from pocketmq.operation.events.event import Event


class EventMerge:
    """Collects, and passes on what is complete."""

    def __init__(self) -> None:
        self._kept: list[Event] = []
        self._told_us: dict[str, int] = {}

    def took(self, source: str, events: Iterable[Event], now_us: int) -> None:
        """A source told its events, which are all up to `now_us`."""
        self._kept += events
        self._told_us[source] = now_us

    def expect(self, source: str, now_us: int) -> None:
        """A source is about to tell events, from now on."""
        # `setdefault`: a source that has reported already must not be set back.
        self._told_us.setdefault(source, now_us)

    def gone(self, source: str) -> None:
        """Do not wait for a source any more: it has ended, or does not answer."""
        self._told_us.pop(source, None)

    def ready(self) -> list[Event]:
        """The events that are complete, in the order in which they happened."""
        # Equal real times are ordered by role and number, so that two runs give one order.
        kept = sorted(self._kept, key=_order)
        # The slowest source decides: it may still report something earlier.
        upto = min(self._told_us.values(), default=None)
        ends = len(kept) if upto is None else sum(each.real_us <= upto for each in kept)
        self._kept = kept[ends:]
        return kept[:ends]


def _order(event: Event) -> tuple[int, str, int]:
    return event.real_us, event.by, event.seq
