"""The bytes between master and slave, as RocketMQ frames them (H-20).

    slave -> master   report     0000000000001000            its log ends at 4096
    master -> slave   frame      0000000000001000 00000064   100 bytes for offset 4096, then they
                      heartbeat  0000000000001064 00000000   nothing; the next offset is 4196

There is no handshake, no version, no checksum and no identity. The body of a frame is a raw slice
of the commit log, cut anywhere, also inside a record.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from pocketmq.runtime.errors import PeerError

REPORT: Final = struct.Struct(">q")
HEAD: Final = struct.Struct(">qi")

MAX_BODY_BYTES: Final = 4 * 1024 * 1024
"""Longest frame that a slave takes; a master sends at most haTransferBatchSize, 32 KiB."""

NO_LOG: Final = -1
"""Offset in a heartbeat of a master that has no log file yet (H-100)."""


class HaStreamError(PeerError):
    """Bytes on the replication port that no master and no slave sends; the link is closed."""


class Frame(NamedTuple):
    """What a master sends."""

    offset: int
    """Log offset of the first byte; of a heartbeat the next one."""
    body: bytes | memoryview
    """A view of what was read, where that spares a copy."""


def encode_report(offset: int) -> bytes:
    """A slave's log ends at `offset`."""
    return REPORT.pack(offset)


def encode_head(offset: int, size: int) -> bytes:
    """Head of a frame; `size` bytes of log follow. 0 makes a heartbeat."""
    return HEAD.pack(offset, size)


class ReportReader:
    """Cuts a slave's bytes into reports; only the last whole one of each read counts (H-30)."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> int | None:
        """Take bytes; the newest report among them, or None.

        Raises:
            HaStreamError: an offset below 0. Something else speaks here.
        """
        data = self._rest + data
        # Whole reports only; the rest waits for more.
        whole = len(data) - len(data) % REPORT.size
        self._rest = data[whole:]
        if not whole:
            return None
        (offset,) = REPORT.unpack_from(data, whole - REPORT.size)
        if offset < 0:
            raise HaStreamError(
                f"the slave reports the impossible offset {offset}, so it does not speak this "
                "protocol"
            )
        return int(offset)


class FrameReader:
    """Cuts a master's bytes into frames, and waits for whole ones."""

    def __init__(self, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self._buffer = bytearray()
        self._wanted = 0
        """Length of the frame that has begun, as far as its head tells."""
        self._max_body_bytes = max_body_bytes

    @property
    def waiting_bytes(self) -> int:
        """Bytes of a frame that is not whole yet."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Take bytes; every frame that is whole now. Run it to its end.

        Raises:
            HaStreamError: a length or offset that no master sends.
        """
        buffer = self._buffer
        # The frame is still incomplete: it comes in many reads.
        if buffer and len(buffer) + len(data) < self._wanted:
            buffer += data
            return
        # Without a rest from earlier reads the data is not copied.
        view = memoryview(buffer + data if buffer else data)
        at, self._wanted = 0, HEAD.size
        while len(view) - at >= HEAD.size:
            offset, size = HEAD.unpack_from(view, at)
            # -1 comes from a master without a log; anything below, or an impossible length, is
            # another protocol.
            if not 0 <= size <= self._max_body_bytes or offset < NO_LOG:
                raise HaStreamError(
                    f"a frame of the master has offset {offset} and size {size}, but the offset "
                    f"must be {NO_LOG} or more, and the size from 0 to {self._max_body_bytes}"
                )
            end = at + HEAD.size + size
            if end > len(view):
                self._wanted = end - at
                break
            yield Frame(offset, view[at + HEAD.size : end])
            at = end
        self._buffer = bytearray(view[at:])
