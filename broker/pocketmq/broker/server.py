"""`Broker`: what is made, and in which order it starts and stops. Start reading here.

    start   tables from config/ -> store (recovers) -> port -> services -> name servers
    stop    name servers -> port -> services -> tables -> store

A request comes in through `processors/`, which ask the managers beside this file and the store.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import structlog

from pocketmq.broker.broadcast_offsets import BroadcastOffsets
from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.consumer_changes import ConsumerChanges
from pocketmq.broker.consumers import ConsumerManager
from pocketmq.broker.delay import DelayPlanner
from pocketmq.broker.delay_service import ScheduleMessageService
from pocketmq.broker.group_care import GroupCare
from pocketmq.broker.groups import SubscriptionGroupManager
from pocketmq.broker.incoming import IncomingMessages
from pocketmq.broker.long_polling import PullRequestHoldTable
from pocketmq.broker.offset_moved import OffsetMovedEvents
from pocketmq.broker.offsets import ConsumerOffsetManager
from pocketmq.broker.overload import Overload, Work
from pocketmq.broker.processors.admin import AdminProcessor
from pocketmq.broker.processors.clients import ClientProcessor
from pocketmq.broker.processors.groups import GroupProcessor
from pocketmq.broker.processors.locks import LockProcessor
from pocketmq.broker.processors.offsets import OffsetProcessor
from pocketmq.broker.processors.pull import PullProcessor
from pocketmq.broker.processors.query import QueryProcessor
from pocketmq.broker.processors.relay import RelayProcessor
from pocketmq.broker.processors.resets import ResetProcessor
from pocketmq.broker.processors.send import SendProcessor
from pocketmq.broker.processors.send_back import SendBackProcessor
from pocketmq.broker.processors.topics import TopicProcessor
from pocketmq.broker.producers import ProducerManager
from pocketmq.broker.pull_checks import PullChecks
from pocketmq.broker.queue_locks import RebalanceLockManager
from pocketmq.broker.registration import BrokerIdentity, BrokerRegistration
from pocketmq.broker.send_checks import SendChecks
from pocketmq.broker.send_replies import SendReplies
from pocketmq.broker.services import SCAN_S, BrokerServices
from pocketmq.broker.stats import BrokerStats
from pocketmq.broker.store import Disk, MessageStore, OsDisk, StoreConfig
from pocketmq.broker.tables import BrokerTables
from pocketmq.broker.topics import TopicConfigManager
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.control import ControlProcessor
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.hosts import pack_host
from pocketmq.protocol.ids import UniqKeyFactory
from pocketmq.protocol.properties import CLUSTER, MSG_REGION, TRACE_SWITCH
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.network import Listener, Network
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.protocol.validation import SCHEDULE_TOPIC
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.periodic import AT_REST
from pocketmq.runtime.profile import PROFILE_5_X, Profile

log = structlog.get_logger()

REGION = "DefaultRegion"
"""MSG_REGION of every message and answer."""


class Broker:
    """One broker.

    Args:
        config: Its options.
        clock: Every timer and timestamp; `ManualClock` in tests.
        network: Where it listens, and reaches name servers.
        profile: 4.9 or 5.x rules where they differ.
        store_config: The store's options; its directory is always `config.data`.
        disk: Where the store and the tables lie.
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
    ) -> None:
        self.config = config
        self._clock = clock
        self._network = network
        self._profile = profile
        self._disk = disk or OsDisk()
        self._root = Path(os.path.abspath(config.data.expanduser()))
        self._listener: Listener | None = None
        self._stopping = False
        self._scanned_at = 0.0
        store_config = replace(store_config or StoreConfig(), store_path_root_dir=str(self._root))
        delays_ms = store_config.delay_levels_ms()
        levels = len(delays_ms) - 1

        self.store = MessageStore(store_config, self._disk, clock, profile)
        self.topics = TopicConfigManager(
            config.name,
            config.cluster_name,
            auto_create=config.auto_create_topic_enable,
            default_queue_nums=config.default_topic_queue_nums,
            broker_topic_enable=config.broker_topic_enable,
            cluster_topic_enable=config.cluster_topic_enable,
            trace_topic_enable=config.trace_topic_enable,
            delay_levels=levels,
            modern=profile.system_topics_of_5x,
        )
        self.groups = SubscriptionGroupManager(
            auto_create=config.auto_create_subscription_group,
            max_name_chars=profile.group_name_max_chars_broker,
        )
        expiry_s = config.channel_expired_timeout_ms / 1000
        self.consumers = ConsumerManager(expiry_s=expiry_s)
        self.producers = ProducerManager(expiry_s=expiry_s)
        self.offsets = ConsumerOffsetManager()
        self.locks = RebalanceLockManager(config.lock_max_live_time_ms / 1000)
        self.held = PullRequestHoldTable()
        self.planner = DelayPlanner(delays_ms)
        self.stats = BrokerStats()
        self.overload = Overload(
            clock.monotonic,
            _defer,
            _longest_waits(config),
            store_config.os_page_cache_busy_timeout_ms / 1000,
            config.transient_store_pool_size * store_config.mapped_file_size_commit_log
            if config.transient_store_pool_enable
            else None,
        )
        self._changes = ConsumerChanges(
            self.groups,
            enabled=config.notify_consumer_ids_changed_enable,
            notify_broadcast_groups=profile.notify_broadcast_groups,
        )

        self._tables = BrokerTables(
            self._root / "config", self._disk, self.topics, self.groups, self.offsets, self.planner
        )
        self._client = RemotingClient(
            network,
            encoding=Encoding[config.encoding.upper()],
            version=profile.client_version,
            on_close=self._nameserver_lost,
        )
        self._registration: BrokerRegistration | None = None
        self._schedule = ScheduleMessageService(self.planner, self.store, clock)
        self._control = ControlProcessor(clock, self.status)
        self.dispatcher = Dispatcher()
        self._add_processors()

    # -- life -----------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """The port it listens on, once started."""
        return self.config.port if self._listener is None else self._listener.port

    @property
    def address(self) -> str:
        """`ip:port` that clients and name servers are told."""
        return f"{self.config.broker_ip1 or self.config.host}:{self.port}"

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
        self._open()
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

    def _add_processors(self) -> None:
        config, profile, clock = self.config, self._profile, self._clock
        invalid_code = profile.invalid_parameter_code
        self._send = SendProcessor(
            self.store, self._tables.topics_file, self.stats, self.overload, clock
        )
        self._moved = OffsetMovedEvents(self.store, clock, config.name)
        offsets = OffsetProcessor(
            self.offsets, self.store, self.topics, self.groups, self.planner, clock, profile
        )
        self._broadcasts = BroadcastOffsets(
            self.consumers,
            self.offsets,
            offsets.start_offset,
            expire_s=config.broadcast_offset_expire_second,
            expire_max_s=config.broadcast_offset_expire_max_second,
        )
        note_broadcasts = config.enable_broadcast_offset_store
        if note_broadcasts is None:
            note_broadcasts = profile.note_broadcast_offsets
        self._pull = PullProcessor(
            self.store,
            PullChecks(
                self.topics,
                self.groups,
                self.consumers,
                broker_name=config.name,
                broker_permission=config.broker_permission,
                invalid_parameter_code=invalid_code,
            ),
            self.offsets,
            self.held,
            self.stats,
            self.overload,
            clock,
            _defer,
            long_polling=config.long_polling_enable,
            short_polling_ms=config.short_polling_time_ms,
            slave_read_enable=config.slave_read_enable,
            on_offset_moved=self._moved.note if profile.write_offset_moved_event else None,
            broadcasts=self._broadcasts if note_broadcasts else None,
        )
        self._clients = ClientProcessor(
            self.consumers,
            self.producers,
            self.groups,
            self.topics,
            self._changes,
            self.overload,
            clock,
            profile,
            _defer,
            real_time_notify=config.real_time_notify_consumer_change,
        )
        self._send_back = SendBackProcessor(
            self.store,
            self.topics,
            self.groups,
            self._tables.topics_file,
            self.stats,
            clock,
            broker_permission=config.broker_permission,
            max_delay_level=self.planner.max_level,
        )
        self.dispatcher.add(
            self._send,
            self._send_back,
            self._pull,
            self._clients,
            offsets,
            LockProcessor(self.locks, clock),
            QueryProcessor(self.store),
            self._control,
        )
        self._add_tools_processors()
        care = GroupCare(
            self.groups,
            self.consumers,
            self.offsets,
            self.store,
            clock,
            stop_behind_bytes=config.consumer_fallbehind_threshold
            if config.disable_consume_if_consumer_read_slowly
            else None,
        )
        self._services = BrokerServices(
            clock,
            scan_clients=self._scan_clients,
            check_held_pulls=self._pull.sweep,
            save_offsets=self._tables.save_offsets,
            save_delay_offsets=self._tables.save_delay_offsets,
            look_after_groups=care.run,
            commit_broadcast_offsets=self._commit_broadcast_offsets,
            long_polling=config.long_polling_enable,
            offset_period_s=config.flush_consumer_offset_interval_ms / 1000,
            delay_offset_period_s=config.flush_delay_offset_interval_ms / 1000,
        )
        self.offsets.on_dirty = self._services.offsets_changed
        self.planner.on_dirty = self._services.delay_offsets_changed
        self._pull.on_hold = self._services.pull_held
        self._broadcasts.on_first = self._services.broadcast_pulled

    def _add_tools_processors(self) -> None:
        """What people and tools ask; it waits in a queue of its own (B-161)."""
        config, profile, clock = self.config, self._profile, self._clock
        invalid_code = profile.invalid_parameter_code
        server_side_reset = config.use_server_side_reset_offset
        tools = Dispatcher()
        tools.add(
            ResetProcessor(
                self.offsets,
                self.store,
                self.topics,
                self.groups,
                self.consumers,
                broker_name=config.name,
                server_side=profile.server_side_reset_offset
                if server_side_reset is None
                else server_side_reset,
            ),
            TopicProcessor(
                self.topics,
                self.store,
                self.offsets,
                self.consumers,
                self._tables.topics_file,
                clock,
                when_registered=self._when_registered,
                topic_gone=self._pull.topic_gone,
                invalid_parameter_code=invalid_code,
            ),
            RelayProcessor(self.consumers),
            GroupProcessor(
                self.groups,
                self.offsets,
                self._tables.groups_file,
                clock,
                invalid_parameter_code=invalid_code,
            ),
            AdminProcessor(
                self.store,
                self.topics,
                self.offsets,
                self.planner,
                self.consumers,
                self.stats,
                clock,
                disk_ratio=lambda: self._disk.usage(str(self._root)).used_ratio,
                broker_name=config.name,
            ),
        )
        for code, processor in tools.single.items():
            self.dispatcher.register(code, self.overload.guarded(Work.ADMIN, processor))

    def _open(self) -> None:
        """The port is known: take messages."""
        config, profile = self.config, self._profile
        ip = config.broker_ip1 or config.host
        store_host = pack_host(ip, self.port)
        incoming = IncomingMessages(
            SendChecks(
                self.topics,
                broker_name=config.name,
                broker_permission=config.broker_permission,
                invalid_parameter_code=profile.invalid_parameter_code,
                max_retry_topic_chars=profile.retry_topic_max_chars,
            ),
            self.topics,
            self.groups,
            self.locks,
            profile,
            store_host=store_host,
            new_key=UniqKeyFactory(ip, os.getpid(), self._clock.time_ms),
            added={MSG_REGION: REGION, TRACE_SWITCH: "true", CLUSTER: config.cluster_name},
            max_delay_level=self.planner.max_level,
        )
        self._send.open(
            incoming, SendReplies(store_host, version=profile.client_version, region=REGION)
        )
        self._send_back.open(store_host)
        self._moved.open(store_host)
        self.store.set_arrival_listener(self._arrived)

    def _make_registration(self) -> BrokerRegistration:
        config, profile = self.config, self._profile
        return BrokerRegistration(
            BrokerIdentity(
                config.cluster_name,
                config.name,
                config.broker_id,
                self.address,
                f"{config.broker_ip1 or config.host}:{self.port + 1}",
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


def _longest_waits(config: BrokerConfig) -> dict[Work, float]:
    if not config.broker_fast_failure_enable:
        return {}
    return {
        Work.SEND: config.wait_time_mills_in_send_queue / 1000,
        Work.PULL: config.wait_time_mills_in_pull_queue / 1000,
        Work.HEARTBEAT: config.wait_time_mills_in_heartbeat_queue / 1000,
        Work.ADMIN: config.wait_time_mills_in_admin_broker_queue / 1000,
    }


def _defer(callback: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(callback)
