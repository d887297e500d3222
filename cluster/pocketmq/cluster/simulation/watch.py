"""Looks at the processes after every step, and tells the ledgers what it sees.

It reads what processes hold and what goes over the wire; it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from pocketmq.broker.server import Broker
from pocketmq.client import MessageQueue
from pocketmq.client.consumer.local_offsets import decode_offsets
from pocketmq.client.rebalance.claims import Claim
from pocketmq.cluster.simulation.invariants import OwnershipLedger, ProgressLedger
from pocketmq.cluster.simulation.loop import SimProcess, VirtualLoop
from pocketmq.cluster.simulation.machines import GROUP, TOPIC, BrokerMachine, ConsumerMachine
from pocketmq.cluster.simulation.network import SimTransport
from pocketmq.cluster.simulation.scenario import Mode
from pocketmq.cluster.simulation.send_backs import SendBackWatch
from pocketmq.cluster.simulation.trace import Trace
from pocketmq.protocol.bodies.offsets import ResetOffsetBody
from pocketmq.protocol.body import decode_body, parse_mq_key
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.frame import FrameDecoder
from pocketmq.protocol.record_check import check_record
from pocketmq.runtime.profile import Profile

ADMIN = "admin"


class Watch:
    """The eyes of a run.

    Args:
        mode: Each broadcasting member has a ledger of its own.
        profile: Says what RocketMQ itself allows.
        loop: For the time.
        trace: Gets what people may want to read.
    """

    def __init__(self, mode: Mode, profile: Profile, loop: VirtualLoop, trace: Trace) -> None:
        self.acked: dict[str, tuple[MessageQueue, int]] = {}
        self.violations: list[str] = []
        """Of all ledgers."""
        self.ownership = OwnershipLedger(mode, self.violations)
        self.send_backs = SendBackWatch()
        self.machines: dict[SimProcess, BrokerMachine | ConsumerMachine] = {}
        self._mode = mode
        self._profile = profile
        self._loop = loop
        self._trace = trace
        self._progress: dict[str, ProgressLedger] = {}
        self._excused: set[str] = set()
        self._expired_to: dict[MessageQueue, int] = {}
        self._epoch = 0

    @property
    def ledgers(self) -> Iterable[ProgressLedger]:
        """The group's, or each member's."""
        return self._progress.values()

    def progress(self, client: str) -> ProgressLedger:
        """The ledger that a consumer's progress is noted in."""
        key = client if self._mode is Mode.BROADCAST else ""
        ledger = self._progress.get(key)
        if ledger is None:
            ledger = self._progress[key] = ProgressLedger(self._mode, self.acked, self.violations)
            ledger.excuse(self._excused)
            for queue, least in self._expired_to.items():
                ledger.expired(queue, least)
        return ledger

    # -- after a step ---------------------------------------------------------------------------

    def look(self, ran: list[SimProcess]) -> None:
        """Tell the ledgers what has changed in the processes that ran."""
        now = self._loop.time()
        for process in ran:
            machine = self.machines.get(process)
            if type(machine) is BrokerMachine:
                self._look_at_broker(machine, now)
            elif type(machine) is ConsumerMachine:
                self._look_at_consumer(machine, now)
        self.ownership.check(now)

    def _look_at_broker(self, machine: BrokerMachine, now: float) -> None:
        broker = machine.broker
        if broker is None:
            return
        group = broker.consumers.groups.get(GROUP)
        members = () if group is None else tuple(sorted(group.client_ids()))
        if members != machine.seen_members:
            machine.seen_members = members
            self._trace.note("members", machine.name, *members)
            self.ownership.view(machine.name, members, now)
        log_start = broker.store.commit_log.min_offset
        if log_start != machine.seen_log_start:
            machine.seen_log_start = log_start
            self._expired(machine.name, broker)

    def _expired(self, name: str, broker: Broker) -> None:
        for topic, queue_id in broker.store.queues():
            least = broker.store.min_offset(topic, queue_id)
            if least:
                self._trace.note("expired", name, topic, queue_id, least)
                queue = MessageQueue(topic, name, queue_id)
                self._expired_to[queue] = least
                for ledger in self.ledgers:
                    ledger.expired(queue, least)

    def file_removed(self, machine: BrokerMachine, path: str, content: bytes) -> None:
        """A file of a broker is gone; the messages in it were too old, unless it recovers."""
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
        held, leaving = {}, {}
        moves = consumer.is_suspended
        for each in consumer._parts.planner.claims:
            if each.dropped:
                leaving[each.queue] = each
            else:
                held[each.queue] = each
            moves = moves or each.correcting
        if leaving or machine.leaving:
            self._look_at_leaving(machine, leaving, now)
        if moves:
            self.ownership.trouble(now)  # it lets go of queues, for its offsets to be corrected
        if held != machine.owned:
            for queue, each in held.items():
                if machine.owned.get(queue) is not each:
                    self._epoch += 1
                    machine.epochs[queue] = self._epoch
                    self.progress(machine.name).taken(self._epoch, now)
            machine.owned = held
            self._trace.note("owns", machine.name, *sorted(map(str, held)))
            mine = frozenset(queue for queue in held if queue.topic == TOPIC)
            self.ownership.owned(machine.client_id, mine)
        if consumer._instance is not None:
            known = consumer._instance.routes.subscribe.get(TOPIC)
            if known is not machine.known:
                machine.known = known
                self.ownership.known(machine.client_id, frozenset(known or ()), now)

    def _look_at_leaving(
        self, machine: ConsumerMachine, leaving: dict[MessageQueue, Claim], now: float
    ) -> None:
        """Queues that were to go and are gone; by force, if the profile's rule for that holds."""
        force_after_ms = self._profile.orderly_removal_force_after_ms
        for queue, each in machine.leaving.items():
            if leaving.get(queue) is each or force_after_ms is None:
                continue
            if (now - each.last_lock_at) * 1000 > force_after_ms:
                self.progress(machine.name).let_go(machine.name, queue)
        machine.leaving = leaving

    # -- on the wire ----------------------------------------------------------------------------

    def sent(self, sender: SimTransport, data: bytes) -> None:
        """Bytes were written."""
        if type(self.machines.get(sender.process)) is ConsumerMachine:
            self.send_backs.sent(sender.link, data, self._loop.time())

    def delivered(self, receiving: SimTransport, data: bytes) -> None:
        """Bytes were processed by their receiver."""
        sender, receiver = receiving.other.process, receiving.process
        self._trace.bytes(sender.name, receiver.name, len(data))
        machine = self.machines.get(receiver)
        if type(machine) is ConsumerMachine:
            self.send_backs.answered(receiving.link, data, self._loop.time())
            if b"offsetTable" in data:
                self._reset_pushed(data)
        elif type(machine) is BrokerMachine and machine.broker is not None:
            self._committed(machine, machine.broker, sender)

    def notified(self, broker: SimProcess, client: SimProcess, sent_at: float) -> None:
        """A notification has arrived."""
        machine = self.machines.get(client)
        if type(machine) is ConsumerMachine:
            self._trace.note("notified", broker.name, client.name)
            self.ownership.notified(broker.name, machine.client_id, sent_at, self._loop.time())

    def _reset_pushed(self, data: bytes) -> None:
        """4.9 tells the consumers where to go on (220)."""
        for command in FrameDecoder().feed(data):
            if command.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
                body = decode_body(command.body_view, ResetOffsetBody, command.encoding)
                for key, offset in body.offset_table.items():
                    self._reset(parse_mq_key(key), offset)

    def _reset(self, queue: MessageQueue, offset: int) -> None:
        self._trace.note("reset", queue, offset)
        for ledger in self.ledgers:
            ledger.reset(queue, offset)

    def _committed(self, machine: BrokerMachine, broker: Broker, sender: SimProcess) -> None:
        writer = self.machines.get(sender)
        for key, offsets in broker.offsets._committed.items():
            topic, group = key
            seen = machine.seen_offsets.get(key)
            if seen == offsets or group != GROUP:  # the broker notes pulls as GROUP@broadcast
                continue
            for queue_id, offset in offsets.items():
                if seen is not None and seen.get(queue_id) == offset:
                    continue
                queue = MessageQueue(topic, machine.name, queue_id)
                if sender.name == ADMIN:  # 5.x moves the group on the broker
                    self._reset(queue, offset)
                epoch = writer.epochs.get(queue, 0) if type(writer) is ConsumerMachine else 0
                self._trace.note("commit", sender.name, str(queue), offset)
                self.progress(sender.name).committed(
                    group, queue, offset, sender.name, epoch, self._loop.time()
                )
            machine.seen_offsets[key] = dict(offsets)

    # -- lives ----------------------------------------------------------------------------------

    def broker_started(self, machine: BrokerMachine) -> None:
        """A broker's new process has recovered its store."""
        broker = machine.broker
        assert broker is not None
        self.machines[machine.process] = machine
        machine.seen_log_start = broker.store.commit_log.min_offset
        machine.seen_offsets = {
            (topic, group): dict(queues)
            for topic, group, queues in broker.offsets.entries()
            if group == GROUP
        }
        offsets = {
            (group, MessageQueue(topic, machine.name, queue_id)): offset
            for (topic, group), queues in machine.seen_offsets.items()
            for queue_id, offset in queues.items()
        }
        ends = {
            MessageQueue(topic, machine.name, queue_id): broker.store.max_offset(topic, queue_id)
            for topic, queue_id in broker.store.queues()
        }
        for ledger in self.ledgers:
            ledger.broker_restarted(
                machine.name, offsets, ends, self._loop.time(), crashed=machine.crashed
            )

    def member_started(self, client: str, life: int) -> None:
        """A broadcasting member's `life`-th process reads its offset file."""
        self.progress(client).taken(-life, self._loop.time())

    def file_written(self, client: str, life: int, content: bytes) -> None:
        """It wrote its offsets down."""
        ledger = self.progress(client)
        for queue, offset in decode_offsets(content).items():
            ledger.committed(GROUP, queue, offset, client, -life, self._loop.time())
