"""Runs clients that write a history down, against brokers that are killed, frozen, cut off.

    async with our_cluster(folder, brokers=2) as cluster:
        run = HistoryRun(cluster, folder / "history", seed=1)
        await run.run(FAULTS)
        judgement = run.judgement()

The brokers are PocketMQ's or RocketMQ's own; the clients are processes of ours. Every fault waits
until the system goes on: no moment is a number of seconds after another.
"""

from __future__ import annotations

import asyncio
import os
import signal
import struct
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Protocol

from pocketmq.client import Admin, MessageQueue
from pocketmq.cluster.process import ChildProcess
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import PocketMQError
from pocketmq.simulation.histories import Anomaly, Judgement, Recorder
from pocketmq.simulation.histories.files import judge_files
from pocketmq.simulation.histories.tap import Tap
from pocketmq.simulation.histories.wire_watch import WireWatch
from support.eventually import eventually
from support.real_rocketmq import RealRocketMQ, free_port

TOPIC = "orders"
QUEUES = 4
READERS, ORDERLY = "readers", "orderly"
TAP_HOST = "127.0.0.2"
"""Where clients find the tap of a broker, on the broker's own port."""

START_LIMIT_S = 120.0
SETTLED_LIMIT_S = 180.0
STEP_MESSAGES = 30
"""So many more are acknowledged before and after each fault."""

SAVED_AFTER_S = 12.0
"""A broker that has run for so long has saved its offsets once; then it does every 5 s (B-31)."""

HOUR_MS = 3_600_000

FAULTS = (
    *("kill", "freeze", "cut", "reset", "freeze_consumer", "kill_consumer", "kill_producer"),
    *("clock_ahead", "clock_back"),
)

_CLOCK = SystemClock()


class BrokerUnderTest(Protocol):
    """A broker process that can be broken."""

    name: str
    port: int

    async def kill(self) -> None: ...

    async def start(self) -> None: ...

    def signal(self, number: signal.Signals) -> None: ...

    def set_clock_off(self, by_ms: int) -> None:
        """Let its wall clock be off by so much; `NotImplementedError` where that is impossible."""
        ...


@dataclass
class SystemUnderTest:
    """Brokers, and where clients find them."""

    nameservers: str
    brokers: list[BrokerUnderTest]
    encoding: str


# -- ours -----------------------------------------------------------------------------------------


class OurBroker:
    """A broker process of ours whose clients go through a tap."""

    def __init__(self, name: str, folder: Path, nameservers: str) -> None:
        self.name = name
        self.port = free_port((-2, 0, 1))
        self._clock_file = folder / f"{name}.clock"
        self.set_clock_off(0)
        site = Path(__file__).with_name("wall_clock")
        self._process = ChildProcess(
            name,
            "broker",
            [
                *(sys.executable, "-m", "pocketmq.broker", "--exit-with-parent"),
                *("--name", name, "--port", str(self.port), "--data", str(folder / name)),
                *("--broker-ip1", TAP_HOST, "--nameservers", nameservers),
            ],
            log_path=folder / f"{name}.log",
            env={
                "PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]),
                "WALL_CLOCK_FILE": str(self._clock_file),
            },
        )

    async def start(self) -> None:
        await self._process.start(limit_s=START_LIMIT_S)

    async def kill(self) -> None:
        await self._process.kill()

    def signal(self, number: signal.Signals) -> None:
        os.kill(self._process.pid, number)

    def set_clock_off(self, by_ms: int) -> None:
        with self._clock_file.open("r+b" if self._clock_file.exists() else "wb") as file:
            file.write(struct.pack("<q", by_ms))


@asynccontextmanager
async def our_cluster(folder: Path, *, brokers: int = 2) -> AsyncIterator[SystemUnderTest]:
    """A nameserver and brokers of ours."""
    nameserver = ChildProcess(
        "nameserver",
        "nameserver",
        [
            *(sys.executable, "-m", "pocketmq.nameserver", "--port", "0", "--exit-with-parent"),
            *("--kv-config-path", str(folder / "kvConfig.json")),
        ],
        log_path=folder / "nameserver.log",
    )
    async with AsyncExitStack() as stack:
        await nameserver.start(limit_s=START_LIMIT_S)
        stack.push_async_callback(nameserver.kill)
        made = [
            OurBroker(f"broker-{'abcdef'[at]}", folder, nameserver.address) for at in range(brokers)
        ]
        for broker in made:
            stack.push_async_callback(broker.kill)
            await broker.start()
        yield SystemUnderTest(nameserver.address, list(made), "msgpack")


# -- RocketMQ's -----------------------------------------------------------------------------------


class RealBroker:
    """RocketMQ's own broker, of one nameserver."""

    def __init__(self, cluster: RealRocketMQ) -> None:
        self.name = cluster.broker_name
        self.port = cluster.broker_port
        self._cluster = cluster

    async def start(self) -> None:
        await asyncio.to_thread(self._cluster.start_broker)

    async def kill(self) -> None:
        await asyncio.to_thread(self._cluster.kill_broker)

    def signal(self, number: signal.Signals) -> None:
        assert self._cluster.broker is not None
        os.kill(self._cluster.broker.process.pid, number)

    def set_clock_off(self, by_ms: int) -> None:
        raise NotImplementedError("a JVM's clock is the machine's")


@asynccontextmanager
async def real_cluster(folder: Path) -> AsyncIterator[SystemUnderTest]:
    """RocketMQ's own nameserver and broker."""
    cluster = RealRocketMQ(folder / "store", folder / "rocketmq", broker_ip=TAP_HOST)
    try:
        await asyncio.to_thread(cluster.start_namesrv)
        broker = RealBroker(cluster)
        await broker.start()
        yield SystemUnderTest(cluster.namesrv_addr, [broker], "rocketmq")
    finally:
        await asyncio.to_thread(cluster.stop)


# -- a run ----------------------------------------------------------------------------------------


@dataclass
class HistoryRun:
    """Clients, taps, faults.

    Args:
        system: what is tested.
        folder: gets the history and the clients' logs.
        seed: chooses which broker or client a fault meets.
        pause_s: of each sender after each message.
    """

    system: SystemUnderTest
    folder: Path
    seed: int
    pause_s: float = 0.02
    keys: int = 8
    taps: dict[str, Tap] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    """What was done, in order."""

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._chance = Random(self.seed)
        self._recorder = Recorder(self.folder / "director.jsonl")
        self._clients: list[ChildProcess] = []
        self._made = 0
        self._started_at_s = {broker.name: _CLOCK.monotonic() for broker in self.system.brokers}

    @property
    def files(self) -> list[Path]:
        """The history."""
        return sorted(self.folder.glob("*.jsonl"))

    def judgement(self) -> Judgement:
        """What it comes to as far as it is written."""
        return judge_files(self.files)

    async def run(self, faults: Sequence[str]) -> None:
        """Do what is asked for, then wait until every acknowledged message has come.

        Args:
            faults: of `FAULTS`, in their order.
        """
        async with AsyncExitStack() as stack:
            for broker in self.system.brokers:
                watch = WireWatch(broker.name, self._recorder, messages=False)
                tap = Tap(TAP_HOST, broker.port, "127.0.0.1", broker.port, watch=watch)
                self.taps[broker.name] = tap
                await stack.enter_async_context(tap)
            admin = Admin(nameservers=self.system.nameservers, encoding=self.system.encoding)
            await stack.enter_async_context(admin)
            await eventually(lambda: self._make_topic(admin), "the topic exists everywhere")
            stack.push_async_callback(self._end_clients)
            for options in (
                ("consumer", "--group", READERS),
                ("consumer", "--group", READERS),
                ("consumer", "--group", ORDERLY, "--orderly"),
                ("producer",),
                ("producer",),
            ):
                await self._client(*options)
            looking = asyncio.ensure_future(self._look_at_offsets(admin))
            try:
                await self._more_acknowledged()
                for name in faults:
                    self.faults.append(name)
                    await getattr(self, f"_{name}")()
                    await self._more_acknowledged()
                for client in self._clients:
                    if client.role == "producer":
                        await client.stop(limit_s=START_LIMIT_S)
                await self._until_all_came()
            finally:
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)

    # -- faults -------------------------------------------------------------------------------

    async def _kill(self) -> None:
        """SIGKILL of a broker, and a start on its files."""
        broker = self._any_broker()
        saved_until = self._saved_until_us(broker.name)
        await broker.kill()
        self._recorder.killed(broker.name, saved_until)
        await broker.start()
        self._started_at_s[broker.name] = _CLOCK.monotonic()

    async def _freeze(self) -> None:
        """SIGSTOP of a broker for longer than a send waits."""
        broker = self._any_broker()
        broker.signal(signal.SIGSTOP)
        await _CLOCK.sleep(2.5)
        broker.signal(signal.SIGCONT)

    async def _cut(self) -> None:
        """A partition between all clients and a broker."""
        tap = self.taps[self._any_broker().name]
        tap.cut()
        await _CLOCK.sleep(2.5)
        tap.heal()

    async def _reset(self) -> None:
        """Every connection to a broker ends in the middle of whatever it carries."""
        self.taps[self._any_broker().name].reset()

    async def _freeze_consumer(self) -> None:
        client = self._chance.choice([each for each in self._clients if each.role == READERS])
        await client.freeze()
        await _CLOCK.sleep(2.5)
        client.thaw()

    async def _kill_consumer(self) -> None:
        """SIGKILL of a member; another takes its place."""
        client = self._chance.choice([each for each in self._clients if each.role == READERS])
        await client.kill()
        self._clients.remove(client)
        await self._client("consumer", "--group", READERS)

    async def _kill_producer(self) -> None:
        client = self._chance.choice([each for each in self._clients if each.role == "producer"])
        await client.kill()
        self._clients.remove(client)
        await self._client("producer")

    async def _clock_ahead(self) -> None:
        """A broker's wall clock leaps an hour ahead."""
        self._any_broker().set_clock_off(HOUR_MS)

    async def _clock_back(self) -> None:
        """A broker's wall clock is ten minutes late."""
        self._any_broker().set_clock_off(-HOUR_MS // 6)

    # -- inside -------------------------------------------------------------------------------

    def _any_broker(self) -> BrokerUnderTest:
        return self._chance.choice(self.system.brokers)

    def _saved_until_us(self, broker: str) -> int:
        now_us = self._recorder.now_us
        ran_s = _CLOCK.monotonic() - self._started_at_s[broker]
        # Before the first save of this life, only what the start read is safe.
        old_us = (ran_s if ran_s < 2 * SAVED_AFTER_S else SAVED_AFTER_S) * 1e6
        return now_us - int(old_us)

    async def _client(self, *options: str) -> None:
        self._made += 1
        name = f"{options[0]}-{self._made}"
        role = options[options.index("--group") + 1] if "--group" in options else options[0]
        brokers = ",".join(broker.name for broker in self.system.brokers)
        command = [
            *(sys.executable, "-m", "pocketmq.simulation.histories.worker", *options),
            *("--name", name, "--history", str(self.folder / f"{name}.jsonl")),
            *("--nameservers", self.system.nameservers, "--encoding", self.system.encoding),
            *("--topic", TOPIC, "--brokers", brokers, "--queues", str(QUEUES)),
            *("--keys", str(self.keys), "--pause-s", str(self.pause_s)),
        ]
        client = ChildProcess(name, role, command, log_path=self.folder / f"{name}.log")
        self._clients.append(client)
        await client.start(limit_s=START_LIMIT_S)

    async def _end_clients(self) -> None:
        for client in self._clients:
            await client.stop(limit_s=START_LIMIT_S)

    async def _make_topic(self, admin: Admin) -> bool:
        try:
            await admin.create_topic(TOPIC, queues=QUEUES)
            route = await admin.route(TOPIC)
        except PocketMQError:
            return False
        wanted = {broker.name for broker in self.system.brokers}
        return route is not None and {each.broker_name for each in route.queue_datas} >= wanted

    async def _look_at_offsets(self, admin: Admin) -> None:
        """Ask how far the groups are, again and again; the taps write the answers down."""
        queues = [
            MessageQueue(TOPIC, broker.name, number)
            for broker in self.system.brokers
            for number in range(QUEUES)
        ]
        while True:
            for queue in queues:
                for group in (READERS, ORDERLY):
                    try:
                        await admin.consumer_offset(group, queue)
                    except PocketMQError:
                        await _CLOCK.sleep(0.05)
            await _CLOCK.sleep(0.1)

    async def _more_acknowledged(self) -> None:
        """Wait until more messages of every broker's are acknowledged."""
        goal = {
            broker.name: self._acknowledged(broker.name) + STEP_MESSAGES
            for broker in self.system.brokers
        }

        def reached() -> bool:
            return all(self._acknowledged(name) >= least for name, least in goal.items())

        await eventually(reached, f"sends go on after {self.faults[-1:]}", limit_s=SETTLED_LIMIT_S)

    def _acknowledged(self, broker: str) -> int:
        mark = f'"{broker}/'.encode()
        found = 0
        for path in self.folder.glob("producer-*.jsonl"):
            found += path.read_bytes().count(mark)
        return found

    async def _until_all_came(self) -> None:
        def all_came() -> bool:
            counts = self.judgement().counts
            return not counts[Anomaly.UNOBSERVED] and not counts[Anomaly.LOST]

        try:
            await eventually(all_came, "all came", limit_s=SETTLED_LIMIT_S)
        except AssertionError:
            return  # the judge will say what did not
