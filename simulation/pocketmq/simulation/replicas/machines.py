"""The machines of a replicated cluster: production's controllers and brokers on simulated seams."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.server import Broker
from pocketmq.broker.store import StoreConfig
from pocketmq.broker.store.config import FlushDiskType
from pocketmq.controller.config import ControllerConfig
from pocketmq.controller.server import Controller, ControllerSeams
from pocketmq.operation.events.sink import SinkMaker
from pocketmq.runtime.profile import Profile
from pocketmq.simulation.disk import MemoryDisk
from pocketmq.simulation.disk_work import DiskTrouble
from pocketmq.simulation.loop import START_MS, SimProcess, VirtualLoop
from pocketmq.simulation.loop_clock import DriftingClock, LoopClock
from pocketmq.simulation.machines import NAMESERVER_ADDRESS
from pocketmq.simulation.network import SimNetwork
from pocketmq.simulation.replicas.journal_files import JournalFiles
from pocketmq.simulation.replicas.plan import CONTROLLERS, REPLICAS, ReplicaPlan
from pocketmq.simulation.trace import Trace

BROKER = "a"
PORTS = {name: 10911 + 10 * at for at, name in enumerate(REPLICAS)}
CONTROLLER_PORTS = {name: 9881 + at for at, name in enumerate(CONTROLLERS)}

SLAVE_TIMEOUT_MS = 2000
"""Less than producers wait for an answer (3 s): they are told FLUSH_SLAVE_TIMEOUT (12)."""

TRANSACTION_OPTIONS: dict[str, Any] = {
    "transaction_check_interval_ms": 5000,
    "transaction_check_max": 100,  # nobody may be there to ask for as long as the trouble lasts
}

LOG_FILE = 64 * 1024
QUEUE_FILE = 2000 * 20


@dataclass(frozen=True, slots=True)
class Stage:
    """Objects that all machines of a run share."""

    plan: ReplicaPlan
    loop: VirtualLoop
    network: SimNetwork
    profile: Profile
    chance: random.Random
    trace: Trace
    events: SinkMaker

    def process(self, name: str) -> SimProcess:
        """A new process on a machine, whose clock drifts as its predecessor's did."""
        process = SimProcess(self.loop, name)
        rate = self.plan.drift_of(name)
        if rate != 1.0:
            process.clock = DriftingClock(self.loop, START_MS, rate)
        return process


class Machine:
    """What both kinds have: a name, and a process that comes and goes.

    Args:
        name: Of machine and processes.
        stage: See there.
    """

    def __init__(self, name: str, stage: Stage) -> None:
        self.name = name
        self.process = stage.process(name)
        self.process.kill()
        self.starts = 0
        self.stage = stage
        self.is_stopping = False

    @property
    def is_up(self) -> bool:
        """Whether its process runs, and is not being stopped."""
        return self.process.alive and not self.is_stopping

    def _new_process(self) -> SimProcess:
        offset_ms = self.process.clock.wall_offset_ms
        self.process = self.stage.process(self.name)
        self.process.clock.wall_offset_ms = offset_ms
        self.starts += 1
        self.is_stopping = False
        self.stage.network.machine_is_back(self.name)
        return self.process


class ControllerMachine(Machine):
    """A controller's disk, and its current process."""

    kind: Final = "controller"

    def __init__(self, name: str, stage: Stage) -> None:
        super().__init__(name, stage)
        self.files = JournalFiles(LoopClock(stage.loop, START_MS), stage.chance)
        self.controller: Controller | None = None

    def start(self) -> None:
        """Start a new process on the machine's disk."""
        stage, process = self.stage, self._new_process()
        peers = ";".join(f"{each}-127.0.0.1:{CONTROLLER_PORTS[each]}"
                         for each in stage.plan.controllers)  # fmt: skip
        config = ControllerConfig(
            name=self.name,
            self_id=self.name,
            peers=peers,
            store_path=Path(f"/{self.name}"),
            broker_close_grace=stage.plan.close_grace_ms,
        )

        async def start() -> None:
            controller = Controller(
                config,
                ControllerSeams(
                    process.clock, stage.network, self.files, stage.chance.getrandbits(32)
                ),
                stage.profile,
                on_failure=self._failed,
                events=stage.events(self.name, process.clock.time_ms),
            )
            self.controller = controller
            await controller.start()

        process.start(start(), f"start {self.name}")

    def _failed(self, task: str, error: BaseException) -> None:
        raise AssertionError(
            f"{self.name} cannot continue, because its task {task} failed: {error}"
        )

    def end(self) -> None:
        """Its process is dead."""
        self.process.kill()
        self.controller = None


class ReplicaMachine(Machine):
    """A broker's disk, and its current process."""

    kind: Final = "broker"

    def __init__(self, name: str, stage: Stage) -> None:
        super().__init__(name, stage)
        is_safe = stage.plan.sync_flush
        self.trouble = DiskTrouble(stage.loop, stage.chance) if is_safe else None
        self.disk = self._new_disk()
        self.broker: Broker | None = None

    def wipe(self) -> None:
        """Its disk is empty; call it while no process runs."""
        self.disk = self._new_disk()

    def _new_disk(self) -> MemoryDisk:
        return MemoryDisk(
            lambda: self.process.clock.time_ms(),
            power_cuts=self.trouble is not None,
            trouble=self.trouble,
        )

    @property
    def address(self) -> str:
        """Where the broker listens."""
        return f"127.0.0.1:{PORTS[self.name]}"

    def start(self) -> None:
        """Start a new process on the machine's disk; it answers when controllers know it."""
        stage, plan, process = self.stage, self.stage.plan, self._new_process()
        controllers = [f"127.0.0.1:{CONTROLLER_PORTS[each]}" for each in plan.controllers]
        if self.trouble is not None:
            self.trouble.clear()

        async def start() -> None:
            self.broker = Broker(
                BrokerConfig(
                    name=BROKER,
                    port=PORTS[self.name],
                    nameservers=(NAMESERVER_ADDRESS,),
                    data=Path(f"/{self.name}"),
                    enable_controller_mode=True,
                    controllers=controllers,
                    all_ack_in_sync_state_set=plan.all_ack,
                    min_in_sync_replicas=plan.min_in_sync,
                    slave_timeout=SLAVE_TIMEOUT_MS,
                    **(TRANSACTION_OPTIONS if plan.transactions else {}),
                ),
                process.clock,
                stage.network,
                stage.profile,
                store_config=StoreConfig(
                    mapped_file_size_commit_log=LOG_FILE,
                    mapped_file_size_consume_queue=QUEUE_FILE,
                    message_index_enable=False,
                    flush_disk_type=(
                        FlushDiskType.SYNC_FLUSH if plan.sync_flush else FlushDiskType.ASYNC_FLUSH
                    ),
                    delete_when="",
                ),
                disk=self.disk,
                events=stage.events(self.name, process.clock.time_ms),
            )
            await self.broker.start()

        process.start(start(), f"start {self.name}")

    def end(self) -> None:
        """Its process is dead."""
        self.process.kill()
        self.broker = None
        self.disk.release_locks()
