"""`Broker`: in which order it starts and stops, and what befalls it. Start reading here.

    start   tables from config/ -> store (recovers) -> port -> services -> name servers
    stop    name servers -> port -> services -> tables -> store

A request comes in through a processor of its subject's folder, which asks managers and the store.
`request_processors.py` makes the former, `parts.py` the latter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.delays.delay_service import ScheduleMessageService
from pocketmq.broker.groups.group_care import GroupCare
from pocketmq.broker.parts import BrokerParts
from pocketmq.broker.registration.registration import BrokerIdentity, BrokerRegistration
from pocketmq.broker.request_processors import RequestProcessors
from pocketmq.broker.services import SCAN_S, BrokerServices
from pocketmq.broker.store import Disk, OsDisk, StoreConfig
from pocketmq.protocol.budget import DEFAULT_BUDGET, Budget
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.control import ControlProcessor
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.network import Listener, Network
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.protocol.validation import SCHEDULE_TOPIC
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.periodic import AT_REST
from pocketmq.runtime.profile import PROFILE_5_X, Profile

log = structlog.get_logger()


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
    ) -> None:
        self.config = config
        self._clock = clock
        self._network = network
        self._profile = profile
        self._listener: Listener | None = None
        self._stopping = False
        self._scanned_at = 0.0
        self._parts = parts = BrokerParts(
            config, clock, profile, store_config or StoreConfig(), disk or OsDisk(), budget
        )

        # What the programs look at that run a broker in their own loop.
        self.store = parts.store
        self.topics = parts.topics
        self.groups = parts.groups
        self.consumers = parts.consumers
        self.producers = parts.producers
        self.offsets = parts.offsets
        self.locks = parts.locks
        self.held = parts.held
        self.planner = parts.planner
        self.stats = parts.stats
        self.overload = parts.overload

        self._tables = parts.tables
        self._client = RemotingClient(
            network,
            encoding=Encoding[config.encoding.upper()],
            version=profile.client_version,
            on_close=self._nameserver_lost,
        )
        self._registration: BrokerRegistration | None = None
        self._schedule = ScheduleMessageService(self.planner, self.store, clock)
        self._control = ControlProcessor(clock, self.status)
        self._processors = RequestProcessors(
            parts, self._control, when_registered=self._when_registered
        )
        self._send = self._processors.send
        self._pull = self._processors.pull
        self._clients = self._processors.clients
        self._broadcasts = self._processors.broadcasts
        self.dispatcher = self._processors.dispatcher
        self._services = self._make_services()

    # -- life -----------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """The port it listens on, once started."""
        return self.config.port if self._listener is None else self._listener.port

    @property
    def address(self) -> str:
        """`ip:port` that clients and name servers are told."""
        return f"{self._parts.ip}:{self.port}"

    async def start(self) -> None:
        """Recover the store, answer requests, and register.

        Raises:
            PortInUseError: somebody else listens there.
            StoreLockedError: another broker works on the same store.
            DiskError: the store or a table is there and cannot be read.
        """
        await self._tables.load()
        self.store.load()
        await self._tables.fit_to(self.store)
        self.store.start()
        try:
            self._listener = await self._network.serve(
                self.config.host,
                self.config.port,
                self.dispatcher,
                version=self._profile.client_version,
                on_close=self._channel_closed,
            )
        except BaseException:
            await self.store.close()
            raise
        self._processors.open(self.port)
        self.store.set_arrival_listener(self._arrived)
        self._scanned_at = self._clock.monotonic()
        self._services.start()
        self._schedule.start()
        self._registration = self._make_registration()
        await self._registration.start()

    async def stop(self) -> None:
        """Leave in order: clients are sent away first, then everything is saved."""
        self._stopping = True
        self._send.close()
        if self._registration is not None:
            await self._registration.stop()
        if self._listener is not None:
            await self._listener.close()
        await self._schedule.stop()
        await self._services.stop()
        await self._tables.stop()
        await self._client.close()
        await self._control.stop()
        await self.store.close()

    def status(self) -> dict[str, str]:
        """What ROLE_STATUS tells."""
        registered = self._registration.registered_with if self._registration else frozenset()
        return {
            "role": "broker",
            "name": self.config.name,
            "profile": self._profile.name,
            "address": self.address,
            "nameservers": ",".join(sorted(registered)),
            "topics": str(len(self.topics.table)),
            "consumerGroups": str(len(self.consumers.groups)),
            "heldPulls": str(len(self.held)),
            "putMessages": str(self.stats.put_messages),
            "gotMessages": str(self.stats.got_messages),
            "logEnd": str(self.store.commit_log.max_offset),
            "writeable": str(self.store.is_writeable).lower(),
        }

    # -- making ---------------------------------------------------------------------------------

    def _make_services(self) -> BrokerServices:
        config = self.config
        care = GroupCare(
            self.groups,
            self.consumers,
            self.offsets,
            self.store,
            self._clock,
            stop_behind_bytes=config.consumer_fallbehind_threshold
            if config.disable_consume_if_consumer_read_slowly
            else None,
        )
        services = BrokerServices(
            self._clock,
            scan_clients=self._scan_clients,
            check_held_pulls=self._pull.sweep,
            save_offsets=self._tables.save_offsets,
            save_delay_offsets=lambda: self._tables.save_delay_offsets(self.store),
            look_after_groups=care.run,
            commit_broadcast_offsets=self._commit_broadcast_offsets,
            long_polling=config.long_polling_enable,
            offset_period_s=config.flush_consumer_offset_interval_ms / 1000,
            delay_offset_period_s=config.flush_delay_offset_interval_ms / 1000,
        )
        self.offsets.on_dirty = services.offsets_changed
        self.planner.on_dirty = services.delay_offsets_changed
        self._pull.on_hold = services.pull_held
        self._broadcasts.on_first = services.broadcast_pulled
        return services

    def _make_registration(self) -> BrokerRegistration:
        config, profile = self.config, self._profile
        return BrokerRegistration(
            BrokerIdentity(
                config.cluster_name,
                config.name,
                config.broker_id,
                self.address,
                f"{self._parts.ip}:{self.port + 1}",
            ),
            config.nameservers,
            self._client,
            self.topics,
            self._clock,
            period_s=config.register_period_s,
            timeout_s=profile.register_timeout_ms / 1000,
            force=config.force_register,
            incremental=profile.register_created_topics_incrementally,
            permission=config.broker_permission,
        )

    # -- events ---------------------------------------------------------------------------------

    def _arrived(self, topic: str, queue_id: int, max_offset: int, codes: Sequence[int]) -> None:
        if topic == SCHEDULE_TOPIC:
            self._schedule.arrived(queue_id, codes[0])
        self._pull.arrived(topic, queue_id, max_offset, codes)

    def _channel_closed(self, channel: Channel) -> None:
        if self._stopping:
            return
        self._pull.peer_closed(channel)
        self._clients.peer_closed(channel)

    def _nameserver_lost(self, channel: Channel) -> None:
        if self._registration is not None and not self._stopping:
            log.warning("nameserver.lost", nameserver=channel.address)
            self._registration.lost()

    def _when_registered(self, callback: Callable[[], None]) -> None:
        if self._registration is None:
            callback()
        else:
            self._registration.when_registered(callback)

    def _commit_broadcast_offsets(self) -> float | None:
        self._broadcasts.scan(self._clock.monotonic(), self._clock.time_ms())
        return None if self._broadcasts else AT_REST

    def _scan_clients(self) -> None:
        now = self._clock.monotonic()
        late_s, self._scanned_at = now - self._scanned_at - SCAN_S, now
        if late_s > SCAN_S:
            # This process stood still. Its clients did not, and their heartbeats wait in our
            # sockets: hear them before calling anybody silent.
            log.warning("broker.stalled", stood_still_s=round(late_s, 1))
            return
        self._clients.expire_silent()
        self.locks.expire(now)
