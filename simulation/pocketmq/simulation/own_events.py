"""The events that a simulation tells itself: processes that start and end, trouble, violations."""

from __future__ import annotations

from enum import Enum

from pocketmq.operation.events.roles import (
    InvariantViolated,
    RoleStarted,
    RoleStopped,
    TroubleBegan,
)
from pocketmq.operation.events.sink import EventSink


class OwnEvents:
    """Tells them, if anybody wants events.

    Args:
        events: Takes them.
    """

    def __init__(self, events: EventSink) -> None:
        self._events = events

    def started(self, name: str, kind: str | None = None) -> None:
        """A process began, or goes on after it was frozen."""
        if self._events.is_on:
            self._events.emit(RoleStarted(*self._events.stamp(), role=name, kind=kind))

    def stopped(self, name: str, how: str = "ended") -> None:
        """A process has ended, or is frozen."""
        if self._events.is_on:
            self._events.emit(RoleStopped(*self._events.stamp(), role=name, how=how))

    def trouble(self, kind: Enum, who: str, other: str, lasts_s: float) -> None:
        """Something is broken, or operated on."""
        if self._events.is_on:
            self._events.emit(
                TroubleBegan(
                    *self._events.stamp(),
                    kind=str(kind.value),
                    who=who,
                    other=other or None,
                    lasts_ms=round(lasts_s * 1000),
                )
            )

    def violated(self, error: Exception) -> None:
        """The last event of a run that is wrong."""
        if self._events.is_on:
            self._events.emit(InvariantViolated(*self._events.stamp(), words=str(error)))
