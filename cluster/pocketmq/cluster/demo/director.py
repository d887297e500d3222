"""Runs the demo: starts the processes, starts and kills a consumer on the way, collects figures.

It reads the consumers' progress from their files, and the owners of queues from their reports.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pocketmq.client.config import ClientOptions
from pocketmq.cluster.demo import data
from pocketmq.cluster.demo.allocation import AllocationLog, QueueName
from pocketmq.cluster.demo.display import Display
from pocketmq.cluster.demo.locks import NO_KEYS, Locks
from pocketmq.cluster.demo.master_kill import MasterKill, all_in_sync, kill_master
from pocketmq.cluster.demo.meter import Meter, Usage
from pocketmq.cluster.demo.modes import MAX_RECONSUME_TIMES
from pocketmq.cluster.demo.options import DemoOptions
from pocketmq.cluster.demo.record_file import RecordReader
from pocketmq.cluster.demo.recording import DemoRecording
from pocketmq.cluster.demo.report import DemoReport, ProcessFigures
from pocketmq.cluster.demo.retries import Retries
from pocketmq.cluster.demo.spark_step import run_spark_step
from pocketmq.cluster.demo.topic import DemoTopic
from pocketmq.cluster.demo.workers import CONSUMER_GROUP, TOPIC, now_ms
from pocketmq.cluster.errors import ProcessDiedError
from pocketmq.cluster.process import ChildProcess
from pocketmq.cluster.spec import ClusterOptions, ProcessSpec, cluster_spec
from pocketmq.cluster.supervisor import Supervisor
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import PeerError
from pocketmq.runtime.ports import free_ports

PRODUCER_MODULE = "pocketmq.cluster.demo.producer_worker"
CONSUMER_MODULE = "pocketmq.cluster.demo.consumer_worker"

PRODUCERS = 2
FIRST_CONSUMERS = ("consumer-1", "consumer-2", "consumer-3")
NEWCOMER = "consumer-4"

REPLICATED = "broker-a"
CONTROLLERS = 3

LOOK_S = 0.1
METER_EVERY_LOOKS = 5
STALL_LIMIT_S = 60.0
"""Real seconds without progress after which the run fails."""

SHORTEST_SEND_S = 8.0
"""Flights per second at most in a small run, so that a join and a kill happen during it."""


@dataclass(slots=True)
class Worker:
    """State of one producer or consumer."""

    name: str
    messages: int = 0
    began_at_s: float = 0.0
    ended_at_s: float = 0.0
    is_done: bool = False
    silence_ms: float = 0.0
    """Longest time in which a producer got no acknowledgement."""
    repeated: int = 0
    """Sends of RocketMQ's SDK that were repeated."""


class Director:
    """One run of the demo.

    Args:
        options: The user's options.
        data_folder: Empty folder for stores, logs and the consumers' files.
        display: Shows the progress.
    """

    def __init__(self, options: DemoOptions, data_folder: Path, display: Display) -> None:
        self._options = options
        self._data = data_folder
        self._display = display
        self._clock = SystemClock()
        self._random = random.Random(options.seed)
        self._total = min(options.flights or data.TOTAL_FLIGHTS, data.TOTAL_FLIGHTS)
        self._mode = options.mode
        is_replicated = options.replicas > 1
        cluster = ClusterOptions(
            nameservers=2,
            controllers=CONTROLLERS if is_replicated else 0,
            # With replicas one broker name is enough, as its master is what is killed.
            brokers=1 if is_replicated else 2,
            replicas=options.replicas,
            # Any free ports, since the demo may run beside another cluster.
            any_port=True,
            tls=options.secure,
            members_must_prove=options.secure,
            # Producers and consumers are no members: who knows the secret may do all there.
            strangers_read_routes=options.secure,
            proxy=self._mode.name == "grpc",
            events=options.record is not None,
        )
        spec = cluster_spec(
            cluster,
            data_folder,
            broker_arguments=self._mode.broker_arguments(),
            # A controller gets the others' ports at its start, so all must be known before.
            controller_ports=free_ports(cluster.host, cluster.controllers),
        )
        self._kill = MasterKill()
        self._locks = locks = Locks.made() if options.secure else None
        self._cluster = Supervisor(
            spec,
            on_ended=self._process_ended,
            env=None if locks is None else locks.access.environment,
            credentials=None if locks is None else locks.access.steering,
        )
        self._client_env = NO_KEYS if locks is None else locks.environment(spec)
        self._failure: ProcessDiedError | None = None
        self._workers: dict[str, Worker] = {}
        self._records: dict[str, RecordReader] = {}
        self._tally = self._mode.tally(self._total)
        self._retries: Retries | None = None
        self._meter = Meter()
        self._log = AllocationLog([])
        self._recording: DemoRecording | None = None
        self._looks = 0

    async def run(self) -> DemoReport:
        """Run the demo; every process has ended when it returns or raises.

        Raises:
            PocketMQError: A process could not start or died, or there was no more progress.
        """
        began_at_s = self._clock.monotonic()
        try:
            report = await self._run()
        finally:
            # Also after an error: no process may outlive the run, and their files are read below.
            await self._cluster.stop()
            for records in self._records.values():
                records.close()
        # Only now: parsing the CSV would take processor time from the processes under test.
        summary = data.summarise(data.find_csv(), self._options.flights)
        return DemoReport(
            **report,
            lost=self._tally.lost(summary.flights),
            csv_means=summary.delays.means(),
            took_s=self._clock.monotonic() - began_at_s,
        )

    # -- the run ----------------------------------------------------------------------------

    async def _run(self) -> dict[str, Any]:
        await self._cluster.start()
        # The users are created after the brokers have started, and before any client needs them.
        if self._locks is not None:
            await self._locks.make(self._cluster)
        path = self._options.record
        if path is None:
            return await self._carry()
        async with DemoRecording(self._cluster, path) as recording:
            self._recording = recording
            report = await self._carry()
        self._display.say(f"{recording.events:,} events in {path}: pocketmq watch --from {path}")
        return report

    async def _carry(self) -> dict[str, Any]:
        if self._options.replicas > 1:
            # With too few replicas in sync a master refuses sends, which would look like the demo's
            # fault.
            await all_in_sync(self._cluster, REPLICATED, self._options.replicas)
        topic = DemoTopic(self._cluster, self._clients)
        queues = self._mode.assigned(await topic.create())
        # Before the first consumer, which asks the broker for the mode together with its queues.
        if self._mode.name == "pop":
            await topic.have_popped(CONSUMER_GROUP)
        self._log = AllocationLog(queues, everyone_owns_all=self._mode.everyone_owns_all)
        self._say_addresses()
        await self._start_first_workers()

        # Also settled: a join during the first rebalance would hide how long either takes.
        await self._until(lambda: self._tally.distinct * 3 >= self._total and self._log.settled)
        self._display.say(f"{NEWCOMER} joins: {self._tally.distinct:,} flights are consumed")
        await self._start_consumer(NEWCOMER)
        if self._mode.name == "failover":
            await self._until(lambda: self._tally.distinct * 2 >= self._total and self._log.settled)
            await self._fail_over()
        await self._until(
            lambda: (
                self._tally.distinct * 3 >= self._total * 2
                and len(self._log.rebalances) == 2
                # The newcomer's rebalance has settled, so that the kill is an event of its own.
                and self._log.settled
            )
        )
        victim = self._random.choice(FIRST_CONSUMERS)
        self._say_killed(victim)
        # Noted before the kill, so that the time counts from there.
        self._log.left(victim, now_ms(), f"{victim} was killed with SIGKILL")
        await self._kill_consumer(victim)

        if self._kill.killed:
            self._display.say(f"{self._kill.killed} starts again, and follows {self._kill.elected}")
            # Only after the consumer's kill, so that the figures show one event at a time.
            await self._cluster.restart(self._kill.killed)
        await self._until(lambda: all(self._workers[name].is_done for name in self._producers))
        if self._mode.name == "failures":
            await self._drain()
        # After all sends, since the count would still grow.
        stored = await topic.stored()
        await self._until(lambda: self._tally.unread(stored) == 0 and self._log.settled)
        if self._kill.killed:
            await all_in_sync(self._cluster, REPLICATED, self._options.replicas)
            self._kill.is_whole = True
            self._kill.silence_ms = max(self._workers[name].silence_ms for name in self._producers)
        await self._end_workers()
        report = self._figures(stored)
        # Spark would count copies of a flight twice.
        if self._options.spark and not self._mode.stores_copies:
            self._display.say("Spark reads the flights from the brokers")
            log_path = self._data / "logs" / "spark.log"
            report["spark"] = await run_spark_step(
                self._cluster.namesrv_addr, TOPIC, log_path, env=self._client_env
            )
        return report

    def _say_addresses(self) -> None:
        for process in self._cluster.processes:
            self._display.say(f"{process.name} listens on {process.address} (pid {process.pid})")

    def _say_killed(self, name: str) -> None:
        self._display.say(f"{name} is killed: {self._tally.distinct:,} flights are consumed")

    async def _start_first_workers(self) -> None:
        await asyncio.gather(
            *(self._start_producer(part) for part in range(PRODUCERS)),
            *(self._start_consumer(name) for name in FIRST_CONSUMERS),
        )

    async def _kill_consumer(self, name: str) -> None:
        await self._cluster[name].kill()
        self._tally.killed.add(name)
        self._workers[name].ended_at_s = self._clock.monotonic()

    async def _end_workers(self) -> None:
        """Stop the workers, and count what they wrote until then."""
        # More lines may have come after the check that ended the wait.
        self._look()
        for worker in self._workers.values():
            worker.ended_at_s = worker.ended_at_s or self._clock.monotonic()
        if self._recording is not None:
            await self._recording.caught_up()  # who has ended cannot be asked
        # Clients stop first, so that their last commits reach running brokers.
        await asyncio.gather(*(each.stop() for each in self._cluster.of_role("client")))
        self._read_records()
        self._display.progress(self._sent, self._tally.distinct)

    async def _fail_over(self) -> None:
        """Kill the master, while sends and pulls are under way."""
        self._display.say(f"the master is killed: {self._tally.distinct:,} flights are consumed")
        self._kill = await kill_master(self._cluster, REPLICATED)
        self._display.say(
            f"{self._kill.killed} is dead; {self._kill.elected} is master of epoch "
            f"{self._kill.epoch} after {self._kill.election_ms:.0f} ms"
        )

    async def _drain(self) -> None:
        """Wait until every failed message has been consumed with success."""
        self._retries = Retries(self._clients)
        draining = asyncio.create_task(self._retries.drain())
        try:
            await self._until(draining.done)
            await draining
        finally:
            # Also if the wait has failed: otherwise the task would keep asking a cluster that ends.
            draining.cancel()

    @property
    def _clients(self) -> ClientOptions:
        """Of clients that may do everything in the cluster."""
        found: ClientOptions = {} if self._locks is None else self._locks.clients(self._cluster)
        return {**found, "nameservers": self._cluster.namesrv_addr}

    @property
    def _recording_arguments(self) -> tuple[str, ...]:
        return ("--events",) if self._options.record else ()

    async def _start_producer(self, part: int) -> None:
        name = f"producer-{part + 1}"
        # Slow enough for the join and the kill to fall into a small run; large runs are slower
        # anyway.
        rate = self._total / SHORTEST_SEND_S / PRODUCERS
        arguments = (
            *("--name", name, "--part", str(part), "--parts", str(PRODUCERS)),
            *("--flights", str(self._options.flights or 0), "--rate", f"{rate:.3f}"),
            *(("--goes-on",) if self._mode.name == "failover" else ()),
            *self._recording_arguments,
        )
        await self._start(ProcessSpec("client", name, PRODUCER_MODULE, arguments))

    async def _start_consumer(self, name: str) -> None:
        path = self._data / "consumed" / f"{name}.csv"
        path.parent.mkdir(exist_ok=True)
        self._records[name] = RecordReader(path)
        arguments = (
            *("--name", name, "--records", str(path), "--seed", str(self._options.seed)),
            *self._mode.consumer_arguments(),
            *self._recording_arguments,
        )
        await self._start(ProcessSpec("client", name, CONSUMER_MODULE, arguments))

    async def _start(self, spec: ProcessSpec, env: Mapping[str, str] | None = None) -> None:
        worker = self._workers[spec.name] = Worker(spec.name)
        # A worker prints its reports to standard output; the supervisor handles the READY line.
        await self._cluster.add(
            spec,
            on_line=lambda line: self._heard(worker, line),
            env={**self._client_env, **(env or {})},
        )
        worker.began_at_s = self._clock.monotonic()

    # -- reports of workers ------------------------------------------------------------------

    def _heard(self, worker: Worker, line: str) -> None:
        words = json.loads(line)
        match words["event"]:
            case "sent":
                worker.messages = words["count"]
            case "done":
                worker.messages = words["count"]
                worker.ended_at_s = self._clock.monotonic()
                worker.is_done = True
                worker.silence_ms = words["silence_ms"]
                worker.repeated = words.get("repeated", 0)
            case "joining":
                self._joining(worker.name, words["at_ms"])
            case "assigned":
                queues = [QueueName(broker, queue) for broker, queue in words["queues"]]
                self._log.assigned(worker.name, queues, words["at_ms"])
            case "pulled":
                queue = QueueName(words["broker"], words["queue"])
                self._log.pulled(worker.name, queue, words["at_ms"])

    def _joining(self, name: str, at_ms: int) -> None:
        if name == NEWCOMER:
            self._log.joined([name], at_ms, f"{name} joined")
        elif not self._log.rebalances:
            count = len(FIRST_CONSUMERS)
            self._log.joined(FIRST_CONSUMERS, at_ms, f"{count} consumers started")
        else:  # the event begins when the last of them starts
            self._log.began_later(at_ms)

    def _process_ended(self, process: ChildProcess) -> None:
        self._failure = ProcessDiedError(process.name, process.status or 0, process.log_path)

    # -- progress ----------------------------------------------------------------------------

    @property
    def _producers(self) -> list[str]:
        return [f"producer-{part + 1}" for part in range(PRODUCERS)]

    @property
    def _sent(self) -> int:
        return sum(self._workers[name].messages for name in self._producers)

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Check the condition periodically until it holds.

        Raises:
            ProcessDiedError: A process has ended by itself.
            PeerError: There was no progress for `STALL_LIMIT_S`.
        """
        moved_at_s, before = self._clock.monotonic(), (-1, -1)
        while True:
            # Before an error is raised, so that the display shows the progress up to it.
            self._look()
            if self._failure is not None:
                raise self._failure
            if condition():
                return
            # All lines count, not just distinct flights: redelivered messages are progress too.
            after = (self._sent, self._tally.lines)
            now = self._clock.monotonic()
            if after != before:
                moved_at_s, before = now, after
            elif now - moved_at_s > STALL_LIMIT_S:
                raise PeerError(
                    f"the demo made no progress for {STALL_LIMIT_S:g} s: {self._sent:,} flights "
                    f"were sent, and {self._tally.distinct:,} were consumed; see the logs in "
                    f"{self._data / 'logs'}"
                )
            await self._clock.sleep(LOOK_S)

    def _look(self) -> None:
        self._read_records()
        self._display.progress(self._sent, self._tally.distinct)
        # Less often than the files, since each look needs a system call for each process.
        if self._looks % METER_EVERY_LOOKS == 0:
            processes = [(each.name, each.pid) for each in self._cluster.alive]
            self._meter.look([*processes, ("director", os.getpid())])
        self._looks += 1

    def _read_records(self) -> None:
        for name, records in self._records.items():
            self._tally.add(name, records.read_on())

    # -- figures -----------------------------------------------------------------------------

    def _figures(self, stored: dict[tuple[str, int], int]) -> dict[str, Any]:
        producers = [self._workers[name] for name in self._producers]
        consumers = [each for each in self._workers.values() if each not in producers]
        notes = [*self._kill.notes(), *self._mode.notes(), *self._tally.notes()]
        complaints = self._tally.complaints()
        if self._mode.name == "failover":
            complaints = [*complaints, *self._kill.complaints()]
        if self._retries is not None:
            notes += self._retries.notes(1 + MAX_RECONSUME_TIMES)
        return {
            "sent": self._sent,
            "stored": sum(stored.values()),
            "consumed": self._tally.distinct,
            "redelivered": self._tally.redelivered,
            "unread": self._tally.unread(stored),
            "means": self._tally.delays().means(),
            "rebalances": self._log.rebalances,
            "consumers": [each.name for each in consumers],
            "processes": self._process_figures(stored),
            "send_s": _span(producers),
            "consume_s": _span(consumers),
            "notes": notes,
            "complaints": complaints,
        }

    def _process_figures(self, stored: dict[tuple[str, int], int]) -> list[ProcessFigures]:
        figures = []
        everyone = [process.name for process in self._cluster.processes]
        whole_s = _span(list(self._workers.values()))
        for name in [*everyone, "director"]:
            worker = self._workers.get(name)
            in_store = sum(count for (broker, _), count in stored.items() if broker == name)
            messages = self._tally.per_consumer.get(name, worker.messages if worker else in_store)
            usage = self._meter.usage.get(name, Usage())
            figures.append(
                ProcessFigures(
                    name,
                    messages,
                    _span([worker]) if worker else whole_s,
                    usage.cpu_s,
                    usage.peak_own_bytes,
                    usage.peak_rss_bytes,
                )
            )
        return figures


def _span(workers: list[Worker]) -> float:
    began = min(worker.began_at_s for worker in workers)
    return max(worker.ended_at_s for worker in workers) - began
