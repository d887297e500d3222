"""The index of a recording: what happens in each tenth of a second, and where its lines are. Pure.

A page loads the index first, draws the time line from it, and fetches the lines of a frame by
their range of bytes (`offset`, `size`). Frames follow each other in the file; a new one begins with
the next tenth of protocol or real time. Times at which nothing happened have no frame.

    {"pocketmq_index":1,"bytes":8123,"events":51,"frame_ms":100,"began_ms":...,"ended_ms":...,
     "frames":[{"at_ms":...,"real_us":...,"offset":2210,"size":871,"events":6,
                "counts":{"message-stored":{"broker-a orders/0":4},"clock-moved":{"cluster":1}}}]}
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from pocketmq.operation.events.event import Event
from pocketmq.operation.events.recording import Line
from pocketmq.operation.events.roles import EventsCounted

INDEX_VERSION: Final = 1

FRAME_MS: Final = 100

MOST_PER_FRAME: Final = 2000
"""Lines: time may stand still for long."""


class Frame(msgspec.Struct):
    """Lines that follow each other."""

    at_ms: int
    """Protocol time of the first."""
    real_us: int
    """Real time of the first."""
    offset: int
    """Byte at which the first begins."""
    size: int = 0
    """Bytes of all of them."""
    events: int = 0
    """Lines."""
    counts: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    """Events by name, then by who said it, with the queue where there is one: `broker-a orders/0`.
    Those that were only counted (`events-counted`) are among those of their own name."""


class RecordingIndex(msgspec.Struct):
    """What lies beside a recording."""

    pocketmq_index: int
    bytes: int
    """Of the recording; another size: the index is of another one."""
    events: int
    frame_ms: int
    began_ms: int
    ended_ms: int
    frames: list[Frame]


class IndexBuilder:
    """Makes an index while lines are written or read.

    Args:
        began_ms: Of the recording's header.
    """

    def __init__(self, began_ms: int) -> None:
        self._began_ms = began_ms
        self._ended_ms = began_ms
        self._events = 0
        self._frames: list[Frame] = []
        self._bucket: tuple[int, int] | None = None

    def add(self, event: Event, offset: int, size: int) -> None:
        """The next line.

        Args:
            event: That it holds.
            offset: Byte at which it begins.
            size: Its bytes, its end included.
        """
        # Both times count: on a manual clock, protocol time may stand still or jump.
        bucket = (event.at_ms // FRAME_MS, event.real_us // (FRAME_MS * 1000))
        # A frame is loaded as a whole, so one moment with very many events is cut.
        if bucket != self._bucket or self._frames[-1].events >= MOST_PER_FRAME:
            self._bucket = bucket
            self._frames.append(Frame(event.at_ms, event.real_us, offset))
        frame = self._frames[-1]
        frame.events += 1
        # The frame ends with this line; unreadable lines before it may belong to the frame.
        frame.size = offset + size - frame.offset
        # Counted events appear as the kind that they count, or a time line would show load as
        # silence.
        if isinstance(event, EventsCounted):
            kind, number = event.kind, event.count
        else:
            kind, number = event.name(), 1
        places = frame.counts.setdefault(kind, {})
        place = _place(event)
        places[place] = places.get(place, 0) + number
        self._events += 1
        # Roles' clocks differ a little, so the last line is not always the latest.
        self._ended_ms = max(self._ended_ms, event.at_ms)

    def index(self, recording_bytes: int) -> RecordingIndex:
        """Of all lines so far; the recording has so many bytes."""
        return RecordingIndex(
            INDEX_VERSION,
            recording_bytes,
            self._events,
            FRAME_MS,
            self._began_ms,
            self._ended_ms,
            self._frames,
        )


def index_of(began_ms: int, lines: Iterable[Line], recording_bytes: int) -> RecordingIndex:
    """The index of a recording that was read, also of one that is partly unreadable.

    Args:
        began_ms: Of its header.
        lines: That could be read.
        recording_bytes: Its size.
    """
    builder = IndexBuilder(began_ms)
    for line in lines:
        builder.add(line.event, line.offset, line.size)
    return builder.index(recording_bytes)


def encode_index(index: RecordingIndex) -> bytes:
    """As it lies in `FILE.index.json`."""
    return msgspec.json.encode(index)


def decode_index(data: bytes, recording_bytes: int) -> RecordingIndex | None:
    """None when it cannot be used, so that it has to be made anew from the recording.

    Args:
        data: Of `FILE.index.json`.
        recording_bytes: Size of `FILE`.
    """
    try:
        index = msgspec.json.decode(data, type=RecordingIndex)
    # The file may be somebody else's, and nested too deeply for the parser.
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    # With another size the recording has changed since, and offsets may point into lines.
    if index.pocketmq_index != INDEX_VERSION or index.bytes != recording_bytes:
        return None
    return index


def _place(event: Event) -> str:
    topic: str | None = getattr(event, "topic", None)
    queue: int | None = getattr(event, "queue", None)
    if topic is None or queue is None:
        return event.by
    return f"{event.by} {topic}/{queue}"
