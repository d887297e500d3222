"""The first exchange on a stream between members: a replication port has no requests.

    the slave                                     the master's port
    TLS handshake                            <->
                                             <-   challenge, 32 bytes
    nonce, 32 bytes, and proof, 32 bytes     ->
                                             <-   proof, 32 bytes
    the stream as RocketMQ has it (H-20)     <->

Until then the protocols at both ends know nothing of the connection. Who has not proven within
`PROOF_LIMIT_S`, or before the port is closed, is hung up on.
"""

from __future__ import annotations

import asyncio
import secrets
from abc import ABC, abstractmethod
from typing import Final, Protocol, cast

import structlog

from pocketmq.protocol.member_proof import (
    CHALLENGE_BYTES,
    NEEDS_TLS,
    PROOF_BYTES,
    SHARE_IT,
    End,
    Exchange,
    Secret,
    Secrets,
    is_proven,
    proof,
)
from pocketmq.protocol.transport.network import MakeProtocol
from pocketmq.protocol.transport.tls_binding import tls_binding
from pocketmq.runtime.addresses import address_text

log = structlog.get_logger()

REVOKED: Final = "the secret was changed during the proof"

PROOF_LIMIT_S: Final = 30.0
"""From the end of the TLS handshake, which has its own limit, to the proof; real time."""


class Tied(Protocol):
    """A connection that a secret has proven."""

    def abort(self) -> None:
        """Close at once."""


class SecretKeeper(Protocol):
    """Knows the secrets of the cluster."""

    @property
    def secrets(self) -> Secrets:
        """As they are now."""
        ...

    def tie(self, connection: Tied, secret: Secret) -> bool:
        """The connection is proven, and is to end when this secret is none any more.

        False: it was revoked during the proof, and the connection is closed.
        """
        ...


class _ProvenStream(asyncio.Protocol, ABC):
    """One end: stands before the protocol that reads the stream.

    Args:
        inner: Reads it once both ends have proven.
        keeper: Of the secrets.
    """

    def __init__(self, inner: asyncio.Protocol, keeper: SecretKeeper) -> None:
        self._inner = inner
        self._keeper = keeper
        self._transport: asyncio.Transport | None = None
        self._read = b""
        self._is_open = False
        """Both ends have proven."""

    # -- asyncio.Protocol -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._is_open:
            self._inner.data_received(data)
            return
        self._read += data
        self._look()

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._is_open else None

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._is_open:
            self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        if self._is_open:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._is_open:
            self._inner.resume_writing()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    # -- inside -----------------------------------------------------------------------------

    @abstractmethod
    def _look(self) -> None:
        """More was read, and is no part of the stream yet."""

    def _take(self, size: int) -> bytes | None:
        """The next bytes; None while they have not all come."""
        if len(self._read) < size:
            return None
        taken, self._read = self._read[:size], self._read[size:]
        return taken

    def _begin(self) -> None:
        """The stream begins; what has come of it is read."""
        assert self._transport is not None
        self._is_open = True
        self._inner.connection_made(self._transport)
        rest, self._read = self._read, b""
        if rest and self._transport is not None:
            self._inner.data_received(rest)


class ProvenStreams:
    """The connections of one port, of which its protocols hear once they are proven.

    Args:
        make: Makes the protocol of one connection.
        keeper: Of the secrets.
    """

    def __init__(self, make: MakeProtocol, keeper: SecretKeeper) -> None:
        self._make = make
        self._keeper = keeper
        self._unproven: dict[AcceptedProvenStream, None] = {}
        self._is_closed = False

    def accept(self) -> AcceptedProvenStream:
        """What reads a connection that comes in."""
        return AcceptedProvenStream(self._make(), self._keeper, self)

    def close(self) -> None:
        """Hang up on who has not proven; on whose TLS handshake is under way, as soon as it is
        complete, or at its own limit.

        Who made the protocols ends the others, and knows nothing of these.
        """
        self._is_closed = True
        for stream in list(self._unproven):
            stream.abort()

    def begin(self, stream: AcceptedProvenStream) -> bool:
        """It is to prove now; False: the port was closed meanwhile."""
        self._unproven[stream] = None
        return not self._is_closed

    def end(self, stream: AcceptedProvenStream) -> None:
        """It has proven, or was lost."""
        self._unproven.pop(stream, None)


class AcceptedProvenStream(_ProvenStream):
    """The end that was connected to."""

    def __init__(
        self, inner: asyncio.Protocol, keeper: SecretKeeper, streams: ProvenStreams
    ) -> None:
        super().__init__(inner, keeper)
        self._streams = streams
        self._challenge = b""
        self._address = "?"
        self._limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if not self._streams.begin(self):
            self.abort()
            return
        name = transport.get_extra_info("peername")
        self._address = address_text(*name[:2]) if name else "?"
        self._limit = asyncio.get_running_loop().call_later(PROOF_LIMIT_S, self._too_late)
        self._challenge = secrets.token_bytes(CHALLENGE_BYTES)
        assert self._transport is not None
        self._transport.write(self._challenge)

    def connection_lost(self, exc: Exception | None) -> None:
        self._settled()
        super().connection_lost(exc)

    def _look(self) -> None:
        shown = self._take(CHALLENGE_BYTES + PROOF_BYTES)
        # What was read before an abort may still come.
        if shown is None or self._transport is None or self._transport.is_closing():
            return
        nonce, theirs = shown[:CHALLENGE_BYTES], shown[CHALLENGE_BYTES:]
        exchange = Exchange(tls_binding(self._transport), self._challenge, nonce)
        secret = self._keeper.secrets.proven(End.CONNECTED, exchange, theirs)
        if secret is None:
            self._refuse("it has shown a wrong proof")
            return
        self._settled()
        if not self._keeper.tie(self, secret):
            return
        # With the secret that the other end has: of a new one it may not know yet.
        self._transport.write(proof(secret, End.ACCEPTED, exchange))
        self._begin()

    def _too_late(self) -> None:
        self._refuse(f"it has proven nothing within {PROOF_LIMIT_S:g} s")

    def _refuse(self, reason: str) -> None:
        log.warning("member.refused", peer=self._address, reason=reason, advice=SHARE_IT)
        self.abort()

    def _settled(self) -> None:
        self._streams.end(self)
        if self._limit is not None:
            self._limit.cancel()


class ConnectedProvenStream(_ProvenStream):
    """The end that connected; `proven` waits for the exchange."""

    def __init__(self, inner: asyncio.Protocol, keeper: SecretKeeper) -> None:
        super().__init__(inner, keeper)
        self._secret = keeper.secrets.own
        self._exchange: Exchange | None = None
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def proven(self) -> None:
        """Return when the stream has begun; who does not wait so long hangs up.

        Raises:
            ConnectionError: the other end has refused us, or is no member.
        """
        try:
            await self._done
        except asyncio.CancelledError:
            if self._transport is not None:
                self._transport.abort()
            raise

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._end(f"it hung up on our proof: {SHARE_IT}")

    def _look(self) -> None:
        transport = self._transport
        if transport is None:
            return
        if self._exchange is None:
            challenge = self._take(CHALLENGE_BYTES)
            if challenge is None:
                return
            binding = tls_binding(transport)
            if not binding:
                self._end(NEEDS_TLS)
                transport.abort()
                return
            nonce = secrets.token_bytes(CHALLENGE_BYTES)
            self._exchange = Exchange(binding, challenge, nonce)
            transport.write(nonce + proof(self._secret, End.CONNECTED, self._exchange))
        shown = self._take(PROOF_BYTES)
        if shown is None:
            return
        if not is_proven(self._secret, End.ACCEPTED, self._exchange, shown):
            self._end(f"its proof is wrong: {SHARE_IT}")
            transport.abort()
            return
        if not self._keeper.tie(self, self._secret):
            self._end(REVOKED)
            return
        self._begin()
        if not self._done.done():
            self._done.set_result(None)

    def _end(self, reason: str) -> None:
        if not self._done.done():
            self._done.set_exception(ConnectionError(reason))
