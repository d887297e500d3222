"""Takes the events of roles that share one loop, in the order in which they happen. Pure."""

from __future__ import annotations

from collections.abc import Callable

from pocketmq.protocol.events.event import Event
from pocketmq.protocol.events.sink import EventSink, Stamp


class Recorder:
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


class _RecordingSink:
    """An `EventSink` that is always on."""

    def __init__(
        self,
        by: str,
        now_ms: Callable[[], int],
        now_us: Callable[[], int],
        write: Callable[[Event], None],
    ) -> None:
        self.is_on = True
        self._by = by
        self._now_ms = now_ms
        self._now_us = now_us
        self._seq = 0
        self.emit = write

    def stamp(self) -> Stamp:
        self._seq += 1
        return Stamp(self._now_ms(), self._by, self._seq, self._now_us())

    def wants(self, kind: type[Event], number: int = 0) -> bool:
        return True

    def count(
        self,
        kind: type[Event],
        topic: str,
        queue: int,
        *,
        group: str | None = None,
        messages: int = 1,
        size: int = 0,
    ) -> None:
        pass
