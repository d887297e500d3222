"""Puts a recording, or a part of one, into one HTML file."""

from __future__ import annotations

from pathlib import Path

from pocketmq.cluster.recordings.reader import check_recording, open_recording
from pocketmq.cluster.watch_page.page import MAX_EXPORT_BYTES, TooLargeError, exported_page
from pocketmq.cluster.watching.selection import selected
from pocketmq.operation.events.recording import encode_recording
from pocketmq.runtime.errors import CallerError, DiskError


def export_recording(
    source: Path, target: Path, *, begin_s: float | None = None, end_s: float | None = None
) -> str:
    """Write the page; returns a line about it.

    A recording that is damaged is exported as far as it can be read, and the page says so.

    Raises:
        DiskError: One of the files cannot be read or written.
        TooLargeError: There is too much for a page; select a part.
        CallerError: The file is no recording.
    """
    try:
        if begin_s is None and end_s is None:
            # Checked before it is read, as it may be larger than the memory.
            size = source.stat().st_size
            if size > MAX_EXPORT_BYTES:
                raise TooLargeError(size)
            content = source.read_bytes()
            check_recording(source, content)
        else:
            content = _part(source, begin_s, end_s)
        page = exported_page(content, source.stem).encode()
        target.write_bytes(page)
    except OSError as exc:
        reason = exc.strerror or str(exc)
        raise DiskError(exc.filename or source, reason, advice="name another file") from exc
    return f"{target}: {len(page) / 1e6:.1f} MB, opens in any browser without a server"


def _part(source: Path, begin_s: float | None, end_s: float | None) -> bytes:
    recording = open_recording(source)
    if recording.header is None:
        raise CallerError(f"{source} is not a recording: {'; '.join(recording.problems)}")
    # A new recording, which keeps from before the part only the lasting events.
    return encode_recording(recording.header, selected(recording.events, begin_s, end_s))
