"""The machines of a simulated cluster: state that outlives processes, and the current process.

Each starts production's nameserver, broker or push consumer on the simulated seams.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.server import Broker
from pocketmq.broker.store import MessageStore, StoreConfig
from pocketmq.broker.store.config import FlushDiskType
from pocketmq.client import ConsumeFromWhere, MessageExt, MessageModel, MessageQueue, PushConsumer
from pocketmq.client.listener_threads import InlineThreads
from pocketmq.client.rebalance.claims import Claim
from pocketmq.nameserver.config import NameServerConfig
from pocketmq.nameserver.kv_config import KvTable
from pocketmq.nameserver.server import NameServer
from pocketmq.operation.events.sink import SinkMaker, no_events
from pocketmq.runtime.profile import Profile
from pocketmq.simulation.disk import MemoryDisk, MemoryTextFiles
from pocketmq.simulation.disk_work import DiskTrouble
from pocketmq.simulation.invariants.durability import DurabilityLedger
from pocketmq.simulation.loop import SimProcess, VirtualLoop
from pocketmq.simulation.network import SimNetwork
from pocketmq.simulation.scenario import Mode, Scenario, ServicePlan
from pocketmq.simulation.trace import Trace

TOPIC = "T"
NAMESERVER_PORT = 9876
NAMESERVER_ADDRESS = f"127.0.0.1:{NAMESERVER_PORT}"
PORTS = {"a": 10911, "b": 10921}
CLIENT_IP = "10.0.0.1"
DELAY_LEVELS = " ".join(["5s"] * 18)
"""Delays with which sixteen retries take 80 s. With much shorter ones the number of messages would
explode: while two consumers own one retry queue, as may happen for 30 s after a reset, each failure
doubles its messages."""

MIB = 1024**2
SMALL_FILE = 16 * 1024
QUEUE_FILE = 2000 * 20
TIMER_FILE = 8 * 1024

Listener = Callable[[list[MessageExt], Any], Any]


@dataclass(frozen=True, slots=True)
class Setting:
    """Objects that all processes of a run share."""

    plan: Scenario
    loop: VirtualLoop
    network: SimNetwork
    profile: Profile
    chance: random.Random
    """Draws latencies, messages and power cuts."""
    trace: Trace
    events: SinkMaker = no_events
    """Takes what happens at roles and clients."""

    def client_options(self, process: SimProcess) -> dict[str, Any]:
        """Keyword arguments of every client."""
        return client_options(process, self.network, self.profile, self.events)


def client_options(
    process: SimProcess, network: SimNetwork, profile: Profile, events: SinkMaker
) -> dict[str, Any]:
    """Keyword arguments of a client in a process."""
    return {
        "nameservers": NAMESERVER_ADDRESS,
        "network": network,
        "clock": process.clock,
        "profile": profile,
        "client_ip": CLIENT_IP,
        "instance_name": process.name,
        "events": events,
        # The environment could say another, and a seed would run otherwise.
        "api_timeout_ms": 3_000,
    }


class NoKv:
    """A KV configuration that is not stored."""

    async def load(self) -> KvTable:
        return {}

    async def save(self, table: KvTable) -> None:
        """Do nothing."""


class NameServerMachine:
    """A nameserver's machine, without a disk: a new process begins empty."""

    def __init__(self, name: str, setting: Setting) -> None:
        self.name = name
        self.process = SimProcess(setting.loop, name)
        self.server: NameServer | None = None
        self._setting = setting

    async def start(self) -> None:
        """Start a new process."""
        setting = self._setting
        self.process = SimProcess(setting.loop, self.name)
        setting.network.machine_is_back(self.name)
        server = NameServer(
            NameServerConfig(port=NAMESERVER_PORT), self.process.clock, setting.network,
            setting.profile, kv_storage=NoKv(),
            events=setting.events(self.name, self.process.clock.time_ms),
        )  # fmt: skip
        await self.process.start(server.start(), self.name)
        self.server = server


class BrokerMachine:
    """A broker's disk, and its current process.

    Args:
        name: Of the broker.
        setting: Shared by all processes.
        removed: Called with each file that is removed from the disk: path and content.
        violations: A line is appended for each violation of the order of durability.
    """

    def __init__(
        self,
        name: str,
        setting: Setting,
        removed: Callable[[BrokerMachine, str, bytes], None],
        violations: list[str],
    ) -> None:
        self.name = name
        self.process = SimProcess(setting.loop, name)
        is_safe = setting.plan.sync_flush
        self.trouble = DiskTrouble(setting.loop, setting.chance) if is_safe else None
        self.durability: DurabilityLedger | None = None
        """The check of durability; only with SYNC_FLUSH, since ASYNC_FLUSH guarantees nothing."""
        if is_safe:
            self.durability = DurabilityLedger(
                name,
                f"/{name}",
                lambda path: self.disk.medium(path),
                lambda: self.disk.surviving(),
                setting.loop.time,
                violations,
            )
        self.disk = MemoryDisk(
            lambda: self.process.clock.time_ms(),
            power_cuts=is_safe,
            trouble=self.trouble,
            watch=self.durability,
            on_removed=lambda path, content: removed(self, path, content),
        )
        self.broker: Broker | None = None
        self.starts = 0
        self.is_stopping = False
        """Whether it was asked to stop, and has not ended."""
        self.crashed = False
        """Whether the last process ended without saving."""
        self.saved_no_pops = False
        """Whether its stop took longer than a flush is waited for, or began while a failed sync
        kept its log from being written: offsets of pops whose check points were only in memory or
        on the way are not saved then, and their messages come again."""
        self.seen_offsets: dict[tuple[str, str], dict[int, int]] = {}
        self.seen_members: dict[str, dict[str, int]] = {}
        """Group -> client id -> number of its connections."""
        self.seen_queues = 0
        self.store: MessageStore | None = None
        """The broker of the current or last process."""
        self.seen_log_start = 0
        self._setting = setting

    async def start(self) -> None:
        """Start a new process on the machine's disk."""
        setting, process = self._setting, self.process
        if not process.alive:
            offset_ms = process.clock.wall_offset_ms
            process = self.process = SimProcess(setting.loop, self.name)
            process.clock.wall_offset_ms = offset_ms
        self.starts += 1
        if self.trouble is not None:
            self.trouble.clear()  # a broker is only started on a disk without faults
        setting.network.machine_is_back(self.name)

        async def start() -> None:
            broker = Broker(
                BrokerConfig(
                    name=self.name,
                    port=PORTS[self.name],
                    nameservers=(f"127.0.0.1:{NAMESERVER_PORT}",),
                    data=Path(f"/{self.name}"),
                    **_service_options(setting.plan),
                ),
                process.clock,
                setting.network,
                setting.profile,
                store_config=_store_config(setting.plan),
                disk=self.disk,
                events=setting.events(self.name, process.clock.time_ms),
            )
            await broker.start()
            self.broker, self.store = broker, broker.store

        await process.start(start(), f"start {self.name}")


def _service_options(plan: Scenario) -> dict[str, Any]:
    if plan.services is None:
        return {}
    options: dict[str, Any] = {
        "recall_message_enable": True,
        "revive_queue_num": 2,
        "enable_pop_buffer_merge": plan.services.buffer_merge,
    }
    if plan.services.checks_every_s is not None:
        options["transaction_check_interval_ms"] = round(plan.services.checks_every_s * 1000)
        # As long as by default, 7.5 min: producers come back 30 s after a restart of their broker.
        options["transaction_check_max"] = round(7.5 * 60 / plan.services.checks_every_s)
    return options


def _store_config(plan: Scenario) -> StoreConfig:
    services = plan.services or ServicePlan()
    return StoreConfig(
        mapped_file_size_commit_log=SMALL_FILE if plan.small_files or plan.sync_flush else MIB,
        mapped_file_size_consume_queue=QUEUE_FILE,
        mapped_file_size_timer_log=TIMER_FILE,
        message_index_enable=False,
        message_delay_level=DELAY_LEVELS,
        flush_disk_type=(
            FlushDiskType.SYNC_FLUSH if plan.sync_flush else FlushDiskType.ASYNC_FLUSH
        ),
        # With services, a half message that waits must not count as too old to be asked for.
        file_reserved_time_h=0 if plan.services is None else 72,
        timer_roll_window_slot=services.roll_window_slots,
        delete_when="",  # only by an operator's command: the hour would depend on the time zone
    )


class ConsumerMachine:
    """A consumer's machine; `files` has the offset file of a broadcasting consumer."""

    def __init__(self, name: str, setting: Setting, files: MemoryTextFiles | None) -> None:
        self.name = name
        self.process = SimProcess(setting.loop, name)
        self.consumer: PushConsumer | None = None
        self.client_id = f"{CLIENT_IP}@{name}"
        self.group = setting.plan.group_of(name)
        self.slow_s = 0.0
        self.fails = False
        """Whether its listener fails for every message."""
        self.owned: dict[MessageQueue, Claim] = {}
        self.leaving: dict[MessageQueue, Claim] = {}
        """Claims that were dropped and not yet released."""
        self.epochs: dict[MessageQueue, int] = {}
        """Queue -> number of its latest ownership."""
        self.known: object = None
        self.seen_claims: tuple[Claim, ...] = ()
        self._files = files
        self._setting = setting

    def start(self, listener: Listener) -> None:
        """Start a process that joins the group as soon as it can."""
        setting, mode = self._setting, self._setting.plan.mode
        broadcast = mode is Mode.BROADCAST

        async def start() -> None:
            consumer = PushConsumer(
                self.group.name,
                message_model=MessageModel.BROADCASTING if broadcast else MessageModel.CLUSTERING,
                consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
                threads=InlineThreads(),
                offset_files=self._files,
                **setting.client_options(self.process),
            )
            consumer.subscribe(TOPIC, self.group.expression)
            consumer.listen_batch(listener, orderly=mode is Mode.ORDERLY)
            self.consumer = consumer
            await consumer.start()

        self.process.start(start(), f"start {self.name}")
