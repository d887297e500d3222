"""Kills a broker's process again and again, and holds each restart against what was acknowledged.

    figures = await crash_loop.run_life(folder, seed=1, life=0, rounds=10)

A life is one store and many rounds. In a round the broker starts (some starts are killed too); what
it serves is compared with the ledger, its files are verified. Then producers, a consumer and a
clock load it until it is killed: after a chosen time, at a chosen call of its disk, or while it
stops. The broker has a manual clock, which runs about fifty times as fast as ours: flushes of
500 ms to 60 s and saves of offsets then fall into rounds of half a second.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeVar

from pocketmq.broker.store import FlushDiskType, OsDisk
from pocketmq.broker.store.disk.fault_disk import VARIABLE
from pocketmq.broker.store.tools.verify import verify_store
from pocketmq.client import Admin, MessageQueue, PullConsumer, PullStatus
from pocketmq.cluster.control import ControlledProcess
from pocketmq.cluster.errors import ProcessStartError
from pocketmq.cluster.process import ChildProcess
from pocketmq.protocol.errors import BrokerNotFoundError, NoNameServerError, RemotingError
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import PocketMQError
from support.crash_ledger import Ledger, Place
from support.crash_load import GROUP, QUEUES, BrokerClock, Load, Topics
from support.crash_plan import Killing, plan_round
from support.eventually import PATIENCE_MS
from support.real_rocketmq import free_port
from support.store_life import START_MS, Verdict

START_LIMIT_S = 120.0
"""Real seconds; far above what a loaded machine needs."""

FIRST_START_S = 0.4
"""About what a start takes on a quiet machine."""

DELAY_S = 5
"""Of level 2, the later one in use."""

INDEX_SLOTS = 200
SMALL = {
    "mapped-file-size-commit-log": 32 * 1024,
    "mapped-file-size-consume-queue": 20 * 60,
    "max-hash-slot-num": INDEX_SLOTS,
    "max-index-num": 4 * INDEX_SLOTS,
    # A broker's second lasts 20 ms here, and a sync may take longer.
    "sync-flush-timeout-ms": 600_000,
    "os-page-cache-busy-timeout-ms": 600_000,
    # The machine's own disk may be nearly full; that is not what is tested, and not looked at.
    "clean-resource-interval-ms": 1_000_000_000,
}

_CLOCK = SystemClock()

T = TypeVar("T")


@dataclass
class Figures:
    """What a run came to."""

    rounds: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    """What the broker was doing -> how often it was killed then."""
    acknowledged: int = 0
    in_doubt: int = 0
    """Sent, never acknowledged: the kill came first."""
    commits: int = 0
    """Consumer offsets that the broker took note of."""
    restarts_s: list[float] = field(default_factory=list)
    """Real seconds from the start of a process to its ready line."""

    def add(self, other: Figures) -> None:
        """Take in what another life came to."""
        self.rounds += other.rounds
        self.kills.update(other.kills)
        self.acknowledged += other.acknowledged
        self.in_doubt += other.in_doubt
        self.commits += other.commits
        self.restarts_s += other.restarts_s


class RoundFailed(AssertionError):
    """A restart broke a promise."""

    def __init__(self, life: int, number: int, reason: str, folder: Path) -> None:
        self.life = life
        super().__init__(f"life {life} round {number}: {reason}; its files are in {folder}")


async def run_life(
    folder: Path,
    *,
    seed: int,
    life: int,
    rounds: int,
    on_round: Callable[[], None] = lambda: None,
) -> Figures:
    """One store from its first start over `rounds` kills to a clean stop.

    Args:
        folder: where its files go; removed unless it fails.
        seed: chooses every moment together with `life` and the round.
        on_round: called after each round.

    Raises:
        RoundFailed: a restart broke a promise.
    """
    home = folder / f"life-{life}"
    home.mkdir()
    store = _Life(home, seed, life)
    number = 0
    try:
        await store.begin()
        for number in range(rounds):
            await store.round(number)
            on_round()
        number = rounds
        await store.finish()
    except (Verdict, PocketMQError, TimeoutError) as exc:
        raise RoundFailed(life, number, f"{type(exc).__name__}: {exc}", home) from exc
    finally:
        await store.close()
    shutil.rmtree(home)
    return store.figures


class _Life:
    def __init__(self, home: Path, seed: int, life: int) -> None:
        self.figures = Figures()
        self._ledger = Ledger()
        self._home = home
        self._data = home / "store"
        # One for each life: a topic that is new may be made at any broker that is known.
        self._nameserver = ChildProcess(
            "nameserver",
            "nameserver",
            [
                *(sys.executable, "-m", "pocketmq.nameserver", "--port", "0"),
                *("--kv-config-path", str(home / "kvConfig.json"), "--exit-with-parent"),
            ],
            log_path=home / "nameserver.log",
        )
        self._seed = seed
        self._life = life
        self._name = f"broker-{life}"
        self._topics = Topics(f"orders-{life}", f"delayed-{life}", self._name)
        self._mode = list(FlushDiskType)[life % 2]
        self._remoting = RemotingClient(TcpNetwork())
        self._broker: ChildProcess | None = None
        self._port = free_port((-2, 0, 1))  # it has to have it again after each kill
        self._clock = BrokerClock.at(START_MS)
        self._crashed = self._clock
        """The clock of the process that was killed last under load."""

    async def begin(self) -> None:
        await self._nameserver.start(limit_s=START_LIMIT_S)

    async def close(self) -> None:
        await self._nameserver.kill()
        if self._broker is not None:
            await self._broker.kill()
        await self._remoting.close()

    # -- a round ------------------------------------------------------------------------------

    async def round(self, number: int) -> None:
        """Start, compare, load, kill."""
        plan = plan_round(self._seed, self._life, number)
        for killing in plan.starts:
            await self._start_and_kill(killing)
        if not await self._start(plan.end.fault):
            # The fault met the start: that is a kill during recovery, and this start is another.
            self.figures.kills["it starts"] += 1
            await self._start()
        if not await self._compare():
            # It met what a reader's coming has to save.
            self.figures.kills["a consumer comes"] += 1
            await self._start()
            if not await self._compare():
                raise Verdict("the broker ended by itself while it was read")
        await self._load(number, plan.end)
        self.figures.rounds += 1

    async def finish(self) -> None:
        """One more start and comparison, what was delayed becomes due, and a clean stop."""
        await self._start()
        if not await self._compare():
            raise Verdict("the broker ended by itself while it was read")
        await self._wait_for_delayed()
        assert self._broker is not None
        status = await self._broker.stop(limit_s=START_LIMIT_S)
        if status != 0:
            raise Verdict(f"a stop ended with status {status}")
        self._verify(self._data)
        self.figures.acknowledged = len(self._ledger.acknowledged) + len(self._ledger.delayed)
        self.figures.in_doubt = len(self._ledger.senders) - self.figures.acknowledged

    # -- starting -----------------------------------------------------------------------------

    def _process(self, fault: str) -> ChildProcess:
        command = [
            *(sys.executable, "-m", "pocketmq.broker", "--exit-with-parent"),
            *("--name", self._name, "--port", str(self._port), "--data", str(self._data)),
            *("--nameservers", self._nameserver.address, "--flush-disk-type", self._mode.name),
            *("--clock", "manual", "--clock-start-ms", str(self._clock.most_ms)),
            *(word for key, value in SMALL.items() for word in (f"--{key}", str(value))),
        ]
        self._broker = ChildProcess(
            self._name,
            "broker",
            command,
            log_path=self._home / "broker.log",
            env={VARIABLE: fault},
        )
        return self._broker

    async def _start(self, fault: str = "") -> bool:
        """Start the broker; False when its fault killed it before it was ready."""
        broker = self._process(fault)
        try:
            await broker.start(limit_s=START_LIMIT_S)
        except ProcessStartError:
            if fault and broker.status == -signal.SIGKILL:
                return False
            raise
        self.figures.restarts_s.append(broker.ready_after_s)
        return True

    async def _start_and_kill(self, killing: Killing) -> None:
        """Begin a start, and kill it at its fault or after a while, ready or not."""
        broker = self._process(killing.fault)
        starting = asyncio.ensure_future(broker.start(limit_s=START_LIMIT_S))
        typical_s = self.figures.restarts_s[-1] if self.figures.restarts_s else FIRST_START_S
        await asyncio.wait([starting], timeout=killing.after_s * typical_s)
        while not broker.pid:  # a machine under load has not even begun
            await _CLOCK.sleep(0.001)
        await broker.kill()
        try:
            await starting
        except ProcessStartError as exc:
            if broker.status != -signal.SIGKILL:
                raise Verdict(f"a start ended by itself: {exc}") from exc
        self.figures.kills[killing.what] += 1

    # -- loading ------------------------------------------------------------------------------

    async def _load(self, number: int, killing: Killing) -> None:
        """Producers, a consumer and the clock, until the broker is dead."""
        broker = self._broker
        assert broker is not None
        chance = Random(f"{self._seed}/{self._life}/{number}/load")
        load = Load(self._ledger, self._clock, self._topics, f"{self._life}-{number}", chance)
        async with load.running(self._nameserver.address, self._member()):
            ended = asyncio.ensure_future(broker.wait())
            await asyncio.wait([ended], timeout=killing.after_s)
            struck = ended.done()
            if killing.stop_first and not struck:
                stopping = asyncio.ensure_future(broker.stop(limit_s=START_LIMIT_S))
                await asyncio.wait([stopping], timeout=chance.uniform(0, 0.2))
                await broker.kill()
                await stopping
            await broker.kill()
            await ended
        self.figures.commits += load.commits
        self._crashed = self._clock
        self._clock = BrokerClock.at(self._clock.most_ms)
        stopped = killing.stop_first and broker.status == 0
        if not stopped and broker.status != -signal.SIGKILL:
            raise Verdict(f"the broker ended by itself with status {broker.status}")
        missed = bool(killing.fault) and not struck
        self.figures.kills["it is under load" if missed else killing.what] += 1

    # -- comparing ----------------------------------------------------------------------------

    async def _compare(self) -> bool:
        """Hold what the broker serves, and its files, against the ledger; False when it died."""
        broker = self._broker
        assert broker is not None
        self._verify_copy()
        judging = asyncio.ensure_future(self._judge())
        ending = asyncio.ensure_future(broker.wait())
        try:
            await asyncio.wait([judging, ending], return_when=asyncio.FIRST_COMPLETED)
            if judging.done():
                judging.result()
                return True
        finally:
            for task in (judging, ending):
                task.cancel()
            await asyncio.gather(judging, ending, return_exceptions=True)
        if broker.status != -signal.SIGKILL:
            raise Verdict(f"the broker ended by itself with status {broker.status}")
        return False

    def _verify_copy(self) -> None:
        copy = self._home / "copy"
        shutil.copytree(self._data, copy, ignore=shutil.ignore_patterns("lock"))
        self._verify(copy)
        shutil.rmtree(copy)

    async def _judge(self) -> None:
        """Read all that is served, and the offsets."""
        ledger = self._ledger
        async with (
            PullConsumer("crash-readers", nameservers=self._nameserver.address) as reader,
            Admin(nameservers=self._nameserver.address, api_timeout_ms=PATIENCE_MS) as admin,
        ):
            served: dict[Place, bytes] = {}
            for topic in sorted(ledger.topics):
                served |= await _read_all(reader, admin, topic, self._name)
            ledger.judge(served)
            for queue in range(QUEUES):
                asked = partial(admin.consumer_offset, GROUP, self._topics.queue(queue))
                found = await _patiently(asked)
                crashed = self._crashed
                ledger.judge_offset(
                    queue, found, started_ms=crashed.started_ms, now_ms=crashed.now_ms
                )

    def _verify(self, root: Path) -> None:
        verified = verify_store(OsDisk(), str(root), index_slots=INDEX_SLOTS)
        if verified.problems:
            raise Verdict("; ".join(map(str, verified.problems[:5])))

    async def _wait_for_delayed(self) -> None:
        """Let the clock run until every delayed message that was acknowledged is delivered."""
        member = self._member()
        async with (
            PullConsumer("crash-readers", nameservers=self._nameserver.address) as reader,
            Admin(nameservers=self._nameserver.address, api_timeout_ms=PATIENCE_MS) as admin,
        ):
            for _ in range(2 * DELAY_S):
                await self._clock.move(member, 1000)
            if self._ledger.delayed:
                served = await _read_all(reader, admin, self._topics.delayed, self._name)
                self._ledger.judge_delayed(served.values())

    def _member(self) -> ControlledProcess:
        return ControlledProcess(self._name, f"127.0.0.1:{self._port}", self._remoting)


async def _read_all(
    reader: PullConsumer, admin: Admin, topic: str, broker: str
) -> dict[Place, bytes]:
    """Every message of a topic that a consumer gets."""
    served: dict[Place, bytes] = {}
    for queue_id in range(QUEUES):
        queue = MessageQueue(topic, broker, queue_id)
        offset, end = 0, await _patiently(partial(admin.max_offset, queue))
        while offset < end:
            pulled = await _patiently(partial(reader.pull, queue, "*", offset))
            if pulled.status is not PullStatus.FOUND:
                raise Verdict(f"{queue} at {offset} of {end}: {pulled.status}")
            for message in pulled.messages:
                served[Place(topic, queue_id, message.queue_offset)] = bytes(message.body)
            offset = pulled.next_begin_offset
    return served


async def _patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask again when nobody answers in time: a loaded machine breaks no promise."""
    ends_at = _CLOCK.monotonic() + START_LIMIT_S
    while True:
        try:
            return await ask()
        except (RemotingError, NoNameServerError, BrokerNotFoundError):
            if _CLOCK.monotonic() > ends_at:
                raise
            await _CLOCK.sleep(0.1)
