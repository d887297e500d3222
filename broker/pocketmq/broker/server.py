"""`Broker`: in which order it starts and stops. Start reading here, then `subjects.py`.

    start   tables from config/ -> store (recovers) -> port -> services -> name servers
    stop    unregister -> port -> services and tables, in the reverse order -> store

A request comes in through a processor of its subject's folder, which asks the managers and the
store. `core.py` says what every subject may use, `signals.py` what they tell each other.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.core import BrokerCore
from pocketmq.broker.store import Disk, OsDisk, StoreConfig
from pocketmq.broker.subjects import BrokerSubjects
from pocketmq.operation.control.processor import ControlProcessor
from pocketmq.operation.events.sink import NO_EVENTS, EventSink
from pocketmq.operation.grpc_ports.door import GrpcDoor
from pocketmq.operation.membership.doors import BrokerDoor
from pocketmq.operation.membership.members import Members
from pocketmq.protocol.budget import DEFAULT_BUDGET, Budget
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.guarded_dispatch import GuardedDispatcher
from pocketmq.protocol.releases import known_in
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.network import Listener, Network
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import PortInUseError
from pocketmq.runtime.profile import PROFILE_5_X, Profile

log = structlog.get_logger()

VIP_DISTANCE: Final = 2
"""The VIP port lies so far below the broker's own (`fastListenPort` of RocketMQ)."""


class Broker:
    """One broker.

    Args:
        config: Its options.
        clock: Every timer and timestamp; `ManualClock` in tests.
        network: Where it listens, and reaches name servers.
        profile: 4.9 or 5.x rules where they differ.
        store_config: The store's options; its directory is always `config.data`.
        disk: Where the store and the tables lie.
        budget: What peers may cost.
        ip: The address of `broker_ip1` where that is a name.
        events: Takes what happens here.
        members: Who has proven to be a member of the cluster; None: everybody is taken for one.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        network: Network,
        profile: Profile = PROFILE_5_X,
        *,
        store_config: StoreConfig | None = None,
        disk: Disk | None = None,
        budget: Budget = DEFAULT_BUDGET,
        events: EventSink = NO_EVENTS,
        ip: str = "",
        members: Members | None = None,
    ) -> None:
        self.config = config
        self.core = BrokerCore.of(
            config,
            clock,
            profile,
            store_config or StoreConfig(),
            disk or OsDisk(),
            budget,
            events,
            ip,
        )
        self.subjects = BrokerSubjects(self.core, network)
        self._network = network
        self._services = self.subjects.services
        self._listener: Listener | None = None
        self._vip_listener: Listener | None = None
        self._stopping = False
        self._stop_lock = asyncio.Lock()
        self._is_stopped = False
        self._control = ControlProcessor(clock, self.status, events)
        guard, knows = self.subjects.access.guard, known_in(profile.release)
        if members is not None:
            guard = BrokerDoor(members, guard)
        self.dispatcher = (
            Dispatcher(self.core.budget, knows)
            if guard is None
            else GuardedDispatcher(guard, self.core.budget, knows)
        )
        self.dispatcher.add(self._control)
        self.subjects.register(self.dispatcher)
        self._grpc_door = GrpcDoor("broker", network, self.subjects.registration.proxies.find)
        self.dispatcher.http2 = self._grpc_door

        # Public attributes for programs that run a broker in their own loop.
        subjects = self.subjects
        self.store = self.core.store
        self.stats = self.core.stats
        self.topics = subjects.topics.configs
        self.groups = subjects.groups.configs
        self.consumers = subjects.groups.consumers
        self.producers = subjects.groups.producers
        self.offsets = subjects.offsets.table
        self.locks = subjects.locks.table
        self.held = subjects.pulling.held
        self.planner = subjects.delays.planner
        self.overload = subjects.overload.guard

    @property
    def port(self) -> int:
        """The port it listens on, once started."""
        return self.core.address.port

    @property
    def address(self) -> str:
        """`ip:port` that clients and name servers are told."""
        return str(self.core.address)

    async def start(self) -> None:
        """Recover the store, answer requests, and register.

        Raises:
            PortInUseError: somebody else listens there.
            StoreLockedError: another broker works on the same store.
            DiskError: the store or a table is there and cannot be read.
        """
        for service in self._services:
            await service.load()
        # The store is loaded after the tables, which `recovered` then clamps to what the log has.
        self.store.load()
        for service in self._services:
            service.recovered()
        self.store.start()
        try:
            self._listener = await self._network.serve(
                self.config.host,
                self.config.port,
                self.dispatcher,
                version=self.core.profile.client_version,
                on_close=self._channel_closed,
            )
        except BaseException:
            # Closing releases the folder's lock, so that the program may start another broker
            # there.
            await self.store.close()
            raise
        # With port 0 the listener chooses the port, which is then announced.
        self.core.address.listens_at(self._listener.port)
        self._vip_listener = await self._listen_at_vip_port()
        # Services start last: one of them is the registration, after which clients come.
        for service in self._services:
            await service.start()

    async def stop(self) -> None:
        """Stop in order: connections are closed first, then everything is saved.

        May be called twice: a second call waits for the first, and does what that one, cancelled
        or failed, has left.
        """
        async with self._stop_lock:
            if not self._is_stopped:
                await self._stop_all()
                self._is_stopped = True

    async def _stop_all(self) -> None:
        self._stopping = True
        # Unregister first, so that clients go elsewhere before the port is closed.
        for service in self._services:
            await service.leave()
        await self._grpc_door.stop()
        for listener in (self._vip_listener, self._listener):
            if listener is not None:
                await listener.close()
        for service in reversed(self._services):
            await service.stop()
        await self._control.stop()
        await self.store.close()

    def status(self) -> dict[str, str]:
        """The answer to ROLE_STATUS."""
        registered = self.subjects.registration.nameservers.registered_with
        return {
            "role": "broker",
            "name": self.config.name,
            "profile": self.core.profile.name,
            "address": self.address,
            "nameservers": ",".join(sorted(registered)),
            "controllers": ",".join(self.config.controllers),
            "topics": str(len(self.topics.table)),
            "consumerGroups": str(len(self.consumers.groups)),
            "heldPulls": str(len(self.held)),
            "putMessages": str(self.stats.put_messages),
            "gotMessages": str(self.stats.got_messages),
            "logEnd": str(self.store.commit_log.max_offset),
            "writeable": str(self.store.is_writeable).lower(),
        }

    async def _listen_at_vip_port(self) -> Listener | None:
        """Answer at the port less 2 as well, where RocketMQ's clients up to 4.4 send."""
        # Port 0 stands for any port, so there is no fixed one below it.
        if not self.config.vip_port_enable or self.config.port <= VIP_DISTANCE:
            return None
        port = self.config.port - VIP_DISTANCE
        try:
            return await self._network.serve(
                self.config.host,
                port,
                self.dispatcher,
                version=self.core.profile.client_version,
                on_close=self._channel_closed,
            )
        except PortInUseError:
            log.warning(
                "vip_port.taken",
                port=port,
                effect="clients of RocketMQ up to 4.4 cannot send here; all others can",
            )
            return None

    def _channel_closed(self, channel: Channel) -> None:
        # While this broker stops, a closed connection is no client that left: nobody rebalances.
        if not self._stopping:
            self.core.signals.channel_closed.emit(channel)
