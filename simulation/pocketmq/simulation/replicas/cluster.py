"""A replicated broker name, its controllers and its clients, and what happens to them."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable

from pocketmq.client import Message, MessageExt, Producer
from pocketmq.client.producer.send_result import SendStatus
from pocketmq.nameserver.config import NameServerConfig
from pocketmq.operation.events.sink import SinkMaker, no_events
from pocketmq.runtime.errors import PocketMQError
from pocketmq.runtime.profile import PROFILE_5_X
from pocketmq.simulation.invariants import InvariantError
from pocketmq.simulation.invariants.replicas.rest import difference
from pocketmq.simulation.loop import START_MS, SimProcess, VirtualLoop
from pocketmq.simulation.loop_clock import LoopClock
from pocketmq.simulation.machines import NAMESERVER_PORT
from pocketmq.simulation.nameserver_and_clients import NameServerAndClients
from pocketmq.simulation.network import SimNetwork
from pocketmq.simulation.own_events import OwnEvents
from pocketmq.simulation.replicas.log_reader import log_records
from pocketmq.simulation.replicas.machines import (
    BROKER,
    ControllerMachine,
    ReplicaMachine,
    Stage,
)
from pocketmq.simulation.replicas.plan import (
    CONSUMER,
    NAMESERVER,
    PRODUCER,
    REPLICAS,
    ReplicaPlan,
)
from pocketmq.simulation.replicas.transactions import (
    Around,
    ReplicatedTransactions,
)
from pocketmq.simulation.replicas.watch import TOPIC, ReplicaWatch, at_rest
from pocketmq.simulation.trace import Trace

QUEUES = 2
GROUP = "G"

BEGIN_S = 40.0
"""Until all replicas are in sync for the first time, at most."""

WHOLE_S = 20.0
"""From the last trouble until there is a master and everybody is in sync, at most: time-out and
scan 15 s, an election, 5 s until the next attempt to follow, or until the controllers are asked
(I-16)."""

REST_S = 60.0
"""From then until what was acknowledged has been consumed, at most."""

SETTLED_S = 60.0
"""From then until every transaction is decided, at most: a producer says to a new master who it is
within 30 s, and is asked when a half message is 6 s old, each 5 s."""

QUIET_S = 24.0
"""Two periods of the timer that carries tables."""


class ReplicaCluster:
    """All processes of one run.

    Args:
        plan: The run.
        loop: Virtual time.
        chance: Draws what production code and machines leave to chance.
        trace: Records all steps.
        events: Takes what happens at roles and clients.
    """

    def __init__(
        self,
        plan: ReplicaPlan,
        loop: VirtualLoop,
        chance: random.Random,
        trace: Trace,
        events: SinkMaker = no_events,
    ) -> None:
        self.plan = plan
        self.loop = loop
        self.clock = LoopClock(loop, START_MS)
        self.watch = ReplicaWatch(plan, loop, trace)
        self.network = SimNetwork(loop, self.clock, chance, plan.latency_s, self.watch)
        self._around = NameServerAndClients(loop, self.clock, self.network, events)
        self.own_events = OwnEvents(events("cluster", self.clock.time_ms))
        self.counts: Counter[str] = Counter()
        self.chance = chance
        self.trace = trace
        stage = Stage(plan, loop, self.network, PROFILE_5_X, chance, trace, events)
        self.controllers = {name: ControllerMachine(name, stage) for name in plan.controllers}
        self.replicas = {name: ReplicaMachine(name, stage) for name in REPLICAS}
        self.machines: dict[str, ControllerMachine | ReplicaMachine] = {
            **self.controllers,
            **self.replicas,
        }
        """By name, whether their process runs or not."""
        for machine in self.machines.values():
            self.watch.add(machine)
        self.kept: list[object] = []
        """Brokers of dead processes, and running tasks: nothing collects them."""
        self.transactions = (
            ReplicatedTransactions(
                plan, Around(loop, self.network, trace, self._around), self.watch
            )
            if plan.transactions
            else None
        )
        self._sending = True
        self._paused_until = 0.0
        self._sent = 0
        self.consumer = SimProcess(loop, CONSUMER)
        self.consumer.kill()
        self._producing: asyncio.Task[None] | None = None

    # -- begin ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start everything; returns when all replicas are in sync.

        Raises:
            InvariantError: they never are.
        """
        self.own_events.started(NAMESERVER, "nameserver")
        config = NameServerConfig(name=NAMESERVER, port=NAMESERVER_PORT)
        self.watch.add_nameserver(await self._around.start_nameserver(config))
        for machine in self.machines.values():
            machine.start()
            self.own_events.started(machine.name, machine.kind)
        await self._around.until(self.is_whole, BEGIN_S, "at the begin not everybody is in sync")
        await self._around.create_topic(TOPIC, QUEUES)
        if self.transactions is not None:
            await self.transactions.start()
        self._start_consumer()
        producer = SimProcess(self.loop, PRODUCER)
        self._producing = producer.start(self._produce(producer), "produce")

    def is_whole(self) -> bool:
        """Whether there is a master, and all replicas are in sync with it."""
        for machine in self.controllers.values():
            if machine.controller is None or not machine.process.alive:
                continue
            if not machine.controller.consensus.serves:
                continue
            group = machine.controller.consensus.replicas.get(BROKER)
            if group is None or group.master_id is None or len(group.in_sync) < len(REPLICAS):
                return False
            return any(
                each.broker is not None
                and each.broker.core.role.leads
                and each.broker.core.role.epoch == group.master_epoch
                for each in self.replicas.values()
            )
        return False

    # -- clients ----------------------------------------------------------------------------------

    async def _produce(self, process: SimProcess) -> None:
        async with Producer("P", **self._around.client_options(process)) as producer:
            while self._sending:
                if (left_s := self._paused_until - self.loop.time()) > 0:
                    await process.clock.sleep(left_s)
                    continue
                burst = self.chance.choice([1, 1, 2, 4])
                await asyncio.gather(*(self._send(producer) for _ in range(burst)))
                await process.clock.sleep(self.chance.uniform(0.0, 2 * self.plan.gap_s))

    async def _send(self, producer: Producer) -> bool:
        key = f"m{self._sent}"
        self._sent += 1
        try:
            result = await producer.send(Message(TOPIC, key.encode()))
        except PocketMQError as exc:
            self.counts["sends that failed"] += 1
            self.trace.note("failed", key, type(exc).__name__, str(exc)[:80])
            return False
        if result.status is not SendStatus.SEND_OK:
            self.counts["sends without copies"] += 1
            self.trace.note("unsure", key, result.status.name)
            return False
        self.trace.note("acked", key, str(result.queue), result.queue_offset)
        self.watch.acknowledged(key)
        return True

    def pause_until(self, until: float) -> None:
        """The producer sends nothing before then."""
        self._paused_until = max(self._paused_until, until)

    def _start_consumer(self) -> None:
        def note(message: MessageExt) -> None:
            key = bytes(message.body).decode()
            self.trace.note("consume", message.queue_id, message.queue_offset, key)
            self.watch.messages.delivered(
                self.loop.time(), message.queue_id, message.queue_offset, key
            )

        self.consumer = self._around.start_consumer(CONSUMER, GROUP, TOPIC, note)

    # -- processes that were away -----------------------------------------------------------------

    def bring_up(self, machine: ControllerMachine | ReplicaMachine) -> None:
        """Start a machine's process again, unless it runs."""
        if machine.process.is_there:
            return
        self.trace.note("starts", machine.name)
        self.watch.restarted(machine)
        machine.start()
        self.own_events.started(machine.name, machine.kind)

    def revive_consumer(self) -> None:
        """Start the consumer again, unless it runs."""
        if not self.consumer.alive:
            self._start_consumer()

    # -- end --------------------------------------------------------------------------------------

    async def come_to_rest(self, lose: Callable[[str], str | None]) -> None:
        """End all trouble; everything must become whole, consumed and equal.

        Args:
            lose: loses the machine that plays a part; its name, None when it was not there.

        Raises:
            InvariantError: it does not.
        """
        self._sending = False
        if self.transactions is not None:
            self.transactions.is_sending = False
        self._paused_until = 0.0
        self.watch.troubled(self.loop.time(), self.loop.time())
        self.network.clear_up()
        for machine in self.machines.values():
            machine.process.thaw()
            if isinstance(machine, ReplicaMachine) and machine.trouble is not None:
                machine.trouble.clear()
            self.bring_up(machine)
        self.revive_consumer()
        ended_s = self.loop.time()
        await self._around.until(
            self.is_whole, WHOLE_S, "there is no master, or not everybody in sync"
        )
        self.counts["seconds to be whole"] += round(self.loop.time() - ended_s)
        assert self._producing is not None
        await self._producing
        if self.plan.ends_without:
            await self._go_on_without(lose(self.plan.ends_without))
        process = SimProcess(self.loop, "P2")
        await process.start(self._send_until_taken(process), "last send")
        await self._around.until(
            lambda: not self.unconsumed(), REST_S, "not everything is consumed"
        )
        if self.transactions is not None:
            await self._settle(self.transactions)
        await self.clock.sleep(QUIET_S)
        self._check_equal()

    async def _go_on_without(self, lost: str | None) -> None:
        """A machine is lost and does not come back; the others must take messages (I-16)."""
        if lost is None:
            return
        self.watch.troubled(self.loop.time(), self.loop.time() + WHOLE_S)

        def has_master() -> bool:
            return any(
                each.name != lost and each.broker is not None and each.broker.core.role.leads
                for each in self.replicas.values()
            )

        if not self.plan.ends_with_failing_disk:  # that is noticed when something is sent
            await self._around.until(has_master, WHOLE_S, f"nobody is elected in place of {lost}")
        process = SimProcess(self.loop, "P3")
        await process.start(self._send_until_taken(process), "send without a replica")
        if (trouble := self.replicas[lost].trouble) is not None:
            trouble.clear()
        self.counts["machines lost for good"] += 1
        self.watch.troubled(self.loop.time(), self.loop.time())
        self.bring_up(self.replicas[lost])
        await self._around.until(self.is_whole, WHOLE_S, f"{lost} is back, and not all in sync")

    async def _settle(self, transactions: ReplicatedTransactions) -> None:
        """What was committed is in the log, and what is open is asked for (F-22)."""
        until = self.loop.time() + SETTLED_S
        while waiting := transactions.open():
            if self.loop.time() > until:
                raise InvariantError(f"{self.loop.time():.3f} {waiting[0]} ({len(waiting)})")
            await self.clock.sleep(1.0)
        transactions.ledger.close()
        self.counts.update(transactions.ledger.seen)

    def unconsumed(self) -> set[str]:
        """Acknowledged messages that no consumer got."""
        messages = self.watch.messages
        if not self.plan.all_ack:
            return set()
        return messages.acked - messages.consumed - self.watch.halves

    async def _send_until_taken(self, process: SimProcess) -> None:
        async with Producer("P2", **self._around.client_options(process)) as producer:
            until = self.loop.time() + REST_S
            while not await self._send(producer):
                if self.loop.time() > until:
                    now = self.loop.time()
                    raise InvariantError(
                        f"{now:.3f} all replicas are in sync, but no message is taken "
                        f"within {REST_S:g} s"
                    )
                await process.clock.sleep(0.5)

    def _check_equal(self) -> None:
        """Logs, epochs, queues and tables of all replicas (I-4, I-5, I-12)."""
        found = difference(
            {
                each.name: at_rest(each.broker)
                for each in self.replicas.values()
                if each.broker is not None
            }
        )
        if found is not None:
            raise InvariantError(f"{self.loop.time():.3f} {found}")
        self.counts["runs compared at rest"] += 1
        if not self.plan.all_ack:
            self._count_losses()

    def _count_losses(self) -> None:
        """What a master acknowledged by itself may be lost with it; no invariant is about that."""
        broker = next(each.broker for each in self.replicas.values() if each.broker is not None)
        left = {each.key for each in log_records(broker.store) if each.topic == TOPIC}
        acked = self.watch.messages.acked
        self.counts["acknowledged by a master alone"] += len(acked)
        self.counts["acknowledged by a master alone and lost"] += len(acked - left)
