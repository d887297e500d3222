"""The network seam without sockets: connected pairs inside one event loop, for tests.

Bytes are handed over on the loop's next turn, in order, so that the same conversation runs here as
over TCP, only faster.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any, cast

from pocketmq.protocol.budget import BudgetSource, default_budget
from pocketmq.protocol.command import VERSION_5_3_3, Encoding
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.errors import ConnectError
from pocketmq.protocol.signing import Credentials
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.network import (
    MakeProtocol,
    OnChannel,
    OpenChannels,
)
from pocketmq.protocol.transport.tls.client_tls import ClientTls
from pocketmq.protocol.transport.tls.line import ClientTlsLine, ServerTlsLine
from pocketmq.protocol.transport.tls.server_tls import ServerTls
from pocketmq.protocol.transport.tls.stream_line import stream_lines
from pocketmq.runtime.addresses import split_address
from pocketmq.runtime.errors import PortInUseError


class MemoryTransport(asyncio.Transport):
    """One end of a pair; what is written here arrives at the other end's protocol."""

    def __init__(self, protocol: asyncio.Protocol, local: object, remote: object) -> None:
        super().__init__({"sockname": local, "peername": remote})
        self._loop = asyncio.get_running_loop()
        self._protocol = protocol
        self._closing = False
        self._lost = False
        self._paused = False
        self._unread: deque[bytes] = deque()
        self.other: MemoryTransport | None = None

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if not self._closing and self.other is not None:
            # Deliver in the next turn, as a socket does: a peer never answers within the call.
            self._loop.call_soon(self.other.deliver, bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview[Any]]) -> None:
        self.write(b"".join(list_of_data))

    def deliver(self, data: bytes) -> None:
        """Bytes from the other end."""
        # Later bytes queue behind those that already wait.
        if self._paused or self._unread:
            self._unread.append(data)
        elif not self._lost and not self._closing:
            self._protocol.data_received(data)

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        if self._paused and self._unread:
            self._loop.call_soon(self._read_on)
        self._paused = False

    def _read_on(self) -> None:
        """Deliver what came while reading was paused, in the order in which it came."""
        while self._unread and not (self._paused or self._lost or self._closing):
            self._protocol.data_received(self._unread.popleft())

    def is_reading(self) -> bool:
        return not self._paused and not self._closing

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._loop.call_soon(self.lose)
        if self.other is not None:
            self._loop.call_soon(self.other.lose)

    def abort(self) -> None:
        self.close()

    def lose(self) -> None:
        """The pair is cut: tell this end's protocol, once."""
        self._closing = True
        if not self._lost:
            self._lost = True
            self._protocol.connection_lost(None)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is buffered here."""

    def get_write_buffer_size(self) -> int:
        return 0

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast("asyncio.Protocol", protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol


class MemoryListener:
    """An entry in the network's table of ports."""

    def __init__(
        self, network: MemoryNetwork, port: int, channels: OpenChannels, tls: ServerTls | None
    ) -> None:
        self._network = network
        self.port = port
        self.channels = channels
        self._tls = tls

    def accept(self) -> asyncio.Protocol:
        """What reads a connection that comes in."""
        channel = self.channels.accept()
        return channel if self._tls is None else ServerTlsLine(channel, channel, self._tls)

    async def close(self) -> None:
        self._network.listeners.pop(self.port, None)
        await self.channels.close()


class MemoryStreams:
    """A port for byte streams that are no remoting frames."""

    def __init__(self, network: MemoryNetwork, port: int, make: MakeProtocol) -> None:
        self._network = network
        self.port = port
        self.make = make

    async def close(self) -> None:
        self._network.streams.pop(self.port, None)


class MemoryNetwork:
    """Ports and connections of one test; hosts are only names in addresses.

    Args:
        server_tls: Of its ports for remoting frames.
        client_tls: Of the connections that are made to them.
    """

    def __init__(
        self, *, server_tls: ServerTls | None = None, client_tls: ClientTls | None = None
    ) -> None:
        self._server_tls = server_tls
        self._client_tls = client_tls
        self.listeners: dict[int, MemoryListener] = {}
        self.streams: dict[int, MemoryStreams] = {}
        self._next_port = 40000

    async def serve(
        self,
        host: str,
        port: int,
        dispatcher: Dispatcher,
        *,
        version: int = VERSION_5_3_3,
        on_open: OnChannel | None = None,
        on_close: OnChannel | None = None,
    ) -> MemoryListener:
        if port == 0:
            port = self._free_port()
        if port in self.listeners or port in self.streams:
            raise PortInUseError(port)
        channels = OpenChannels(dispatcher, version, on_open, on_close)
        listener = MemoryListener(self, port, channels, self._server_tls)
        self.listeners[port] = listener
        return listener

    async def connect(
        self,
        address: str,
        dispatcher: Dispatcher,
        *,
        encoding: Encoding = Encoding.MSGPACK,
        version: int = VERSION_5_3_3,
        timeout_s: float = 3.0,
        on_close: OnChannel | None = None,
        credentials: Credentials | None = None,
    ) -> Channel:
        try:
            host, port = split_address(address)
        except ValueError as exc:
            raise ConnectError(address, str(exc)) from exc
        listener = self.listeners.get(port)
        if listener is None:
            raise ConnectError(address, "connection refused")
        near = Channel(
            dispatcher,
            encoding=encoding,
            version=version,
            on_close=on_close,
            credentials=credentials,
        )
        far = listener.accept()
        if self._client_tls is None:
            self._join(near, far, (host, port))
            return near
        line = ClientTlsLine(near, self._client_tls)
        self._join(line, far, (host, port))
        try:
            async with asyncio.timeout(timeout_s):
                await line.shaken()
        except OSError as exc:
            raise ConnectError(address, str(exc) or type(exc).__name__) from exc
        return near

    async def listen(
        self,
        host: str,
        port: int,
        make: MakeProtocol,
        *,
        budget: BudgetSource = default_budget,
        tls: bool = False,
    ) -> MemoryStreams:
        port = port or self._free_port()
        if port in self.listeners or port in self.streams:
            raise PortInUseError(port)
        read = stream_lines(make, self._server_tls, budget) if tls else make
        listener = self.streams[port] = MemoryStreams(self, port, read)
        return listener

    async def dial(
        self,
        address: str,
        protocol: asyncio.Protocol,
        *,
        timeout_s: float = 3.0,
        tls: bool = False,
        to_member: bool = True,
    ) -> None:
        try:
            host, port = split_address(address)
        except ValueError as exc:
            raise ConnectError(address, str(exc)) from exc
        listener = self.streams.get(port)
        if listener is None:
            raise ConnectError(address, "connection refused")
        client_tls = self._client_tls if tls else None
        line = None if client_tls is None else ClientTlsLine(protocol, client_tls)
        self._join(line or protocol, listener.make(), (host, port))
        if line is not None:
            try:
                async with asyncio.timeout(timeout_s):
                    await line.shaken()
            except OSError as exc:
                raise ConnectError(address, str(exc) or type(exc).__name__) from exc

    def _join(self, near: asyncio.Protocol, far: asyncio.Protocol, there: tuple[str, int]) -> None:
        # Each connection has its own address, so that channels can be distinguished.
        here = ("127.0.0.1", self._free_port())
        near_end = MemoryTransport(near, here, there)
        far_end = MemoryTransport(far, there, here)
        near_end.other, far_end.other = far_end, near_end
        far.connection_made(far_end)
        near.connection_made(near_end)

    def _free_port(self) -> int:
        self._next_port += 1
        while self._next_port in self.listeners or self._next_port in self.streams:
            self._next_port += 1
        return self._next_port
