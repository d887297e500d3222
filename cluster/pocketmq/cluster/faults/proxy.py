"""A proxy that applies fault rules between clients and a process, such as a real RocketMQ.

    async with FaultProxy("127.0.0.2", 10911, "127.0.0.1:10911", book):
        ...

A broker of RocketMQ tells clients the address where they find it (`brokerIP1` and `listenPort`):
give it the proxy's, and every client takes the way through it.
"""

from __future__ import annotations

import asyncio
from typing import cast

import structlog

from pocketmq.operation.faults.rule_book import RuleBook
from pocketmq.operation.faulty_network.fault_line import FaultLine
from pocketmq.runtime.addresses import address_text, split_address
from pocketmq.runtime.lifetime import StartStop
from pocketmq.runtime.ports import bind_error

log = structlog.get_logger()


class FaultProxy(StartStop):
    """Forwards connections from one address to another.

    Args:
        host: Listens here.
        port: And here; 0: any.
        target: `host:port` of the process behind it.
        book: The rules.
    """

    def __init__(self, host: str, port: int, target: str, book: RuleBook) -> None:
        self._host = host
        self._port = port
        self._target = split_address(target)
        self._book = book
        self._server: asyncio.Server | None = None
        self._halves: set[_NearHalf] = set()

    @property
    def address(self) -> str:
        """Its address for clients."""
        return address_text(self._host, self._port)

    async def start(self) -> None:
        """Listen.

        Raises:
            PortInUseError: Somebody else does there.
        """
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(self._accept, self._host, self._port)
        except OSError as exc:
            raise bind_error(exc, self._host, self._port) from exc
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening, and end every connection."""
        if self._server is not None:
            self._server.close()
        for half in list(self._halves):
            half.end()

    def _accept(self) -> FaultLine:
        half = _NearHalf(self._target, self._halves)
        # Frames are separated even without rules, so that a rule added later meets whole frames.
        return FaultLine(half, self._book, always_cuts=True)


class _NearHalf(asyncio.Protocol):
    """The connection of a client; it opens the one to the process behind."""

    unfinished = b""

    def __init__(self, target: tuple[str, int], halves: set[_NearHalf]) -> None:
        self._target = target
        self._halves = halves
        self._near: asyncio.Transport | None = None
        self._far: asyncio.Transport | None = None
        self._waiting: list[bytes] = []
        self._opening: asyncio.Task[None] | None = None

    def end(self) -> None:
        """End both connections."""
        for transport in (self._near, self._far):
            if transport is not None:
                transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._near = cast("asyncio.Transport", transport)
        # Before the connection to the target is tried, so that `stop` finds it in any state.
        self._halves.add(self)
        self._near.pause_reading()  # until the process behind has answered
        self._opening = asyncio.get_running_loop().create_task(self._open(), name="proxy connect")

    def data_received(self, data: bytes) -> None:
        if self._far is None:
            # Reading is paused, but FaultLine may still pass on what it had held back.
            self._waiting.append(data)
        else:
            self._far.write(data)

    def eof_received(self) -> bool | None:
        if self._far is not None and self._far.can_write_eof():
            self._far.write_eof()
        return True  # answers may still come

    def connection_lost(self, exc: Exception | None) -> None:
        self._near = None
        self._halves.discard(self)
        if self._far is not None:
            self._far.close()

    def pause_writing(self) -> None:
        if self._far is not None:
            self._far.pause_reading()

    def resume_writing(self) -> None:
        if self._far is not None:
            self._far.resume_reading()

    # -- the process behind -----------------------------------------------------------------

    def far_made(self, transport: asyncio.Transport) -> None:
        """The process behind is connected."""
        self._far = transport
        # The client has left while the connection to the target was opened.
        if self._near is None:
            transport.abort()
            return
        for data in self._waiting:
            transport.write(data)
        self._waiting.clear()
        self._near.resume_reading()

    def far_data(self, data: bytes) -> None:
        """Take bytes from the process behind."""
        if self._near is not None:
            self._near.write(data)

    def far_lost(self) -> None:
        """The process behind has closed its connection."""
        self._far = None
        if self._near is not None:
            # `close`, not `abort`: the last answer is still in its buffer.
            self._near.close()

    def far_is_full(self, is_full: bool) -> None:
        """The process behind reads slower than the client writes, or no longer so."""
        if self._near is not None:
            # The client has to wait, so that no bytes pile up in this process's memory.
            (self._near.pause_reading if is_full else self._near.resume_reading)()

    async def _open(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: _FarHalf(self), *self._target
            )
        except OSError as exc:
            log.warning("proxy.not_connected", target=self._target, reason=str(exc))
            if self._near is not None:
                self._near.abort()


class _FarHalf(asyncio.Protocol):
    """The connection to the process behind."""

    def __init__(self, near: _NearHalf) -> None:
        self._near = near

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._near.far_made(cast("asyncio.Transport", transport))

    def data_received(self, data: bytes) -> None:
        self._near.far_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._near.far_lost()

    def pause_writing(self) -> None:
        self._near.far_is_full(True)

    def resume_writing(self) -> None:
        self._near.far_is_full(False)
