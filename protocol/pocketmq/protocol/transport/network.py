"""The seam itself: what roles need from a network, whichever carries the bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import structlog

from pocketmq.protocol.budget import BudgetSource, default_budget
from pocketmq.protocol.command import VERSION_5_3_3, Encoding
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.signing import Credentials
from pocketmq.protocol.transport.channel import Channel
from pocketmq.runtime.files.descriptors import AcceptedConnections

log = structlog.get_logger()

IDLE_LIMIT_S = 120.0
"""A connection that neither read nor wrote for this long is closed (N-22, B-26); real time."""

FRAME_LIMIT_S = 30.0
"""A frame that has begun must end within this time: no connection is held by a byte a second."""

SWEEP_S = 5.0

OnChannel = Callable[[Channel], None]
MakeProtocol = Callable[[], asyncio.Protocol]
"""Makes what handles one accepted connection of a port that carries no remoting frames."""


class Listener(Protocol):
    """A port that accepts connections."""

    @property
    def port(self) -> int:
        """The port it really has, also when it was asked for any."""
        ...

    async def close(self) -> None:
        """Stop accepting and close every connection."""
        ...


class Network(Protocol):
    """Serves and opens channels."""

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
        """Listen; port 0 takes any free one.

        Raises:
            PortInUseError: somebody else listens there.
        """
        ...

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
        """Open a channel to `host:port`, whose own requests the credentials sign (Y-10).

        Raises:
            ConnectError: nobody answers there in time.
        """
        ...

    async def listen(
        self,
        host: str,
        port: int,
        make: MakeProtocol,
        *,
        budget: BudgetSource = default_budget,
        tls: bool = False,
    ) -> Listener:
        """Listen for plain byte streams, each handled by a protocol of its own; port 0 is any.

        Closing the listener only ends the listening: who made the protocols ends their connections.
        With `tls` it takes TLS only, and the protocols hear of a connection after the handshake; of
        `budget`, `tls_handshakes` bounds those.

        Raises:
            ConfigError: it is to take TLS, and this network has none at its ports.
            PortInUseError: somebody else listens there.
        """
        ...

    async def dial(
        self,
        address: str,
        protocol: asyncio.Protocol,
        *,
        timeout_s: float = 3.0,
        tls: bool = False,
        to_member: bool = True,
    ) -> None:
        """Open a plain byte stream to `host:port`; `protocol.connection_made` has been called.

        With `tls` it is as connections to roles are: encrypted, if this network uses TLS for those.
        Where members must prove who they are (`MemberNetwork`), they do so over TLS in any case,
        except to a port that is no member's: `to_member=False`.

        Raises:
            ConnectError: nobody answers there in time.
        """
        ...


class OpenChannels:
    """The accepted channels of a listener, and the sweep that closes idle and stalled ones.

    Args:
        dispatcher: Answers what comes in; its budget says what peers may cost.
        version: What answers say of the protocol's version.
        on_open: Told of each channel.
        on_close: Told of its end.
        places: For all that this process accepts; who finds none is refused. None: any number.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        version: int,
        on_open: OnChannel | None,
        on_close: OnChannel | None,
        places: AcceptedConnections | None = None,
    ) -> None:
        self.all: dict[Channel, None] = {}
        """In the order in which they came, so that a close is the same each time."""
        self.memory = dispatcher.peers
        """What all of them have waiting here, and those of the dispatcher's other listeners."""
        self._dispatcher = dispatcher
        self._version = version
        self._on_open = on_open
        self._on_close = on_close
        self._places = places
        self._refused = 0
        """Connections refused since the last sweep told of them."""
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def accept(self) -> Channel:
        """A channel for a connection that comes in; it counts once the connection is made."""
        return Channel(
            self._dispatcher,
            peers=self.memory,
            version=self._version,
            on_open=self._opened,
            on_close=self._ended,
        )

    async def close(self) -> None:
        """Close all and wait until they have ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        open_channels = list(self.all)
        for channel in open_channels:
            channel.close()
        # Channels that do not close within a second are aborted.
        if open_channels:
            _, slow = await asyncio.wait([c.closed for c in open_channels], timeout=1.0)
            if slow:
                for channel in open_channels:
                    channel.abort()

    def sweep(self) -> None:
        """Close the channels that are idle, or in the middle of a frame, for too long."""
        now = self._loop.time()
        # Report once per sweep: a flood of connections must not fill the log.
        if self._refused > 1:
            log.warning("peers.refused", connections=self._refused)
        self._refused = 0
        for channel in list(self.all):
            began = channel.frame_began_at
            if began is not None and now - began > FRAME_LIMIT_S:
                log.warning("frame.stalled", peer=channel.address, began_s=round(now - began, 1))
                channel.abort()
            elif now - channel.last_active_at > IDLE_LIMIT_S:
                log.info("peer.idle", peer=channel.address)
                channel.abort()

    def _opened(self, channel: Channel) -> None:
        # The remaining file descriptors are kept for files.
        if self._places is not None and not self._places.take():
            self._refuse(channel, self._places.count)
            return
        self.all[channel] = None
        # The sweep runs only while somebody is connected.
        if self._timer is None:
            self._timer = self._loop.call_later(SWEEP_S, self._sweep_on)
        if self._on_open is not None:
            self._on_open(channel)

    def _refuse(self, channel: Channel, open_connections: int) -> None:
        """Hang up: the descriptors that are left are for files."""
        if not self._refused:
            log.warning(
                "peer.refused", peer=channel.address, open_connections=open_connections,
                advice="raise `ulimit -n`, or find out who holds so many connections",
            )  # fmt: skip
        self._refused += 1
        channel.abort()

    def _ended(self, channel: Channel) -> None:
        if channel not in self.all:
            return  # it was refused
        del self.all[channel]
        if self._places is not None:
            self._places.give_back()
        if self._on_close is not None:
            self._on_close(channel)

    def _sweep_on(self) -> None:
        self.sweep()
        self._timer = self._loop.call_later(SWEEP_S, self._sweep_on) if self.all else None
