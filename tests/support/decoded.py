"""A recording that is in memory, read at once."""

from __future__ import annotations

from pocketmq.operation.events import Event
from pocketmq.operation.events.recording import RecordingHeader, RecordingReader


def decode_recording(data: bytes) -> tuple[RecordingHeader | None, list[Event], list[str]]:
    """What a reader makes of a whole recording: header, events, problems."""
    reader = RecordingReader()
    lines = reader.feed(data)
    reader.finish()
    return reader.header, [line.event for line in lines], reader.problems
