"""A replicated broker name, its controllers and its clients, and what happens to them."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from pocketmq.client import Admin, ConsumeFromWhere, Message, MessageExt, Producer, PushConsumer
from pocketmq.client.consumer.listener import InlineThreads
from pocketmq.client.producer.send_result import SendStatus
from pocketmq.cluster.simulation.invariants import InvariantError
from pocketmq.cluster.simulation.loop import START_MS, SimProcess, VirtualLoop
from pocketmq.cluster.simulation.machines import NoKv
from pocketmq.cluster.simulation.network import Pair, SimNetwork
from pocketmq.cluster.simulation.replicas.machines import (
    BROKER,
    CONTROLLER_PORTS,
    NAMESERVER_ADDRESS,
    ControllerMachine,
    ReplicaMachine,
    Stage,
)
from pocketmq.cluster.simulation.replicas.plan import (
    CONSUMER,
    NAMESERVER,
    PRODUCER,
    REPLICAS,
    Happening,
    ReplicaPlan,
    Trouble,
)
from pocketmq.cluster.simulation.replicas.watch import TOPIC, ReplicaWatch
from pocketmq.cluster.simulation.trace import Trace
from pocketmq.nameserver.config import NameServerConfig
from pocketmq.nameserver.server import NameServer
from pocketmq.protocol.errors import BrokerError, RemotingError
from pocketmq.protocol.headers.controller import ElectMasterRequestHeader
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.runtime.errors import PocketMQError
from pocketmq.runtime.loop_clock import LoopClock
from pocketmq.runtime.profile import PROFILE_5_X

QUEUES = 2
GROUP = "G"
CLIENT_IP = "10.0.0.1"

BEGIN_S = 40.0
"""Until all replicas are in sync for the first time, at most."""

WHOLE_S = 20.0
"""From the last trouble until there is a master and everybody is in sync, at most: time-out and
scan 15 s, an election, 5 s until the next attempt to follow, or until the controllers are asked
(I-16)."""

REST_S = 60.0
"""From then until what was acknowledged has been consumed, at most."""

QUIET_S = 24.0
"""Two periods of the timer that carries tables."""

JUMP_MS = 60_000


class ReplicaCluster:
    """All processes of one run.

    Args:
        plan: The run.
        loop: Virtual time.
        chance: Draws what production code and machines leave to chance.
        trace: Records events.
    """

    def __init__(
        self, plan: ReplicaPlan, loop: VirtualLoop, chance: random.Random, trace: Trace
    ) -> None:
        self.plan = plan
        self.loop = loop
        self.clock = LoopClock(loop, START_MS)
        self.network = SimNetwork(loop, self.clock, chance, plan.latency_s)
        self.watch = ReplicaWatch(plan, loop, trace)
        self.network.on_sent = self.watch.sent
        self.counts: Counter[str] = Counter()
        self._chance = chance
        self._trace = trace
        stage = Stage(plan, loop, self.network, PROFILE_5_X, chance, trace)
        self.controllers = {name: ControllerMachine(name, stage) for name in plan.controllers}
        self.replicas = {name: ReplicaMachine(name, stage) for name in REPLICAS}
        self._machines: dict[str, ControllerMachine | ReplicaMachine] = {
            **self.controllers,
            **self.replicas,
        }
        for machine in self._machines.values():
            self.watch.add(machine)
        self._graveyard: list[object] = []
        self._sending = True
        self._sent = 0
        self._consumer = SimProcess(loop, CONSUMER)
        self._consumer.kill()
        self._producing: asyncio.Task[None] | None = None

    # -- begin ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start everything; returns when all replicas are in sync.

        Raises:
            InvariantError: they never are.
        """
        process = SimProcess(self.loop, NAMESERVER)
        server = NameServer(
            NameServerConfig(port=9876), process.clock, self.network, PROFILE_5_X, kv_storage=NoKv()
        )
        await process.start(server.start(), NAMESERVER)
        self._graveyard.append(server)
        for machine in self._machines.values():
            machine.start()
        await self._until(self.is_whole, BEGIN_S, "at the begin not everybody is in sync")
        admin = SimProcess(self.loop, "admin")

        async def create() -> None:
            async with Admin(**self._client_options(admin)) as tool:
                await tool.create_topic(TOPIC, queues=QUEUES)

        await admin.start(create(), "create topic")
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

    async def _until(self, condition: Callable[[], bool], limit_s: float, what: str) -> None:
        until = self.loop.time() + limit_s
        while not condition():
            if self.loop.time() > until:
                raise InvariantError(f"{self.loop.time():.3f} {what} within {limit_s:g} s")
            await self.clock.sleep(0.25)

    # -- clients ----------------------------------------------------------------------------------

    def _client_options(self, process: SimProcess) -> dict[str, Any]:
        return {
            "nameservers": NAMESERVER_ADDRESS,
            "network": self.network,
            "clock": process.clock,
            "profile": PROFILE_5_X,
            "client_ip": CLIENT_IP,
            "instance_name": process.name,
        }

    async def _produce(self, process: SimProcess) -> None:
        async with Producer("P", **self._client_options(process)) as producer:
            while self._sending:
                burst = self._chance.choice([1, 1, 2, 4])
                await asyncio.gather(*(self._send(producer) for _ in range(burst)))
                await process.clock.sleep(self._chance.uniform(0.0, 2 * self.plan.gap_s))

    async def _send(self, producer: Producer) -> bool:
        key = f"m{self._sent}"
        self._sent += 1
        try:
            result = await producer.send(Message(TOPIC, key.encode()))
        except PocketMQError as exc:
            self.counts["sends that failed"] += 1
            self._trace.note("failed", key, type(exc).__name__, str(exc)[:80])
            return False
        if result.status is not SendStatus.SEND_OK:
            self.counts["sends without copies"] += 1
            self._trace.note("unsure", key, result.status.name)
            return False
        self._trace.note("acked", key, str(result.queue), result.queue_offset)
        self.watch.acknowledged(key)
        return True

    def _start_consumer(self) -> None:
        process = self._consumer = SimProcess(self.loop, CONSUMER)

        async def listener(messages: list[MessageExt], _context: Any) -> None:
            for message in messages:
                key = bytes(message.body).decode()
                self._trace.note("consume", message.queue_id, message.queue_offset, key)
                self.watch.messages.delivered(
                    self.loop.time(), message.queue_id, message.queue_offset, key
                )

        async def start() -> None:
            consumer = PushConsumer(
                GROUP,
                consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
                threads=InlineThreads(),
                **self._client_options(process),
            )
            consumer.subscribe(TOPIC)
            consumer.listen_batch(listener)
            self._graveyard.append(consumer)
            await consumer.start()

        process.start(start(), f"start {CONSUMER}")

    # -- trouble ----------------------------------------------------------------------------------

    def apply(self, event: Happening) -> None:
        """Let it happen, and end by itself."""
        self._trace.note("happens", event.trouble.value, event.who, event.other, event.lasts_s)
        if self._act(event):
            self.counts[event.trouble.value] += 1
            self.watch.offsets.troubled(self.loop.time() + event.lasts_s)

    def _act(self, event: Happening) -> bool:
        who, lasts_s = event.who, event.lasts_s
        match event.trouble:
            case Trouble.KILL | Trouble.KILL_CONTROLLER:
                return self._kill(who, lasts_s)
            case Trouble.KILL_MASTER:
                return self._kill(self._master(), lasts_s)
            case Trouble.KILL_LEADER:
                return self._kill(self._leader(), lasts_s)
            case Trouble.VANISH:
                return self._kill(who, lasts_s, silently=True)
            case Trouble.POWER_CUT | Trouble.CONTROLLER_POWER_CUT:
                return self._kill(who, lasts_s, silently=True, cuts_power=True)
            case Trouble.ALL_DOWN:
                return sum(self._kill(name, lasts_s) for name in REPLICAS) > 0
            case Trouble.RESTART:
                return self._restart(self.replicas[who], lasts_s)
            case Trouble.FREEZE | Trouble.FREEZE_CONTROLLER:
                return self._freeze(who, lasts_s)
            case Trouble.CLOCK_JUMP:
                clock = self.replicas[who].process.clock
                clock.wall_offset_ms += self._chance.randint(-JUMP_MS, JUMP_MS)
                return True
            case Trouble.KILL_CONSUMER:
                return self._kill_consumer(lasts_s)
            case Trouble.DESIGNATE:
                return self._designate()
            case Trouble.SLOW_DISK | Trouble.HUNG_DISK:
                return self._disturb_disk(event)
            case Trouble.CUT | Trouble.ISOLATE | Trouble.ONE_WAY | Trouble.RESET | Trouble.DELAY:
                return self._disturb_network(event)

    def _later(self, delay_s: float, action: Callable[[], object]) -> None:
        def act() -> None:
            action()

        self.clock.call_at(self.clock.monotonic() + delay_s, act)

    def _kill(
        self, name: str | None, away_s: float, *, silently: bool = False, cuts_power: bool = False
    ) -> bool:
        machine = self._machines.get(name or "")
        if machine is None or not machine.is_up:
            return False
        self._graveyard.append(
            machine.controller if isinstance(machine, ControllerMachine) else machine.broker
        )
        process = machine.process
        machine.end()
        self.network.process_died(process, silently=silently)
        if cuts_power:
            if isinstance(machine, ControllerMachine):
                machine.files.cut_power()
            else:
                machine.disk.cut_power(self._chance)
        self._later(away_s, lambda: self._start(machine))
        return True

    def _start(self, machine: ControllerMachine | ReplicaMachine) -> None:
        if machine.process.is_there:
            return
        self._trace.note("starts", machine.name)
        self.watch.restarted(machine)
        machine.start()

    def _restart(self, machine: ReplicaMachine, away_s: float) -> bool:
        broker, process = machine.broker, machine.process
        if broker is None or not machine.is_up or not broker.core.role.epoch:
            return False
        machine.is_stopping = True

        async def stop() -> None:
            await process.start(broker.stop(), f"stop {machine.name}")
            self._graveyard.append(broker)
            machine.end()
            self.network.process_died(process, silently=False)
            self._later(away_s, lambda: self._start(machine))

        task = self.loop.create_task(stop(), name=f"restart {machine.name}")
        self._graveyard.append(task)
        return True

    def _freeze(self, name: str, lasts_s: float) -> bool:
        machine = self._machines.get(name)
        if machine is None or not machine.is_up:
            return False
        process = machine.process
        process.freeze()
        self._later(lasts_s, process.thaw)
        return True

    def _kill_consumer(self, away_s: float) -> bool:
        if not self._consumer.alive:
            return False
        process = self._consumer
        process.kill()
        self.network.process_died(process, silently=False)
        self._later(away_s, self._revive_consumer)
        return True

    def _revive_consumer(self) -> None:
        if not self._consumer.alive:
            self._start_consumer()

    def _designate(self) -> bool:
        leader = self._leader()
        if leader is None:
            return False
        tool = SimProcess(self.loop, "tool")
        address = f"127.0.0.1:{CONTROLLER_PORTS[leader]}"
        header = ElectMasterRequestHeader(
            broker_name=BROKER, broker_id=self._chance.randint(1, 3), designate_elect=True
        )

        async def designate() -> None:
            client = RemotingClient(self.network)
            try:
                await client.call(address, header)
            except (BrokerError, RemotingError) as exc:
                self._trace.note("not designated", str(exc))
            await client.close()

        self._graveyard.append(tool.start(designate(), "designate"))
        return True

    def _disturb_disk(self, event: Happening) -> bool:
        trouble = self.replicas[event.who].trouble
        if trouble is None:
            return False
        if event.trouble is Trouble.SLOW_DISK:
            trouble.slow_s = 2.0

            def clear() -> None:
                trouble.slow_s = 0.0

            self._later(event.lasts_s, clear)
        else:
            trouble.hung_until = self.loop.time() + event.lasts_s
        return True

    def _disturb_network(self, event: Happening) -> bool:
        weather, one, other = self.network.weather, event.who, event.other
        if event.trouble is Trouble.ISOLATE:
            everybody = (*self._machines, NAMESERVER, PRODUCER, CONSUMER)
            for each in everybody:
                if each != one:
                    self._cut(Pair((one, each)), event.lasts_s)
            return True
        pair = Pair((one, other))
        if event.trouble is Trouble.CUT:
            self._cut(pair, event.lasts_s)
        elif event.trouble is Trouble.ONE_WAY:
            weather.one_way.add((one, other))
            self._later(event.lasts_s, lambda: self.network.heal_one_way(one, other))
        elif event.trouble is Trouble.RESET:
            self.network.reset(pair)
        else:
            weather.delays_s[pair] = min(1.5, event.lasts_s / 4)
            self._later(event.lasts_s, lambda: weather.clear_delay(pair))
        return True

    def _cut(self, pair: Pair, lasts_s: float) -> None:
        self.network.weather.partitions.add(pair)
        self._later(lasts_s, lambda: self.network.heal(pair))

    def _master(self) -> str | None:
        leading = [
            (each.broker.core.role.epoch, each.name)
            for each in self.replicas.values()
            if each.is_up and each.broker is not None and each.broker.core.role.leads
        ]
        return max(leading)[1] if leading else None

    def _leader(self) -> str | None:
        for machine in self.controllers.values():
            controller = machine.controller if machine.is_up else None
            if controller is not None and controller.consensus.serves:
                return machine.name
        return None

    # -- end --------------------------------------------------------------------------------------

    async def come_to_rest(self) -> None:
        """End all trouble; everything must become whole, consumed and equal.

        Raises:
            InvariantError: it does not.
        """
        self._sending = False
        self.network.clear_up()
        for machine in self._machines.values():
            machine.process.thaw()
            if isinstance(machine, ReplicaMachine) and machine.trouble is not None:
                machine.trouble.clear()
            self._start(machine)
        self._revive_consumer()
        ended_s = self.loop.time()
        await self._until(self.is_whole, WHOLE_S, "there is no master, or not everybody in sync")
        self.counts["seconds to be whole"] += round(self.loop.time() - ended_s)
        assert self._producing is not None
        await self._producing
        process = SimProcess(self.loop, "P2")
        await process.start(self._send_until_taken(process), "last send")
        await self._until(lambda: not self.unconsumed(), REST_S, "not everything is consumed")
        await self.clock.sleep(QUIET_S)
        self._check_equal()

    def unconsumed(self) -> set[str]:
        """Acknowledged messages that no consumer got."""
        messages = self.watch.messages
        if not self.plan.all_ack:
            return set()
        return messages.acked - messages.consumed

    async def _send_until_taken(self, process: SimProcess) -> None:
        async with Producer("P2", **self._client_options(process)) as producer:
            until = self.loop.time() + REST_S
            while not await self._send(producer):
                if self.loop.time() > until:
                    now = self.loop.time()
                    raise InvariantError(f"{now:.3f} all are in sync, and no message is taken")
                await process.clock.sleep(0.5)

    def _check_equal(self) -> None:
        """Logs and tables of all replicas (I-4, I-12)."""
        now = self.loop.time()
        brokers = [each.broker for each in self.replicas.values() if each.broker is not None]
        ends = {each.store.commit_log.max_offset for each in brokers}
        if len(ends) > 1:
            raise InvariantError(f"{now:.3f} at rest the logs end at {sorted(ends)}")
        topics = {tuple(sorted(each.topics.table)) for each in brokers}
        if len(topics) > 1:
            raise InvariantError(f"{now:.3f} at rest the replicas have other topics each: {topics}")
        groups = {tuple(sorted(each.groups.table)) for each in brokers}
        if len(groups) > 1:
            raise InvariantError(f"{now:.3f} at rest the replicas have other groups each: {groups}")
        self.counts["runs compared at rest"] += 1
