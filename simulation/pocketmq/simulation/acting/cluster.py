"""A master and its slave, their nameserver and clients, and what happens to them."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable

from pocketmq.client import Message, MessageExt, Producer
from pocketmq.client.producer.send_result import SendStatus
from pocketmq.nameserver.config import NameServerConfig
from pocketmq.operation.events.sink import SinkMaker, no_events
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.headers.send import SendMessageRequestHeader
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.runtime.errors import PocketMQError
from pocketmq.simulation.acting.machine import (
    BROKER,
    PairMachine,
)
from pocketmq.simulation.acting.plan import (
    LATER,
    MASTER,
    NAMESERVER,
    ORDERLY,
    PRODUCER,
    READER,
    SLAVE,
    ActingPlan,
    Happening,
    Trouble,
)
from pocketmq.simulation.acting.watch import TOPIC, ActingWatch, keys_in
from pocketmq.simulation.invariants import InvariantError
from pocketmq.simulation.loop import START_MS, SimProcess, VirtualLoop
from pocketmq.simulation.loop_clock import LoopClock
from pocketmq.simulation.machines import NAMESERVER_PORT
from pocketmq.simulation.nameserver_and_clients import NameServerAndClients
from pocketmq.simulation.network import SimNetwork
from pocketmq.simulation.network_faults import Pair
from pocketmq.simulation.own_events import OwnEvents
from pocketmq.simulation.trace import Trace

QUEUES = 2

PAIR_S = 60.0
"""Until the slave follows and the master is shown, at most: a silent end takes 15 s to be noticed,
the next registration 30 s."""

SERVED_S = 60.0
"""From the master's end until all that its slave has is consumed, at most: 15 s until a lost
machine is noticed, 16 s until a held pull is given up, and a new route each second."""

REST_S = 60.0


class ActingCluster:
    """All processes of one run.

    Args:
        plan: The run.
        loop: Virtual time.
        chance: Draws what production code leaves to chance.
        trace: Records all steps.
        events: Takes what happens at roles and clients.
    """

    def __init__(
        self,
        plan: ActingPlan,
        loop: VirtualLoop,
        chance: random.Random,
        trace: Trace,
        events: SinkMaker = no_events,
    ) -> None:
        self.plan = plan
        self.loop = loop
        self.clock = LoopClock(loop, START_MS)
        self.watch = ActingWatch(loop)
        self.network = SimNetwork(loop, self.clock, chance, plan.latency_s, self.watch)
        self._around = NameServerAndClients(loop, self.clock, self.network, events)
        self.own_events = OwnEvents(events("cluster", self.clock.time_ms))
        self.counts: Counter[str] = Counter()
        self.chance = chance
        self.trace = trace
        self.machines = {
            name: PairMachine(name, loop, self.network, events, is_sync=plan.is_sync)
            for name in (MASTER, SLAVE)
        }
        self.acked: set[str] = set()
        self.consumed: dict[str, set[str]] = {}
        self._clients: list[SimProcess] = []
        self.kept: list[object] = []
        """Brokers of dead processes, and running tasks: nothing collects them."""
        self._sending = True
        self._sent = 0
        self._troubles = 0
        self._producing: asyncio.Task[None] | None = None

    @property
    def master(self) -> PairMachine:
        """The master's machine."""
        return self.machines[MASTER]

    @property
    def slave(self) -> PairMachine:
        """The slave's machine."""
        return self.machines[SLAVE]

    # -- begin ----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start everything; returns when the slave follows.

        Raises:
            InvariantError: it never does.
        """
        server = await self._around.start_nameserver(
            NameServerConfig(
                name=NAMESERVER,
                port=NAMESERVER_PORT,
                support_acting_master=True,
                notify_min_broker_id_changed=True,
            )
        )
        self.watch.watches(self.master, self.slave, server)
        self.master.start()
        await self._around.until(lambda: self.master.is_started, PAIR_S, "the master is not online")
        self.slave.start()
        await self._around.until(self.is_pair, PAIR_S, "the slave does not follow")
        await self._around.create_topic(TOPIC, QUEUES)
        for name in (READER, ORDERLY):
            self._start_consumer(name)
        producer = SimProcess(self.loop, PRODUCER)
        self._producing = producer.start(self._produce(producer), "produce")

    def is_pair(self) -> bool:
        """Whether the master is online and shown, and its slave follows and has all."""
        master, slave = self.master.broker, self.slave.broker
        if master is None or slave is None:
            return False
        known = self.watch.nameserver.table.broker(BROKER) if self.watch.nameserver else None
        return (
            self.master.is_started
            and self.slave.is_started
            and not slave.core.role.acts
            and known is not None
            and set(known.broker_addrs) == {0, 1}
            and master.store.commit_log.max_offset == slave.store.commit_log.max_offset
        )

    # -- clients --------------------------------------------------------------------------------

    async def _produce(self, process: SimProcess) -> None:
        async with Producer("P", **self._around.client_options(process)) as producer:
            while self._sending:
                await self._send(producer)
                await process.clock.sleep(self.chance.uniform(0.0, 2 * self.plan.gap_s))

    async def _send(self, producer: Producer) -> bool:
        key = f"m{self._sent}"
        self._sent += 1
        delayed = self.chance.random() < self.plan.delay_share
        level = self.chance.randint(1, 3) if delayed else 0
        try:
            result = await producer.send(Message(TOPIC, key.encode(), delay_level=level))
        except PocketMQError as exc:
            self.counts["sends that failed"] += 1
            self.trace.note("failed", key, type(exc).__name__, str(exc)[:80])
            return False
        if result.status is not SendStatus.SEND_OK:
            return False
        self.trace.note("acked", key, str(result.queue), result.queue_offset)
        self.acked.add(key)
        if self.plan.is_sync:
            self.watch.acknowledged(key)
        return True

    def _start_consumer(self, name: str) -> None:
        consumed = self.consumed[name] = set()

        def note(message: MessageExt) -> None:
            key = bytes(message.body).decode()
            self.trace.note("consume", name, message.queue_id, message.queue_offset, key)
            consumed.add(key)

        process = self._around.start_consumer(
            name, f"G-{name}", TOPIC, note, orderly=name != READER
        )
        self._clients.append(process)

    # -- what happens ---------------------------------------------------------------------------

    def apply(self, event: Happening) -> None:
        """Let it happen, and end by itself."""
        self.trace.note("happens", event.trouble.value, *event.link, event.lasts_s)
        self.own_events.trouble(event.trouble, *event.link, event.lasts_s)
        self.counts[event.trouble.value] += 1
        self._count(1)
        self._later(event.lasts_s, lambda: self._count(-1))
        match event.trouble:
            case Trouble.KILL_MASTER:
                self.kill(self.master, event.lasts_s)
            case Trouble.VANISH_MASTER:
                self.kill(self.master, event.lasts_s, silently=True)
            case Trouble.KILL_SLAVE:
                self.kill(self.slave, event.lasts_s)
            case Trouble.RESTART_MASTER:
                self._restart(self.master, event.lasts_s)
            case Trouble.FREEZE_MASTER:
                self._freeze(self.master, event.lasts_s)
            case Trouble.FREEZE_SLAVE:
                self._freeze(self.slave, event.lasts_s)
            case Trouble.CUT:
                pair = Pair(event.link)
                self.network.faults.partitions.add(pair)
                self._later(event.lasts_s, lambda: self.network.heal(pair))
            case Trouble.RESET:
                self.network.reset(Pair(event.link))
            case Trouble.DELAY:
                pair = Pair(event.link)
                self.network.faults.delays_s[pair] = min(1.5, event.lasts_s / 4)
                self._later(event.lasts_s, lambda: self.network.faults.clear_delay(pair))

    def _count(self, change: int) -> None:
        self._troubles += change
        self.watch.is_troubled = self._troubles > 0

    def _later(self, delay_s: float, action: Callable[[], object]) -> None:
        def act() -> None:
            action()

        self.clock.call_at(self.clock.monotonic() + delay_s, act)

    def kill(self, machine: PairMachine, away_s: float | None, *, silently: bool = False) -> None:
        """End a process, or a machine, that runs; None: until `bring_up`."""
        if not machine.is_up:
            return
        self.kept.append(machine.broker)
        process = machine.process
        machine.end()
        self.own_events.stopped(machine.name)
        self.network.process_died(process, silently=silently)
        if away_s is not None:
            self._later(away_s, lambda: self.bring_up(machine))

    def _restart(self, machine: PairMachine, away_s: float) -> None:
        broker, process = machine.broker, machine.process
        if broker is None or not machine.is_up or not machine.is_started:
            return
        machine.is_stopping = True

        async def stop() -> None:
            await process.start(broker.stop(), f"stop {machine.name}")
            machine.is_stopping = False
            self.kill(machine, away_s)

        self.kept.append(self.loop.create_task(stop(), name=f"restart {machine.name}"))

    def _freeze(self, machine: PairMachine, lasts_s: float) -> None:
        if machine.is_up:
            process = machine.process
            process.freeze()
            self._later(lasts_s, process.thaw)

    def bring_up(self, machine: PairMachine) -> None:
        """Start a machine's process again, unless it runs."""
        if machine.process.is_there:
            return
        self.trace.note("starts", machine.name)
        self.watch.restarted(machine.name)
        machine.start()
        self.own_events.started(machine.name, "broker")

    # -- the end --------------------------------------------------------------------------------

    async def heal(self) -> None:
        """End all trouble; the two must become master and slave again."""
        self.network.clear_up()
        for machine in self.machines.values():
            machine.process.thaw()
            self.bring_up(machine)
        ended_s = self.loop.time()
        self._sending = False
        assert self._producing is not None
        await self._producing
        await self._around.until(self.is_pair, PAIR_S, "master and slave are not together again")
        self.counts["seconds to be a pair"] += round(self.loop.time() - ended_s)
        self._count(-self._troubles)

    async def act(self) -> None:
        """Take the master away for long: its slave has to serve what it has."""
        process = SimProcess(self.loop, "P2")
        for name in (READER, ORDERLY):  # what comes now they can only get from the slave
            self.network.faults.partitions.add(Pair((name, MASTER)))
        await process.start(self._send_some(process), "sends before the end")
        await self._around.until(self.is_pair, PAIR_S, "the slave does not get what was sent")
        self.kill(self.master, None, silently=self.plan.vanishes)
        slave = self.slave.broker
        assert slave is not None
        await self._around.until(
            lambda: slave.core.role.acts, SERVED_S, "the slave does not act for its master"
        )
        for name in (READER, ORDERLY):
            self.network.heal(Pair((name, MASTER)))
        self._start_consumer(LATER)
        has = keys_in(slave)
        for name, consumed in self.consumed.items():
            await self._around.until(
                lambda consumed=consumed: not has - consumed,  # type: ignore[misc]
                SERVED_S,
                f"what the acting slave has is not consumed by {name}",
            )
        self.counts["slaves that served all"] += 1
        tool = SimProcess(self.loop, "tool")
        await tool.start(self._send_to_slave(tool), "send to the slave")
        await self.clock.sleep(20.0)  # consumers commit each 5 s
        self.bring_up(self.master)
        await self._around.until(self.is_pair, PAIR_S, "the master does not come back")
        process = SimProcess(self.loop, "P3")
        await process.start(self._send_some(process), "sends after it")

        def unconsumed() -> bool:
            return any(self.acked - consumed for consumed in self.consumed.values())

        await self._around.until(lambda: not unconsumed(), REST_S, "not everything is consumed")
        await self._around.until(self.is_pair, PAIR_S, "at rest the logs differ")
        self.counts["acknowledged"] += len(self.acked)

    async def _send_to_slave(self, process: SimProcess) -> None:
        """As a client with an old route may: it must be refused."""
        client = RemotingClient(self.network)
        header = SendMessageRequestHeader(
            producer_group="P4", topic=TOPIC, default_topic="", default_topic_queue_nums=4,
            queue_id=0, sys_flag=0, born_timestamp=process.clock.time_ms(), flag=0,
        )  # fmt: skip
        reply = await client.call(self.slave.address, header, b"to a slave")
        await client.close()
        self.trace.note("sent to the slave", reply.code)
        if reply.code == ResponseCode.SUCCESS:
            raise InvariantError(
                f"{self.loop.time():.3f} a slave acknowledges a send, which only a master may do"
            )
        self.counts["sends that slaves refused"] += 1

    def end(self) -> None:
        """The run is over: consumers that go on while the loop is finished would only cost time."""
        self._sending = False
        for process in [*self._clients, *(each.process for each in self.machines.values())]:
            process.kill()
            self.network.process_died(process, silently=False)

    async def _send_some(self, process: SimProcess) -> None:
        async with Producer(process.name, **self._around.client_options(process)) as producer:
            until = self.loop.time() + REST_S
            sent = 0
            while sent < 6:
                sent += await self._send(producer)
                if self.loop.time() > until:
                    raise InvariantError(
                        f"{self.loop.time():.3f} the master accepted only {sent} of 6 messages "
                        f"within {REST_S:g} s"
                    )
                await process.clock.sleep(0.2)
