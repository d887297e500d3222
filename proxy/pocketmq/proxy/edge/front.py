"""`Front`: the port that SDKs connect to, in front of gRPC.

gRPC's server takes no connection that somebody else has accepted, and serves either TLS or
plaintext. So it listens at a Unix socket that nobody but this user reaches; the front accepts,
looks at the first bytes, ends TLS, and passes bytes on both ways (G-8, G-130, G-131):

    0x16                     TLS: a handshake, ALPN h2; then as below
    PROXY, or 0d 0a 0d 0a    a header of the PROXY protocol; then as below (G-10)
    PRI                      HTTP/2: on to gRPC
    anything else            hung up on; HTTP/1 and remoting are told or logged what this port is

The Unix socket of each connection has the SDK's address in its name, so that gRPC names the true
peer. A PROXY header is believed of this machine only: anybody else could say any address. Whoever
comes behind one that is not believed has an address that is not known, and the name says so.

What a peer costs is bounded: its first bytes must come within `FIRST_BYTES_S`, and nothing more is
read of one end while the other does not read.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Final, cast

import structlog

from pocketmq.protocol.frame import HTTP2
from pocketmq.protocol.transport.proxy_protocol import begins, read_header
from pocketmq.protocol.transport.tls.engine import TlsEngine
from pocketmq.protocol.transport.tls.line import TLS_BYTE
from pocketmq.protocol.transport.tls.server_tls import ServerTls
from pocketmq.proxy.edge.callers import socket_name
from pocketmq.proxy.edge.socket_folder import SocketFolder
from pocketmq.runtime.addresses import address_text, without_brackets
from pocketmq.runtime.clock import SystemClock, Timer
from pocketmq.runtime.files.descriptors import ACCEPTED, most_connections
from pocketmq.runtime.ports import bind_error, check_port

log = structlog.get_logger()

FIRST_BYTES_S: Final = 10.0
"""Real seconds until a peer has said what it speaks, its handshake included."""

HIGH_WATER_BYTES: Final = 1024 * 1024
"""Unsent bytes of one end above which nothing more is read of the other."""

DESCRIPTORS: Final = 4
"""Of each connection: the peer's, both ends of the Unix socket, and as many again for brokers."""

_HELD: Final = 3
"""Of these, the ones that are open for as long as the connection: other listeners leave them."""

_REAL: Final = SystemClock()
_BACKLOG: Final = 4096
_HTTP_1: Final = (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"DELE")
_NO_HTTP: Final = (
    b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: text/plain\r\n\r\n"
    b"This is the port of PocketMQ's gRPC proxy, for RocketMQ 5's SDKs.\n"
)


class Front:
    """Accepts SDKs.

    Args:
        tls: Certificate and mode; None: peers with TLS are hung up on.
        handshakes: How many may be under way at once.
    """

    def __init__(self, tls: ServerTls | None, handshakes: int) -> None:
        self.tls = tls
        self.handshakes = handshakes
        self.peers: dict[FrontPeer, None] = {}
        self.port = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._number = 0
        self._folder: SocketFolder | None = None

    @property
    def inner(self) -> str:
        """Where gRPC is to listen, once there is a folder."""
        return f"unix:{self._path}/grpc"

    @property
    def _path(self) -> Path:
        assert self._folder is not None, "make_folder comes first"
        return self._folder.path

    def make_folder(self) -> None:
        """Make the folder of the Unix sockets, which only this user can enter."""
        self._folder = SocketFolder()

    async def start(self, host: str, port: int) -> None:
        """Listen; gRPC does already.

        Raises:
            PortInUseError: somebody else listens there.
        """
        check_port(port)
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: FrontPeer(self), without_brackets(host), port, backlog=_BACKLOG
            )
        except OSError as exc:
            raise bind_error(exc, host, port) from exc
        self.port = self._server.sockets[0].getsockname()[1]

    def stop_accepting(self) -> None:
        """Give the port back; open connections stay."""
        if self._server is not None:
            self._server.close()

    async def stop(self) -> None:
        """End every connection; may be called twice."""
        self.stop_accepting()
        for peer in list(self.peers):
            peer.abort()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._folder is not None:
            # Remove the folder last: connections under way may still bind a socket in it.
            self._folder.remove()

    # -- for its peers ----------------------------------------------------------------------

    def take(self, peer: FrontPeer) -> bool:
        """A connection is made; False: there are too many."""
        # Leave some of the process's descriptors free: the connected SDKs need the brokers.
        if len(self.peers) >= most_connections() // DESCRIPTORS or not ACCEPTED.take(_HELD):
            return False
        self.peers[peer] = None
        return True

    def give_back(self, peer: FrontPeer) -> None:
        """A connection has ended."""
        if peer in self.peers:
            del self.peers[peer]
            ACCEPTED.give_back(_HELD)

    def connect(self, peer: FrontPeer, address: str) -> None:
        """Connect a peer to gRPC, under its address."""
        task = asyncio.get_running_loop().create_task(
            self._connect(peer, address), name=f"front {address}"
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, peer: FrontPeer, address: str) -> None:
        self._number += 1
        made: socket.socket | None = None
        try:
            # Bind to a unique name before connecting: gRPC identifies peers of a Unix socket by it
            # alone.
            made = socket.socket(socket.AF_UNIX)
            name = socket_name(self._number, address, is_sdks=peer.is_sdks_address)
            self._join(made, f"{self._path}/{name}")
            await asyncio.get_running_loop().create_unix_connection(lambda: _Inner(peer), sock=made)
        except OSError as exc:  # gRPC has stopped, its queue is full, or no descriptor is left
            if made is not None:
                made.close()
            log.warning("front.not_connected", peer=address, reason=str(exc))
            # Break the connection: an SDK then tries again, instead of waiting for its deadline.
            peer.abort()
        except asyncio.CancelledError:
            # Until asyncio has taken the socket nobody else would close it.
            if made is not None:
                made.close()
            raise

    def _join(self, made: socket.socket, own: str) -> None:
        """Connect to gRPC from a socket of this name, which is needed no longer then."""
        # With a full queue at gRPC's end, the connect must fail at once and not block the loop.
        made.setblocking(False)
        made.bind(own)
        try:
            made.connect(f"{self._path}/grpc")
        finally:
            # The name is kept by the connection; its file would only fill the folder.
            with suppress(OSError):
                Path(own).unlink()


class _Inner(asyncio.Protocol):
    """The connection to gRPC of one peer."""

    def __init__(self, peer: FrontPeer) -> None:
        self._peer = peer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        to = cast("asyncio.Transport", transport)
        # Above this mark asyncio calls `pause_writing`, and the SDK is read no further.
        to.set_write_buffer_limits(high=HIGH_WATER_BYTES)
        self._peer.connected(to)

    def data_received(self, data: bytes) -> None:
        self._peer.send(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._peer.close()

    def pause_writing(self) -> None:
        self._peer.hold(held=True)

    def resume_writing(self) -> None:
        self._peer.hold(held=False)


class FrontPeer(asyncio.Protocol):
    """One connection of an SDK.

    Args:
        front: It came to.
    """

    def __init__(self, front: Front) -> None:
        self._front = front
        self._transport: asyncio.Transport | None = None
        self._inner: asyncio.Transport | None = None
        self._engine: TlsEngine | None = None
        self._first = b""
        """Read, and not passed on yet."""
        self._is_known = False
        """It speaks HTTP/2, and a connection to gRPC is made or on its way."""
        self._has_header = False
        self._timer: Timer | None = None
        self.address = ""
        self.is_sdks_address = True
        """Whether it is that of the SDK, and not of somebody who passes the SDK on."""

    # -- asyncio.Protocol -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = to = cast("asyncio.Transport", transport)
        self.address = address_text(*(to.get_extra_info("peername") or ("?", 0))[:2])
        # Abort at once: a connection that cannot be served must not cost descriptors.
        if not self._front.take(self):
            log.warning("peer.refused", peer=self.address, advice="raise `ulimit -n`")
            to.abort()
            return
        to.set_write_buffer_limits(high=HIGH_WATER_BYTES)
        # The limit for finding out what the peer speaks; afterwards gRPC's own limits apply.
        self._timer = _REAL.call_at(_REAL.monotonic() + FIRST_BYTES_S, self._too_late)

    def data_received(self, data: bytes) -> None:
        engine = self._engine
        if engine is None:
            self._take(data)
            return
        plain = engine.feed(data)
        answer = engine.take()
        if answer and self._transport is not None:
            self._transport.write(answer)
        if engine.is_open and self._front.tls is not None:
            self._front.tls.handshakes.end(self)
        if plain:
            self._take(plain)
        if engine.failure:
            log.warning("tls.failed", peer=self.address, reason=engine.failure)
            self.close()
        elif engine.is_over:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._first = b""
        if self._timer is not None:
            self._timer.cancel()
        if self._front.tls is not None:
            # A handshake that broke off would otherwise keep its place.
            self._front.tls.handshakes.end(self)
        self._front.give_back(self)
        if self._inner is not None:
            self._inner.close()

    def pause_writing(self) -> None:
        if self._inner is not None and not self._inner.is_closing():
            self._inner.pause_reading()

    def resume_writing(self) -> None:
        if self._inner is not None and not self._inner.is_closing():
            self._inner.resume_reading()

    # -- from gRPC --------------------------------------------------------------------------

    def connected(self, inner: asyncio.Transport) -> None:
        """gRPC takes what this peer sends."""
        if self._transport is None:
            inner.abort()
            return
        self._inner = inner
        first, self._first = self._first, b""
        # Read on: until now there was nobody to take more.
        self.hold(held=False)
        inner.write(first)  # last, as it may find the buffer full, and hold again

    def send(self, data: bytes) -> None:
        """gRPC answers."""
        transport, engine = self._transport, self._engine
        if transport is None:
            return
        if engine is None:
            transport.write(data)
        # After a fault the engine seals nothing more; the connection is closing.
        elif not engine.failure:
            try:
                transport.write(engine.seal(data))
            except ssl.SSLError:
                self.abort()

    def hold(self, *, held: bool) -> None:
        """Read nothing more of the peer, or read on."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            if held:
                transport.pause_reading()
            else:
                transport.resume_reading()

    def close(self) -> None:
        """Close, once all bytes are sent."""
        transport, engine = self._transport, self._engine
        if transport is None or transport.is_closing():
            return
        # TLS's own goodbye distinguishes an end from a cut.
        if engine is not None:
            transport.write(engine.finish())
        transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    # -- inside -----------------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        if self._inner is not None:
            self._inner.write(data)
            return
        self._first += data
        if not self._is_known:
            self._look()

    def _look(self) -> None:
        """Find out what the first bytes are."""
        while self._first:
            first = self._first
            # Only once: decrypted bytes come here again, and TLS within TLS is not supported.
            if first[0] == TLS_BYTE and self._engine is None:
                self._shake_hands()
                return
            # Three bytes are needed to tell; the timer ends a peer that sends fewer.
            if len(first) < len(HTTP2):
                return
            # At most one header: a second one could be forged by the SDK.
            if begins(first) and not self._has_header:
                if not self._read_header():
                    return
            elif first.startswith(HTTP2):
                self._pass_on()
                return
            else:
                self._refuse(first)
                return

    def _read_header(self) -> bool:
        """Whether a whole header was there, and was taken off."""
        try:
            header = read_header(self._first)
        except ValueError as exc:
            log.warning("front.refused", peer=self.address, reason=str(exc))
            self.abort()
            return False
        if header is None:
            return False
        self._has_header = True
        self._first = self._first[header.size :]
        # The header of a health check names no address, so the peer's own stays.
        self.is_sdks_address = header.source is not None and self._is_near()
        if header.source is not None and self.is_sdks_address:
            self.address = address_text(*header.source)
        return True

    def _is_near(self) -> bool:
        """Whether the peer is on this machine: others could say any address."""
        transport = self._transport
        assert transport is not None
        try:
            near = ip_address(transport.get_extra_info("peername")[0].partition("%")[0])
        except (TypeError, ValueError):
            return False
        # A dual-stack socket shows IPv4 peers as `::ffff:127.0.0.1`, which not every version of
        # Python takes for a loopback.
        mapped = getattr(near, "ipv4_mapped", None)
        # Whoever dials this machine's outer address from here also comes from that address.
        return (mapped or near).is_loopback or (
            transport.get_extra_info("sockname")[0] == transport.get_extra_info("peername")[0]
        )

    def _shake_hands(self) -> None:
        tls = self._front.tls
        context = None if tls is None else tls.context()
        if tls is None or context is None:
            log.warning(
                "tls.refused", peer=self.address, advice="TLS is off, or has no certificate"
            )
            self.abort()
            return
        # Count before the engine is made: a flood of handshakes would cost many signatures.
        tls.handshakes.begin(self, self._front.handshakes)
        self._engine = TlsEngine(context, server_side=True)
        # The bytes so far belong to TLS; plain ones are collected anew.
        data, self._first = self._first, b""
        self.data_received(data)

    def _pass_on(self) -> None:
        tls = self._front.tls
        # Only here is it known that the peer spoke HTTP/2 without TLS.
        if tls is not None and tls.enforces and self._engine is None:
            log.warning(
                "tls.missing", peer=self.address,
                advice="this port takes TLS only (tls.server.mode=enforcing): have the SDK use it",
            )  # fmt: skip
            self.abort()
            return
        self._is_known = True
        if self._timer is not None:
            self._timer.cancel()
        # Stop reading until gRPC is connected: an SDK could otherwise fill the memory.
        self.hold(held=True)
        self._front.connect(self, self.address)

    def _refuse(self, first: bytes) -> None:
        log.warning(
            "front.refused", peer=self.address, first=first[:4].hex(),
            advice="this port is for RocketMQ 5's SDKs; remoting clients connect to a nameserver",
        )  # fmt: skip
        if first[:4] in _HTTP_1:
            self.send(_NO_HTTP)
        self.close()

    def _too_late(self) -> None:
        log.info("front.silent", peer=self.address)
        self.abort()
