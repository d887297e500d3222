"""Decodes many stored records into columns, without a Python loop over the records.

Records lie anywhere in one buffer: part of a commit-log file, or the bodies of pull replies. Given
where each begins, NumPy gathers the fixed fields of all of them at once (fixed_fields.py).
Bodies and property strings become Arrow `binary_view`s that point into the buffer; the cast to
`binary` copies them in C. What few records have (IPv6 hosts, topics over 127 bytes) is corrected in
the rows that have it. Layout of the record: `pocketmq.protocol.record`.

Takes about 100 ns per record. Pass some 16,000 records at a time, so that they stay in the cache.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pocketmq.pipeline.fixed_fields import HEAD, Bytes, Ints, gather
from pocketmq.protocol.hosts import HOST_V4_BYTES, HOST_V6_BYTES, host_text
from pocketmq.protocol.properties import MAX_PROPERTIES_BYTES
from pocketmq.protocol.record import MAX_TOPIC_BYTES_V1
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.protocol.store_layout import BODY_AT, FIXED_SIZE, MAGIC_V1, MAGIC_V2, RECORD, V6_EXTRA

ROWS: Final = 16_384
"""Records to pass at a time."""

_TAIL: Final = np.dtype(
    [(name, HEAD[name]) for name in ("reconsume_times", "prepared", "body_len")]
)
_BORN_HOST_AT: Final = RECORD.offset_of("BORNHOST")
_STORE_HOST_AT: Final = RECORD.offset_of("STOREHOST")
_STORED_AT: Final = RECORD.offset_of("STORETIMESTAMP")
_TAIL_BEHIND: Final = RECORD.offset_of("RECONSUMETIMES") - _STORED_AT
_INT64: Final = np.dtype(">i8")
_VIEW: Final = np.dtype([("len", "<i4"), ("prefix", "V4"), ("buffer", "<i4"), ("offset", "<i4")])
_INLINE: Final = 12
_INLINE_VIEW: Final = np.dtype([("len", "<i4"), ("data", f"V{_INLINE}")])
_FIRST_BYTES: Final = np.tri(_INLINE + 1, _INLINE, -1, np.uint8) * np.uint8(255)
"""Row n is a mask that keeps the first n of 8 bytes."""
_HEX: Final = np.frombuffer("".join(f"{byte:02X}" for byte in range(256)).encode(), "V2")


@dataclass(slots=True)
class RecordColumns:
    """The valid ones of the requested records: their fixed fields, and where variable parts lie."""

    buffer: Bytes
    rows: Ints
    """Indices of these records among the requested positions."""
    positions: Ints
    sizes: Ints
    head: npt.NDArray[Any]
    """The `HEAD` of each; for a record with IPv6 hosts its two host fields are meaningless."""
    sys_flags: npt.NDArray[np.int32]
    body_at: Ints
    body_len: Ints
    topic_at: Ints
    topic_len: Ints
    properties_at: Ints
    properties_len: Ints
    bad: Ints
    """Indices, among the requested positions, of what is no valid record."""

    def __len__(self) -> int:
        return len(self.positions)

    def take(self, chosen: npt.NDArray[Any]) -> RecordColumns:
        """The records at these indices, or where this mask is true; `bad` stays as it is."""
        same = ("buffer", "bad")
        return RecordColumns(
            **{
                field.name: value if field.name in same else value[chosen]
                for field in fields(self)
                for value in (getattr(self, field.name),)
            }
        )

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
            return pa.array([], pa.string())
        length = int(self.topic_len[0])
        first = self.buffer[int(self.topic_at[0]) :][:length].tobytes()
        if (self.topic_len == length).all() and self._topics_equal(length, first):
            return pa.repeat(pa.scalar(_text(first), pa.string()), count)  # nearly always
        names = binary(self.buffer, self.topic_at, self.topic_len).dictionary_encode()
        texts = pa.array([_text(name.as_py()) for name in names.dictionary], pa.string())
        return texts.take(names.indices)

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

    def born_hosts(self) -> pa.Array:
        """The producers' addresses, `host:port`, as Arrow `string`."""
        return self._hosts(self.positions + _BORN_HOST_AT, MessageSysFlag.BORN_HOST_V6)

    def store_hosts(self) -> pa.Array:
        """The brokers' addresses, `host:port`, as Arrow `string`."""
        return self._hosts(self._store_host_at(), MessageSysFlag.STORE_HOST_V6)

    def _store_host_at(self) -> Ints:
        host_at = self.positions + _STORE_HOST_AT
        host_at[(self.sys_flags & MessageSysFlag.BORN_HOST_V6) != 0] += V6_EXTRA
        return host_at

    def _hosts(self, host_at: Ints, v6_flag: int) -> pa.Array:
        """Addresses as text; each distinct one is made once."""
        is_v6 = (self.sys_flags & v6_flag) != 0
        texts: list[str] = []
        index = np.empty(len(self), np.int32)
        for wide, width in ((False, HOST_V4_BYTES), (True, HOST_V6_BYTES)):
            rows = np.flatnonzero(is_v6 == wide)
            if len(rows) == 0:
                continue
            packed = gather(self.buffer, host_at[rows], np.dtype(f"V{width}"))
            distinct, place = np.unique(packed, return_inverse=True)
            index[rows] = place + len(texts)
            texts += [host_text(host.tobytes()) for host in distinct]
        return pa.array(texts, pa.string()).take(pa.array(index))

    def offset_ids(self) -> pa.Array:
        """Offset message ids (S-7) as Arrow `string`: store host and log offset in hex."""
        is_v6 = (self.sys_flags & MessageSysFlag.STORE_HOST_V6) != 0
        host_at = self._store_host_at()
        if not is_v6.any():
            return self._offset_ids(slice(None), host_at, 8)
        ids = [
            self._offset_ids(np.flatnonzero(is_v6 == wide), host_at, 20 if wide else 8)
            for wide in (False, True)
        ]
        order = np.argsort(np.argsort(is_v6, kind="stable"), kind="stable")
        return pa.concat_arrays(ids).take(pa.array(order))

    def _offset_ids(self, rows: Any, host_at: Ints, width: int) -> pa.Array:
        hosts = gather(self.buffer, host_at[rows], np.dtype(f"V{width}"))
        raw = np.empty((len(hosts), width + 8), np.uint8)
        if len(hosts):
            raw[:, :width] = hosts.view(np.uint8).reshape(-1, width)
            offsets = np.ascontiguousarray(self.head["physical_offset"][rows])
            raw[:, width:] = offsets.view(np.uint8).reshape(-1, 8)
        return _equal_strings(_HEX[raw], 2 * (width + 8))


def read_columns(buffer: Bytes, positions: Ints, sizes: Ints | None = None) -> RecordColumns:
    """Gather the records at `positions`.

    A record is bad, and left out of the columns, if the buffer does not hold all of it, it has no
    magic number, or its inner lengths do not add up to its size. No bytes make this raise.

    Args:
        buffer: Under 2 GiB; the columns keep it.
        positions: Where records begin; any order.
        sizes: Their sizes by the consume queue, if known; records of another size are bad.
    """
    limit = len(buffer)
    count = len(positions)
    inside = (positions >= 0) & (positions <= limit - FIXED_SIZE)
    rows = np.arange(count) if inside.all() else np.flatnonzero(inside)
    if len(rows) < count:
        positions = positions[rows]
        sizes = None if sizes is None else sizes[rows]
    head = gather(buffer, positions, HEAD)
    size = head["size"].astype(np.int64)
    is_v2 = head["magic"] == MAGIC_V2
    good = (head["magic"] == MAGIC_V1) | is_v2
    good &= (size >= FIXED_SIZE) & (positions + size <= limit)
    if sizes is not None:
        good &= size == sizes
    sys_flag = head["sys_flag"].astype(np.int32)
    fixed: Ints | int = BODY_AT
    if (sys_flag & MessageSysFlag.HOSTS_V6_MASK).any():
        fixed = _correct_hosts(buffer, positions, size, head, sys_flag, good)
    body_len = head["body_len"].astype(np.int64)
    good &= (body_len >= 0) & (body_len <= size - fixed - 3)
    body_at = positions + fixed
    if not good.all():
        rows, positions, size, head, sys_flag, is_v2, body_at, body_len = _keep(
            good, rows, positions, size, head, sys_flag, is_v2, body_at, body_len
        )
    topic_at = body_at + body_len + 1
    topic_len = buffer[topic_at - 1].astype(np.int64)
    if is_v2.any():
        wide = np.flatnonzero(is_v2)
        topic_len[wide] = topic_len[wide] << 8 | buffer[topic_at[wide]]
        topic_at[wide] += 1
    properties_at = topic_at + topic_len + 2
    properties_len = positions + size - properties_at
    good = (properties_len >= 0) & (properties_len <= MAX_PROPERTIES_BYTES)
    good &= is_v2 | (topic_len <= MAX_TOPIC_BYTES_V1)
    said_at = properties_at if good.all() else np.where(good, properties_at, 2)
    good &= buffer[said_at - 2] == properties_len >> 8
    good &= buffer[said_at - 1] == properties_len & 0xFF
    if not good.all():
        rows, positions, size, head, sys_flag, body_at, body_len = _keep(
            good, rows, positions, size, head, sys_flag, body_at, body_len
        )
        topic_at, topic_len, properties_at, properties_len = _keep(
            good, topic_at, topic_len, properties_at, properties_len
        )
    bad = np.empty(0, np.int64)
    if len(rows) < count:
        bad = np.setdiff1d(np.arange(count), rows, assume_unique=True)
    return RecordColumns(
        buffer,
        rows,
        positions,
        size,
        head,
        sys_flag,
        body_at,
        body_len,
        topic_at,
        topic_len,
        properties_at,
        properties_len,
        bad,
    )


def _keep(good: npt.NDArray[np.bool_], *columns: Any) -> tuple[Any, ...]:
    rows = np.flatnonzero(good)
    return tuple(column[rows] for column in columns)


def _correct_hosts(
    buffer: Bytes,
    positions: Ints,
    size: Ints,
    head: npt.NDArray[Any],
    sys_flag: npt.NDArray[np.int32],
    good: npt.NDArray[np.bool_],
) -> Ints:
    """Read fields again that IPv6 hosts have shifted; returns the length of each fixed part."""
    born = (sys_flag & MessageSysFlag.BORN_HOST_V6) != 0
    store = (sys_flag & MessageSysFlag.STORE_HOST_V6) != 0
    fixed: Ints = BODY_AT + V6_EXTRA * (born.astype(np.int64) + store)
    good &= fixed + 3 <= size
    rows = np.flatnonzero(good & (born | store))
    stored_at = positions[rows] + _STORED_AT + V6_EXTRA * born[rows]
    head["store_timestamp"][rows] = gather(buffer, stored_at, _INT64)
    tail = gather(buffer, stored_at + _TAIL_BEHIND + V6_EXTRA * store[rows], _TAIL)
    for name in _TAIL.names or ():
        head[name][rows] = tail[name]
    return fixed


def binary(buffer: Bytes, starts: Ints, lengths: Ints) -> pa.Array:
    """`buffer[start : start + length]` for each pair, as an Arrow `binary` array of its own.

    `buffer` must be smaller than 2 GiB.
    """
    if len(starts) == 0:
        return pa.array([], pa.binary())
    return _views(buffer, starts, lengths).cast(pa.binary())


def binary_views(buffer: Bytes, starts: Ints, lengths: Ints) -> pa.Array:
    """The same without a copy, as `binary_view`. It refers to `buffer`, which must not change."""
    if len(starts) == 0:
        return pa.array([], pa.binary_view())
    return _views(buffer, starts, lengths, with_prefix=True)


def _views(buffer: Bytes, starts: Ints, lengths: Ints, *, with_prefix: bool = False) -> pa.Array:
    """Arrow's view structs: up to 12 bytes are inline, longer values are a prefix and a place.

    The prefix of 4 bytes is left out by default: a cast to `binary` does not look at it, and to
    gather it takes as long as everything else.
    """
    views = np.zeros(len(starts), _VIEW)
    views["len"] = lengths
    views["offset"] = starts
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
    if len(buffer) < _INLINE:
        buffer = np.concatenate([buffer, np.zeros(_INLINE, np.uint8)])
    # Near the end of the buffer fewer than 12 bytes may be left: read earlier, and shift.
    begin = np.minimum(starts, len(buffer) - _INLINE)
    data = gather(buffer, begin, np.dtype(f"V{_INLINE}")).view(np.uint8).reshape(-1, _INLINE)
    for row in np.flatnonzero(begin < starts):
        data[row] = np.roll(data[row], int(begin[row] - starts[row]))
    data &= _FIRST_BYTES[lengths]
    inline = views.view(_INLINE_VIEW)["data"]
    inline[rows if len(rows) < len(views) else slice(None)] = data.view(f"V{_INLINE}").reshape(-1)


def _equal_strings(characters: npt.NDArray[Any], width: int) -> pa.Array:
    """A string array of values of one width, whose bytes are one behind the other."""
    count = characters.nbytes // width if width else 0
    offsets = np.arange(count + 1, dtype=np.int32) * width
    data = pa.py_buffer(np.ascontiguousarray(characters).reshape(-1))
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), data)


def utf8(column: pa.Array) -> pa.Array:
    """`binary` without nulls as `string`; invalid UTF-8 becomes U+FFFD, as in `MessageExt`."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
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
    limit = np.iinfo(np.int64).max // 1000
    if len(whole) and (whole.max() > limit or whole.min() < -limit):
        outside = (whole > limit) | (whole < -limit)
        return pa.array(np.where(outside, 0, whole) * 1000, mask=outside).cast(
            pa.timestamp("us", "UTC")
        )
    return pa.array(whole * 1000).view(pa.timestamp("us", "UTC"))


def positions_in(reply: bytes | memoryview, start: int = 0) -> list[int]:
    """Where the records of a pull reply begin, counted from `start`; a loop over their sizes.

    Bytes behind the last complete record are ignored.
    """
    positions = []
    at, end = 0, len(reply)
    from_bytes = int.from_bytes
    while end - at >= FIXED_SIZE:
        size = from_bytes(reply[at : at + 4], "big")
        if size < FIXED_SIZE:
            break
        positions.append(start + at)
        at += size
    return positions
