"""The network seam over TCP sockets."""

from __future__ import annotations

import asyncio
import socket

from pocketmq.protocol.budget import BudgetSource, default_budget
from pocketmq.protocol.command import VERSION_5_3_3, Encoding
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.errors import ConnectError
from pocketmq.protocol.signing import Credentials
from pocketmq.protocol.transport.accepted_stream import AcceptedStream
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
from pocketmq.runtime.addresses import split_address, without_brackets
from pocketmq.runtime.files import descriptors
from pocketmq.runtime.ports import bind_error, check_port

_BACKLOG = 4096


class TcpListener:
    """One listening socket."""

    def __init__(self, server: asyncio.Server, channels: OpenChannels) -> None:
        self._server = server
        self.channels = channels
        self.port: int = server.sockets[0].getsockname()[1]

    def stop_accepting(self) -> None:
        """Give the port back; open connections stay as they are."""
        self._server.close()

    async def close(self) -> None:
        self._server.close()
        await self.channels.close()
        await self._server.wait_closed()


class TcpStreams:
    """A listening socket for byte streams that are no remoting frames."""

    def __init__(self, server: asyncio.Server) -> None:
        self._server = server
        self.port: int = server.sockets[0].getsockname()[1]

    def stop_accepting(self) -> None:
        """Close the listening socket at once; connections stay."""
        self._server.close()

    async def close(self) -> None:
        self._server.close()


class TcpNetwork:
    """Real sockets, with `TCP_NODELAY`: one write is one batch already.

    Args:
        server_tls: Of the ports that are served; None: a peer that speaks TLS is hung up on.
        client_tls: Of connections that are made; None: they are in plaintext.
    """

    def __init__(
        self, *, server_tls: ServerTls | None = None, client_tls: ClientTls | None = None
    ) -> None:
        self.server_tls = server_tls
        self._client_tls = client_tls

    async def serve(
        self,
        host: str,
        port: int,
        dispatcher: Dispatcher,
        *,
        version: int = VERSION_5_3_3,
        on_open: OnChannel | None = None,
        on_close: OnChannel | None = None,
    ) -> TcpListener:
        check_port(port)
        channels = OpenChannels(dispatcher, version, on_open, on_close, descriptors.ACCEPTED)
        try:
            server = await asyncio.get_running_loop().create_server(
                lambda: self._accepted(channels.accept()),
                without_brackets(host),
                port,
                backlog=_BACKLOG,
            )
        except OSError as exc:
            raise bind_error(exc, host, port) from exc
        return TcpListener(server, channels)

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
            async with asyncio.timeout(timeout_s):  # an I/O deadline: real time
                channel = Channel(
                    dispatcher,
                    encoding=encoding,
                    version=version,
                    on_close=on_close,
                    credentials=credentials,
                )
                inner = self.socket_protocol(channel, address)
                tls = self._client_tls
                line = None if tls is None else ClientTlsLine(inner, tls)
                # A name may have several addresses; `create_connection` tries each.
                await asyncio.get_running_loop().create_connection(
                    lambda: line or inner, host, port, family=socket.AF_UNSPEC
                )
                if line is not None:
                    await line.shaken()
        except (OSError, ValueError) as exc:  # TimeoutError is an OSError
            raise ConnectError(address, str(exc) or type(exc).__name__) from exc
        return channel

    def _accepted(self, channel: Channel) -> asyncio.Protocol:
        inner = self.socket_protocol(channel, "")
        tls = self.server_tls
        # With TLS, a line decrypts between socket and channel; without it, the channel reads the
        # socket itself.
        return inner if tls is None else ServerTlsLine(channel, inner, tls)

    def socket_protocol(self, channel: Channel, target: str) -> asyncio.Protocol:
        """What reads the socket of a channel: the channel itself, unless a subclass knows better.

        Args:
            channel: Of the connection.
            target: Address that was connected to; empty when the peer connected to us.
        """
        return channel

    async def listen(
        self,
        host: str,
        port: int,
        make: MakeProtocol,
        *,
        budget: BudgetSource = default_budget,
        tls: bool = False,
    ) -> TcpStreams:
        check_port(port)
        read = stream_lines(make, self.server_tls, budget) if tls else make
        try:
            server = await asyncio.get_running_loop().create_server(
                lambda: AcceptedStream(read(), descriptors.ACCEPTED), without_brackets(host), port
            )
        except OSError as exc:
            raise bind_error(exc, host, port) from exc
        return TcpStreams(server)

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
            async with asyncio.timeout(timeout_s):  # an I/O deadline: real time
                client_tls = self._client_tls if tls else None
                line = None if client_tls is None else ClientTlsLine(protocol, client_tls)
                await asyncio.get_running_loop().create_connection(
                    lambda: line or protocol, host, port
                )
                if line is not None:
                    await line.shaken()
        except (OSError, ValueError) as exc:
            raise ConnectError(address, str(exc) or type(exc).__name__) from exc
