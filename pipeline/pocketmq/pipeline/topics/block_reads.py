"""Reads of a socket into large blocks, in which whole replies lie one behind the other.

A `Channel` gets each read as bytes of its own, and joins those of a frame that came in pieces. For
records that become columns that is one copy too many, or two: here the kernel writes into a block,
the bodies of replies are views of it, and NumPy reads the records where they lie.

    block    | frame | frame | frame | fra          the next read goes on behind it
    new one  | frame | frame ...                    the rest of a frame that would not fit moves on

A block lives as long as a view of it does. It is never written to again.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Final, cast

import numpy as np

from pocketmq.protocol.frame import MAX_FRAME_BYTES
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.tcp import TcpNetwork

BLOCK_BYTES: Final = 8 * 1024 * 1024
_LEAST_ROOM: Final = 4 * 1024
"""With less room than this a read would be short."""
_WORD: Final = struct.Struct(">i")


class BlockNetwork(TcpNetwork):
    """Real sockets whose connections are read into blocks."""

    def socket_protocol(self, channel: Channel, target: str) -> asyncio.Protocol:
        """Connections of ours are read into blocks; those of others as they always are."""
        return BlockReader(channel) if target else channel


class BlockReader(asyncio.BufferedProtocol, asyncio.Protocol):
    """Reads a connection for its channel, which is given whole frames.

    Args:
        channel: Takes what is read, and writes.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._block = memoryview(bytearray())
        self._begin = 0
        """Of the frame that has not ended."""
        self._filled = 0
        self._need = 0
        """Nothing can be done before so much is filled."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._channel.connection_made(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next read goes."""
        # Room that the unfinished frame still needs is not free.
        room = len(self._block) - max(self._filled, self._need)
        # A frame that fits into this block stays in it, however little room remains after it.
        if room < (_LEAST_ROOM if self._need <= self._filled else 0):
            self._move_on()
        return self._block[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes were read."""
        self._filled = filled = self._filled + nbytes
        # Nothing to do before the frame is complete: a large one comes in many reads.
        if filled < self._need:
            return
        block, at, word = self._block, self._begin, _WORD.unpack_from
        self._need = 0
        while filled - at >= _WORD.size:
            (size,) = word(block, at)
            stop = at + _WORD.size + size
            if not _WORD.size <= size <= MAX_FRAME_BYTES - _WORD.size:
                at = filled  # the channel finds out what is wrong
                break
            if stop > filled:
                self._need = stop
                break
            at = stop
        # All complete frames of this read are passed on in one call.
        if at > self._begin:
            whole, self._begin = block[self._begin : at], at
            self._channel.data_received(cast("bytes", whole))  # which it only takes slices of

    def data_received(self, data: bytes) -> None:
        """Bytes from whoever has read the socket itself: TLS, which deciphers them."""
        # TLS may pass more than fits into one block.
        rest = memoryview(data)
        while rest:
            room = self.get_buffer(len(rest))
            part = rest[: len(room)]
            room[: len(part)] = part
            self.buffer_updated(len(part))
            rest = rest[len(part) :]

    def pause_writing(self) -> None:
        self._channel.pause_writing()

    def resume_writing(self) -> None:
        self._channel.resume_writing()

    def eof_received(self) -> bool:
        return self._channel.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._channel.connection_lost(exc)

    def _move_on(self) -> None:
        rest = self._block[self._begin : self._filled]
        self._need = max(0, self._need - self._begin)
        # Not zeroed, unlike a `bytearray`; a frame longer than a block gets a block of its own.
        block = np.empty(max(BLOCK_BYTES, self._need), np.uint8).data
        block[: len(rest)] = rest
        self._block, self._begin, self._filled = block, 0, len(rest)
