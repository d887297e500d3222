"""The simulated cluster: production's nameserver, brokers and clients on the simulation's seams.

Nothing here answers a request or decides anything: it starts, stops and kills processes, and hands
listeners to consumers. What it sees goes to the ledgers (watch.py).
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from pocketmq.client import (
    Admin,
    ConsumeConcurrentlyStatus,
    ConsumeOrderlyStatus,
    Message,
    MessageExt,
    MessageQueue,
    Producer,
)
from pocketmq.cluster.simulation.disk import MemoryOffsetFiles
from pocketmq.cluster.simulation.loop import START_MS, SimProcess, VirtualLoop
from pocketmq.cluster.simulation.machines import (
    GROUP,
    TOPIC,
    BrokerMachine,
    ConsumerMachine,
    Listener,
    NameServerMachine,
    Setting,
)
from pocketmq.cluster.simulation.network import SimNetwork
from pocketmq.cluster.simulation.scenario import NAMESERVER, PRODUCER, Mode, Scenario
from pocketmq.cluster.simulation.trace import Trace
from pocketmq.cluster.simulation.watch import ADMIN, Watch
from pocketmq.protocol.record import decode_records
from pocketmq.protocol.validation import dlq_topic
from pocketmq.runtime.errors import PocketMQError
from pocketmq.runtime.loop_clock import LoopClock
from pocketmq.runtime.profile import profile_named

LAST_CONSUMERS = ("c1", "c2")
"""They are there at the end, so that nothing is left over."""
POISON, FLAKY = "!", "?"
"""Endings of messages whose every delivery, or whose first one, fails."""
POISON_PERIOD = 0.6
"""Part of a run in which poison is sent: 16 retries take their time."""


class SimCluster:
    """One nameserver, brokers, a producer, and consumers that come and go.

    Args:
        plan: What to build.
        loop: Virtual time.
        chance: For latencies, messages and power cuts.
        trace: Gets everything that happens.
    """

    def __init__(
        self, plan: Scenario, loop: VirtualLoop, chance: random.Random, trace: Trace
    ) -> None:
        self.plan = plan
        self.loop = loop
        self.trace = trace
        self.clock = LoopClock(loop, START_MS)
        self.network = SimNetwork(loop, self.clock, chance)
        self.setting = Setting(plan, loop, self.network, profile_named(plan.profile), chance, trace)
        self.watch = watch = Watch(plan.mode, self.setting.profile, loop, trace)
        self.network.on_sent = watch.sent
        self.network.on_delivered = watch.delivered
        self.network.on_notification = watch.notified
        self.nameserver = NameServerMachine(NAMESERVER, self.setting)
        self.brokers = {name: BrokerMachine(name, self.setting) for name in plan.brokers}
        for machine in self.brokers.values():
            machine.disk.on_removed = self._removal(machine)
        self.consumers: dict[str, ConsumerMachine] = {}
        self.graveyard: list[object] = []
        """Dead processes' objects live on, so that no finalizer runs in the middle of a run."""
        self.calm = False
        """The finale: listeners are quick, and nothing but poison fails."""
        self.sent = 0
        self._files: dict[str, MemoryOffsetFiles] = {}
        self._lives: dict[str, int] = {}
        self._sending = True

    # -- life -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Everything that is there at the beginning."""
        await self.nameserver.start()
        for machine in self.brokers.values():
            await self.start_broker(machine)
        await self.clock.sleep(1.0)
        process = SimProcess(self.loop, ADMIN)
        await process.start(self._create_topic(process), "create topic")
        self._queues_changed()
        for name in self.plan.first_consumers:
            self.join(name)
        process = SimProcess(self.loop, PRODUCER)
        self._producer = process.start(self._produce(process), "produce")

    async def _create_topic(self, process: SimProcess) -> None:
        async with Admin(**self.setting.client_options(process)) as admin:
            await admin.create_topic(TOPIC, queues=self.plan.queues)

    async def reset_offsets(self, back_s: float) -> None:
        """An operator moves the group back in time, or to the end."""
        process = SimProcess(self.loop, ADMIN)
        time_ms = process.clock.time_ms() - round(back_s * 1000) if back_s else -1

        async def reset() -> None:
            try:
                async with Admin(**self.setting.client_options(process)) as admin:
                    await admin.reset_offset(GROUP, TOPIC, time_ms)
            except PocketMQError as exc:
                self.trace.note("reset failed", type(exc).__name__)

        await process.start(reset(), "reset")

    def _removal(self, machine: BrokerMachine) -> Any:
        return lambda path, content: self.watch.file_removed(machine, path, content)

    # -- brokers --------------------------------------------------------------------------------

    async def start_broker(self, machine: BrokerMachine) -> None:
        """A new process on the machine's disk."""
        await machine.start()
        self.watch.broker_started(machine)
        machine.crashed = False
        self._queues_changed()

    async def stop_broker(self, machine: BrokerMachine) -> bool:
        """Stop it in order, and end its process; whether that came to its end."""
        process, broker = machine.process, machine.broker
        assert broker is not None
        await process.start(broker.stop(), f"stop {machine.name}")
        if not process.alive:
            return False  # it crashed meanwhile
        self.end_broker(machine)
        self.network.process_died(process, silently=False)
        return True

    def end_broker(self, machine: BrokerMachine) -> None:
        """Its process runs no more."""
        self.graveyard.append(machine.broker)
        machine.broker = None
        machine.process.kill()
        machine.disk.release_locks()
        machine.seen_members = None
        self.watch.ownership.view(machine.name, None, self.loop.time())
        self._queues_changed()

    def _queues_changed(self) -> None:
        queues = frozenset(
            MessageQueue(TOPIC, machine.name, number)
            for machine in self.brokers.values()
            if machine.broker is not None
            for number in range(self.plan.queues)
        )
        self.watch.ownership.queues(queues, self.loop.time())

    # -- clients --------------------------------------------------------------------------------

    async def _produce(self, process: SimProcess) -> None:
        plan, chance = self.plan, self.setting.chance
        async with Producer("P", **self.setting.client_options(process)) as producer:
            while self._sending:
                number = self.sent
                self.sent += 1
                fate, draw = "", chance.random()
                if draw < plan.poison_share and self.loop.time() < plan.duration_s * POISON_PERIOD:
                    fate = POISON
                elif draw < plan.poison_share + plan.flaky_share:
                    fate = FLAKY
                key = f"m{number}{fate}"
                try:
                    result = await producer.send(Message(TOPIC, key.encode()))
                except PocketMQError as exc:
                    self.trace.note("send failed", key, type(exc).__name__)
                else:
                    if result.is_ok:
                        self.watch.acked[key] = (result.queue, result.queue_offset)
                        self.trace.note("acked", key, str(result.queue), result.queue_offset)
                await process.clock.sleep(chance.uniform(0.5, 1.5) * plan.send_gap_s)

    def join(self, name: str) -> None:
        """A consumer process starts."""
        files = self._offset_files(name) if self.plan.mode is Mode.BROADCAST else None
        machine = self.consumers[name] = ConsumerMachine(name, self.setting, files)
        self.watch.machines[machine.process] = machine
        machine.start(self._listener(machine))
        self._members_changed()

    def _offset_files(self, name: str) -> MemoryOffsetFiles:
        self._lives[name] = self._lives.get(name, 0) + 1
        self.watch.member_started(name, self._lives[name])
        files = self._files.get(name)
        if files is None:
            files = self._files[name] = MemoryOffsetFiles(
                lambda content: self.watch.file_written(name, self._lives[name], content)
            )
        return files

    async def leave(self, name: str) -> None:
        """A consumer stops as it should, and its process ends."""
        machine = self.consumers.pop(name)
        self.graveyard.append(machine)
        self._members_changed()
        if machine.consumer is not None:
            await machine.process.start(machine.consumer.stop(), f"stop {name}")
        await self.clock.sleep(0.1)
        self._end(machine, silently=False)

    def crash(self, name: str, *, silently: bool) -> None:
        """A consumer dies."""
        machine = self.consumers.pop(name)
        self.graveyard.append(machine)
        self._members_changed()
        self._end(machine, silently=silently)

    def _end(self, machine: ConsumerMachine, *, silently: bool) -> None:
        machine.process.kill()
        self.network.process_died(machine.process, silently=silently)
        self.watch.progress(machine.name).client_gone(machine.name)

    def _members_changed(self) -> None:
        alive = frozenset(machine.client_id for machine in self.consumers.values())
        self.watch.ownership.alive(alive, self.loop.time())

    def _listener(self, machine: ConsumerMachine) -> Listener:
        loop, trace, name = self.loop, self.trace, machine.name
        progress = self.watch.progress(name)
        failed = (
            ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
            if self.plan.mode is Mode.ORDERLY
            else ConsumeConcurrentlyStatus.RECONSUME_LATER
        )

        async def listener(messages: list[MessageExt], context: Any) -> object:
            [message] = messages
            queue, offset = context.message_queue, message.queue_offset
            key, times = bytes(message.body).decode(), message.reconsume_times
            trace.note("consume", name, str(queue), offset, key, times)
            epoch = machine.epochs.get(queue, 0)
            progress.started(name, queue, offset, key, times, epoch, loop.time())
            if machine.slow_s and not self.calm:
                try:
                    await machine.process.clock.sleep(machine.slow_s)
                except asyncio.CancelledError:
                    progress.abandoned(name, queue)
                    raise
            ok = not (
                key.endswith(POISON)
                or (key.endswith(FLAKY) and times == 0)
                or (machine.fails and not self.calm)
            )
            progress.ended(name, queue, offset, key, times, ok=ok)
            return None if ok else failed

        return listener

    # -- finale ---------------------------------------------------------------------------------

    async def drain(self, patience_s: float) -> None:
        """End all trouble, and wait until every acknowledged message has got somewhere."""
        self._sending = False
        self.calm = True
        if not self.network.weather.is_fair:
            self.watch.ownership.trouble(self.loop.time())
        self.network.clear_up()
        for name in LAST_CONSUMERS:
            if name not in self.consumers:
                self.join(name)
        until = self.loop.time() + patience_s
        while self.loop.time() < until and (self.missing() or not self._producer.done()):
            await self.clock.sleep(2.0)

    def missing(self) -> list[str]:
        """Acknowledged messages that have not got anywhere yet."""
        dead = frozenset(self.dead_letters())
        if self.plan.mode is not Mode.BROADCAST:
            return self.watch.progress("").missing(dead)
        return [
            f"{key} at {name}"
            for name in self.consumers
            for key in self.watch.progress(name).missing(dead)
        ]

    def dead_letters(self) -> list[str]:
        """Keys of the messages in the dead letter topic of every broker."""
        keys: list[str] = []
        topic = dlq_topic(GROUP)
        for machine in self.brokers.values():
            if machine.broker is None:
                continue
            store = machine.broker.store
            at, end = store.min_offset(topic, 0), store.max_offset(topic, 0)
            while at < end:
                got = store.get_message(topic, 0, at, 32)
                records = decode_records(b"".join(got.records))
                keys += [bytes(record.body).decode() for record in records]
                if not records:
                    break
                at = got.next_begin_offset
        return keys
