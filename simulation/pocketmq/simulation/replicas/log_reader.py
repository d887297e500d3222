"""What lies in a replica's log, read past production's own readers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pocketmq.broker.store import MessageStore
from pocketmq.protocol.stored.record_check import RecordKind, check_record


class LogRecord(NamedTuple):
    """One of them."""

    topic: str
    queue_id: int
    queue_offset: int
    key: str
    """Its body."""
    offset: int
    size: int


def log_records(store: MessageStore, start: int = 0) -> Iterator[LogRecord]:
    """All whole records of a log, from an offset on at which one begins."""
    for file in list(store.commit_log.files.files):
        if file.start + file.wrote <= start:
            continue
        view, position = file.view(), max(0, start - file.start)
        while position < file.wrote:
            found = check_record(view, position, file.wrote)
            if found.kind is not RecordKind.RECORD or found.message is None:
                break
            message = found.message
            yield LogRecord(
                message.topic,
                message.queue_id,
                message.queue_offset,
                bytes(message.body).decode(errors="replace"),
                file.start + position,
                found.size,
            )
            position += found.size


def log_bytes(store: MessageStore, start: int, end: int) -> bytes:
    """The bytes of [start, end), over the borders of files."""
    pieces: list[bytes] = []
    for file in store.commit_log.files.files:
        low, high = max(start, file.start), min(end, file.start + file.wrote)
        if low < high:
            pieces.append(bytes(file.view()[low - file.start : high - file.start]))
    return b"".join(pieces)
