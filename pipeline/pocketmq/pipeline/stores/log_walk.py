"""Finds the records of a log one after the other, for a store whose queues are missing.

Each record has its length in its first field, so this is a loop: 0.1 us per record, besides
reading every page. Behind a broken record it searches for the next valid one, which has the magic
number and contains the log offset at which it lies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from pocketmq.pipeline.columns.fixed_fields import Bytes, Ints
from pocketmq.pipeline.columns.record_columns import ROWS
from pocketmq.pipeline.stores.store_files import FileRow
from pocketmq.protocol.store_layout import FIXED_SIZE, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, RECORD
from pocketmq.protocol.stored.ledger import REST_OF_FILE, record_place
from pocketmq.protocol.stored.record_check import RecordKind, check_record

WINDOW_BYTES: Final = 4 * 1024 * 1024
_HEAD: Final = RECORD.picking("TOTALSIZE", "MAGICCODE", "PHYSICALOFFSET")
_MAGICS: Final = tuple(magic.to_bytes(4, "big", signed=True) for magic in (MAGIC_V1, MAGIC_V2))
_MAGIC_AT: Final = 4
MAX_RECORD_BYTES: Final = 64 * 1024 * 1024
"""A length above this is taken for damage."""


@dataclass(slots=True)
class Window:
    """A part of the log in memory; valid until the next one is requested."""

    buffer: Bytes
    base: int
    """Log offset of the buffer's first byte."""
    positions: Ints
    end: int
    """Log offset behind the last of them."""
    broken: list[tuple[int, str]]
    """(log offset, reason) of the invalid bytes behind the last of these positions, if any."""


def walk(log: FileRow, start: int, end: int) -> Iterator[Window]:
    """The records between two log offsets of one file."""
    size = WINDOW_BYTES
    at = start
    was_cut = False
    while at < end:
        asked = min(size, end - at)
        data = log.read(at, asked)
        # The file was cut since the read was planned, as a broker does that starts after a crash.
        # Without any byte it is one that retention has deleted, whose messages are no loss.
        if len(data) < asked and (bool(data) or at > start):
            end, was_cut = at + len(data), True
        positions, used, reason = _positions(data, at, is_end=at + len(data) >= end)
        broken = []
        if reason == _CUT and size < MAX_RECORD_BYTES and at + len(data) < end and not positions:
            size = MAX_RECORD_BYTES  # one record longer than the window
            continue
        size = WINDOW_BYTES
        next_at = at + used
        # After the blank record at a file's end there is nothing more in the file.
        if reason == _BLANK or not data:
            next_at = end
        elif reason and reason != _CUT:
            broken.append((next_at, reason))
            # The search begins at the next byte, as the length of a broken record proves nothing.
            next_at = _next_sound(log, next_at + 1, end)
        # In the last window, as its end is the cut; the windows before it are whole.
        if was_cut and next_at >= end and not broken:
            broken.append((at + used, "the file was cut here while it was read"))
        buffer = np.frombuffer(data, np.uint8)
        yield Window(buffer, at, np.array(positions, np.int64), at + used, broken)
        at = next_at


_CUT: Final = "cut"
_BLANK: Final = "blank"


def _positions(data: bytearray, base: int, *, is_end: bool) -> tuple[list[int], int, str]:
    """Where records begin, how many bytes they take, and why the next is not among them.

    The reason is empty at the end of the data or after `ROWS` records, `cut` when the next record
    goes on behind the data, `blank` at the end of the file's records, or else what is wrong with
    the next record.
    """
    positions: list[int] = []
    at, limit = 0, len(data)
    unpack = _HEAD.unpack_from
    while limit - at >= FIXED_SIZE and len(positions) < ROWS:
        size, magic, offset = unpack(data, at)
        # A record's offset must equal its position: bytes of a body may look like a record.
        if magic not in (MAGIC_V1, MAGIC_V2) or offset != base + at or size < FIXED_SIZE:
            if magic == MAGIC_BLANK or (magic == 0 and size == 0):
                return positions, at, _BLANK
            place = record_place(data, at, base + at)
            if place == REST_OF_FILE:
                return positions, at, _BLANK
            if place != at:  # the record of an entry that DLedger wrote
                at = place
                continue
            return positions, at, _why_not(data, base, at)
        if size > limit - at:
            # A size beyond the file's end, or beyond any record's, is damage and not just a cut.
            if is_end or size > MAX_RECORD_BYTES:
                return positions, at, f"a record of {size} bytes where {limit - at} are left"
            return positions, at, _CUT
        positions.append(at)
        at += size
    # Less than a head is left: the next record begins after this data.
    if limit - at >= FIXED_SIZE or at == limit:
        return positions, at, ""
    return positions, at, _BLANK if is_end else _CUT


def _why_not(data: bytearray, base: int, at: int) -> str:
    # Without the CRC check, which takes longest: here the lengths show what is wrong.
    found = check_record(memoryview(data), at, check_crc=False)
    if found.kind is RecordKind.RECORD:
        return f"its physical offset is {found.physical_offset}, but it lies at {base + at}"
    return found.reason or "zeros"


def _next_sound(log: FileRow, start: int, end: int) -> int:
    """Log offset of the next record whose physical offset is right, or `end`."""
    at = start
    while at < end:
        data = log.read(at, min(WINDOW_BYTES, end - at))
        if len(data) < FIXED_SIZE:
            return end
        best = len(data)
        for magic in _MAGICS:
            # `find` is fast; only its few hits are checked one by one.
            found = data.find(magic, _MAGIC_AT)
            while 0 <= found < best:
                begin = found - _MAGIC_AT
                if begin + _HEAD.size <= len(data):
                    size, _, offset = _HEAD.unpack_from(data, begin)
                    # A record contains its own position, which other bytes hardly ever match by
                    # chance.
                    if offset == at + begin and size >= FIXED_SIZE:
                        best = begin
                        break
                found = data.find(magic, found + 1)
        if best < len(data):
            return at + best
        if len(data) < WINDOW_BYTES:
            return end
        at += len(data) - _HEAD.size  # a head may lie across the border of two windows
    return end


def sound_end(log: FileRow, start: int) -> int:
    """Log offset behind the last record of the file that begins at `start`."""
    index = log.index(start)
    if index < 0:
        return start
    limit = log.starts[index] + log.lengths[index]
    end = start
    for window in walk(log, start, limit):
        if len(window.positions):
            last = int(window.positions[-1])
            size = int.from_bytes(window.buffer[last : last + 4].tobytes(), "big")
            end = window.base + last + size
    return end
