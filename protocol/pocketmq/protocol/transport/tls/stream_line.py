"""`StreamTlsLine`: a byte stream that a peer opened to us, of a port that takes TLS only.

Its reader hears of it when the handshake is complete, which must be within `FRAME_LIMIT_S`. Of more
than `budget.tls_handshakes` at once the oldest is closed, as at ports for requests.
"""

from __future__ import annotations

import asyncio
from typing import cast

import structlog

from pocketmq.protocol.budget import BudgetSource
from pocketmq.protocol.transport.network import FRAME_LIMIT_S, MakeProtocol
from pocketmq.protocol.transport.tls.engine import TlsEngine
from pocketmq.protocol.transport.tls.line import TLS_BYTE, Line, TlsTransport
from pocketmq.protocol.transport.tls.server_tls import ServerTls
from pocketmq.runtime.addresses import address_text
from pocketmq.runtime.errors import ConfigError

log = structlog.get_logger()


class StreamTlsLine(Line):
    """A connection that a peer made to us.

    Args:
        inner: Reads what comes in.
        tls: Of the port.
        budget: Says how many handshakes there may be at once.
    """

    def __init__(self, inner: asyncio.Protocol, tls: ServerTls, budget: BudgetSource) -> None:
        super().__init__(inner)
        self.address = "?"
        """Of the peer."""
        self._tls = tls
        self._budget = budget
        self._limit: asyncio.TimerHandle | None = None

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        name = transport.get_extra_info("peername")
        self.address = address_text(*name[:2]) if name else "?"
        self._limit = asyncio.get_running_loop().call_later(FRAME_LIMIT_S, self._too_late)
        self._tls.handshakes.begin(self, self._budget().tls_handshakes)

    def data_received(self, data: bytes) -> None:
        if self.engine is None:
            context = self._tls.context() if data[0] == TLS_BYTE else None
            if context is None:
                if data[0] != TLS_BYTE:
                    log.warning(
                        "tls.missing",
                        peer=self.address,
                        advice="this port takes TLS only: have the other end use it, and prove"
                        " that it is a member (members_must_prove)",
                    )
                self.abort()  # else the log says what is missing
                return
            self.engine = TlsEngine(context, server_side=True)
        self._read(self.engine, data)

    def eof_received(self) -> bool | None:
        return super().eof_received() if self._is_open else None

    def connection_lost(self, exc: Exception | None) -> None:
        self._shaken()
        if self._is_open:
            super().connection_lost(exc)
        self._transport = None

    def pause_writing(self) -> None:
        if self._is_open:
            super().pause_writing()

    def resume_writing(self) -> None:
        if self._is_open:
            super().resume_writing()

    # -- inside -----------------------------------------------------------------------------

    @property
    def _is_open(self) -> bool:
        return self.engine is not None and self.engine.is_open

    def _open(self) -> None:
        self._shaken()
        assert self._transport is not None
        self.reader.connection_made(TlsTransport(self._transport, self))

    def _fail(self, reason: str) -> None:
        self._shaken()
        log.warning("tls.failed", peer=self.address, reason=reason)
        if self._transport is not None:
            self._transport.close()  # the alert still leaves

    def _too_late(self) -> None:
        log.warning("tls.stalled", peer=self.address, limit_s=FRAME_LIMIT_S)
        self.abort()

    def _shaken(self) -> None:
        self._tls.handshakes.end(self)
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None


def stream_lines(make: MakeProtocol, tls: ServerTls | None, budget: BudgetSource) -> MakeProtocol:
    """What handles connections of a port for streams, with TLS before it.

    Raises:
        ConfigError: there is no TLS.
    """
    if tls is None:
        raise ConfigError(
            "tls_server_mode",
            "TLS is disabled, but one of the ports accepts only TLS; choose permissive or "
            "enforcing",
        )
    return lambda: StreamTlsLine(make(), tls, budget)
