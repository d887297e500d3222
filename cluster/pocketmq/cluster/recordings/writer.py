"""Writes a recording, and its index beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pocketmq.operation.events.event import Event
from pocketmq.operation.events.frames import IndexBuilder, encode_index
from pocketmq.operation.events.recording import encode_line, header_of
from pocketmq.runtime.errors import DiskError


def index_path(recording: Path) -> Path:
    """`FILE.index.json`."""
    return recording.with_name(recording.name + ".index.json")


class RecordingWriter:
    """Writes events to a file as they come; `close` writes the index.

    A file that was not closed is a whole recording all the same: who reads makes the index anew.

    Args:
        path: The file; one that is there is replaced.
        cluster: What is recorded: the name of a cluster, or `seed 17`.
        began_ms: Protocol time now.
        roles: Those that are there now.

    Raises:
        DiskError: It cannot be written there.
    """

    def __init__(self, path: Path, cluster: str, began_ms: int, roles: Sequence[str]) -> None:
        self.path = path
        self.events = 0
        """Written so far."""
        header = encode_line(header_of(cluster, began_ms, roles))
        try:
            # Buffered, as there may be thousands of events; readers accept a file that is cut off.
            self._file = path.open("wb")
            self._file.write(header)
        except OSError as exc:
            raise _cannot(path, exc) from exc
        self._bytes = len(header)
        self._index = IndexBuilder(began_ms)

    def write(self, event: Event) -> None:
        """Append an event; those that were written before must have happened before.

        Raises:
            DiskError: It cannot be written.
        """
        line = encode_line(event)
        try:
            self._file.write(line)
        except OSError as exc:
            raise _cannot(self.path, exc) from exc
        # Only events in the file: otherwise the index would point past its end.
        self._index.add(event, self._bytes, len(line))
        self._bytes += len(line)
        self.events += 1

    def close(self) -> None:
        """Write the index, and release the file.

        Raises:
            DiskError: It cannot be written.
        """
        try:
            # The file is closed first, so that it has all bytes that the index refers to.
            self._file.close()
            index_path(self.path).write_bytes(encode_index(self._index.index(self._bytes)))
        except OSError as exc:
            raise _cannot(self.path, exc) from exc

    def __enter__(self) -> RecordingWriter:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


def _cannot(path: Path, exc: OSError) -> DiskError:
    return DiskError(path, exc.strerror or str(exc), advice="choose another file to record to")
