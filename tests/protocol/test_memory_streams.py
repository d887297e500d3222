"""A stream in memory keeps its order, whenever its reader pauses."""

from __future__ import annotations

import asyncio
from typing import cast

from pocketmq.protocol.transport.memory import MemoryNetwork
from support.eventually import eventually


class Reader(asyncio.Protocol):
    """Reads once in a turn of the loop."""

    def __init__(self) -> None:
        self.heard = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.heard += data
        self.transport.pause_reading()
        asyncio.get_running_loop().call_soon(self.transport.resume_reading)


class Writer(asyncio.Protocol):
    """Writes a letter, and the next one in the next turn."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._write(ord("a"))

    def _write(self, letter: int) -> None:
        self._transport.write(bytes([letter]))
        self._transport.write(bytes([letter]).upper())
        if letter < ord("z"):
            asyncio.get_running_loop().call_soon(self._write, letter + 1)


async def test_what_comes_while_reading_is_paused_is_read_in_its_order() -> None:
    network, reader = MemoryNetwork(), Reader()
    await network.listen("127.0.0.1", 30_000, lambda: reader)
    await network.dial("127.0.0.1:30000", Writer())
    await eventually(lambda: len(reader.heard) == 52, "all is read")
    assert reader.heard == b"aAbBcCdDeEfFgGhHiIjJkKlLmMnNoOpPqQrRsStTuUvVwWxXyYzZ"
