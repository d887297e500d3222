"""The simulated cluster: production's nameserver, brokers and clients on simulated seams.

It starts, stops and kills processes, and passes listeners to consumers. What it observes it reports
to the ledgers (watch.py).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

from pocketmq.client import (
    Admin,
    ConsumeConcurrentlyStatus,
    ConsumeOrderlyStatus,
    MessageExt,
    Producer,
)
from pocketmq.operation.events.sink import SinkMaker, no_events
from pocketmq.protocol.messages.message import Message
from pocketmq.protocol.messages.validation import dlq_topic
from pocketmq.protocol.stored.record import decode_records
from pocketmq.runtime.errors import PocketMQError
from pocketmq.runtime.profile import profile_named
from pocketmq.simulation.disk import MemoryTextFiles
from pocketmq.simulation.loop import START_MS, SimProcess, VirtualLoop
from pocketmq.simulation.loop_clock import LoopClock
from pocketmq.simulation.machines import (
    TOPIC,
    BrokerMachine,
    ConsumerMachine,
    Listener,
    NameServerMachine,
    Setting,
)
from pocketmq.simulation.network import SimNetwork
from pocketmq.simulation.own_events import OwnEvents
from pocketmq.simulation.scenario import NAMESERVER, PRODUCER, Group, Mode, Scenario
from pocketmq.simulation.services.run import Services
from pocketmq.simulation.trace import Trace
from pocketmq.simulation.watch import ADMIN, Watch
from pocketmq.simulation.workload import FLAKY, LONG, POISON, POISON_PERIOD, Turns

DELAYED = 2**62
"""In place of the unknown offset of a delayed message that is not delivered to its queue yet."""


class SimCluster:
    """One nameserver, brokers, a producer, and consumers that join and leave.

    Args:
        plan: The scenario to build.
        loop: The loop on virtual time.
        chance: For latencies, messages and power cuts.
        trace: Records all steps.
        events: Takes what happens at roles and clients.
    """

    def __init__(
        self,
        plan: Scenario,
        loop: VirtualLoop,
        chance: random.Random,
        trace: Trace,
        events: SinkMaker = no_events,
    ) -> None:
        self.plan = plan
        self.loop = loop
        self.trace = trace
        self.clock = LoopClock(loop, START_MS)
        profile = profile_named(plan.profile)
        self.watch = watch = Watch(plan, profile, loop, trace)
        self.network = SimNetwork(loop, self.clock, chance, plan.latency_s, watch)
        self.own_events = OwnEvents(events("cluster", self.clock.time_ms))
        self.setting = Setting(plan, loop, self.network, profile, chance, trace, events)
        self.nameserver = NameServerMachine(NAMESERVER, self.setting)
        self.brokers = {
            name: BrokerMachine(name, self.setting, watch.file_removed, watch.violations)
            for name in plan.brokers
        }
        for machine in self.brokers.values():
            watch.check_durability(machine)
        self.services: Services | None = None
        if plan.services is not None:
            self.services = Services(plan.services, self.setting, self.brokers, watch.violations)
        self.consumers: dict[str, ConsumerMachine] = {}
        self.kept: list[object] = []
        """Objects of dead processes, kept so that no finalizer runs during a run."""
        self.calm = False
        """Whether the final phase runs: listeners are quick, and only poison messages fail."""
        self.turns = Turns(plan.workload, TOPIC, chance)
        self.queues = plan.queues
        self.shapes: Counter[str] = Counter()
        """How often each shape of the workload occurred."""
        self._files: dict[str, MemoryTextFiles] = {}
        self._lives: dict[str, int] = {}
        self._sending = True

    # -- start and operators --------------------------------------------------------------------

    async def start(self) -> None:
        """Start all processes of the begin of a run."""
        await self.start_nameserver()
        for machine in self.brokers.values():
            await self.start_broker(machine)
        await self.clock.sleep(1.0)
        process = SimProcess(self.loop, ADMIN)
        await process.start(self._create_topic(process), "create topic")
        self.watch.queues_changed()
        for name in self.plan.first_consumers:
            self.join(name)
        if self.services is not None:
            await self.services.start()
        process = SimProcess(self.loop, PRODUCER)
        self._producer = process.start(self._produce(process), "produce")

    async def _create_topic(self, process: SimProcess) -> None:
        async with Admin(**self.setting.client_options(process)) as admin:
            await admin.create_topic(TOPIC, queues=self.queues)

    async def grow_topic(self, more: int) -> None:
        """Act as an operator who adds queues to the topic on every running broker."""
        self.queues += more
        process = SimProcess(self.loop, ADMIN)

        async def grow() -> None:
            try:
                await self._create_topic(process)
            except PocketMQError as exc:
                self.trace.note("growth failed", type(exc).__name__)

        await process.start(grow(), "grow")

    async def reset_offsets(self, group: str, back_s: float) -> None:
        """Act as an operator who resets a group to an earlier time, or to the end."""
        process = SimProcess(self.loop, ADMIN)
        time_ms = process.clock.time_ms() - round(back_s * 1000) if back_s else -1

        async def reset() -> None:
            try:
                async with Admin(**self.setting.client_options(process)) as admin:
                    await admin.reset_offset(group, TOPIC, time_ms)
            except PocketMQError as exc:
                self.trace.note("reset failed", type(exc).__name__)

        await process.start(reset(), "reset")

    async def start_nameserver(self) -> None:
        """Start a new process of the nameserver."""
        await self.nameserver.start()
        self.own_events.started(NAMESERVER)

    def end_nameserver(self) -> None:
        """End its process."""
        machine = self.nameserver
        self.kept.append(machine.server)
        machine.server = None
        machine.process.kill()
        self.network.process_died(machine.process, silently=False)
        self.own_events.stopped(NAMESERVER)

    # -- brokers --------------------------------------------------------------------------------

    async def start_broker(self, machine: BrokerMachine) -> None:
        """Start a new process on the machine's disk."""
        await machine.start()
        self.own_events.started(machine.name)
        if self.services is not None:
            self.services.broker_started(machine)
        self.watch.broker_started(machine)
        machine.crashed = machine.saved_no_pops = False
        self.watch.queues_changed()

    async def stop_broker(self, machine: BrokerMachine) -> bool:
        """Stop a broker orderly and end its process; False if it crashed before that was done."""
        process, broker = machine.process, machine.broker
        failed_before = 0 if machine.trouble is None else machine.trouble.failed
        assert broker is not None
        was_blocked = not broker.store.is_writeable
        machine.is_stopping, began_at = True, self.loop.time()
        await process.start(broker.stop(), f"stop {machine.name}")
        if not process.alive:
            return False  # it was crashed meanwhile
        failed = machine.trouble is not None and machine.trouble.failed > failed_before
        machine.crashed = failed  # if it failed, it did not save everything
        took_ms = (self.loop.time() - began_at) * 1000
        is_late = took_ms >= broker.store.config.sync_flush_timeout_ms
        machine.saved_no_pops = was_blocked or is_late
        self.end_broker(machine)
        self.network.process_died(process, silently=False)
        return True

    def end_broker(self, machine: BrokerMachine) -> None:
        """End a broker's process."""
        self.kept.append(machine.broker)
        machine.broker = None
        machine.is_stopping = False
        machine.process.kill()
        self.own_events.stopped(machine.name)
        machine.disk.release_locks()
        if self.services is not None:
            self.services.broker_ended(machine)
        self.watch.broker_ended(machine)

    # -- clients --------------------------------------------------------------------------------

    async def _produce(self, process: SimProcess) -> None:
        turns, poison_until = self.turns, self.plan.duration_s * POISON_PERIOD
        async with Producer("P", **self.setting.client_options(process)) as producer:
            while self._sending:
                turn = turns.next(poison=self.loop.time() < poison_until)
                if len(turn.messages) == 1:
                    await self._send(producer, turn.messages)
                elif turn.is_batch:
                    self.shapes["batches sent"] += 1
                    await self._send(producer, turn.messages)
                else:
                    self.shapes["bursts sent"] += 1
                    await asyncio.gather(*(self._send(producer, [m]) for m in turn.messages))
                await process.clock.sleep(turns.gap_s())

    async def _send(self, producer: Producer, messages: list[Message]) -> None:
        """Send messages in one request."""
        keys = [message.body.decode() for message in messages]
        try:
            if len(messages) == 1:
                result = await producer.send(messages[0])
            else:
                result = await producer.send_batch(messages)
        except PocketMQError as exc:
            self.trace.note("send failed", *keys, type(exc).__name__)
            return
        if not result.is_ok:
            return
        delayed = messages[0].delay_level > 0
        self.shapes["delayed messages sent"] += delayed
        for number, key in enumerate(keys):
            offset = DELAYED if delayed else result.queue_offset + number
            self.watch.acked[key] = (result.queue, offset)
            self.trace.note("acked", key, str(result.queue), result.queue_offset + number)

    def join(self, name: str) -> None:
        """Start a consumer process."""
        files = self._offset_files(name) if self.plan.mode is Mode.BROADCAST else None
        machine = self.consumers[name] = ConsumerMachine(name, self.setting, files)
        self.watch.machines[machine.process] = machine
        self.own_events.started(machine.client_id)
        machine.start(self._listener(machine))
        self._members_changed()

    def _offset_files(self, name: str) -> MemoryTextFiles:
        self._lives[name] = self._lives.get(name, 0) + 1
        self.watch.member_started(name, self._lives[name])
        files = self._files.get(name)
        if files is None:
            files = self._files[name] = MemoryTextFiles(
                lambda content: self.watch.file_written(name, self._lives[name], content)
            )
        return files

    async def leave(self, name: str) -> None:
        """Stop a consumer orderly and end its process."""
        machine = self.consumers.pop(name)
        self.kept.append(machine)
        self._members_changed()
        if machine.consumer is not None:
            await machine.process.start(machine.consumer.stop(), f"stop {name}")
        await self.clock.sleep(0.1)
        self._end(machine, silently=False)

    def crash(self, name: str, *, silently: bool) -> None:
        """Kill a consumer."""
        machine = self.consumers.pop(name)
        self.kept.append(machine)
        self._members_changed()
        self._end(machine, silently=silently)

    def _end(self, machine: ConsumerMachine, *, silently: bool) -> None:
        machine.process.kill()
        self.own_events.stopped(machine.client_id)
        self.network.process_died(machine.process, silently=silently)
        self.watch.progress(machine.name).client_gone(machine.name)

    def _members_changed(self) -> None:
        self.watch.members_changed(self.consumers.values())

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
            takes_s = machine.slow_s
            if key.endswith(LONG):
                takes_s = max(takes_s, self.plan.workload.long_s)
                self.shapes["long deliveries"] += 1
            if takes_s and not self.calm:
                try:
                    await machine.process.clock.sleep(takes_s)
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

    # -- final phase ----------------------------------------------------------------------------

    async def drain(self, patience_s: float) -> None:
        """End all faults, and wait until every acknowledged message was consumed or is dead."""
        self._sending = False
        self.calm = True
        if self.services is not None:
            self.services.is_sending, self.services.is_calm = False, True
        if not self.network.faults.is_none:
            self.watch.trouble(self.loop.time())
        self.network.clear_up()
        for machine in self.brokers.values():
            if machine.trouble is not None and not machine.trouble.is_well:
                self.watch.trouble(self.loop.time())
                machine.trouble.clear()
        for name in self.plan.last_consumers:
            if name not in self.consumers:
                self.join(name)
        until = self.loop.time() + patience_s
        while self.loop.time() < until and (self.missing() or not self._producer.done()):
            await self.clock.sleep(2.0)

    def missing(self) -> list[str]:
        """Acknowledged messages that were neither consumed nor became dead letters."""
        missing: list[str] = []
        if self.plan.mode is Mode.BROADCAST:
            whom = list(self.consumers)
        else:
            whom = list(self.plan.last_consumers[: len(self.plan.groups)])  # one of each group
        for name in whom:
            ledger = self.watch.progress(name)
            if ledger.missing(()):
                dead = frozenset(self.dead_letters(self.plan.group_of(name)))
                left = ledger.missing(dead)
                missing += [f"{key} at {name}" for key in left if not self._lost_its_queue(key)]
        return missing + (self.services.open() if self.services is not None else [])

    def _lost_its_queue(self, key: str) -> bool:
        """Whether the broker could not save the message's queue, and forgot it in a restart."""
        queue, _ = self.watch.acked[key]
        machine = self.brokers[queue.broker_name]
        if machine.broker is None or machine.durability is None:
            return False
        topic = machine.broker.topics.table.get(TOPIC)
        return (topic is None or queue.queue_id >= topic.read_queue_nums) and (
            machine.durability.is_at_risk(TOPIC, queue.queue_id)
        )

    def dead_letters(self, group: Group) -> list[str]:
        """Keys of the messages in a group's dead letter topic, on all brokers."""
        keys: list[str] = []
        topic = dlq_topic(group.name)
        for machine in self.brokers.values():
            if machine.broker is None:
                continue
            store = machine.broker.store
            at, end = store.reads.min_offset(topic, 0), store.reads.max_offset(topic, 0)
            while at < end:
                got = store.reads.get_message(topic, 0, at, 32)
                records = decode_records(b"".join(got.records))
                keys += [bytes(record.body).decode() for record in records]
                if not records:
                    break
                at = got.next_begin_offset
        return keys
