"""Looks at controllers and replicas after every step, and tells the ledgers what has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pocketmq.broker.server import Broker
from pocketmq.controller.consensus import Consensus
from pocketmq.controller.replica_group import ReplicaGroup
from pocketmq.nameserver.server import NameServer
from pocketmq.protocol.bodies.route import MASTER_ID
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.frame import FrameDecoder
from pocketmq.protocol.messages.validation import HALF_TOPIC
from pocketmq.simulation.invariants.replicas import (
    AcknowledgedLedger,
    ElectionLedger,
    LengthLedger,
    LogLedger,
    OffsetLedger,
    RouteLedger,
    StillnessLedger,
    TopicLedger,
)
from pocketmq.simulation.invariants.replicas.elections import SeenController, SeenEntry
from pocketmq.simulation.invariants.replicas.rest import ReplicaAtRest
from pocketmq.simulation.links import SimTransport
from pocketmq.simulation.loop import SimProcess, VirtualLoop
from pocketmq.simulation.network import NetworkWatch
from pocketmq.simulation.replicas.log_reader import log_bytes, log_records
from pocketmq.simulation.replicas.machines import (
    BROKER,
    ControllerMachine,
    ReplicaMachine,
)
from pocketmq.simulation.replicas.plan import NAMESERVER, REPLICAS, ReplicaPlan
from pocketmq.simulation.trace import Trace

TOPIC = "T"
ACKNOWLEDGED = frozenset({TOPIC, HALF_TOPIC})
"""Topics whose messages no later master may lack."""
ANSWER_MARKER = b"msgId"
"""In the bytes of an answer to a send, and of no other."""

METADATA_PERIOD_S = 10.0 + 6.0
"""The timer's period, and what its requests may take (H-71)."""

LOOK_AT_OFFSETS_S = 1.0

SETTLE_S = 25.0
"""After trouble: time-out and scan 15 s, an election, 5 s until the next attempt to follow."""


class ReplicaWatch(NetworkWatch):
    """Observes one run; it changes nothing.

    Args:
        plan: Says what acknowledged means.
        loop: For its time.
        trace: Records elections.
    """

    def __init__(self, plan: ReplicaPlan, loop: VirtualLoop, trace: Trace) -> None:
        self.violations: list[str] = []
        self.halves: set[str] = set()
        """Keys of half messages that were acknowledged; no consumer gets them."""
        self.elections = ElectionLedger(self.violations)
        self.messages = AcknowledgedLedger(self.violations, all_ack=plan.all_ack)
        self.logs = LogLedger(self.violations)
        self.offsets = OffsetLedger(self.violations, METADATA_PERIOD_S)
        self._all_ack = plan.all_ack
        self._loop = loop
        self._trace = trace
        self._machines: dict[str, ControllerMachine | ReplicaMachine] = {}
        self._controllers: dict[str, tuple[object, ...]] = {}
        self._applied: dict[str, tuple[SimProcess, int]] = {}
        self._led: set[tuple[SimProcess, int]] = set()
        self._epochs: dict[SimProcess, int] = {}
        self._log_ends: dict[str, int] = {}
        self.lengths = LengthLedger(self.violations)
        self.routes = RouteLedger(self.violations)
        self.topics = TopicLedger(self.violations, TOPIC)
        self.stillness = StillnessLedger(self.violations, SETTLE_S)
        self._nameserver: NameServer | None = None
        self._furthest = 0
        self._in_sync: frozenset[int] = frozenset()
        """Who was in sync with the newest master, last."""
        self._epoch_of: dict[str, int] = {}
        """Address -> the newest epoch in which it led."""
        self._newest: tuple[int, ReplicaMachine | None] = (0, None)
        self._newest_keys: set[str] = set()
        self._newest_read = 0
        self._offsets_at = 0.0

    def add(self, machine: ControllerMachine | ReplicaMachine) -> None:
        """Look at a machine from now on."""
        self._machines[machine.name] = machine

    def add_nameserver(self, nameserver: NameServer) -> None:
        """Look at the routes of a nameserver from now on."""
        self._nameserver = nameserver

    def restarted(self, machine: ControllerMachine | ReplicaMachine) -> None:
        """A machine has a new process."""
        self.elections.restarted(machine.name)
        self.logs.restarted(machine.name)

    @property
    def now(self) -> float:
        """Virtual seconds."""
        return self._loop.time()

    @property
    def master(self) -> ReplicaMachine | None:
        """The newest master, dead or alive."""
        return self._newest[1]

    # -- after each step --------------------------------------------------------------------------

    def look(self, ran: Iterable[SimProcess]) -> None:
        """These processes ran."""
        for process in ran:
            if process.name == NAMESERVER:
                self._route()
            machine = self._machines.get(process.name)
            if machine is None or machine.process is not process:
                continue
            if isinstance(machine, ControllerMachine):
                if machine.controller is not None:
                    self._controller(machine.name, process, machine.controller.consensus)
            elif machine.broker is not None:
                self._replica(machine, process, machine.broker)

    def _route(self) -> None:
        """Whom a name server shows as master (I-13)."""
        broker = None if self._nameserver is None else self._nameserver.table.broker(BROKER)
        address = None if broker is None else broker.broker_addrs.get(MASTER_ID)
        if address is not None:
            epoch = self._epoch_of.get(address, 0)
            self.routes.shown(self._loop.time(), address, epoch)

    def _controller(self, name: str, process: SimProcess, consensus: Consensus) -> None:
        if not consensus.is_started:
            return
        raft = consensus.raft
        log = raft.log
        seen = (process, raft.role, raft.term, raft.commit_index, log.last_index, log.last_term)
        if self._controllers.get(name) != seen:
            self._controllers[name] = seen
            if raft.is_leader:
                self._trace.note("leads", name, raft.term, raft.commit_index)
            first = log.snapshot.index + 1
            self.elections.looked(
                self._loop.time(),
                SeenController(
                    name,
                    raft.term,
                    raft.is_leader,
                    raft.commit_index,
                    first,
                    [SeenEntry(each.index, each.term, each.command) for each in log.tail(first)],
                ),
            )
        group = consensus.replicas.get(BROKER)
        if group is not None and group.master_epoch == self._newest[0]:
            self._in_sync = frozenset(group.in_sync)
        applied = (process, consensus.applied_index)
        if self._applied.get(name) != applied:
            self._applied[name] = applied
            if group is not None and consensus.applied_index > self._furthest:
                self._furthest = consensus.applied_index
                is_whole = len(group.in_sync) == len(REPLICAS)
                self.stillness.decided(
                    self._loop.time(), group.master_epoch, group.set_epoch, is_whole=is_whole
                )
            state = consensus.replicas.snapshot()
            self.elections.applied(self._loop.time(), name, consensus.applied_index, state)

    def _replica(self, machine: ReplicaMachine, process: SimProcess, broker: Broker) -> None:
        role, store, now = broker.core.role, broker.store, self._loop.time()
        self.topics.looked(now, machine.name, process, broker.topics.table)
        epoch = role.epoch
        log_end = store.commit_log.max_offset
        if not epoch and not store.replica.is_following:
            return  # not recovered yet
        if log_end < self._log_ends.get(machine.name, 0):
            self.logs.restarted(machine.name)
        self._log_ends[machine.name] = log_end
        self.lengths.grew(now, machine.name, log_end)
        if not epoch:
            return
        if epoch < self._epochs.get(process, 0):
            self.violations.append(f"{now:.3f} the epoch of {machine.name} falls to {epoch}")
        self._epochs[process] = epoch
        leads = role.leads and not store.replica.is_following
        if leads and (process, epoch) not in self._led:
            self._led.add((process, epoch))
            self._leads(machine, broker)
        if self._all_ack:
            confirmed = min(store.confirmed_offset, log_end)
            if leads or store.is_confirmed:
                self.logs.confirmed(
                    now, machine.name, confirmed, lambda low, high: log_bytes(store, low, high)
                )
            if leads:
                self._visible(machine, broker)
        if leads and self._newest[1] is machine and now - self._offsets_at >= LOOK_AT_OFFSETS_S:
            self._offsets_at = now
            self.offsets.committed(now, committed_offsets(broker))

    def _leads(self, machine: ReplicaMachine, broker: Broker) -> None:
        now, epoch, store = self._loop.time(), broker.core.role.epoch, broker.store
        keys = {each.key for each in log_records(store) if each.topic in ACKNOWLEDGED}
        self._trace.note("master", machine.name, epoch, len(keys), store.commit_log.max_offset)
        self._epoch_of[machine.address] = max(epoch, self._epoch_of.get(machine.address, 0))
        if epoch > self._newest[0] and not self._all_ack:
            end = store.commit_log.max_offset
            self.lengths.leads(now, machine.name, epoch, end, self._electable())
        if epoch >= self._newest[0]:
            self._newest = (epoch, machine)
            self._newest_keys = keys
            self._newest_read = store.commit_log.max_offset
        self.messages.leads(now, machine.name, epoch, keys)
        self.offsets.leads(now, machine.name, committed_offsets(broker), queue_ends(broker))

    def _electable(self) -> list[str]:
        """Replicas that were in sync before the newest election, and count as alive."""
        found = []
        for machine in self._machines.values():
            controller = machine.controller if isinstance(machine, ControllerMachine) else None
            if controller is None or not controller.consensus.serves:
                continue
            group = controller.consensus.replicas.get(BROKER)
            if group is None:
                continue
            now = machine.process.clock.monotonic()
            for each in controller.live.candidates(BROKER, set(self._in_sync), now):
                address = group.address_of(each.broker_id)
                found += [
                    other.name
                    for other in self._machines.values()
                    if isinstance(other, ReplicaMachine) and other.address == address
                ]
        return found

    def _visible(self, machine: ReplicaMachine, broker: Broker) -> None:
        """No consumer sees what a replica in sync lacks (H-144)."""
        group = self.decided
        epoch = broker.core.role.epoch
        if group is None or group.master_epoch != epoch:
            return
        store = broker.store
        end = store.commit_log.max_offset - store.replica.undispatched_bytes
        for name in self.members(group):
            has = self._log_ends.get(name, 0)
            if has < end:
                self.messages.visible(self._loop.time(), machine.name, end, name, has)

    @property
    def decided(self) -> ReplicaGroup | None:
        """What the controllers have agreed on: the state of the one that is furthest."""
        best: ReplicaGroup | None = None
        furthest = -1
        for machine in self._machines.values():
            if isinstance(machine, ControllerMachine) and machine.controller is not None:
                consensus = machine.controller.consensus
                if consensus.applied_index > furthest:
                    furthest, best = consensus.applied_index, consensus.replicas.get("a")
        return best

    def troubled(self, began: float, ended: float) -> None:
        """Something happens, and ends then."""
        self.offsets.troubled(began, ended)
        self.stillness.troubled(ended)

    def members(self, group: ReplicaGroup) -> list[str]:
        """Names of the replicas in sync."""
        found = []
        for name, machine in self._machines.items():
            if isinstance(machine, ReplicaMachine):
                address = machine.address
                ids = [each for each, known in group.replicas.items() if known.address == address]
                if ids and max(ids) in group.in_sync:  # a wiped one has another id
                    found.append(name)
        return found

    # -- clients ----------------------------------------------------------------------------------

    def acknowledged(self, key: str) -> None:
        """A producer got SUCCESS (0): the newest master has the message, or had it when it died."""
        self.messages.acknowledged(key)
        machine = self._newest[1]
        if machine is None or not self._all_ack:
            return
        if machine.broker is not None and machine.process.alive:
            store = machine.broker.store
            if machine.broker.core.role.epoch == self._newest[0]:
                for each in log_records(store, self._newest_read):
                    self._newest_read = each.offset + each.size
                    if each.topic in ACKNOWLEDGED:
                        self._newest_keys.add(each.key)
                if key not in self._newest_keys:
                    self.violations.append(
                        f"{self._loop.time():.3f} {key} is acknowledged, and is not in the log of"
                        f" {machine.name}, master of epoch {self._newest[0]}"
                    )

    def half_acknowledged(self, key: str) -> None:
        """The same for a half message, whose body is its key."""
        self.halves.add(key)
        self.acknowledged(key)

    def sent(self, sender: SimTransport, data: bytes) -> None:
        """Bytes of a broker's answers to sends."""
        if ANSWER_MARKER not in data:
            return
        machine = self._machines.get(sender.process.name)
        if not isinstance(machine, ReplicaMachine) or machine.broker is None:
            return
        for command in FrameDecoder().feed(data):
            if command.is_response and command.code == ResponseCode.SUCCESS:
                epoch = machine.broker.core.role.epoch
                self.messages.answered(self._loop.time(), machine.name, epoch)


def committed_offsets(broker: Broker) -> Mapping[tuple[str, int], int]:
    """(group, queue) -> offset of the topic."""
    return {
        (group, queue_id): offset
        for topic, group, queues in broker.offsets.entries()
        if topic == TOPIC
        for queue_id, offset in queues.items()
    }


def at_rest(broker: Broker) -> ReplicaAtRest:
    """All that has to be the same on each replica."""
    queues = {
        (each.topic, each.queue_id): [
            each.entry(at) for at in range(each.min_offset, each.max_offset)
        ]
        for each in broker.store.consume_queues
    }
    return ReplicaAtRest(
        broker.store.commit_log.max_offset,
        broker.subjects.replication.roles.epochs.table.entries,
        queues,
        list(broker.topics.table),
        list(broker.groups.table),
        str(broker.topics.data_version),
    )


def queue_ends(broker: Broker) -> Mapping[int, int]:
    """Queue -> its end, what consumers cannot see yet included."""
    return {
        queue.queue_id: queue.next_offset
        for queue in broker.store.consume_queues
        if queue.topic == TOPIC
    }
