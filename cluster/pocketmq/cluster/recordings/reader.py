"""Opens a recording as far as it goes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pocketmq.cluster.recordings.writer import index_path
from pocketmq.operation.events.frames import RecordingIndex, decode_index, index_of
from pocketmq.operation.events.recording import Line, RecordingHeader, RecordingReader
from pocketmq.operation.events.vocabulary import AnyEvent
from pocketmq.runtime.errors import CallerError, DiskError

PIECE_BYTES = 1024 * 1024
MOST_INDEX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Recording:
    """What could be opened of a file."""

    header: RecordingHeader | None
    """None: it is no recording."""
    lines: list[Line] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """What could not be opened, a line each."""

    @property
    def events(self) -> list[AnyEvent]:
        """In the order of the file."""
        return [line.event for line in self.lines]


def open_recording(path: Path) -> Recording:
    """Read a recording; what cannot be read is told in its `problems`.

    Raises:
        DiskError: There is no such file, or it cannot be read.
    """
    reader = RecordingReader()
    lines: list[Line] = []
    try:
        with path.open("rb") as file:
            # In pieces: a recording may be large.
            while not reader.is_over and (piece := file.read(PIECE_BYTES)):
                lines += reader.feed(piece)
    except OSError as exc:
        raise DiskError(path, exc.strerror or str(exc), advice="name a recording") from exc
    reader.finish()
    return Recording(reader.header, lines, reader.problems)


def check_recording(path: Path, beginning: bytes) -> None:
    """Refuse a file that does not begin as a recording does.

    Args:
        path: Its name, for the error.
        beginning: Of its bytes, the first line at least.

    Raises:
        CallerError: It is none.
    """
    reader = RecordingReader()
    reader.feed(beginning[:PIECE_BYTES])
    if reader.header is None:
        reader.finish()
        raise CallerError(f"{path} is not a recording: {'; '.join(reader.problems)}")


def open_index(path: Path) -> tuple[RecordingIndex | None, list[str]]:
    """The index of a recording: the file beside it, or made anew where that is not of it.

    Returns:
        The index, None when the file is no recording; and what could not be opened.

    Raises:
        DiskError: There is no such recording, or it cannot be read.
    """
    try:
        size = path.stat().st_size
        beside = index_path(path)
        # A larger index belongs to a recording that is too large to be shown, or to another
        # program.
        if beside.is_file() and beside.stat().st_size <= MOST_INDEX_BYTES:
            # The index contains its recording's size, so one of an earlier file is not used.
            index = decode_index(beside.read_bytes(), size)
            if index is not None:
                return index, []
    except OSError as exc:
        raise DiskError(path, exc.strerror or str(exc), advice="name a recording") from exc
    recording = open_recording(path)
    if recording.header is None:
        return None, recording.problems
    return index_of(recording.header.began_ms, recording.lines, size), recording.problems
