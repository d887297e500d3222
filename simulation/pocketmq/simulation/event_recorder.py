"""Takes the events of roles that share one loop, in the order in which they happen. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pocketmq.operation.events.event import Event
from pocketmq.operation.events.sink import EventSink, Stamp


class EventRecorder:
    """Makes sinks, and passes all their events on, each of them.

    Args:
        write: Takes the next event.
        now_us: Their common time in microseconds; virtual in a simulation.
    """

    def __init__(self, write: Callable[[Event], None], now_us: Callable[[], int]) -> None:
        self._write = write
        self._now_us = now_us

    def sink(self, by: str, now_ms: Callable[[], int]) -> EventSink:
        """The sink of one role or client; a `SinkMaker`."""
        return _RecordingSink(by, now_ms, self._now_us, self._write)


class _RecordingSink(EventSink):
    """Always on, and tells each event."""

    is_on: Final = True

    def __init__(
        self,
        by: str,
        now_ms: Callable[[], int],
        now_us: Callable[[], int],
        write: Callable[[Event], None],
    ) -> None:
        self._by = by
        self._now_ms = now_ms
        self._now_us = now_us
        self._seq = 0
        self._write = write

    def stamp(self) -> Stamp:
        self._seq += 1
        return Stamp(self._now_ms(), self._by, self._seq, self._now_us())

    def emit(self, event: Event) -> None:
        self._write(event)

    def wants(self, kind: type[Event], number: int = 0) -> bool:
        return True
