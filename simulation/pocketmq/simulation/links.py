"""Connections and ports of simulated processes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any, Protocol, TypeAlias

from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.network import MakeProtocol, OpenChannels
from pocketmq.simulation.loop import SimProcess, VirtualLoop
from pocketmq.simulation.network_faults import Pair


class Carrier(Protocol):
    """The network, as its links see it."""

    loop: VirtualLoop

    def send(self, sender: SimTransport, data: bytes) -> None:
        """Carry bytes to the other end."""

    def delivered(self, receiver: SimTransport, data: bytes) -> None:
        """The receiver has processed bytes."""

    def finish(self, sender: SimTransport) -> None:
        """The sender's side is closed; the other end notices after all bytes have arrived."""

    def forget(self, link: Link) -> None:
        """One side of a link has ended."""


class Link:
    """A connection: two ends, and the bytes that wait for the end of a partition."""

    __slots__ = ("ends", "is_cut", "network", "pair", "waiting")

    def __init__(self, network: Carrier, pair: Pair) -> None:
        self.network = network
        self.pair = pair
        self.ends: tuple[SimTransport, ...] = ()
        self.is_cut = False
        self.waiting: list[tuple[SimTransport, bytes | None]] = []
        """(receiver, bytes or None for the end), in order."""


class SimTransport(asyncio.Transport):
    """One end of a link."""

    def __init__(
        self,
        link: Link,
        process: SimProcess,
        protocol: asyncio.Protocol,
        local: object,
        remote: object,
    ) -> None:
        super().__init__({"sockname": local, "peername": remote})
        self.link = link
        self.process = process
        self.context = process.context()
        self._protocol = protocol
        self.is_stream = not isinstance(protocol, Channel)
        """Whether it carries replication, and no remoting frames."""
        self.arrives_at = 0.0
        """Arrival time of the last bytes sent *to* this end; later bytes arrive after it."""
        self.notified_at: deque[float] = deque()
        """Send times of the notifications in flight to this end."""
        self.other: SimTransport
        self._closing = False
        self._lost = False
        self._paused = False
        self._unread: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if not self._closing:
            self.link.network.send(self, bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview[Any]]) -> None:
        self.write(b"".join(list_of_data))

    def deliver(self, data: bytes) -> None:
        """Receive bytes from the other end."""
        if self._lost or self._closing or self.link.is_cut:
            return
        if self._paused:
            self._unread.append(data)
            return
        self._protocol.data_received(data)
        self.link.network.delivered(self, data)

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        unread, self._unread = self._unread, []
        for data in unread:
            self.deliver(data)

    def is_reading(self) -> bool:
        return not self._paused and not self._closing

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        loop = self.link.network.loop
        loop.call_soon(self.lose, context=self.context)
        self.link.network.finish(self)

    def abort(self) -> None:
        self.close()

    def lose(self) -> None:
        """End the link on this side; reported once."""
        self._closing = True
        if not self._lost:
            self._lost = True
            self.link.network.forget(self.link)
            self._protocol.connection_lost(None)

    @property
    def is_lost(self) -> bool:
        """Whether this side knows that the link has ended, or its process is dead."""
        return self._lost

    def vanish(self) -> None:
        """End this side without a report, because its process is dead."""
        self._closing = self._lost = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is buffered, so there are no limits."""

    def get_write_buffer_size(self) -> int:
        return 0


class SimListener:
    """A port of one process."""

    def __init__(
        self, ports: Ports, process: SimProcess, port: int, channels: OpenChannels
    ) -> None:
        self.process = process
        self.port = port
        self.channels = channels
        self._ports = ports

    async def close(self) -> None:
        if self._ports.get(self.port) is self:
            del self._ports[self.port]
        await self.channels.close()


class SimStreams:
    """A port of one process for byte streams that are no remoting frames."""

    def __init__(self, ports: Ports, process: SimProcess, port: int, make: MakeProtocol) -> None:
        self.process = process
        self.port = port
        self.make = make
        self._ports = ports

    async def close(self) -> None:
        if self._ports.get(self.port) is self:
            del self._ports[self.port]


Ports: TypeAlias = dict[int, SimListener | SimStreams]
"""Who listens on which port."""
