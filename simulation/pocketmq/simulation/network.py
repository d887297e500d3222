"""The simulation's network: delays, partitions, resets and lost notifications.

A link is a connection between two processes. Bytes arrive in order after a latency. During a
partition they wait, because TCP would retransmit them, and new connections time out. A reset ends
the link and drops bytes in flight, so that answers to executed requests are lost. The links of a
killed process are reset, unless its whole machine died: then the peers do not notice.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

from pocketmq.protocol.budget import BudgetSource, default_budget
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import VERSION_5_3_3, Encoding
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.errors import ConnectError
from pocketmq.protocol.frame import FrameDecoder
from pocketmq.protocol.signing import Credentials
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.network import (
    MakeProtocol,
    OnChannel,
    OpenChannels,
)
from pocketmq.runtime.addresses import split_address
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import PortInUseError
from pocketmq.simulation.links import Link, Ports, SimListener, SimStreams, SimTransport
from pocketmq.simulation.loop import PROCESS, SimProcess, VirtualLoop
from pocketmq.simulation.network_faults import NetworkFaults, Pair

NOTIFICATION_MAX_BYTES = 400


class NetworkWatch:
    """Who is told what goes over the network; this one does nothing."""

    def sent(self, sender: SimTransport, data: bytes) -> None:
        """Bytes are sent by an end."""

    def delivered(self, receiver: SimTransport, data: bytes) -> None:
        """An end has processed bytes."""

    def notified(self, broker: SimProcess, client: SimProcess, sent_at: float) -> None:
        """A notification arrived that was sent at this time."""


class SimNetwork:
    """All links of the cluster. The calling process is known from the context variable.

    Args:
        loop: The loop.
        clock: The loop's time.
        rng: Draws latencies.
        latency_s: Shortest and longest latency without faults.
        watch: Is told what happens.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        clock: Clock,
        rng: random.Random,
        latency_s: tuple[float, float],
        watch: NetworkWatch,
    ) -> None:
        self._latency = latency_s
        self.loop = loop
        self._clock = clock
        self.faults = NetworkFaults()
        self.listeners: Ports = {}
        self.links: dict[Link, None] = {}
        self._watch = watch
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
        listener = SimListener(self.listeners, _caller(), port, channels)
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
        listener = await self._reach(address, timeout_s)
        if not isinstance(listener, SimListener):
            raise ConnectError(address, "no remoting port")
        near = Channel(
            dispatcher,
            encoding=encoding,
            version=version,
            on_close=on_close,
            credentials=credentials,
        )
        self._join(near, listener, listener.channels.accept, address)
        return near

    async def listen(
        self,
        host: str,
        port: int,
        make: MakeProtocol,
        *,
        budget: BudgetSource = default_budget,
        tls: bool = False,
    ) -> SimStreams:
        port = port or self._free_port()
        if port in self.listeners:
            raise PortInUseError(port)
        listener = self.listeners[port] = SimStreams(self.listeners, _caller(), port, make)
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
        if pair in self.faults.partitions or self._is_cut_one_way(process, listener.process):
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
        self._watch.sent(sender, data)
        if sender.link.is_cut:
            return
        faults = self.faults
        if is_notification(data):
            client = receiver.process.name
            if client in faults.lost_notifications:
                return
            receiver.notified_at.append(self.loop.time())
            if client in faults.doubled_notifications:
                receiver.notified_at.append(self.loop.time())
                self._transmit(receiver, data)
        self._transmit(receiver, data)

    def _transmit(self, receiver: SimTransport, data: bytes | None) -> None:
        link, faults = receiver.link, self.faults
        if (link.pair in faults.partitions or link.waiting or faults.one_way) and self._waits(
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
        link, faults = receiver.link, self.faults
        return (
            link.pair in faults.partitions
            or (receiver.other.process.name, receiver.process.name) in faults.one_way
            or any(each is receiver for each, _ in link.waiting)
        )

    def _is_cut_one_way(self, one: SimProcess, other: SimProcess) -> bool:
        """Whether no connection can be opened, for which bytes must go both ways."""
        cut = self.faults.one_way
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
        self._watch.delivered(receiver, data)
        if receiver.notified_at and is_notification(data):
            self._watch.notified(sender, receiver.process, receiver.notified_at.popleft())

    def forget(self, link: Link) -> None:
        """Remove a link when both sides have closed it."""
        if all(end.is_lost for end in link.ends):
            self.links.pop(link, None)

    # -- faults ---------------------------------------------------------------------------------

    def heal(self, pair: Pair) -> None:
        """End a partition; waiting bytes are sent."""
        self.faults.partitions.discard(pair)
        self._let_go(pair)

    def heal_one_way(self, sender: str, receiver: str) -> None:
        """End a cut of one direction; waiting bytes are sent."""
        self.faults.one_way.discard((sender, receiver))
        self._let_go(Pair((sender, receiver)))

    def _let_go(self, pair: Pair) -> None:
        for link in list(self._between(pair)):
            waiting, link.waiting = link.waiting, []
            for receiver, data in waiting:
                self._transmit(receiver, data)

    def clear_up(self) -> None:
        """End all faults."""
        for pair in sorted(self.faults.partitions, key=sorted):
            self.heal(pair)
        for sender, receiver in sorted(self.faults.one_way):
            self.heal_one_way(sender, receiver)
        self.faults.delays_s.clear()
        self.faults.lost_notifications.clear()
        self.faults.doubled_notifications.clear()

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
        return self._rng.uniform(*self._latency) + self.faults.delays_s.get(pair, 0.0)

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
        raise RuntimeError(
            "this code uses the network outside of a simulated process; run it in a process of "
            "the simulation"
        )
    return process
