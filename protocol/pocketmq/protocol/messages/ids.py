"""The two ids of a message (S-7, S-8).

    offset id    store host (ip 4 or 16, port int32) | commit log offset int64
    UNIQ_KEY     ip 4 or 16 | pid 2 | salt 4 | ms since the month began 4 | counter 2

The broker gives the first, the client the second. Both are written as upper-case hex: 32 characters
with IPv4, 56 with IPv6.
"""

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from random import getrandbits
from typing import Final

from pocketmq.protocol.errors import IllegalNameError
from pocketmq.protocol.hosts import pack_host, unpack_host

_V4_ID_CHARS: Final = 32
_INT64: Final = struct.Struct(">q")
_KEY_HEAD: Final = struct.Struct(">HI")
_BYTES: Final = [f"{byte:02X}" for byte in range(256)]
_MANY: Final = 512
"""More ids than these are packed one by one: a `struct` takes 64 bytes for each, and is kept."""


def offset_msg_id(store_host: bytes, physical_offset: int) -> str:
    """The id that says where a message is stored: clients find broker and offset by it."""
    return (store_host + _INT64.pack(physical_offset)).hex().upper()


def offset_msg_ids(store_host: bytes, physical_offsets: Sequence[int]) -> str:
    """`offset_msg_id` of several messages, separated by commas, as batches are answered."""
    count, host_len = len(physical_offsets), len(store_host)
    # Pack all ids at once: the answer to a batch has one for each message.
    if count <= _MANY:
        values: list[bytes | int] = [store_host] * (2 * count)
        values[1::2] = physical_offsets
        ids = _packed_ids(count, host_len).pack(*values)
    else:
        ids = b"".join([store_host + _INT64.pack(offset) for offset in physical_offsets])
    return ids.hex(",", host_len + _INT64.size).upper()


@lru_cache(maxsize=64)
def _packed_ids(count: int, host_len: int) -> struct.Struct:
    return struct.Struct(">" + f"{host_len}sq" * count)


def parse_offset_msg_id(msg_id: str) -> tuple[str, int, int]:
    """The broker's ip and port, and the commit log offset.

    Raises:
        IllegalNameError: it is no offset id; a UNIQ_KEY of 32 characters cannot be told from one.
    """
    # `isalnum`, because `fromhex` would accept spaces.
    if len(msg_id) not in (32, 56) or not msg_id.isascii() or not msg_id.isalnum():
        raise IllegalNameError("message id", msg_id, "has not 32 or 56 hex characters")
    try:
        packed = bytes.fromhex(msg_id)
    except ValueError:
        raise IllegalNameError("message id", msg_id, "is not hexadecimal") from None
    # Host and port come first, in 8 or 20 bytes, and the log offset in the last 8 (S-7).
    ip, port = unpack_host(packed[:-8])
    return ip, port, _INT64.unpack(packed[-8:])[0]


def offset_of_msg_id(msg_id: str) -> int:
    """The commit log offset alone.

    Raises:
        IllegalNameError: it is no offset id.
    """
    if len(msg_id) == _V4_ID_CHARS and msg_id.isalnum():
        try:
            offset: int = _INT64.unpack_from(bytes.fromhex(msg_id), 8)[0]
        except ValueError:
            pass  # told by what reads all of it
        else:
            return offset
    return parse_offset_msg_id(msg_id)[2]


class UniqKeyFactory:
    """Makes the UNIQ_KEYs of one client; no two keys are the same, even while the clock stands.

    Args:
        ip: the client's address.
        pid: its process id; the low 16 bits count.
        time_ms: wall clock in epoch ms, such as `clock.time_ms`.
        salt: 32 bits that tell clients of one process apart (Java's class loader hash); drawn at
            random unless given.
    """

    __slots__ = (
        "_counter",
        "_head",
        "_month_end_ms",
        "_month_start_ms",
        "_now_ms",
        "_prefix",
        "_time_ms",
        "_used",
    )

    def __init__(
        self, ip: str, pid: int, time_ms: Callable[[], int], *, salt: int | None = None
    ) -> None:
        # The address goes without a port: a client has none of its own (S-8).
        address = pack_host(ip, 0)[:-4]
        salt = getrandbits(32) if salt is None else salt
        # Process id and salt keep two clients on one machine from making the same key.
        head = address + _KEY_HEAD.pack(pid & 0xFFFF, salt & 0xFFFFFFFF)
        self._prefix = head.hex().upper()
        self._time_ms = time_ms
        self._counter = 0
        self._month_start_ms = self._month_end_ms = 0
        self._begin(time_ms())

    def __call__(self) -> str:
        """The next key. About a third of a microsecond."""
        now_ms = self._time_ms()
        if now_ms > self._now_ms:
            self._begin(now_ms)
        elif self._used > 0xFFFF:
            # All counters of this millisecond are given: a manual clock stands, or a real one was
            # set back. Borrow the next millisecond.
            self._begin(self._now_ms + 1)
        self._used += 1
        self._counter = counter = (self._counter + 1) & 0xFFFF
        return f"{self._head}{_BYTES[counter >> 8]}{_BYTES[counter & 0xFF]}"

    def _begin(self, now_ms: int) -> None:
        """The keys of another millisecond."""
        self._now_ms = now_ms
        self._used = 0
        # This runs each millisecond, so the month is computed only when it ends.
        if now_ms >= self._month_end_ms:
            self._find_month(now_ms)
        self._head = f"{self._prefix}{now_ms - self._month_start_ms & 0xFFFFFFFF:08X}"

    def _find_month(self, now_ms: int) -> None:
        # In UTC: clients in different time zones must count from the same month.
        now = datetime.fromtimestamp(now_ms / 1000, UTC)
        start = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        end = (
            start.replace(year=start.year + 1, month=1)
            if start.month == 12
            else start.replace(month=start.month + 1)
        )
        self._month_start_ms = int(start.timestamp()) * 1000
        self._month_end_ms = int(end.timestamp()) * 1000
