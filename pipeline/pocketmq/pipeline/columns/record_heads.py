"""The fixed fields of many stored records at once, for columns that need nothing else.

Only the head of each record is touched, about two of the cache lines of a record, so that a mapped
file need not be copied. What is behind the body (topic, properties) is neither read nor checked;
`record_columns` does both. Layout of the record: `pocketmq.protocol.stored.record`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Final, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pocketmq.pipeline.columns.arrow_arrays import numbers, texts
from pocketmq.pipeline.columns.fixed_fields import HEAD, Bytes, Ints, gather
from pocketmq.protocol.hosts import HOST_V4_BYTES, HOST_V6_BYTES, host_text
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.protocol.store_layout import BODY_AT, FIXED_SIZE, MAGIC_V1, MAGIC_V2, RECORD, V6_EXTRA

_TAIL: Final = np.dtype(
    [(name, HEAD[name]) for name in ("reconsume_times", "prepared", "body_len")]
)
_BORN_HOST_AT: Final = RECORD.offset_of("BORNHOST")
_STORE_HOST_AT: Final = RECORD.offset_of("STOREHOST")
_STORED_AT: Final = RECORD.offset_of("STORETIMESTAMP")
_TAIL_BEHIND: Final = RECORD.offset_of("RECONSUMETIMES") - _STORED_AT
_INT64: Final = np.dtype(">i8")
_HEX: Final = np.frombuffer("".join(f"{byte:02X}" for byte in range(256)).encode(), "V2")


_NONE: Final = np.empty(0, np.int64)
_Heads = TypeVar("_Heads", bound="RecordHeads")


@dataclass(slots=True)
class RecordHeads:
    """The valid ones of the requested records: their fixed fields."""

    buffer: Bytes
    rows: Ints
    """Indices of these records among the requested positions."""
    positions: Ints
    sizes: Ints
    head: npt.NDArray[Any]
    """The `HEAD` of each; for a record with IPv6 hosts its two host fields are meaningless."""
    sys_flags: npt.NDArray[np.int32]
    bad: Ints
    """Indices, among the requested positions, of what is no valid record."""

    def __len__(self) -> int:
        return len(self.positions)

    def take(self, chosen: npt.NDArray[Any]) -> Self:
        """The records at these indices, or where this mask is true; `bad` stays as it is."""
        same = ("buffer", "bad")
        return type(self)(
            **{
                name: value if name in same else value[chosen]
                for name, value in self.columns().items()
            }
        )

    def columns(self) -> dict[str, Any]:
        """All fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def born_hosts(self) -> pa.Array:
        """The producers' addresses, `host:port`, as Arrow `string`."""
        return self._hosts(self.positions + _BORN_HOST_AT, MessageSysFlag.BORN_HOST_V6)

    def store_hosts(self) -> pa.Array:
        """The brokers' addresses, `host:port`, as Arrow `string`."""
        return self._hosts(self._store_host_at(), MessageSysFlag.STORE_HOST_V6)

    def _store_host_at(self) -> Ints:
        host_at = self.positions + _STORE_HOST_AT
        # A producer's IPv6 address shifts all later fields by 12 bytes.
        host_at[(self.sys_flags & MessageSysFlag.BORN_HOST_V6) != 0] += V6_EXTRA
        return host_at

    def _hosts(self, host_at: Ints, v6_flag: int) -> pa.Array:
        """Addresses as text; each distinct one is made once."""
        is_v6 = (self.sys_flags & v6_flag) != 0
        distinct_hosts: list[str] = []
        index = np.empty(len(self), np.int32)
        for wide, width in ((False, HOST_V4_BYTES), (True, HOST_V6_BYTES)):
            rows = np.flatnonzero(is_v6 == wide)
            if len(rows) == 0:
                continue
            packed = gather(self.buffer, host_at[rows], np.dtype(f"V{width}"))
            # A topic has few producers and brokers, so few addresses have to be formatted.
            distinct, place = np.unique(packed, return_inverse=True)
            index[rows] = place + len(distinct_hosts)
            distinct_hosts += [host_text(host.tobytes()) for host in distinct]
        return texts(distinct_hosts).take(numbers(index))

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
        # The list has all IPv4 ids and then all IPv6 ids; this is each row's place in it.
        order = np.argsort(np.argsort(is_v6, kind="stable"), kind="stable")
        return pa.concat_arrays(ids).take(numbers(order))

    def _offset_ids(self, rows: Any, host_at: Ints, width: int) -> pa.Array:
        hosts = gather(self.buffer, host_at[rows], np.dtype(f"V{width}"))
        raw = np.empty((len(hosts), width + 8), np.uint8)
        if len(hosts):
            raw[:, :width] = hosts.view(np.uint8).reshape(-1, width)
            offsets = np.ascontiguousarray(self.head["physical_offset"][rows])
            raw[:, width:] = offsets.view(np.uint8).reshape(-1, 8)
        return _equal_strings(_HEX[raw], 2 * (width + 8))


def read_heads(buffer: Bytes, positions: Ints, sizes: Ints | None = None) -> RecordHeads:
    """Gather the heads of the records at `positions`.

    A record is bad if the buffer does not hold all of it, it has no magic number, or its body would
    not fit into it. No bytes make this raise.

    Args:
        buffer: The heads keep it.
        positions: Where records begin; any order.
        sizes: Their sizes by the consume queue, if known; records of another size are bad.
    """
    limit = len(buffer)
    count = len(positions)
    # Checked before anything is read: positions come from files that may be broken.
    inside = (positions >= 0) & (positions <= limit - FIXED_SIZE)
    rows = np.arange(count) if inside.all() else np.flatnonzero(inside)
    if len(rows) < count:
        positions = positions[rows]
        sizes = None if sizes is None else sizes[rows]
    head = gather(buffer, positions, HEAD)
    # In 64 bits from here on: sums of 32-bit numbers could overflow and pass the checks.
    size = head["size"].astype(np.int64)
    magic = head["magic"].astype(np.int32)
    good = (magic == MAGIC_V1) | (magic == MAGIC_V2)
    good &= (size >= FIXED_SIZE) & (positions + size <= limit)
    if sizes is not None:
        good &= size == sizes
    sys_flags = head["sys_flag"].astype(np.int32)
    fixed: Ints | int = BODY_AT
    # IPv6 hosts shift the fields after them; hardly any batch has such records.
    if (sys_flags & MessageSysFlag.HOSTS_V6_MASK).any():
        fixed = _correct_hosts(buffer, positions, size, head, sys_flags, good)
    body_len = head["body_len"].astype(np.int64)
    # At least three bytes follow a body: the lengths of the topic and of the properties.
    good &= (body_len >= 0) & (body_len <= size - fixed - 3)
    heads = RecordHeads(buffer, rows, positions, size, head, sys_flags, _NONE)
    if len(rows) == count and good.all():
        return heads
    return without(heads, ~good, count)


def without(heads: _Heads, broken: npt.NDArray[np.bool_], count: int) -> _Heads:
    """The records that are not broken; the others are among its `bad`.

    Args:
        heads: Some of the requested records.
        broken: Which of those.
        count: The number of requested positions.
    """
    kept = heads.take(np.flatnonzero(~broken))
    bad = np.setdiff1d(np.arange(count), kept.rows, assume_unique=True)
    return replace(kept, bad=bad)


def body_at(heads: RecordHeads) -> Ints:
    """Where each body begins."""
    extra = heads.sys_flags & MessageSysFlag.HOSTS_V6_MASK
    at: Ints = heads.positions + BODY_AT
    if extra.any():
        at += V6_EXTRA * (extra & MessageSysFlag.BORN_HOST_V6 != 0)
        at += V6_EXTRA * (extra & MessageSysFlag.STORE_HOST_V6 != 0)
    return at


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
    # Checked before the fields are read again: that would read past the end of the buffer.
    good &= fixed + 3 <= size
    rows = np.flatnonzero(good & (born | store))
    stored_at = positions[rows] + _STORED_AT + V6_EXTRA * born[rows]
    head["store_timestamp"][rows] = gather(buffer, stored_at, _INT64)
    tail = gather(buffer, stored_at + _TAIL_BEHIND + V6_EXTRA * store[rows], _TAIL)
    for name in _TAIL.names or ():
        head[name][rows] = tail[name]
    return fixed


def _equal_strings(characters: npt.NDArray[Any], width: int) -> pa.Array:
    """A string array of values of one width, whose bytes are one behind the other."""
    count = characters.nbytes // width if width else 0
    offsets = np.arange(count + 1, dtype=np.int32) * width
    data = pa.py_buffer(np.ascontiguousarray(characters).reshape(-1))
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), data)
