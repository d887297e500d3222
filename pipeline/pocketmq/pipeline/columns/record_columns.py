"""Decodes many stored records into columns, without a Python loop over the records.

Records lie anywhere in one buffer: part of a commit-log file, or the bodies of pull replies. Given
where each begins, NumPy gathers the fixed fields of all of them at once (record_heads.py).
Bodies and property strings become Arrow `binary_view`s that point into the buffer; the cast to
`binary` copies them in C. What few records have (IPv6 hosts, topics over 127 bytes) is corrected in
the rows that have it. Layout of the record: `pocketmq.protocol.stored.record`.

Takes about 100 ns per record. Pass some 16,000 records at a time, so that they stay in the cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pocketmq.pipeline.columns.arrow_arrays import empty, numbers, repeated_text, texts
from pocketmq.pipeline.columns.fixed_fields import Bytes, Ints, gather
from pocketmq.pipeline.columns.record_heads import RecordHeads, body_at, read_heads, without
from pocketmq.protocol.messages.properties import MAX_PROPERTIES_BYTES
from pocketmq.protocol.store_layout import FIXED_SIZE, MAGIC_V2
from pocketmq.protocol.stored.record import MAX_TOPIC_BYTES_V1

_TIMESTAMP: Final = pa.timestamp("us", "UTC")
ROWS: Final = 16_384
"""Records to pass at a time."""

_VIEW: Final = np.dtype([("len", "<i4"), ("prefix", "V4"), ("buffer", "<i4"), ("offset", "<i4")])
_INLINE: Final = 12
_INLINE_VIEW: Final = np.dtype([("len", "<i4"), ("data", f"V{_INLINE}")])
_FIRST_BYTES: Final = np.tri(_INLINE + 1, _INLINE, -1, np.uint8) * np.uint8(255)
"""Row n is a mask that keeps the first n of 8 bytes."""


@dataclass(slots=True)
class RecordColumns(RecordHeads):
    """The valid ones of the requested records: their fixed fields, and where variable parts lie."""

    body_at: Ints
    body_len: Ints
    topic_at: Ints
    topic_len: Ints
    properties_at: Ints
    properties_len: Ints

    def bodies(self) -> pa.Array:
        """Bodies as stored, compressed ones too, as Arrow `binary`."""
        return binary(self.buffer, self.body_at, self.body_len)

    def properties(self) -> pa.Array:
        """Property strings as stored, as Arrow `binary`."""
        return binary(self.buffer, self.properties_at, self.properties_len)

    def topics(self) -> pa.Array:
        """Topic names as Arrow `string`; null where the bytes are no UTF-8."""
        count = len(self)
        if count == 0:
            return empty(pa.string())
        # A range of a queue has one topic, so one comparison of all bytes is enough.
        length = int(self.topic_len[0])
        first = self.buffer[int(self.topic_at[0]) :][:length].tobytes()
        if (self.topic_len == length).all() and self._topics_equal(length, first):
            return repeated_text(_text(first), count)  # nearly always
        # Each distinct name is decoded once, not each record's.
        names = binary(self.buffer, self.topic_at, self.topic_len).dictionary_encode()
        distinct = texts([_text(name.as_py()) for name in names.dictionary])
        return distinct.take(names.indices)

    def topic_is(self, topic: bytes) -> npt.NDArray[np.bool_]:
        """Which records have this topic."""
        found: npt.NDArray[np.bool_] = self.topic_len == len(topic)
        rows = np.flatnonzero(found)
        if len(topic) and len(rows):
            names = gather(self.buffer, self.topic_at[rows], np.dtype(f"V{len(topic)}"))
            found[rows] = names == np.void(topic)
        return found

    def _topics_equal(self, length: int, first: bytes) -> bool:
        if length == 0:
            return True
        names = gather(self.buffer, self.topic_at, np.dtype(f"V{length}"))
        return names.tobytes() == first * len(self)


def read_columns(buffer: Bytes, positions: Ints, sizes: Ints | None = None) -> RecordColumns:
    """Gather the records at `positions`.

    A record is bad, and left out of the columns, if the buffer does not hold all of it, it has no
    magic number, or its inner lengths do not add up to its size. No bytes make this raise.

    Args:
        buffer: Under 2 GiB; the columns keep it.
        positions: Where records begin; any order.
        sizes: Their sizes by the consume queue, if known; records of another size are bad.
    """
    heads = read_heads(buffer, positions, sizes)
    is_v2 = heads.head["magic"] == MAGIC_V2
    starts, lengths = body_at(heads), heads.head["body_len"].astype(np.int64)
    topic_at = starts + lengths + 1
    topic_len = buffer[topic_at - 1].astype(np.int64)
    if is_v2.any():
        # V2 records have a length of two bytes where V1 has one byte.
        wide = np.flatnonzero(is_v2)
        topic_len[wide] = topic_len[wide] << 8 | buffer[topic_at[wide]]
        topic_at[wide] += 1
    properties_at = topic_at + topic_len + 2
    properties_len = heads.positions + heads.sizes - properties_at
    good = (properties_len >= 0) & (properties_len <= MAX_PROPERTIES_BYTES)
    good &= is_v2 | (topic_len <= MAX_TOPIC_BYTES_V1)
    # A bad record's position may lie outside of the buffer; 2 is a safe one, and its result is not
    # used.
    said_at = properties_at if good.all() else np.where(good, properties_at, 2)
    # The properties' length field must equal what is left of the record.
    good &= buffer[said_at - 2] == properties_len >> 8
    good &= buffer[said_at - 1] == properties_len & 0xFF
    columns = RecordColumns(
        **heads.columns(),
        body_at=starts,
        body_len=lengths,
        topic_at=topic_at,
        topic_len=topic_len,
        properties_at=properties_at,
        properties_len=properties_len,
    )
    return columns if good.all() else without(columns, ~good, len(positions))


def binary(buffer: Bytes, starts: Ints, lengths: Ints) -> pa.Array:
    """`buffer[start : start + length]` for each pair, as an Arrow `binary` array of its own.

    `buffer` must be smaller than 2 GiB.
    """
    if len(starts) == 0:
        return empty(pa.binary())
    return _views(buffer, starts, lengths).cast(pa.binary())


def binary_views(buffer: Bytes, starts: Ints, lengths: Ints) -> pa.Array:
    """The same without a copy, as `binary_view`. It refers to `buffer`, which must not change."""
    if len(starts) == 0:
        return empty(pa.binary_view())
    return _views(buffer, starts, lengths, with_prefix=True)


def _views(buffer: Bytes, starts: Ints, lengths: Ints, *, with_prefix: bool = False) -> pa.Array:
    """Arrow's view structs: up to 12 bytes are inline, longer values are a prefix and a place.

    The prefix of 4 bytes is left out by default: a cast to `binary` does not look at it, and to
    gather it takes as long as everything else.
    """
    views = np.zeros(len(starts), _VIEW)
    views["len"] = lengths
    views["offset"] = starts
    # In Arrow's view format values of up to 12 bytes stand within the view itself.
    short = np.flatnonzero(lengths <= _INLINE)
    if with_prefix:
        long = np.flatnonzero(lengths > _INLINE)
        views["prefix"][long] = gather(buffer, starts[long], np.dtype("V4"))
    if len(short):
        _fill_in(views, short, buffer, starts[short], lengths[short])
    places = [None, pa.py_buffer(views), pa.py_buffer(buffer)]
    return pa.Array.from_buffers(pa.binary_view(), len(views), places)


def _fill_in(
    views: npt.NDArray[Any], rows: Ints, buffer: Bytes, starts: Ints, lengths: Ints
) -> None:
    # The buffer must have room for at least one window of 12 bytes.
    if len(buffer) < _INLINE:
        buffer = np.concatenate([buffer, np.zeros(_INLINE, np.uint8)])
    # Near the end of the buffer fewer than 12 bytes may be left: read earlier, and shift.
    begin = np.minimum(starts, len(buffer) - _INLINE)
    data = gather(buffer, begin, np.dtype(f"V{_INLINE}")).view(np.uint8).reshape(-1, _INLINE)
    for row in np.flatnonzero(begin < starts):
        # This concerns only the few rows at the very end of the buffer.
        data[row] = np.roll(data[row], int(begin[row] - starts[row]))
    # The view's bytes after a short value must be zero; in the buffer other data follows.
    data &= _FIRST_BYTES[lengths]
    inline = views.view(_INLINE_VIEW)["data"]
    inline[rows if len(rows) < len(views) else slice(None)] = data.view(f"V{_INLINE}").reshape(-1)


def utf8(column: pa.Array) -> pa.Array:
    """`binary` without nulls as `string`; invalid UTF-8 becomes U+FFFD, as in `MessageExt`."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        # Slow; reached only when some value is no UTF-8.
        return pa.array(
            [
                None if value is None else str(value, "utf-8", "replace")
                for value in column.to_pylist()
            ],
            pa.string(),
        )


def _text(name: bytes) -> str | None:
    try:
        return name.decode()
    except UnicodeDecodeError:
        return None


def timestamps(milliseconds: npt.NDArray[Any]) -> pa.Array:
    """Epoch milliseconds as Arrow timestamps in microseconds, UTC, which Spark expects.

    Null where the microseconds do not fit into 64 bits.
    """
    whole = milliseconds.astype(np.int64)
    # A producer may claim any born time, and times 1000 it could overflow.
    limit = np.iinfo(np.int64).max // 1000
    if len(whole) and (np.max(whole) > limit or np.min(whole) < -limit):
        outside = (whole > limit) | (whole < -limit)
        return numbers(np.where(outside, 0, whole) * 1000, _TIMESTAMP, missing=outside)
    whole *= 1000  # a copy already
    return numbers(whole, _TIMESTAMP)


def positions_in(reply: bytes | memoryview, start: int = 0) -> list[int]:
    """Where the records of a pull reply begin, counted from `start`; a loop over their sizes.

    Bytes behind the last complete record are ignored.
    """
    positions = []
    at, end = 0, len(reply)
    from_bytes = int.from_bytes
    while end - at >= FIXED_SIZE:
        size = from_bytes(reply[at : at + 4], "big")
        # A size of zero or less would make the loop endless.
        if size < FIXED_SIZE:
            break
        positions.append(start + at)
        at += size
    return positions
