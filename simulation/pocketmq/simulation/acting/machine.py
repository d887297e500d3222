"""Master and slave: production's broker on simulated seams."""

from __future__ import annotations

from pathlib import Path

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.role_names import BrokerRole
from pocketmq.broker.server import Broker
from pocketmq.broker.store import StoreConfig
from pocketmq.operation.events.sink import SinkMaker
from pocketmq.runtime.profile import PROFILE_5_X
from pocketmq.simulation.acting.plan import MASTER
from pocketmq.simulation.disk import MemoryDisk
from pocketmq.simulation.loop import SimProcess, VirtualLoop
from pocketmq.simulation.machines import NAMESERVER_ADDRESS
from pocketmq.simulation.network import SimNetwork

BROKER = "a"
PORTS = {MASTER: 10911, "s": 10921}

SLAVE_TIMEOUT_MS = 2000
"""Less than producers wait for an answer (3 s): they are told FLUSH_SLAVE_TIMEOUT (12)."""

LOG_FILE = 64 * 1024
QUEUE_FILE = 2000 * 20


class PairMachine:
    """A broker's disk, and its current process.

    Args:
        name: Of machine and processes.
        loop: Virtual time.
        network: Between all processes.
        events: Takes what happens.
        is_sync: A master answers when its slave has the message, too.
    """

    def __init__(
        self,
        name: str,
        loop: VirtualLoop,
        network: SimNetwork,
        events: SinkMaker,
        *,
        is_sync: bool = False,
    ) -> None:
        self.name = name
        self.is_master = name == MASTER
        self._is_sync = is_sync
        self.process = SimProcess(loop, name)
        self.process.kill()
        self.broker: Broker | None = None
        self.is_started = False
        """Its recovery is done, and a master is online."""
        self.is_stopping = False
        self._loop = loop
        self._network = network
        self._events = events
        self.disk = MemoryDisk(lambda: self.process.clock.time_ms(), power_cuts=False)

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{PORTS[self.name]}"

    @property
    def is_up(self) -> bool:
        """Whether its process runs, and is not being stopped."""
        return self.process.alive and not self.is_stopping

    def start(self) -> None:
        """Start a new process on the machine's disk."""
        process = self.process = SimProcess(self._loop, self.name)
        self.is_started = self.is_stopping = False
        self._network.machine_is_back(self.name)

        async def start() -> None:
            broker = self.broker = self._made(process)
            await broker.start()
            self.is_started = True

        process.start(start(), f"start {self.name}")

    @property
    def _role(self) -> BrokerRole:
        if not self.is_master:
            return BrokerRole.SLAVE
        return BrokerRole.SYNC_MASTER if self._is_sync else BrokerRole.ASYNC_MASTER

    def end(self) -> None:
        """Its process is dead."""
        self.process.kill()
        self.broker = None
        self.is_started = False
        self.disk.release_locks()

    def _made(self, process: SimProcess) -> Broker:
        return Broker(
            BrokerConfig(
                name=BROKER,
                port=PORTS[self.name],
                nameservers=(NAMESERVER_ADDRESS,),
                data=Path(f"/{self.name}"),
                broker_role=self._role,
                in_sync_replicas=2 if self._is_sync else 1,
                slave_timeout=SLAVE_TIMEOUT_MS,
                broker_id=0 if self.is_master else 1,
                enable_slave_acting_master=True,
                slave_read_enable=True,
                total_replicas=2,
            ),
            process.clock,
            self._network,
            PROFILE_5_X,
            store_config=StoreConfig(
                mapped_file_size_commit_log=LOG_FILE,
                mapped_file_size_consume_queue=QUEUE_FILE,
                message_index_enable=False,
                delete_when="",
            ),
            disk=self.disk,
            events=self._events(self.name, process.clock.time_ms),
        )
