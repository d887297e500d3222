"""The simulated cluster: production's nameserver, brokers and clients on the simulation's seams.

Nothing here answers a request or decides anything: it starts, stops and kills processes, hands
listeners to consumers, and tells the ledgers what it sees.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.server import Broker
from pocketmq.broker.store import StoreConfig
from pocketmq.client import (
    Admin,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    ConsumeOrderlyStatus,
    Message,
    MessageExt,
    MessageQueue,
    Producer,
    PushConsumer,
)
from pocketmq.client.consumer.listener import InlineThreads
from pocketmq.client.consumer.process_queue import ProcessQueue
from pocketmq.cluster.simulation.disk import MemoryDisk
from pocketmq.cluster.simulation.invariants import TROUBLE_S, OwnershipLedger, ProgressLedger
from pocketmq.cluster.simulation.loop import START_MS, SimProcess, VirtualLoop
from pocketmq.cluster.simulation.network import Pair, SimNetwork
from pocketmq.cluster.simulation.scenario import Event, Kind, Scenario
from pocketmq.cluster.simulation.trace import Trace
from pocketmq.nameserver.config import NameServerConfig
from pocketmq.nameserver.kv_config import KvTable
from pocketmq.nameserver.server import NameServer
from pocketmq.protocol.record import decode_records
from pocketmq.protocol.validation import dlq_topic
from pocketmq.runtime.errors import PocketMQError
from pocketmq.runtime.loop_clock import LoopClock
from pocketmq.runtime.profile import profile_named

TOPIC = "T"
GROUP = "G"
NAMESERVER = "127.0.0.1:9876"
PORTS = {"a": 10911, "b": 10921}
DELAY_LEVELS = " ".join(["5s"] * 18)
"""Sixteen retries within 80 s. Much shorter ones explode: while two consumers own one retry queue,
as they may for 30 s after a reset, each failure of both doubles what is in it."""

MIB = 1024**2


class NoKv:
    """A KV configuration that is never used."""

    async def load(self) -> KvTable:
        return {}

    async def save(self, table: KvTable) -> None:
        """Forget it."""


class BrokerNode:
    """A broker's machine: its disk, and the process that runs now."""

    def __init__(self, name: str, loop: VirtualLoop) -> None:
        self.name = name
        self.process = SimProcess(loop, name)
        self.disk = MemoryDisk(self.process.clock.time_ms)
        self.broker: Broker | None = None
        self.starts = 0
        self.seen_offsets: dict[tuple[str, str], dict[int, int]] = {}
        self.seen_members: tuple[str, ...] | None = None


class ConsumerNode:
    """One consumer process."""

    def __init__(self, name: str, loop: VirtualLoop) -> None:
        self.name = name
        self.process = SimProcess(loop, name)
        self.consumer: PushConsumer | None = None
        self.client_id = f"10.0.0.1@{name}"
        self.slow_s = 0.0
        self.owned: dict[MessageQueue, ProcessQueue] = {}
        self.epochs: dict[MessageQueue, int] = {}
        self.known: object = None


class SimCluster:
    """One nameserver, brokers, a producer, and consumers that come and go.

    Args:
        plan: What to build.
        loop: Virtual time.
        rng: For latencies and messages.
        trace: Gets everything that happens.
    """

    def __init__(self, plan: Scenario, loop: VirtualLoop, rng: random.Random, trace: Trace) -> None:
        self.plan = plan
        self.loop = loop
        self.trace = trace
        self.clock = LoopClock(loop, START_MS)
        self.network = SimNetwork(loop, self.clock, rng)
        self.network.on_delivered = self._delivered
        self.network.on_notification = self._notified
        self.progress = ProgressLedger(orderly=plan.orderly)
        self.ownership = OwnershipLedger(orderly=plan.orderly)
        self.brokers = {name: BrokerNode(name, loop) for name in plan.brokers}
        self.consumers: dict[str, ConsumerNode] = {}
        self.graveyard: list[object] = []
        """Dead processes' objects live on, so that no finalizer runs in the middle of a run."""
        self.kinds: set[Kind] = set()
        self.calm = False
        """The finale: listeners are quick, and nothing but poison fails."""
        self.sent = 0
        self._rng = rng
        self._profile = profile_named(plan.profile)
        self._nodes: dict[SimProcess, BrokerNode | ConsumerNode] = {}
        self._epoch = 0
        self._sending = True

    # -- life -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Everything that is there at the beginning."""
        process = SimProcess(self.loop, "nameserver")
        self.nameserver = NameServer(
            NameServerConfig(port=9876), process.clock, self.network, self._profile,
            kv_storage=NoKv(),
        )  # fmt: skip
        await process.start(self.nameserver.start(), "nameserver")
        for node in self.brokers.values():
            await self.start_broker(node)
        await self.clock.sleep(1.0)
        process = SimProcess(self.loop, "admin")
        await process.start(self._create_topic(process), "create topic")
        self._queues_changed()
        for name in self.plan.first_consumers:
            self.join(name)
        producer = SimProcess(self.loop, "producer")
        self._producer = producer.start(self._produce(producer), "produce")

    async def _create_topic(self, process: SimProcess) -> None:
        async with Admin(**self._options(process)) as admin:
            await admin.create_topic(TOPIC, queues=self.plan.queues)

    def _options(self, process: SimProcess) -> dict[str, Any]:
        return {
            "nameservers": NAMESERVER,
            "network": self.network,
            "clock": process.clock,
            "profile": self._profile,
            "client_ip": "10.0.0.1",
            "instance_name": process.name,
        }

    async def start_broker(self, node: BrokerNode) -> None:
        """A new process on the node's disk."""
        process = node.process
        if not process.alive:
            offset_ms = process.clock.wall_offset_ms
            process = node.process = SimProcess(self.loop, node.name)
            process.clock.wall_offset_ms = offset_ms
        node.starts += 1
        self.network.machine_is_back(node.name)

        async def start() -> None:
            broker = Broker(
                BrokerConfig(
                    name=node.name,
                    port=PORTS[node.name],
                    nameservers=(NAMESERVER,),
                    data=Path(f"/{node.name}"),
                ),
                process.clock,
                self.network,
                self._profile,
                store_config=StoreConfig(
                    mapped_file_size_commit_log=MIB,
                    mapped_file_size_consume_queue=2000 * 20,
                    message_index_enable=False,
                    message_delay_level=DELAY_LEVELS,
                ),
                disk=node.disk,
            )
            await broker.start()
            node.broker = broker

        await process.start(start(), f"start {node.name}")
        assert node.broker is not None
        self._nodes[process] = node
        node.seen_offsets = _offsets_of(node.broker)
        self.progress.broker_restarted(
            node.name,
            {
                (group, MessageQueue(topic, node.name, queue_id)): offset
                for (topic, group), queues in node.seen_offsets.items()
                for queue_id, offset in queues.items()
            },
            self.loop.time(),
        )
        self._queues_changed()

    def _broker_gone(self, node: BrokerNode) -> None:
        self.graveyard.append(node.broker)
        node.broker = None
        node.process.kill()
        node.disk.release_locks()
        node.seen_members = None
        now = self.loop.time()
        self.ownership.view(node.name, None, now)
        self._queues_changed()

    def _queues_changed(self) -> None:
        queues = frozenset(
            MessageQueue(TOPIC, node.name, number)
            for node in self.brokers.values()
            if node.broker is not None
            for number in range(self.plan.queues)
        )
        self.ownership.queues(queues, self.loop.time())

    # -- clients --------------------------------------------------------------------------------

    async def _produce(self, process: SimProcess) -> None:
        plan, rng = self.plan, self._rng
        async with Producer("P", **self._options(process)) as producer:
            while self._sending:
                number = self.sent
                self.sent += 1
                fate, draw = "", rng.random()
                if draw < plan.poison_share and self.loop.time() < plan.duration_s * 0.6:
                    fate = "!"
                elif draw < plan.poison_share + plan.flaky_share:
                    fate = "?"
                key = f"m{number}{fate}"
                try:
                    result = await producer.send(Message(TOPIC, key.encode()))
                except PocketMQError as exc:
                    self.trace.note("send failed", key, type(exc).__name__)
                else:
                    if result.is_ok:
                        self.progress.acked[key] = None
                        self.trace.note("acked", key, str(result.queue), result.queue_offset)
                await process.clock.sleep(rng.uniform(0.5, 1.5) * plan.send_gap_s)

    def join(self, name: str) -> None:
        """A consumer process starts."""
        node = self.consumers[name] = ConsumerNode(name, self.loop)
        self._nodes[node.process] = node

        async def start() -> None:
            consumer = PushConsumer(
                GROUP,
                consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
                threads=InlineThreads(),
                **self._options(node.process),
            )
            consumer.subscribe(TOPIC)
            consumer.listen_batch(self._listener(node), orderly=self.plan.orderly)
            node.consumer = consumer
            await consumer.start()

        node.process.start(start(), f"start {name}")
        self._members_changed()

    async def leave(self, name: str) -> None:
        """A consumer stops as it should, and its process ends."""
        node = self.consumers.pop(name)
        self.graveyard.append(node)
        self._members_changed()
        if node.consumer is not None:
            await node.process.start(node.consumer.stop(), f"stop {name}")
        await self.clock.sleep(0.1)
        self._end(node, silently=False)

    def crash(self, name: str, *, silently: bool) -> None:
        """A consumer dies."""
        node = self.consumers.pop(name)
        self.graveyard.append(node)
        self._members_changed()
        self._end(node, silently=silently)

    def _end(self, node: ConsumerNode, *, silently: bool) -> None:
        node.process.kill()
        self.network.process_died(node.process, silently=silently)
        self.progress.client_gone(node.name)

    def _members_changed(self) -> None:
        alive = frozenset(node.client_id for node in self.consumers.values())
        self.ownership.alive(alive, self.loop.time())

    def _listener(self, node: ConsumerNode) -> Callable[[list[MessageExt], Any], Any]:
        progress, loop, trace = self.progress, self.loop, self.trace
        orderly = self.plan.orderly
        failed = (
            ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
            if orderly
            else ConsumeConcurrentlyStatus.RECONSUME_LATER
        )
        name = node.name

        async def listener(messages: list[MessageExt], context: Any) -> object:
            [message] = messages
            queue, offset = context.message_queue, message.queue_offset
            key, times = bytes(message.body).decode(), message.reconsume_times
            trace.note("consume", name, str(queue), offset, key, times)
            progress.started(name, queue, offset, key, times, loop.time())
            if node.slow_s and not self.calm:
                try:
                    await node.process.clock.sleep(node.slow_s)
                except asyncio.CancelledError:
                    progress.abandoned(name, queue)
                    raise
            ok = not (key.endswith("!") or (key.endswith("?") and times == 0))
            progress.ended(name, queue, offset, key, times, ok=ok)
            return None if ok else failed

        return listener

    # -- events ---------------------------------------------------------------------------------

    def apply(self, event: Event) -> None:
        """Let an event happen, unless there is nobody whom it could happen to."""
        who = event.who
        if who.startswith("c") and (who in self.consumers) == (event.kind is Kind.JOIN):
            return
        if who in self.brokers and self.brokers[who].broker is None:
            return
        self.kinds.add(event.kind)
        self.trace.note("event", str(event))
        pair = Pair((who, event.other))
        now, until = self.loop.time(), self.loop.time() + event.lasts_s
        weather, later = self.network.weather, self._later
        match event.kind:
            case Kind.JOIN:
                self.join(who)
            case Kind.LEAVE:
                self.loop.create_task(self.leave(who))
            case Kind.CRASH | Kind.VANISH:
                self.crash(who, silently=event.kind is Kind.VANISH)
            case Kind.BROKER_CRASH:
                node = self.brokers[who]
                process = node.process
                self._broker_gone(node)
                self.network.process_died(process, silently=False)
                self.ownership.trouble(until + TROUBLE_S)
                later(event.lasts_s, lambda: self._start_soon(node))
            case Kind.BROKER_RESTART:
                self.ownership.trouble(until + TROUBLE_S)
                self.loop.create_task(self._restart(self.brokers[who], event.lasts_s))
            case Kind.PARTITION:
                weather.partitions.add(pair)
                self.ownership.trouble(until + TROUBLE_S)
                later(event.lasts_s, lambda: self.network.heal(pair))
            case Kind.DELAY:
                weather.delays_s[pair] = event.amount
                self.ownership.trouble(until + TROUBLE_S)
                later(event.lasts_s, lambda: weather.clear_delay(pair))
            case Kind.RESET:
                self.network.reset(pair)
                self.ownership.trouble(now + TROUBLE_S)
            case Kind.LOSE_NOTIFICATIONS:
                weather.lost_notifications.add(who)
                later(event.lasts_s, lambda: weather.lost_notifications.discard(who))
            case Kind.DOUBLE_NOTIFICATIONS:
                weather.doubled_notifications.add(who)
                later(event.lasts_s, lambda: weather.doubled_notifications.discard(who))
            case Kind.SLOW_LISTENER:
                self.consumers[who].slow_s = event.amount
                later(event.lasts_s, lambda: self._quicken(who))
            case Kind.CLOCK_JUMP:
                process = (
                    self.brokers[who].process
                    if who in self.brokers
                    else self.consumers[who].process
                )
                process.clock.wall_offset_ms += round(event.amount * 1000)

    async def _restart(self, node: BrokerNode, away_s: float) -> None:
        process, broker = node.process, node.broker
        assert broker is not None
        await process.start(broker.stop(), f"stop {node.name}")
        if not process.alive:
            return  # a crash came in between
        self._broker_gone(node)
        self.network.process_died(process, silently=False)
        await self.clock.sleep(away_s)
        await self.start_broker(node)

    def _start_soon(self, node: BrokerNode) -> None:
        self.loop.create_task(self.start_broker(node))

    def _quicken(self, name: str) -> None:
        if name in self.consumers:
            self.consumers[name].slow_s = 0.0

    def _later(self, delay_s: float, callback: Callable[[], None]) -> None:
        self.clock.call_at(self.loop.time() + delay_s, callback)

    # -- finale ---------------------------------------------------------------------------------

    async def drain(self, patience_s: float) -> None:
        """End all trouble, and wait until every acknowledged message has got somewhere."""
        self._sending = False
        self.calm = True
        weather = self.network.weather
        if not weather.is_fair:
            self.ownership.trouble(self.loop.time() + TROUBLE_S)
        for pair in sorted(weather.partitions, key=sorted):
            self.network.heal(pair)
        weather.delays_s.clear()
        weather.lost_notifications.clear()
        weather.doubled_notifications.clear()
        for name in ("c1", "c2"):
            if name not in self.consumers:
                self.join(name)
        until = self.loop.time() + patience_s
        while self.loop.time() < until and (
            self.progress.missing(self.dead_letters()) or not self._producer.done()
        ):
            await self.clock.sleep(2.0)

    def dead_letters(self) -> list[str]:
        """Keys of the messages in the dead letter topic of every broker."""
        keys: list[str] = []
        topic = dlq_topic(GROUP)
        for node in self.brokers.values():
            if node.broker is None:
                continue
            store = node.broker.store
            at, end = store.min_offset(topic, 0), store.max_offset(topic, 0)
            while at < end:
                got = store.get_message(topic, 0, at, 32)
                records = decode_records(b"".join(got.records))
                keys += [bytes(record.body).decode() for record in records]
                if not records:
                    break
                at = got.next_begin_offset
        return keys

    # -- looking --------------------------------------------------------------------------------

    def look(self, ran: list[SimProcess]) -> None:
        """After a step: tell the ledgers what has changed in the processes that ran."""
        now = self.loop.time()
        for process in ran:
            node = self._nodes.get(process)
            if type(node) is BrokerNode:
                self._look_at_broker(node, now)
            elif type(node) is ConsumerNode:
                self._look_at_consumer(node, now)
        self.ownership.check(now)

    def _look_at_broker(self, node: BrokerNode, now: float) -> None:
        if node.broker is None:
            return
        group = node.broker.consumers.groups.get(GROUP)
        members = () if group is None else tuple(sorted(group.client_ids()))
        if members != node.seen_members:
            node.seen_members = members
            self.trace.note("members", node.name, *members)
            self.ownership.view(node.name, members, now)

    def _look_at_consumer(self, node: ConsumerNode, now: float) -> None:
        consumer = node.consumer
        if consumer is None or consumer._parts is None or not node.process.alive:
            return
        held = {
            queue: each
            for queue, each in consumer._parts.planner.process_queues.items()
            if not each.dropped
        }
        if held != node.owned:
            for queue, each in held.items():
                if node.owned.get(queue) is not each:
                    self._epoch += 1
                    node.epochs[queue] = self._epoch
            node.owned = held
            self.trace.note("owns", node.name, *sorted(map(str, held)))
            if self.consumers.get(node.name) is node:
                mine = frozenset(queue for queue in held if queue.topic == TOPIC)
                self.ownership.owned(node.client_id, mine)
        if consumer._instance is not None:
            known = consumer._instance.routes.subscribe.get(TOPIC)
            if known is not node.known:
                node.known = known
                self.ownership.known(node.client_id, frozenset(known or ()), now)

    def _delivered(self, sender: SimProcess, receiver: SimProcess, data: bytes) -> None:
        self.trace.bytes(sender.name, receiver.name, len(data))
        node = self._nodes.get(receiver)
        if type(node) is not BrokerNode or node.broker is None:
            return
        for key, offsets in node.broker.offsets._committed.items():
            seen = node.seen_offsets.get(key)
            if seen == offsets:
                continue
            topic, group = key
            for queue_id, offset in offsets.items():
                if seen is None or seen.get(queue_id) != offset:
                    queue = MessageQueue(topic, node.name, queue_id)
                    writer = self._nodes.get(sender)
                    epoch = writer.epochs.get(queue, 0) if type(writer) is ConsumerNode else 0
                    self.trace.note("commit", sender.name, str(queue), offset)
                    self.progress.committed(
                        group, queue, offset, sender.name, epoch, self.loop.time()
                    )
            node.seen_offsets[key] = dict(offsets)

    def _notified(self, broker: SimProcess, client: SimProcess, sent_at: float) -> None:
        node = self._nodes.get(client)
        if type(node) is ConsumerNode:
            self.trace.note("notified", broker.name, client.name)
            self.ownership.notified(broker.name, node.client_id, sent_at, self.loop.time())


def _offsets_of(broker: Broker) -> dict[tuple[str, str], dict[int, int]]:
    return {
        (topic, group): dict(queues)
        for topic, group, queues in broker.offsets.entries()
        if group == GROUP
    }
