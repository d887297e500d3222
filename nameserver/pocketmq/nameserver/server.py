"""`NameServer`: connects tables, clock and network, and scans for silent brokers (N-3, N-21, N-22).

Start reading at `NameServer.start`: it loads the KV configuration, begins the scan and listens.
`expire_silent_brokers` drops their routes and closes their connections; a connection that closes by
itself drops them at once.
"""

from __future__ import annotations

import asyncio
import math

import structlog

from pocketmq.nameserver.broker_notices import BrokerNotices
from pocketmq.nameserver.config import PROTECTED_OPTIONS, NameServerConfig
from pocketmq.nameserver.kv_config import KvConfig
from pocketmq.nameserver.kv_file import KvFile, KvStorage, kv_writer
from pocketmq.nameserver.liveness import LiveBroker
from pocketmq.nameserver.processors.admin import AdminProcessor
from pocketmq.nameserver.processors.kv import KvProcessor
from pocketmq.nameserver.processors.proxies import ProxyProcessor
from pocketmq.nameserver.processors.register import RegisterProcessor
from pocketmq.nameserver.processors.route import RouteProcessor
from pocketmq.nameserver.processors.settings import SettingsProcessor
from pocketmq.nameserver.proxies import KnownProxies
from pocketmq.nameserver.route_table import RouteTable
from pocketmq.operation.access.own_requests import OwnRequestsDoor
from pocketmq.operation.control.processor import ControlProcessor
from pocketmq.operation.events.roles import BrokerForgotten, BrokerRegistered, Forgotten
from pocketmq.operation.events.sink import NO_EVENTS, EventSink
from pocketmq.operation.grpc_ports.door import GrpcDoor
from pocketmq.operation.grpc_ports.requests import ProxyAddress
from pocketmq.operation.membership.doors import guarded, nameserver_open
from pocketmq.operation.membership.members import Members
from pocketmq.operation.option_updates import options_writer
from pocketmq.protocol.budget import DEFAULT_BUDGET, Budget
from pocketmq.protocol.releases import known_in
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.network import Listener, Network
from pocketmq.runtime.addresses import address_text
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.configuration.config import all_in
from pocketmq.runtime.configuration.live_options import LiveOptions
from pocketmq.runtime.files.durable_file import DurableFile
from pocketmq.runtime.files.text_files import OsTextFiles
from pocketmq.runtime.periodic import PeriodicService
from pocketmq.runtime.profile import PROFILE_5_X, Profile

log = structlog.get_logger()

_ROUNDING = 1e-9
"""A scan at its very moment is counted as passed, whatever the last bit of the float says."""


class NameServer:
    """One nameserver. It never talks to another; brokers register with each of them (N-36).

    Args:
        config: Its options.
        clock: Measures liveness; `ManualClock` in tests.
        network: Where it listens.
        profile: 4.9 or 5.x rules where they differ.
        budget: What peers may cost.
        kv_storage: Where the KV configuration is kept, if not in `config.kv_config_path`.
        events: Takes what happens here.
        members: Who has proven to be a member; None: everybody is taken for one.
    """

    def __init__(
        self,
        config: NameServerConfig,
        clock: Clock,
        network: Network,
        profile: Profile = PROFILE_5_X,
        *,
        kv_storage: KvStorage | None = None,
        budget: Budget = DEFAULT_BUDGET,
        events: EventSink = NO_EVENTS,
        members: Members | None = None,
    ) -> None:
        self.config = config
        self.options = LiveOptions(
            config, budget, protected=PROTECTED_OPTIONS, others=all_in(config.config_store_path)
        )
        self.table = RouteTable(
            profile.nameserver,
            delete_topic_with_registration=lambda: (
                self._now().delete_topic_with_broker_registration
            ),
            support_acting_master=lambda: self._now().support_acting_master,
        )
        self._notices = BrokerNotices(
            network, clock, wanted=lambda: self._now().notify_min_broker_id_changed
        )
        self.table.least_id_changed.connect(self._notices.least_id_changed)
        self.kv = KvConfig()
        self._clock = clock
        self._network = network
        self._profile = profile
        self._storage = kv_storage or KvFile(config.kv_config_path.expanduser())
        self._kv_writer = kv_writer(self.kv, self._storage)
        self._options_writer = options_writer(
            self.options, DurableFile(config.options_file, OsTextFiles())
        )
        self._started_at = clock.monotonic()
        self._stopping = False
        self._listener: Listener | None = None
        self._control = ControlProcessor(clock, self.status, events)
        self._events = events
        # 4.9 scans every 10 s, 5.x every 5 s (N-3).
        interval_ms = config.scan_not_active_broker_interval or profile.nameserver.scan_period_ms
        self.table.live.heard.connect(self._heard)
        self.table.live.added.connect(self._tell_registered)
        self.table.unregistered.connect(lambda broker: self._tell_forgotten(broker, "unregistered"))
        self._scan_s = interval_ms / 1000
        self._first_scan_s = profile.nameserver.scan_initial_delay_ms / 1000
        self._next_scan_at = 0.0
        self._scan = PeriodicService(
            "nameserver.scan",
            clock,
            self._scan_s,
            self._scan_brokers,
            initial_delay_s=profile.nameserver.scan_initial_delay_ms / 1000,
        )
        knows = known_in(profile.release)
        is_open = nameserver_open(strangers_read_routes=config.strangers_read_routes)
        own = OwnRequestsDoor(config.own_users) if config.authentication_enabled else None
        self.dispatcher = guarded(members, is_open, own, self._budget, knows)
        self.proxies = KnownProxies()
        self._grpc_door = GrpcDoor("nameserver", network, self._known_proxies)
        self.dispatcher.http2 = self._grpc_door

    @property
    def port(self) -> int:
        """The port it listens on, once started."""
        return self.config.port if self._listener is None else self._listener.port

    @property
    def address(self) -> str:
        """`host:port` for brokers and clients."""
        return address_text(self.config.host, self.port)

    async def start(self) -> None:
        """Load the KV configuration and answer requests.

        Raises:
            PortInUseError: another process listens there.
            DiskError: the KV configuration is there and cannot be read.
        """
        # Loaded first, because brokers get the order configuration when they register (N-18).
        self.kv.replace(await self._storage.load())
        self._add_processors()
        # The first scan and `wait_seconds_for_service` count from here.
        self._started_at = self._clock.monotonic()
        self._listener = await self._network.serve(
            self.config.host,
            self.config.port,
            self.dispatcher,
            version=self._profile.client_version,
            on_close=self._channel_closed,
        )
        self._next_scan_at = self._clock.monotonic() + self._first_scan_s
        self._scan.start()

    async def stop(self) -> None:
        """Close the port and every connection; a KV change under way is saved first."""
        self._stopping = True
        # Scans end and changes are saved before connections close, so that saved changes are
        # answered.
        await self._scan.stop()
        await self._all_written()
        await self._grpc_door.stop()
        if self._listener is not None:
            await self._listener.close()
        # Until then another change may have come: it is not cut off, though nobody hears of it.
        await self._all_written()
        await self._notices.stop()
        await self._control.stop()

    async def _all_written(self) -> None:
        await self._kv_writer.stop()
        await self._options_writer.stop()

    def status(self) -> dict[str, str]:
        """What ROLE_STATUS tells."""
        info = self.table.cluster_info()
        return {
            "role": "nameserver",
            "name": self.config.name,
            "profile": self._profile.name,
            "brokers": ",".join(sorted(info.broker_addr_table)),
            "brokersAlive": str(len(self.table.live)),
            "topics": str(len(self.table.queues.topics())),
        }

    def _scan_brokers(self) -> float:
        """Scan; seconds until the next scan that can find anybody.

        Scans are due every period (N-3). Those at which nobody can have expired yet are left out.
        """
        now = self._clock.monotonic()
        self.expire_silent_brokers()
        first = self._started_at + self._first_scan_s
        expiry = self.table.live.first_expiry()
        after = now if expiry is None else max(now, expiry)
        periods = math.floor((after - first) / self._scan_s + _ROUNDING) + 1
        self._next_scan_at = first + periods * self._scan_s
        return self._next_scan_at - now

    def _heard(self, broker: LiveBroker) -> None:
        """A broker may have a shorter time-out than those that the next scan was chosen for."""
        # Then a scan that was left out would have found it.
        if broker.expires_at < self._next_scan_at - self._scan_s:
            self._scan.wakeup()

    def expire_silent_brokers(self) -> None:
        """Drop the routes of brokers that were silent too long, and close their channels (N-21)."""
        now = self._clock.monotonic()
        for broker in self.table.live.expired(now):
            # Out of the table first: the end of the channel must not tell of it a second time.
            is_gone = self.table.forget(broker)
            broker.channel.close()
            self._tell_forgotten(broker, "expired")
            log.warning(
                "broker.expired", broker=broker.broker_name, address=broker.key.address,
                silent_s=round(now - broker.seen_at, 1), group_gone=is_gone,
            )  # fmt: skip

    def _channel_closed(self, channel: Channel) -> None:
        # While this server stops, a closed connection does not mean that its broker is gone.
        if self._stopping:
            return
        for broker in self.table.live.of_channel(channel):
            self._lost(broker)

    def _lost(self, broker: LiveBroker) -> None:
        is_gone = self.table.forget(broker)
        self._tell_forgotten(broker, "closed")
        log.info(
            "broker.lost", broker=broker.broker_name, address=broker.key.address,
            reason="its connection closed", group_gone=is_gone,
        )  # fmt: skip

    def _tell_registered(self, broker: LiveBroker) -> None:
        if self._events.is_on:
            self._events.emit(
                BrokerRegistered(
                    *self._events.stamp(),
                    broker=broker.broker_name,
                    nameserver=self.config.name,
                    broker_id=broker.broker_id,
                    address=broker.key.address,
                )
            )

    def _tell_forgotten(self, broker: LiveBroker, how: Forgotten) -> None:
        if self._events.is_on:
            self._events.emit(
                BrokerForgotten(
                    *self._events.stamp(),
                    broker=broker.broker_name,
                    nameserver=self.config.name,
                    how=how,
                    broker_id=broker.broker_id,
                    address=broker.key.address,
                )
            )

    def _add_processors(self) -> None:
        config = self.config
        self.dispatcher.add(
            RegisterProcessor(
                self.table,
                self.kv,
                self._clock,
                self._profile.nameserver,
                defer=asyncio.get_running_loop().call_soon,
                queue_capacity=config.un_register_broker_queue_capacity,
                return_order_config=lambda: self._now().return_order_topic_config_to_broker,
                budget=self._budget,
            ),
            RouteProcessor(
                self.table,
                self.kv,
                is_ready=self._is_ready,
                config=self._now,
            ),
            KvProcessor(self.kv, self._kv_writer, self._budget),
            AdminProcessor(self.table, self._budget),
            ProxyProcessor(self.proxies, self._clock),
            SettingsProcessor(
                self.options, self._options_writer, lambda: {"listenPort": str(self.port)}
            ),
            self._control,
        )

    async def _known_proxies(self) -> list[ProxyAddress]:
        return self.proxies.alive(self._clock.monotonic())

    def _is_ready(self) -> bool:
        # By option, routes are not answered until brokers had time to register (N-26).
        if not self.config.need_wait_for_service:
            return True
        return self._clock.monotonic() - self._started_at >= self.config.wait_seconds_for_service

    def _budget(self) -> Budget:
        return self.options.current(Budget)

    def _now(self) -> NameServerConfig:
        """The options as they are now."""
        return self.options.current(NameServerConfig)
