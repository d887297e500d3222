"""`MemberNetwork`: a network whose ends prove to each other that they are members of one cluster.

Nobody above it knows of that. What a role or command opens is proven before it is handed over; at
ports that it serves, peers may prove themselves, and what they may then ask is `doors.py`'s to
say. Streams in plaintext, which only replication has, are encrypted and proven at both ends.
"""

from __future__ import annotations

import asyncio
import contextlib

from pocketmq.operation.membership.members import MemberProcessor, Members, prove_to
from pocketmq.protocol.budget import BudgetSource, default_budget
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import VERSION_5_3_3, Encoding
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.errors import ConnectError
from pocketmq.protocol.signing import Credentials
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.member_streams import (
    REVOKED,
    ConnectedProvenStream,
    ProvenStreams,
)
from pocketmq.protocol.transport.network import Listener, MakeProtocol, Network, OnChannel


class MemberNetwork:
    """Connects members.

    Args:
        inner: Carries the bytes; with TLS at its ports and for its connections.
        members: Of this process.
    """

    def __init__(self, inner: Network, members: Members) -> None:
        self._inner = inner
        self._members = members
        self._processor = MemberProcessor(members)

    async def serve(
        self,
        host: str,
        port: int,
        dispatcher: Dispatcher,
        *,
        version: int = VERSION_5_3_3,
        on_open: OnChannel | None = None,
        on_close: OnChannel | None = None,
    ) -> Listener:
        if RequestCode.PROVE_MEMBER not in dispatcher.single:  # one dispatcher may serve two ports
            dispatcher.add(self._processor)
        return await self._inner.serve(
            host, port, dispatcher, version=version, on_open=on_open, on_close=on_close
        )

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
        await self._look(timeout_s)
        is_proven = False

        def closed(channel: Channel) -> None:
            # A refused connection is not reported: a broker would take it for a lost nameserver and
            # register again at once, without end.
            if is_proven and on_close is not None:
                on_close(channel)

        channel = await self._inner.connect(
            address,
            Dispatcher(),  # who has proven nothing asks us nothing
            encoding=encoding,
            version=version,
            timeout_s=timeout_s,
            on_close=closed,
            credentials=credentials,
        )
        try:
            secret = self._members.secrets.own
            await prove_to(channel, address, secret, timeout_s=timeout_s)
            if not self._members.tie(channel, secret):
                raise ConnectError(address, REVOKED)
            # `closed` has not reported this connection, so the caller must not get it as an open
            # one.
            if channel.closed.done():
                raise ConnectError(
                    address, "the peer closed the connection right after the proof of membership"
                )
        # Also when cancelled: nobody else knows of this connection yet.
        except BaseException:
            channel.close()
            raise
        is_proven = True
        # From now on, requests of the other end are answered.
        channel.dispatcher = dispatcher
        return channel

    async def listen(
        self,
        host: str,
        port: int,
        make: MakeProtocol,
        *,
        budget: BudgetSource = default_budget,
        tls: bool = False,
    ) -> Listener:
        streams = ProvenStreams(make, self._members)
        # Always TLS, whatever the caller asks for: proofs need it.
        listener = await self._inner.listen(host, port, streams.accept, budget=budget, tls=True)
        return _MemberListener(listener, streams)

    async def dial(
        self,
        address: str,
        protocol: asyncio.Protocol,
        *,
        timeout_s: float = 3.0,
        tls: bool = False,
        to_member: bool = True,
    ) -> None:
        if not to_member:
            await self._inner.dial(address, protocol, timeout_s=timeout_s, tls=tls)
            return
        await self._look(timeout_s)
        stream = ConnectedProvenStream(protocol, self._members)
        await self._inner.dial(address, stream, timeout_s=timeout_s, tls=True)
        try:
            async with asyncio.timeout(timeout_s):  # an I/O deadline: real time
                await stream.proven()
        except OSError as exc:  # TimeoutError is one
            raise ConnectError(address, str(exc) or type(exc).__name__) from exc

    async def _look(self, timeout_s: float) -> None:
        """Use the secret as it is now, in a process that does not look at it all the time."""
        if self._members.is_watching:
            return
        # A file on a disk that is away must not hold up a connection for ever: the secret that is
        # known is most likely still one.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):  # an I/O deadline: real time
                await self._members.look()


class _MemberListener:
    """A port for streams, and its connections that are not proven yet.

    Args:
        inner: The port.
        streams: Of its connections.
    """

    def __init__(self, inner: Listener, streams: ProvenStreams) -> None:
        self._inner = inner
        self._streams = streams

    @property
    def port(self) -> int:
        return self._inner.port

    async def close(self) -> None:
        # Both without a turn of the loop in between: a proof that comes later finds it closed.
        self._streams.close()
        await self._inner.close()
