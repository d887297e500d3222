"""A real cluster of processes for tests, in the words of the domain.

    async with running(tmp_path, brokers=2, clock="manual") as cluster:
        await cluster.broker("a").freeze()          # the process lives, its connections stay up
        await cluster.advance(seconds=126)          # 120 s + one scan
        assert await cluster.route("orders") == {"broker-b": 4}

A test that fails prints the tail of each process's log.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pocketmq.client import Admin
from pocketmq.cluster.process import ChildProcess
from pocketmq.cluster.spec import ClusterOptions, ProcessSpec, cluster_spec
from pocketmq.cluster.supervisor import Supervisor
from pocketmq.runtime.clock import Clock, SystemClock
from pocketmq.runtime.manual_time.clock_members import ClockMember, NearMember
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.eventually import PATIENCE_MS, eventually

running_clusters: list[Cluster] = []
"""For the report of a failing test."""


@dataclass(slots=True)
class Consumer:
    """A consumer process and what it has told."""

    process: ChildProcess
    records: Path
    queues: list[tuple[str, int]] = field(default_factory=list)
    """(broker, queue id) that it owns by its latest word."""
    pulled: set[tuple[str, int]] = field(default_factory=set)

    def consumed(self) -> list[str]:
        """Its record lines: broker,queue,offset,key,carrier,dep_delay."""
        return self.records.read_text().splitlines() if self.records.exists() else []

    def hear(self, line: str) -> None:
        words: dict[str, Any] = json.loads(line)
        match words["event"]:
            case "assigned":
                self.queues = sorted((broker, queue) for broker, queue in words["queues"])
            case "pulled":
                self.pulled.add((words["broker"], words["queue"]))


class Cluster:
    """Nameservers, brokers and clients as processes."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        self.consumers: dict[str, Consumer] = {}
        self.is_manual = supervisor.spec.clock == "manual"
        self.local_clock: Clock = (
            ManualClock(supervisor.clock_start_ms) if self.is_manual else SystemClock()
        )
        """For clients that live in the test itself; moves with the others."""

    @property
    def nameservers(self) -> str:
        """`host:port;host:port`."""
        return self.supervisor.namesrv_addr

    def broker(self, letter: str) -> ChildProcess:
        """`a` for `broker-a`."""
        return self.supervisor[f"broker-{letter}"]

    def nameserver(self, number: int) -> ChildProcess:
        """1 for the first."""
        return self.supervisor[f"nameserver-{number}"]

    async def restart(self, process: ChildProcess) -> None:
        """Start a process that has ended, on its port and its files."""
        await self.supervisor.restart(process.name)

    async def advance(self, *, seconds: float = 0, minutes: float = 0) -> None:
        """Move every living clock in lock step; nobody may be lost on the way."""
        others: Sequence[ClockMember] = ()
        if isinstance(self.local_clock, ManualClock):
            others = [NearMember("the test", self.local_clock)]
        lost = await self.supervisor.advance(seconds + 60 * minutes, others=others)
        assert lost == [], f"{lost} did not follow the step"

    async def create_topic(self, topic: str, *, queues: int = 4) -> None:
        """On every broker; returns when every nameserver has the whole route."""
        async with self.admin() as admin:
            await admin.create_topic(topic, queues=queues)
        brokers = {each.broker_name for each in self.supervisor.spec.brokers}
        for address in self.supervisor.nameserver_addresses:
            await eventually(
                partial(self._has_route, topic, brokers, address),
                f"{address} knows {topic} on {brokers}",
            )

    async def route(self, topic: str, nameservers: str | None = None) -> dict[str, int]:
        """Broker name -> number of queues to write to; empty without a route."""
        async with self.admin(nameservers) as admin:
            route = await admin.route(topic)
        if route is None:
            return {}
        return {each.broker_name: each.write_queue_nums for each in route.queue_datas}

    def admin(self, nameservers: str | None = None) -> Admin:
        """An admin client of this cluster, on real time."""
        return Admin(nameservers=nameservers or self.nameservers, api_timeout_ms=PATIENCE_MS)

    async def consumer(self, name: str, data: Path, *options: str) -> Consumer:
        """Start a consumer process; it tells what it owns and writes down what it consumes."""
        records = data / f"{name}.csv"
        spec = ProcessSpec(
            "client",
            name,
            "pocketmq.cluster.demo.consumer_worker",
            ("--name", name, "--records", str(records), *options),
        )
        heard: list[str] = []
        consumer_box: list[Consumer] = []

        def on_line(line: str) -> None:
            if consumer_box:
                consumer_box[0].hear(line)
            else:
                heard.append(line)

        process = await self.supervisor.add(spec, on_line=on_line)
        consumer = self.consumers[name] = Consumer(process, records)
        for line in heard:
            consumer.hear(line)
        consumer_box.append(consumer)
        return consumer

    def story(self, lines: int = 15) -> str:
        """The end of each process's log."""
        return "\n".join(
            f"-- {process!r}\n{process.log_tail(lines)}" for process in self.supervisor.processes
        )

    async def _has_route(self, topic: str, brokers: set[str], nameserver: str) -> bool:
        return brokers <= set(await self.route(topic, nameserver))


@asynccontextmanager
async def running(
    data: Path,
    *broker_arguments: str,
    nameservers: int = 1,
    brokers: int = 1,
    slaves: int = 0,
    sync_slaves: bool = False,
    acting_master: bool = False,
    clock: Literal["real", "manual"] = "real",
    tls: bool = False,
    env: Mapping[str, str] | None = None,
) -> AsyncIterator[Cluster]:
    """A cluster on free ports, with its files below `data`; `env` is added for each process."""
    options = ClusterOptions(
        nameservers=nameservers,
        brokers=brokers,
        slaves=slaves,
        sync_slaves=sync_slaves,
        acting_master=acting_master,
        any_port=True,
        clock=clock,
        tls=tls,
        log_level="debug",
    )
    spec = cluster_spec(options, data, broker_arguments=broker_arguments)
    supervisor = Supervisor(spec, env=env)
    cluster = Cluster(supervisor)
    running_clusters.append(cluster)
    async with supervisor:
        yield cluster
