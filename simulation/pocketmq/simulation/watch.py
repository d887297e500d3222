"""Observes the processes after every step, and reports changes to the ledgers.

It reads the processes' state and the bytes that they send; it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from pocketmq.broker.server import Broker
from pocketmq.client import MessageQueue, PushConsumer
from pocketmq.client.consumer.progress.local_offsets import decode_offsets
from pocketmq.client.rebalance.claims import Claim
from pocketmq.protocol.bodies.offsets import ResetOffsetBody
from pocketmq.protocol.body import decode_body, parse_mq_key
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.frame import FrameDecoder
from pocketmq.protocol.stored.record import decode_records
from pocketmq.protocol.stored.record_check import check_record
from pocketmq.runtime.profile import Profile
from pocketmq.simulation.durability_watch import DurabilityWatch
from pocketmq.simulation.invariants import OwnershipLedger, ProgressLedger
from pocketmq.simulation.invariants.queue_starts import QueueStarts
from pocketmq.simulation.links import SimTransport
from pocketmq.simulation.loop import SimProcess, VirtualLoop
from pocketmq.simulation.machines import TOPIC, BrokerMachine, ConsumerMachine
from pocketmq.simulation.network import NetworkWatch
from pocketmq.simulation.scenario import Mode, Scenario
from pocketmq.simulation.send_backs import SendBackWatch
from pocketmq.simulation.trace import Trace

ADMIN = "admin"
_NOBODY: dict[str, int] = {}


class Watch(NetworkWatch):
    """Observes one run.

    Args:
        plan: The scenario; each group has a ledger, or each member of a broadcasting group.
        profile: The release whose rules apply.
        loop: The loop, for its time.
        trace: Records events.
    """

    def __init__(self, plan: Scenario, profile: Profile, loop: VirtualLoop, trace: Trace) -> None:
        self.acked: dict[str, tuple[MessageQueue, int]] = {}
        self.violations: list[str] = []
        """Violations of all ledgers."""
        self._queue_starts = QueueStarts(self.violations)
        self.ownerships = {
            group.name: OwnershipLedger(plan.mode, self.violations) for group in plan.groups
        }
        self._ownerships = tuple(self.ownerships.items())
        self.ledger_of: dict[str, ProgressLedger] = {}
        """The ledger of each group, or of each member of a broadcasting group."""
        self.send_backs = SendBackWatch()
        self.machines: dict[SimProcess, BrokerMachine | ConsumerMachine] = {}
        self._durability = DurabilityWatch()
        self._plan = plan
        self._brokers: dict[str, BrokerMachine] = {}
        self._profile = profile
        self._loop = loop
        self._trace = trace
        self._excused: set[str] = set()
        self._expired_to: dict[MessageQueue, int] = {}
        self._epoch = 0

    @property
    def ledgers(self) -> Iterable[ProgressLedger]:
        """All ledgers of progress."""
        return self.ledger_of.values()

    def progress(self, client: str) -> ProgressLedger:
        """The ledger for a consumer's progress."""
        plan = self._plan
        group = plan.group_of(client)
        key = client if plan.mode is Mode.BROADCAST else group.name
        ledger = self.ledger_of.get(key)
        if ledger is None:
            ledger = self.ledger_of[key] = ProgressLedger(
                plan.mode,
                self.acked,
                self.violations,
                tags=group.tags,
                key_at=self._key_at,
            )
            ledger.excuse(self._excused)
            for queue, least in self._expired_to.items():
                ledger.expired(queue, least)
        return ledger

    # -- after a step ---------------------------------------------------------------------------

    def look(self, ran: list[SimProcess]) -> None:
        """Report changes in the processes that ran to the ledgers."""
        now = self._loop.time()
        for process in ran:
            machine = self.machines.get(process)
            if type(machine) is BrokerMachine:
                self._look_at_broker(machine, now)
            elif type(machine) is ConsumerMachine:
                self._look_at_consumer(machine, now)
        for _, ownership in self._ownerships:
            if now >= ownership.due_at:
                ownership.check(now)

    def trouble(self, until: float) -> None:
        """Report that requests may fail until a time."""
        for ownership in self.ownerships.values():
            ownership.trouble(until)

    def routes_wrong(self, until: float) -> None:
        """Report that the nameserver does not know every broker until a time."""
        for ownership in self.ownerships.values():
            ownership.routes_wrong(until)

    def members_changed(self, consumers: Iterable[ConsumerMachine]) -> None:
        """Report the consumers that run now."""
        alive: dict[str, set[str]] = {name: set() for name in self.ownerships}
        for machine in consumers:
            alive[machine.group.name].add(machine.client_id)
        for name, members in alive.items():
            self.ownerships[name].alive(frozenset(members), self._loop.time())

    def queues_changed(self) -> None:
        """Report the queues after a broker was started or ended, or queues were added."""
        queues: set[MessageQueue] = set()
        for machine in self._brokers.values():
            if machine.broker is not None:
                topic = machine.broker.topics.table.get(TOPIC)
                machine.seen_queues = 0 if topic is None else topic.read_queue_nums
                queues |= {
                    MessageQueue(TOPIC, machine.name, each) for each in range(machine.seen_queues)
                }
        for ownership in self.ownerships.values():
            ownership.queues(frozenset(queues), self._loop.time())

    def _key_at(self, queue: MessageQueue, offset: int) -> str | None:
        """The key of a message, read from the store."""
        store = self._brokers[queue.broker_name].store
        if store is None:
            return None
        found = store.reads.get_message(queue.topic, queue.queue_id, offset, 1)
        records = decode_records(b"".join(found.records))
        if not records or records[0].queue_offset != offset:
            return None
        return bytes(records[0].body).decode()

    def _look_at_broker(self, machine: BrokerMachine, now: float) -> None:
        broker = machine.broker
        if broker is None:
            return
        for name, ownership in self._ownerships:
            group = broker.consumers.groups.get(name)
            ids = _NOBODY if group is None else group.ids
            if ids != machine.seen_members.get(name):
                machine.seen_members[name] = dict(ids)
                members = tuple(sorted(each for each, n in ids.items() for _ in range(n)))
                self._trace.note("members", machine.name, name, *members)
                ownership.view(machine.name, members, now)
        topic = broker.topics.table.get(TOPIC)
        if topic is not None and topic.read_queue_nums != machine.seen_queues:
            self.queues_changed()
        log_start = broker.store.commit_log.min_offset
        if log_start != machine.seen_log_start:
            machine.seen_log_start = log_start
            self._expired(machine.name, broker)
        if self._queue_starts.is_open:
            for queue in self._queue_starts.at(machine.name):
                begins = broker.store.reads.min_offset(queue.topic, queue.queue_id)
                self._queue_starts.begins_at(queue, begins, now)

    def _expired(self, name: str, broker: Broker) -> None:
        for topic, queue_id in broker.store.reads.queues():
            queue = MessageQueue(topic, name, queue_id)
            least = self._least_left(broker, queue)
            if least:
                self._trace.note("expired", name, topic, queue_id, least)
                self._expired_to[queue] = least
                begins = broker.store.reads.min_offset(topic, queue_id)
                self._queue_starts.expired(queue, begins, least, self._loop.time())
                for ledger in self.ledgers:
                    ledger.expired(queue, least)
                durability = self._durability.ledgers.get(name)
                if durability is not None:
                    durability.expired(topic, queue_id, least)

    def _least_left(self, broker: Broker, queue: MessageQueue) -> int:
        """The first offset with a message; a queue's own minimum follows that of its log later."""
        least = broker.store.reads.min_offset(queue.topic, queue.queue_id)
        end = broker.store.reads.max_offset(queue.topic, queue.queue_id)
        while least < end and self._key_at(queue, least) is None:
            least += 1
        return least

    def file_removed(self, machine: BrokerMachine, path: str, content: bytes) -> None:
        """Report a deleted file: its messages have expired, unless a broker recovers its store."""
        if machine.broker is None or "/commitlog/" not in path:
            return
        position = 0
        while (checked := check_record(content, position, len(content))).message is not None:
            self._excused.add(bytes(checked.message.body).decode())
            position += checked.size
        for ledger in self.ledgers:
            ledger.excuse(self._excused)

    def _look_at_consumer(self, machine: ConsumerMachine, now: float) -> None:
        consumer = machine.consumer
        if consumer is None or consumer._parts is None or not machine.process.alive:
            return
        ownership = self.ownerships[machine.group.name]
        moves = consumer.is_suspended
        claims = tuple(consumer._parts.planner.claims)
        if claims == machine.seen_claims and not (moves or machine.leaving):
            for each in claims:
                if each.dropped or each.correcting:
                    break
            else:
                self._look_at_routes(machine, consumer, now)
                return
        machine.seen_claims = claims
        held, leaving = {}, {}
        for each in claims:
            if each.dropped:
                leaving[each.queue] = each
            else:
                held[each.queue] = each
            moves = moves or each.correcting
        if leaving or machine.leaving:
            self._look_at_leaving(machine, leaving, now)
        if moves:
            ownership.trouble(now)  # it releases queues to have its offsets corrected
        if held != machine.owned:
            for queue, each in held.items():
                if machine.owned.get(queue) is not each:
                    self._epoch += 1
                    machine.epochs[queue] = self._epoch
                    self.progress(machine.name).taken(self._epoch, now)
            machine.owned = held
            self._trace.note("owns", machine.name, *sorted(map(str, held)))
            mine = frozenset(queue for queue in held if queue.topic == TOPIC)
            ownership.owned(machine.client_id, mine)
        self._look_at_routes(machine, consumer, now)

    def _look_at_routes(self, machine: ConsumerMachine, consumer: PushConsumer, now: float) -> None:
        if consumer._instance is not None:
            known = consumer._instance.routes.subscribe.get(TOPIC)
            if known is not machine.known:
                machine.known = known
                ownership = self.ownerships[machine.group.name]
                ownership.known(machine.client_id, frozenset(known or ()), now)

    def _look_at_leaving(
        self, machine: ConsumerMachine, leaving: dict[MessageQueue, Claim], now: float
    ) -> None:
        """Report released queues; those released by force if the profile's rule allows it."""
        force_after_ms = self._profile.client.orderly_removal_force_after_ms
        for queue, each in machine.leaving.items():
            if leaving.get(queue) is each or force_after_ms is None:
                continue
            if (now - each.last_lock_at) * 1000 > force_after_ms:
                self.progress(machine.name).let_go(machine.name, queue)
        machine.leaving = leaving

    # -- on the wire ----------------------------------------------------------------------------

    def sent(self, sender: SimTransport, data: bytes) -> None:
        """Observe bytes that were sent."""
        self._durability.sent(sender, data)
        if type(self.machines.get(sender.process)) is ConsumerMachine:
            self.send_backs.sent(sender.link, data, self._loop.time())

    def check_durability(self, machine: BrokerMachine) -> None:
        """Tell a broker's check of durability, if it has one, what is answered from now on."""
        if machine.durability is not None:
            self._durability.ledgers[machine.name] = machine.durability

    def delivered(self, receiving: SimTransport, data: bytes) -> None:
        """Observe bytes that the receiver has processed."""
        sender, receiver = receiving.other.process, receiving.process
        self._trace.bytes(sender.name, receiver.name, len(data))
        machine = self.machines.get(receiver)
        if type(machine) is ConsumerMachine:
            self.send_backs.answered(receiving.link, data, self._loop.time())
            if b"offsetTable" in data:
                self._reset_pushed(machine.group.name, data)
        elif type(machine) is BrokerMachine and machine.broker is not None:
            self._committed(machine, machine.broker, sender)

    def notified(self, broker: SimProcess, client: SimProcess, sent_at: float) -> None:
        """Report a notification that arrived."""
        machine = self.machines.get(client)
        if type(machine) is ConsumerMachine:
            self._trace.note("notified", broker.name, client.name)
            self.ownerships[machine.group.name].notified(
                broker.name, machine.client_id, sent_at, self._loop.time()
            )

    def _reset_pushed(self, group: str, data: bytes) -> None:
        """4.9 pushes the new offsets to consumers: RESET_CONSUMER_CLIENT_OFFSET (220)."""
        for command in FrameDecoder().feed(data):
            if command.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
                body = decode_body(command.body_view, ResetOffsetBody, command.encoding)
                for key, offset in body.offset_table.items():
                    self._reset(self.ledger_of.get(group), parse_mq_key(key), offset)

    def _reset(self, ledger: ProgressLedger | None, queue: MessageQueue, offset: int) -> None:
        self._trace.note("reset", queue, offset)
        if ledger is not None:
            ledger.reset(queue, offset)

    def _committed(self, machine: BrokerMachine, broker: Broker, sender: SimProcess) -> None:
        writer = self.machines.get(sender)
        if sender.name == ADMIN:
            self._reset_in_place(machine, broker)
        for key, offsets in broker.offsets._committed.items():
            topic, group = key
            seen = machine.seen_offsets.get(key)
            if seen == offsets or group not in self.ownerships:
                continue  # the broker stores pulls of broadcasting members as GROUP@broadcast
            for queue_id, offset in offsets.items():
                if seen is not None and seen.get(queue_id) == offset:
                    continue
                queue = MessageQueue(topic, machine.name, queue_id)
                ledger = self.ledger_of.get(group)
                if sender.name == ADMIN:  # 5.x resets the group on the broker
                    self._reset(ledger, queue, offset)
                epoch = writer.epochs.get(queue, 0) if type(writer) is ConsumerMachine else 0
                self._trace.note("commit", sender.name, str(queue), offset)
                if ledger is not None:
                    ledger.committed(group, queue, offset, sender.name, epoch, self._loop.time())
            machine.seen_offsets[key] = dict(offsets)

    def _reset_in_place(self, machine: BrokerMachine, broker: Broker) -> None:
        """Report resets to where the group stands: a commit on its way may go on, and fall back."""
        for key, offsets in broker.offsets._resets.items():
            topic, group = key
            seen = machine.seen_offsets.get(key, {})
            for queue_id, offset in offsets.items():
                if seen.get(queue_id) == offset:
                    queue = MessageQueue(topic, machine.name, queue_id)
                    self._reset(self.ledger_of.get(group), queue, offset)

    # -- starts and ends ------------------------------------------------------------------------

    def broker_started(self, machine: BrokerMachine) -> None:
        """Report a broker's new process, which has recovered its store."""
        broker = machine.broker
        assert broker is not None
        if machine.durability is not None:
            machine.durability.restarted(broker.store.commit_log.max_offset)
        self.machines[machine.process] = machine
        self._brokers[machine.name] = machine
        self._queue_starts.restarted(machine.name)
        machine.seen_log_start = broker.store.commit_log.min_offset
        machine.seen_offsets = {
            (topic, group): dict(queues)
            for topic, group, queues in broker.offsets.entries()
            if group in self.ownerships
        }
        offsets = {
            (group, MessageQueue(topic, machine.name, queue_id)): offset
            for (topic, group), queues in machine.seen_offsets.items()
            for queue_id, offset in queues.items()
        }
        ends = {
            MessageQueue(topic, machine.name, queue_id): broker.store.reads.max_offset(
                topic, queue_id
            )
            for topic, queue_id in broker.store.reads.queues()
        }
        for name, ledger in self.ledger_of.items():
            its = {key: offset for key, offset in offsets.items() if key[0] == name}
            ledger.broker_restarted(
                machine.name, its, ends, self._loop.time(), crashed=machine.crashed
            )

    def broker_ended(self, machine: BrokerMachine) -> None:
        """Report that a broker's process ended."""
        machine.seen_members.clear()
        for ownership in self.ownerships.values():
            ownership.view(machine.name, None, self._loop.time())
        self.queues_changed()

    def member_started(self, client: str, life: int) -> None:
        """Report that a broadcasting member's `life`-th process reads its offset file."""
        self.progress(client).taken(-life, self._loop.time())

    def file_written(self, client: str, life: int, text: str) -> None:
        """Report a new text of its offset file."""
        ledger = self.progress(client)
        for queue, offset in decode_offsets(text).items():
            ledger.committed(client, queue, offset, client, -life, self._loop.time())
