"""Records a history of clients while replicas and controllers are killed, stopped and parted.

Three controllers, three replicas of one broker name, all-ack; producers and consumers are processes
that write down what they send, are told and get. One fault after the other, each of a random kind:

  kill_master      SIGKILL of the master; it is started again when another one leads
  kill_slave       SIGKILL of a slave, and a start
  kill_leader      SIGKILL of the controller that leads, and a start
  kill_both        of master and leading controller at once
  stop_master      SIGSTOP until another master is elected, then SIGCONT: it must not go on leading
  stop_slave       SIGSTOP of a slave for some seconds
  stop_leader      SIGSTOP of the controller that leads until another one does
  part_master      no controller and no name server hears the master until another one leads
  isolate_master   nor does any other replica; clients still reach it
  part_slave       nobody but clients hears a slave for some seconds
  part_stream      one slave does not hear its master until it is out of the set, all others do
  part_leader      the other controllers do not hear the one that leads until another one does
  part_and_kill    a slave is parted from everybody until it is out of the set, then the master is
                   killed; both come back at once

After each one sends must go on and every replica must come back in sync; how long that took is
printed. At the end every message that was acknowledged must have come to every group, once it was
stored, in the order of its key: docs/histories.md. Consumer offsets are not judged here: a failover
may set them back by one period of copies.

examples:
  python scripts/replica_histories.py --minutes 10
  python scripts/replica_histories.py --hours 1 --seed 7 --keep DIR
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from random import Random
from statistics import median

import uvloop

from pocketmq.client import Admin
from pocketmq.cluster.local import local_cluster
from pocketmq.cluster.process import ChildProcess
from pocketmq.cluster.replica_sets import replicas
from pocketmq.cluster.steering.faults import ClusterFaults
from pocketmq.cluster.steering.processes import RoleProcesses
from pocketmq.cluster.supervisor import Supervisor
from pocketmq.operation.faults.rule import OTHERS, FaultRule
from pocketmq.runtime import logs
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import PocketMQError
from pocketmq.simulation.histories import Anomaly, Judgement
from pocketmq.simulation.histories.files import judge_files

BROKER, TOPIC, QUEUES, COUNT = "broker-a", "orders", 4, 3
STEP_MESSAGES = 30
"""So many more are acknowledged after each fault."""
LIMIT_S = 300.0
"""For each wait; a machine may be loaded."""

clock = SystemClock()


class Waited(Exception):
    """Something did not come about in time."""


class ReplicaRun:
    """One cluster, its clients, and faults.

    Args:
        cluster: Three controllers, three replicas.
        folder: Gets the history and the clients' logs.
        seed: Chooses the faults.
    """

    def __init__(self, cluster: Supervisor, folder: Path, seed: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.done: Counter[str] = Counter()
        self.back_s: dict[str, list[float]] = {}
        """Kind of fault -> seconds from its begin until 30 more sends were acknowledged."""
        self.whole_s: dict[str, list[float]] = {}
        """Kind of fault -> seconds from its end until every replica was in sync."""
        self._cluster = cluster
        self._rules = ClusterFaults(RoleProcesses(cluster))
        self._folder = folder
        self._chance = Random(seed)
        self._clients: list[ChildProcess] = []
        self._has_struck = asyncio.Event()
        """The present fault is there."""
        self._faults: dict[str, Callable[[], Awaitable[None]]] = {
            "kill_master": self._kill_master,
            "kill_slave": self._kill_slave,
            "kill_leader": self._kill_leader,
            "kill_both": self._kill_both,
            "stop_master": self._stop_master,
            "stop_slave": self._stop_slave,
            "stop_leader": self._stop_leader,
            "part_master": self._part_master,
            "isolate_master": self._isolate_master,
            "part_slave": self._part_slave,
            "part_stream": self._part_stream,
            "part_leader": self._part_leader,
            "part_and_kill": self._part_and_kill,
        }

    async def run(self, seconds: float) -> Judgement:
        """Break things for so long, then wait until every acknowledged message has come."""
        await self._wait(self._is_whole, "all replicas are in sync")
        async with Admin(nameservers=self._cluster.namesrv_addr) as admin:
            await admin.create_topic(TOPIC, queues=QUEUES)
        await clock.sleep(4.0)  # slaves copy topics and groups every 3 s
        try:
            for group in ("readers", "readers", "orderly"):
                await self._client(
                    "consumer", "--group", group, *(["--orderly"] * (group == "orderly"))
                )
            for _ in range(2):
                await self._client("producer")
            await self._sends_go_on()
            await clock.sleep(4.0)  # also the groups
            ends_at = clock.monotonic() + seconds
            kinds: list[str] = []
            while clock.monotonic() < ends_at:
                kinds = kinds or self._chance.sample(sorted(self._faults), len(self._faults))
                await self._break(kinds.pop())
            for client in self._clients:
                if client.role == "producer":
                    await client.stop(limit_s=LIMIT_S)
            await self._until_all_came()
        finally:
            for client in self._clients:
                await client.stop(limit_s=LIMIT_S)
        return self._judgement()

    async def _break(self, kind: str) -> None:
        self._has_struck.clear()

        async def go_on() -> float:
            await self._has_struck.wait()
            began_at = clock.monotonic()
            await self._sends_go_on()
            return clock.monotonic() - began_at

        going_on = asyncio.ensure_future(go_on())
        await self._faults[kind]()
        ended_at = clock.monotonic()
        back_s = await going_on
        await self._wait(self._is_whole, f"all replicas are in sync after {kind}")
        whole_s = clock.monotonic() - ended_at
        await self._sends_go_on()
        self.done[kind] += 1
        self.back_s.setdefault(kind, []).append(back_s)
        self.whole_s.setdefault(kind, []).append(whole_s)
        print(
            f"{kind}: sends went on within {back_s:.1f} s, whole {whole_s:.1f} s later", flush=True
        )

    # -- faults -------------------------------------------------------------------------------

    async def _kill_master(self) -> None:
        master = await self._master()
        epoch = await self._epoch()
        await self._kill(master)
        await self._wait_for_epoch_above(epoch)
        await self._cluster.restart(master.name)

    async def _kill_slave(self) -> None:
        slave = await self._slave()
        await self._kill(slave)
        await self._cluster.restart(slave.name)

    async def _kill_leader(self) -> None:
        leader = await self._leader()
        await self._kill(leader)
        await self._wait(self._leads_again, "another controller leads")
        await self._cluster.restart(leader.name)

    async def _kill_both(self) -> None:
        master, leader, epoch = await self._master(), await self._leader(), await self._epoch()
        await self._kill(leader, master)
        await self._wait_for_epoch_above(epoch)
        await self._cluster.restart(leader.name)
        await self._cluster.restart(master.name)

    async def _stop_master(self) -> None:
        master, epoch = await self._master(), await self._epoch()
        await self._stop(master)
        try:
            await self._wait_for_epoch_above(epoch)
        finally:
            master.thaw()

    async def _stop_slave(self) -> None:
        slave = await self._slave()
        await self._stop(slave)
        await clock.sleep(self._chance.uniform(1, 20))
        slave.thaw()

    async def _part_master(self) -> None:
        master, epoch = await self._master(), await self._epoch()
        others = [*self._cluster.of_role("controller"), *self._cluster.of_role("nameserver")]
        async with self._parted(master, *[each.name for each in others]):
            await self._wait_for_epoch_above(epoch)

    async def _isolate_master(self) -> None:
        master, epoch = await self._master(), await self._epoch()
        async with self._parted(master, OTHERS):
            await self._wait_for_epoch_above(epoch)

    async def _part_slave(self) -> None:
        async with self._parted(await self._slave(), OTHERS):
            await clock.sleep(self._chance.uniform(1, 30))

    async def _part_stream(self) -> None:
        master = await self._master()
        async with self._parted(await self._slave(), master.name):
            await self._wait(self._is_short, "a replica that lags is taken out of the set")

    async def _part_leader(self) -> None:
        leader = await self._leader()
        others = [each for each in self._cluster.of_role("controller") if each is not leader]
        async with self._parted(leader, *[each.name for each in others]):
            await self._wait(lambda: self._leads_other_than(leader), "another controller leads")

    async def _part_and_kill(self) -> None:
        master, epoch = await self._master(), await self._epoch()
        async with self._parted(await self._slave(), OTHERS):
            await self._wait(self._is_short, "a replica that is away is taken out of the set")
            await self._kill(master)
            await self._wait_for_epoch_above(epoch)
        await self._cluster.restart(master.name)

    async def _stop_leader(self) -> None:
        leader = await self._leader()
        await self._stop(leader)
        try:
            await self._wait(lambda: self._leads_other_than(leader), "another controller leads")
        finally:
            leader.thaw()

    @contextlib.asynccontextmanager
    async def _parted(self, one: ChildProcess, *others: str) -> AsyncIterator[None]:
        """Hold back all that a role and others say to each other, until the block is left."""
        for other in others:
            await self._rules.add(FaultRule(do="partition", role=one.name, other=other))
        self._has_struck.set()
        try:
            yield
        finally:
            await self._rules.clear()

    async def _kill(self, *processes: ChildProcess) -> None:
        await asyncio.gather(*(each.kill() for each in processes))
        self._has_struck.set()

    async def _stop(self, process: ChildProcess) -> None:
        await process.freeze()
        self._has_struck.set()

    # -- who is what --------------------------------------------------------------------------

    async def _master(self) -> ChildProcess:
        address = (await replicas(self._cluster)).master_address
        return next(each for each in self._cluster.of_role("broker") if each.address == address)

    async def _slave(self) -> ChildProcess:
        master = await self._master()
        slaves = [each for each in self._cluster.of_role("broker") if each is not master]
        return self._chance.choice(slaves)

    async def _leader(self) -> ChildProcess:
        leader = await self._cluster.leading_controller()
        if leader is None:
            raise Waited("no controller leads")
        return leader

    async def _epoch(self) -> int:
        return (await replicas(self._cluster)).master_epoch or 0

    async def _leads_again(self) -> bool:
        return await self._cluster.leading_controller() is not None

    async def _leads_other_than(self, leader: ChildProcess) -> bool:
        for each in self._cluster.of_role("controller"):
            if each is not leader:
                status = await self._cluster.control(each.name).status()
                if status["serves"] == "true":
                    return True
        return False

    async def _wait_for_epoch_above(self, epoch: int) -> None:
        async def is_above() -> bool:
            found = await replicas(self._cluster)
            return (found.master_epoch or 0) > epoch and found.master_broker_id is not None

        await self._wait(is_above, "another master is elected")

    async def _is_whole(self) -> bool:
        return len((await replicas(self._cluster)).in_sync_replicas) == COUNT

    async def _is_short(self) -> bool:
        found = await replicas(self._cluster)
        return found.master_broker_id is not None and 0 < len(found.in_sync_replicas) < COUNT

    # -- waiting ------------------------------------------------------------------------------

    async def _wait(self, condition: Callable[[], Awaitable[bool]], what: str) -> None:
        ends_at = clock.monotonic() + LIMIT_S
        while True:
            try:
                if await condition():
                    return
            except PocketMQError:  # it does not answer now
                pass
            if clock.monotonic() > ends_at:
                raise Waited(f"not within {LIMIT_S:g} s: {what}")
            await clock.sleep(0.05)

    async def _sends_go_on(self) -> None:
        goal = self._acknowledged() + STEP_MESSAGES

        async def reached() -> bool:
            await clock.sleep(0.1)
            return self._acknowledged() >= goal

        await self._wait(reached, "sends go on")

    async def _until_all_came(self) -> None:
        async def all_came() -> bool:
            await clock.sleep(1.0)
            counts = self._judgement().counts
            return not counts[Anomaly.UNOBSERVED] and not counts[Anomaly.LOST]

        try:
            await self._wait(all_came, "every acknowledged message has come")
        except Waited:
            return  # the judge will say what did not

    def _acknowledged(self) -> int:
        files = self._folder.glob("producer-*.jsonl")
        return sum(path.read_bytes().count(b'"ack"') for path in files)

    def _judgement(self) -> Judgement:
        return judge_files(sorted(self._folder.glob("*.jsonl")))

    async def _client(self, *options: str) -> None:
        name = f"{options[0]}-{len(self._clients) + 1}"
        command = [
            *(sys.executable, "-m", "pocketmq.simulation.histories.worker", *options),
            *("--name", name, "--history", str(self._folder / f"{name}.jsonl")),
            *("--nameservers", self._cluster.namesrv_addr, "--topic", TOPIC),
            *("--brokers", BROKER, "--queues", str(QUEUES), "--keys", "8", "--pause-s", "0.05"),
        ]
        client = ChildProcess(name, options[0], command, log_path=self._folder / f"{name}.log")
        self._clients.append(client)
        await client.start(limit_s=LIMIT_S)


async def _run(options: argparse.Namespace, folder: Path) -> bool:
    seconds = options.hours * 3600 + options.minutes * 60
    data = folder / "cluster"
    async with local_cluster(nameservers=2, controllers=3, replicas=COUNT, data=data) as cluster:
        run = ReplicaRun(cluster, folder / "history", options.seed)
        try:
            judgement = await run.run(seconds)
        except Waited as exc:
            print(exc)
            return False
    for kind in sorted(run.done):
        print(
            f"{kind} {run.done[kind]}: sends went on within {median(run.back_s[kind]):.1f} s,"
            f" {max(run.back_s[kind]):.1f} at most; whole again {median(run.whole_s[kind]):.1f} s"
            f" later, {max(run.whole_s[kind]):.1f} at most"
        )
    print(judgement)
    return judgement.is_clean


def main() -> int:
    """Record and check; 1 for an anomaly, or when something did not go on."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hours", type=float, default=0.0)
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1, help="decides the faults")
    parser.add_argument("--keep", type=Path, help="folder in which the files are kept")
    options = parser.parse_args()
    if not options.hours and not options.minutes:
        options.hours = 1.0
    logs.configure("error")
    folder = options.keep or Path(tempfile.mkdtemp(prefix="replica-history-"))
    folder.mkdir(parents=True, exist_ok=True)
    clean = uvloop.run(_run(options, folder))
    if clean and options.keep is None:
        shutil.rmtree(folder)
    else:
        print(f"the history is in {folder / 'history'}, the logs in {folder / 'cluster' / 'logs'}")
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
