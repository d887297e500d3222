"""`ServerTlsLine` and `ClientTlsLine`: stand between a socket and its channel, and speak TLS.

The first byte of a connection tells TLS from plaintext on one port (Y-1):

    first byte    permissive      enforcing
    0x16          TLS             TLS
    other         plaintext       closed, no answer

A connection in plaintext costs nothing from then on: the line has the socket call the channel
directly, and stands aside. A port whose mode is `disabled` has no lines.

What a peer may cost before the handshake is complete is bounded: it must end within
`FRAME_LIMIT_S`, and of more than `budget.tls_handshakes` at once the oldest is closed.
Renegotiation is refused (`operation/tls/contexts.py`).
"""

from __future__ import annotations

import asyncio
import ssl
from abc import ABC, abstractmethod
from typing import Any, Final, cast

import structlog

from pocketmq.protocol.transport.channel import FULL_READ_BYTES, Channel
from pocketmq.protocol.transport.line_transport import LineTransport
from pocketmq.protocol.transport.tls.client_tls import ClientTls
from pocketmq.protocol.transport.tls.engine import TlsEngine
from pocketmq.protocol.transport.tls.server_tls import ServerTls
from pocketmq.runtime.addresses import address_text

log = structlog.get_logger()

TLS_BYTE: Final = 0x16
"""A record of the handshake. No frame can begin with it: its length would exceed 16 MiB."""


class TlsTransport(LineTransport):
    """The socket's transport as a channel sees it: what is written is encrypted on its way.

    Args:
        transport: Of the socket.
        line: Encrypts.
    """

    def __init__(self, transport: asyncio.Transport, line: Line) -> None:
        super().__init__(transport)
        self._line = line
        self.write_to(line.write)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "ssl_object":
            engine = self._line.engine
            return default if engine is None else engine.ssl_object
        return super().get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._line.read_by(cast("asyncio.Protocol", protocol))

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._line.reader

    def close(self) -> None:
        self._line.finish()
        super().close()


class Line(asyncio.Protocol, ABC):
    """What both ends have in common.

    Args:
        inner: Reads what comes in, decrypted.
    """

    def __init__(self, inner: asyncio.Protocol) -> None:
        self.reader = inner
        self.engine: TlsEngine | None = None
        """None: the connection is in plaintext, or has not said what it is."""
        self._transport: asyncio.Transport | None = None
        self._unsealed: list[bytes] = []
        """Written before the handshake was complete."""

    def read_by(self, protocol: asyncio.Protocol) -> None:
        """From now on this reads what comes in."""
        self.reader = protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """What the channel sends."""
        transport, engine = self._transport, self.engine
        if transport is None:
            return
        # Plaintext, or the peer has sent nothing yet.
        if engine is None:
            transport.write(data)
        elif not engine.is_open:
            # Wait for the keys until the handshake is complete.
            self._unsealed.append(bytes(data))
        elif not engine.failure:
            try:
                transport.write(engine.seal(data))
            except ssl.SSLError as exc:
                self._fail(f"nothing can be sent any more: {exc.reason}")

    def finish(self) -> None:
        """Tell the peer that nothing more comes."""
        transport, engine = self._transport, self.engine
        if transport is not None and engine is not None and not transport.is_closing():
            last = engine.finish()
            if last:
                transport.write(last)

    # -- asyncio.Protocol -----------------------------------------------------------------------

    def eof_received(self) -> bool | None:
        return self.reader.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._unsealed.clear()
        self.reader.connection_lost(exc)

    def pause_writing(self) -> None:
        self.reader.pause_writing()

    def resume_writing(self) -> None:
        self.reader.resume_writing()

    # -- inside ---------------------------------------------------------------------------------

    @abstractmethod
    def _open(self) -> None:
        """The handshake is complete."""

    @abstractmethod
    def _fail(self, reason: str) -> None:
        """The connection cannot go on."""

    def _read(self, engine: TlsEngine, data: bytes) -> None:
        was_open = engine.is_open
        plain = engine.feed(data)
        transport = self._transport
        if transport is None:
            return
        answer = engine.take()
        if answer:
            transport.write(answer)
        # The handshake has just ended: send what waited for it.
        if engine.is_open and not was_open:
            self._open()
            unsealed, self._unsealed = self._unsealed, []
            for each in unsealed:
                self.write(each)
        # Read the data only now: the channel's answers must come after what waited.
        if plain:
            self.reader.data_received(plain)
        if engine.failure:
            self._fail(engine.failure)
        elif engine.is_over and self._transport is not None and not transport.is_closing():
            # The peer has closed its end: send what the channel has left, and close, too.
            self.reader.eof_received()
            self.finish()
            transport.close()


class ServerTlsLine(Line):
    """A connection that a peer made to us.

    Args:
        channel: Reads what comes in.
        inner: The channel, or what stands in front of it.
        tls: Of the port.
    """

    def __init__(self, channel: Channel, inner: asyncio.Protocol, tls: ServerTls) -> None:
        super().__init__(inner)
        self._channel = channel
        self._tls = tls
        self._is_plain = False

    @property
    def address(self) -> str:
        """Of the peer."""
        return self._channel.address

    def abort(self) -> None:
        """Close at once: others want to shake hands, and this peer does not get done."""
        self._channel.abort()

    def read_by(self, protocol: asyncio.Protocol) -> None:
        super().read_by(protocol)
        # In plaintext the socket calls the protocol directly, without this line.
        if self._is_plain and self._transport is not None:
            self._transport.set_protocol(protocol)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        # Report the connection now; the first byte will show whether it is TLS.
        self.reader.connection_made(TlsTransport(self._transport, self))

    def data_received(self, data: bytes) -> None:
        engine = self.engine
        if engine is not None:
            # A full read means that more is waiting: other connections get a turn first.
            if len(data) >= FULL_READ_BYTES:
                self._channel.let_others_read()
            self._read(engine, data)
        elif data[0] == TLS_BYTE:
            self._shake_hands(data)
        elif self._tls.enforces:
            log.warning(
                "tls.missing", peer=self._channel.address,
                advice="this port takes TLS only (tls.server.mode=enforcing): have the client"
                " use it (tls=True, Java's setUseTLS(true))",
            )  # fmt: skip
            self._channel.abort()
        else:
            self._stand_aside(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._tls.handshakes.end(self)
        super().connection_lost(exc)

    # -- inside ---------------------------------------------------------------------------------

    def _stand_aside(self, data: bytes) -> None:
        """The socket calls the channel from now on."""
        # Set this first: the channel may call `read_by` while it takes the socket over.
        self._is_plain = True
        transport = self._transport
        assert transport is not None
        transport.set_protocol(self.reader)
        # The channel then writes to the socket directly, too.
        if self.reader is self._channel:
            self._channel.write_to(transport)
        self.reader.data_received(data)

    def _shake_hands(self, data: bytes) -> None:
        context = self._tls.context()
        if context is None:
            self._channel.abort()  # the log says what is missing
            return
        channel = self._channel
        self._tls.handshakes.begin(self, channel.dispatcher.budget().tls_handshakes)
        # The time limit of an unfinished frame also bounds the handshake.
        channel.frame_began_at = asyncio.get_running_loop().time()
        self.engine = TlsEngine(context, server_side=True)
        self._read(self.engine, data)

    def _open(self) -> None:
        self._tls.handshakes.end(self)
        self._channel.frame_began_at = None

    def _fail(self, reason: str) -> None:
        self._tls.handshakes.end(self)
        log.warning("tls.failed", peer=self._channel.address, reason=reason)
        if self._transport is not None:
            self._channel.close()  # the alert still leaves


class ClientTlsLine(Line):
    """A connection that we make: the channel hears of it when the handshake is complete.

    Args:
        inner: Reads what comes in.
        tls: Whom to trust.
    """

    def __init__(self, inner: asyncio.Protocol, tls: ClientTls) -> None:
        super().__init__(inner)
        self.engine = TlsEngine(tls.context, server_side=False, server_name=tls.server_name)
        self._shaken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def shaken(self) -> None:
        """Wait for the end of the handshake; who does not wait so long hangs up.

        Raises:
            ConnectionError: it failed; the text says why.
        """
        try:
            await self._shaken
        except asyncio.CancelledError:
            if self._transport is not None:
                self._transport.abort()
            raise

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        assert self.engine is not None
        self.engine.start()
        self._transport.write(self.engine.take())

    def data_received(self, data: bytes) -> None:
        assert self.engine is not None
        self._read(self.engine, data)

    def eof_received(self) -> bool | None:
        return self.reader.eof_received() if self._is_open else False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_open:
            super().connection_lost(exc)
            return
        self._transport = None
        self._end("the peer hung up during the handshake; does it take TLS?")

    def pause_writing(self) -> None:
        if self._is_open:
            super().pause_writing()

    def resume_writing(self) -> None:
        if self._is_open:
            super().resume_writing()

    # -- inside ---------------------------------------------------------------------------------

    @property
    def _is_open(self) -> bool:
        return self.engine is not None and self.engine.is_open

    def _open(self) -> None:
        assert self._transport is not None
        self.reader.connection_made(TlsTransport(self._transport, self))
        # The caller may have given up meanwhile.
        if not self._shaken.done():
            self._shaken.set_result(None)

    def _fail(self, reason: str) -> None:
        transport = self._transport
        if self._is_open:
            name = None if transport is None else transport.get_extra_info("peername")
            peer = address_text(*name[:2]) if name else "?"
            log.warning("tls.failed", peer=peer, reason=reason)
        self._end(reason)
        if transport is not None:
            transport.close()

    def _end(self, reason: str) -> None:
        if not self._shaken.done():
            self._shaken.set_exception(ConnectionError(f"TLS: {reason}"))
