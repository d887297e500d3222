"""The simulation's network: delays, partitions, resets and lost notifications.

A link is a connection between two processes. Bytes arrive in order after a latency. During a
partition they wait, because TCP would retransmit them, and new connections time out. A reset ends
the link and drops bytes in flight, so that answers to executed requests are lost. The links of a
killed process are reset, unless its whole machine died: then the peers do not notice.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pocketmq.cluster.simulation.loop import PROCESS, SimProcess, VirtualLoop
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import VERSION_5_3_3, Encoding
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.errors import ConnectError
from pocketmq.protocol.frame import FrameDecoder
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.network import (
    MakeProtocol,
    OnChannel,
    OpenChannels,
    split_address,
)
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import PortInUseError

NOTIFICATION_MAX_BYTES = 400

Pair = frozenset[str]


class Weather:
    """The current faults of the network, by names of processes."""

    def __init__(self) -> None:
        self.partitions: set[Pair] = set()
        self.one_way: set[tuple[str, str]] = set()
        """(sender, receiver) between whom bytes do not arrive; those of the other way do."""
        self.delays_s: dict[Pair, float] = {}
        self.lost_notifications: set[str] = set()
        """Clients to which notifications of brokers are lost."""
        self.doubled_notifications: set[str] = set()
        """Clients that get each notification twice."""

    def clear_delay(self, pair: Pair) -> None:
        """End the delay between a pair."""
        self.delays_s.pop(pair, None)

    @property
    def is_fair(self) -> bool:
        """Whether there is no fault."""
        return not (
            self.partitions
            or self.one_way
            or self.delays_s
            or self.lost_notifications
            or self.doubled_notifications
        )


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


class Link:
    """A connection: two ends, and the bytes that wait for the end of a partition."""

    __slots__ = ("ends", "is_cut", "network", "pair", "waiting")

    def __init__(self, network: SimNetwork, pair: Pair) -> None:
        self.network = network
        self.pair = pair
        self.ends: tuple[SimTransport, ...] = ()
        self.is_cut = False
        self.waiting: list[tuple[SimTransport, bytes | None]] = []
        """(receiver, bytes or None for the end), in order."""


class SimListener:
    """A port of one process."""

    def __init__(
        self, network: SimNetwork, process: SimProcess, port: int, channels: OpenChannels
    ) -> None:
        self.process = process
        self.port = port
        self.channels = channels
        self._network = network

    async def close(self) -> None:
        if self._network.listeners.get(self.port) is self:
            del self._network.listeners[self.port]
        await self.channels.close()


class SimStreams:
    """A port of one process for byte streams that are no remoting frames."""

    def __init__(
        self, network: SimNetwork, process: SimProcess, port: int, make: MakeProtocol
    ) -> None:
        self.process = process
        self.port = port
        self.make = make
        self._network = network

    async def close(self) -> None:
        if self._network.listeners.get(self.port) is self:
            del self._network.listeners[self.port]


class SimNetwork:
    """All links of the cluster. The calling process is known from the context variable.

    Args:
        loop: The loop.
        clock: The loop's time.
        rng: Draws latencies.
        latency_s: Shortest and longest latency without faults.
    """

    def __init__(
        self, loop: VirtualLoop, clock: Clock, rng: random.Random, latency_s: tuple[float, float]
    ) -> None:
        self._latency = latency_s
        self.loop = loop
        self._clock = clock
        self.weather = Weather()
        self.listeners: dict[int, SimListener | SimStreams] = {}
        self.links: dict[Link, None] = {}
        self.on_sent: Callable[[SimTransport, bytes], None] | None = None
        """Called with (sender's end, bytes) when bytes are sent."""
        self.on_delivered: Callable[[SimTransport, bytes], None] | None = None
        """Called with (receiver's end, bytes) when they were processed."""
        self.on_notification: Callable[[SimProcess, SimProcess, float], None] | None = None
        """Called with (broker, client, send time) when a notification arrived."""
        self._rng = rng
        self._next_port = 40000

    # -- the seam -------------------------------------------------------------------------------

    async def serve(
        self,
        host: str,
        port: int,
        dispatcher: Dispatcher,
        *,
        version: int = VERSION_5_3_3,
        on_open: OnChannel | None = None,
        on_close: OnChannel | None = None,
    ) -> SimListener:
        port = port or self._free_port()
        if port in self.listeners:
            raise PortInUseError(port)
        channels = OpenChannels(dispatcher, version, on_open, on_close)
        listener = SimListener(self, _caller(), port, channels)
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
    ) -> Channel:
        listener = await self._reach(address, timeout_s)
        if not isinstance(listener, SimListener):
            raise ConnectError(address, "no remoting port")
        near = Channel(dispatcher, encoding=encoding, version=version, on_close=on_close)
        self._join(near, listener, listener.channels.accept, address)
        return near

    async def listen(self, host: str, port: int, make: MakeProtocol) -> SimStreams:
        port = port or self._free_port()
        if port in self.listeners:
            raise PortInUseError(port)
        listener = self.listeners[port] = SimStreams(self, _caller(), port, make)
        return listener

    async def dial(
        self, address: str, protocol: asyncio.Protocol, *, timeout_s: float = 3.0
    ) -> None:
        listener = await self._reach(address, timeout_s)
        if not isinstance(listener, SimStreams):
            raise ConnectError(address, "a remoting port")
        self._join(protocol, listener, listener.make, address)

    async def _reach(self, address: str, timeout_s: float) -> SimListener | SimStreams:
        process = _caller()
        _, port = split_address(address)
        listener = self.listeners.get(port)
        if listener is None:
            await self._clock.sleep(self._latency_s(Pair()))
            raise ConnectError(address, "connection refused")
        pair = Pair((process.name, listener.process.name))
        if pair in self.weather.partitions or self._is_cut_one_way(process, listener.process):
            await self._clock.sleep(timeout_s)
            raise ConnectError(address, "no answer: partitioned")
        await self._clock.sleep(self._latency_s(pair))
        listener = self.listeners.get(port)
        if listener is None or not listener.process.is_there:
            raise ConnectError(address, "connection refused")
        return listener

    def _join(
        self,
        near: asyncio.Protocol,
        listener: SimListener | SimStreams,
        make: MakeProtocol,
        address: str,
    ) -> None:
        process = _caller()
        context = listener.process.context()
        far = context.run(make)
        here, there = ("127.0.0.1", self._free_port()), split_address(address)
        link = Link(self, Pair((process.name, listener.process.name)))
        near_end = SimTransport(link, process, near, here, there)
        far_end = SimTransport(link, listener.process, far, there, here)
        near_end.other, far_end.other = far_end, near_end
        link.ends = (near_end, far_end)
        self.links[link] = None
        context.run(far.connection_made, far_end)
        near.connection_made(near_end)

    # -- bytes ----------------------------------------------------------------------------------

    def send(self, sender: SimTransport, data: bytes) -> None:
        """Send bytes to the other end."""
        receiver = sender.other
        if sender.is_stream:
            if not sender.link.is_cut:
                self._transmit(receiver, data)
            return
        if self.on_sent is not None:
            self.on_sent(sender, data)
        if sender.link.is_cut:
            return
        weather = self.weather
        if is_notification(data):
            client = receiver.process.name
            if client in weather.lost_notifications:
                return
            receiver.notified_at.append(self.loop.time())
            if client in weather.doubled_notifications:
                receiver.notified_at.append(self.loop.time())
                self._transmit(receiver, data)
        self._transmit(receiver, data)

    def _transmit(self, receiver: SimTransport, data: bytes | None) -> None:
        link, weather = receiver.link, self.weather
        if (link.pair in weather.partitions or link.waiting or weather.one_way) and self._waits(
            receiver
        ):
            link.waiting.append((receiver, data))
            return
        at = max(receiver.arrives_at, self.loop.time() + self._latency_s(link.pair))
        receiver.arrives_at = at
        if data is None:
            self.loop.run_at(at, receiver.lose, context=receiver.context)
        else:
            self.loop.run_at(at, receiver.deliver, data, context=receiver.context)

    def _waits(self, receiver: SimTransport) -> bool:
        """Whether bytes to this end cannot arrive now, or would overtake some that wait."""
        link, weather = receiver.link, self.weather
        return (
            link.pair in weather.partitions
            or (receiver.other.process.name, receiver.process.name) in weather.one_way
            or any(each is receiver for each, _ in link.waiting)
        )

    def _is_cut_one_way(self, one: SimProcess, other: SimProcess) -> bool:
        """Whether no connection can be opened, for which bytes must go both ways."""
        cut = self.weather.one_way
        return (one.name, other.name) in cut or (other.name, one.name) in cut

    def finish(self, sender: SimTransport) -> None:
        """Close the sender's side; the other end notices after all bytes have arrived."""
        if not sender.link.is_cut:
            self._transmit(sender.other, None)

    def delivered(self, receiver: SimTransport, data: bytes) -> None:
        """Report that the receiver has processed bytes."""
        if receiver.is_stream:
            return
        sender = receiver.other.process
        if self.on_delivered is not None:
            self.on_delivered(receiver, data)
        if self.on_notification is not None and receiver.notified_at and is_notification(data):
            self.on_notification(sender, receiver.process, receiver.notified_at.popleft())

    def forget(self, link: Link) -> None:
        """Remove a link when both sides have closed it."""
        if all(end.is_lost for end in link.ends):
            self.links.pop(link, None)

    # -- faults ---------------------------------------------------------------------------------

    def heal(self, pair: Pair) -> None:
        """End a partition; waiting bytes are sent."""
        self.weather.partitions.discard(pair)
        self._let_go(pair)

    def heal_one_way(self, sender: str, receiver: str) -> None:
        """End a cut of one direction; waiting bytes are sent."""
        self.weather.one_way.discard((sender, receiver))
        self._let_go(Pair((sender, receiver)))

    def _let_go(self, pair: Pair) -> None:
        for link in list(self._between(pair)):
            waiting, link.waiting = link.waiting, []
            for receiver, data in waiting:
                self._transmit(receiver, data)

    def clear_up(self) -> None:
        """End all faults."""
        for pair in sorted(self.weather.partitions, key=sorted):
            self.heal(pair)
        for sender, receiver in sorted(self.weather.one_way):
            self.heal_one_way(sender, receiver)
        self.weather.delays_s.clear()
        self.weather.lost_notifications.clear()
        self.weather.doubled_notifications.clear()

    def reset(self, pair: Pair) -> None:
        """Reset the links of a pair; both sides notice, and bytes in flight are dropped."""
        for link in list(self._between(pair)):
            self._cut(link)

    def process_died(self, process: SimProcess, *, silently: bool) -> None:
        """Close a dead process's ports and links; peers notice unless the whole machine died."""
        for port in [p for p, each in self.listeners.items() if each.process is process]:
            del self.listeners[port]
        for link in list(self.links):
            for end in link.ends:
                if end.process is process:
                    end.vanish()
                    if silently:
                        link.is_cut = True
                    else:
                        self._transmit(end.other, None)

    def machine_is_back(self, name: str) -> None:
        """Reset old connections of a machine that was started again."""
        for link in list(self.links):
            if name in link.pair and link.is_cut:
                for end in link.ends:
                    self.loop.call_soon(end.lose, context=end.context)
                self.links.pop(link, None)

    def _cut(self, link: Link) -> None:
        link.is_cut = True
        link.waiting.clear()
        for end in link.ends:
            self.loop.call_soon(end.lose, context=end.context)

    def _between(self, pair: Pair) -> Iterator[Link]:
        return (link for link in self.links if link.pair == pair)

    def _latency_s(self, pair: Pair) -> float:
        return self._rng.uniform(*self._latency) + self.weather.delays_s.get(pair, 0.0)

    def _free_port(self) -> int:
        self._next_port += 1
        return self._next_port


def is_notification(data: bytes) -> bool:
    """Whether a write holds NOTIFY_CONSUMER_IDS_CHANGED (40)."""
    if len(data) > NOTIFICATION_MAX_BYTES or b"consumerGroup" not in data:
        return False
    commands = FrameDecoder().feed(data)
    return any(command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED for command in commands)


def _caller() -> SimProcess:
    process = PROCESS.get()
    if process is None:
        raise RuntimeError("the network is used by no process")
    return process
