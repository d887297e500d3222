"""What must hold of a slave that acts for its master; looked at after every step.

1. A slave writes nothing of its own: its log is its master's, byte by byte, and never longer. So no
   send, no delayed message, no timer, no half message and no pop is stored by one that acts.
2. It acknowledges no send.
3. A master that has not taken back what was committed to its slave is shown to nobody.
4. When it comes online it is nowhere behind what consumers had committed to the slave.
5. No committed offset lies beyond its queue.
6. What a SYNC_MASTER acknowledged is in the log of its slave.
7. No slave goes on acting beside a master that name servers show.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping

from pocketmq.broker.server import Broker
from pocketmq.nameserver.server import NameServer
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.frame import FrameDecoder
from pocketmq.simulation.acting.machine import BROKER, PairMachine
from pocketmq.simulation.acting.plan import NAMESERVER
from pocketmq.simulation.invariants.replicas import LogLedger
from pocketmq.simulation.links import SimTransport
from pocketmq.simulation.loop import SimProcess, VirtualLoop
from pocketmq.simulation.network import NetworkWatch
from pocketmq.simulation.replicas.log_reader import log_bytes, log_records

TOPIC = "T"
ANSWER_MARKER = b"msgId"
"""In the bytes of an answer to a send, and of no other."""

TAKEN_S = 5.0
"""Between the slave's answer about its offsets and the master's being online, at most."""
RESTS_S = 5.0
"""After name servers show the master: a notification, or a question each second."""


class ActingWatch(NetworkWatch):
    """Observes one run; it changes nothing.

    Args:
        loop: For its time.
    """

    def __init__(self, loop: VirtualLoop) -> None:
        self.violations: list[str] = []
        self.seen: Counter[str] = Counter()
        self.logs = LogLedger(self.violations)
        self.master: PairMachine | None = None
        self.slave: PairMachine | None = None
        self.nameserver: NameServer | None = None
        self.is_troubled = False
        """A link is in trouble, or a process stopped."""
        self._loop = loop
        self._master_end = 0
        self._online: SimProcess | None = None
        self._committed: deque[tuple[float, Mapping[tuple[str, int], int]]] = deque()
        self._both_since: float | None = None
        self._slave_broker: Broker | None = None
        """The slave's, or the one that it was before its process died."""
        self._read_to = 0
        self._slave_has: set[str] = set()
        self._acts = False
        self._acted_at = -1.0

    def watches(self, master: PairMachine, slave: PairMachine, nameserver: NameServer) -> None:
        """Look at these from now on."""
        self.master, self.slave, self.nameserver = master, slave, nameserver

    def restarted(self, name: str) -> None:
        """A machine has a new process."""
        self.logs.restarted(name)

    def look(self, ran: Iterable[SimProcess]) -> None:
        """These processes ran."""
        for process in ran:
            for machine in (self.master, self.slave):
                if machine is not None and machine.process is process and machine.broker:
                    if machine.is_master:
                        self._look_at_master(machine, machine.broker)
                    elif machine.is_started:
                        self._look_at_slave(machine, machine.broker)
            if process.name == NAMESERVER:
                self._look_at_route()

    # -- master ---------------------------------------------------------------------------------

    def _look_at_master(self, machine: PairMachine, broker: Broker) -> None:
        self._look_at_route()
        end = broker.store.commit_log.max_offset
        self._master_end = max(self._master_end, end)
        if not machine.is_started:
            return
        self._compare(machine, broker, end)
        if self._online is not machine.process:
            self._online = machine.process
            self._came_online(broker)

    def _came_online(self, broker: Broker) -> None:
        now, offsets = self._loop.time(), committed(broker)
        ends = {q.queue_id: q.next_offset for q in broker.store.consume_queues if q.topic == TOPIC}
        for (group, queue_id), offset in offsets.items():
            if offset > ends.get(queue_id, 0):
                self._violated(
                    f"{group} has consumed queue {queue_id} up to {offset}, beyond its end"
                )
        before = [known for at, known in self._committed if at <= now - TAKEN_S]
        if not before or not self._acted_just_now():
            return
        self.seen["masters that took offsets back"] += 1
        for place, offset in before[-1].items():
            if offsets.get(place, 0) < offset:
                self._violated(
                    f"the master is online with {offsets.get(place, 0)} of {place[0]} in queue"
                    f" {place[1]}, where {offset} was committed to its slave"
                )

    def _look_at_route(self) -> None:
        master = self.master
        if master is None or master.broker is None:
            return
        if master.broker.core.role.is_isolated and self._shows_master():
            self.seen["isolated masters that are shown"] += 1
            self._violated("the master is shown before it has taken back what was committed")

    def _shows_master(self) -> bool:
        """Whether the name server has a master of the name, whose process lives."""
        if self.nameserver is None or self.master is None or not self.master.process.alive:
            return False
        known = self.nameserver.table.broker(BROKER)
        return known is not None and 0 in known.broker_addrs

    # -- slave ----------------------------------------------------------------------------------

    def _acted_just_now(self) -> bool:
        slave = self.slave
        return slave is not None and slave.is_up and self._loop.time() - self._acted_at < TAKEN_S

    def _look_at_slave(self, machine: PairMachine, broker: Broker) -> None:
        now, end = self._loop.time(), broker.store.commit_log.max_offset
        if self._slave_broker is not broker:
            self._slave_broker, self._read_to = broker, 0
        if end > self._master_end:
            self._violated(
                f"the slave's log ends at {end}, and its master never had more than"
                f" {self._master_end}"
            )
        self._compare(machine, broker, end)
        acts = broker.core.role.acts
        if acts and not self._acts:
            self.seen["slaves that began to act"] += 1
            self._committed.clear()
        self._acts = acts
        if not acts:
            self._both_since = None
            return
        self._acted_at = now
        if not self._committed or now - self._committed[-1][0] >= 1.0:
            self._committed.append((now, committed(broker)))
            if len(self._committed) > 100:
                self._committed.popleft()
        if not self._shows_master() or self.is_troubled:
            self._both_since = None
        elif self._both_since is None:
            self._both_since = now
        elif now - self._both_since > RESTS_S:
            self._violated(f"the slave acts beside its master for more than {RESTS_S:g} s")

    def _compare(self, machine: PairMachine, broker: Broker, end: int) -> None:
        store = broker.store
        self.logs.confirmed(
            self._loop.time(), machine.name, end, lambda low, high: log_bytes(store, low, high)
        )

    def acknowledged(self, key: str) -> None:
        """A producer of a SYNC_MASTER got SUCCESS (0): the slave has the message (B-140)."""
        if self._slave_broker is None:
            return
        for each in log_records(self._slave_broker.store, self._read_to):
            self._read_to = each.offset + each.size
            self._slave_has.add(each.key)
        self.seen["acknowledged by both"] += 1
        if key not in self._slave_has:
            self._violated(f"{key} is acknowledged by a SYNC_MASTER, and its slave lacks it")

    # -- answers --------------------------------------------------------------------------------

    def sent(self, sender: SimTransport, data: bytes) -> None:
        """Bytes of a slave's answers to sends."""
        slave = self.slave
        if slave is None or sender.process.name != slave.name or ANSWER_MARKER not in data:
            return
        for command in FrameDecoder().feed(data):
            if command.is_response and command.code == ResponseCode.SUCCESS:
                self._violated("a slave acknowledges a send")

    def _violated(self, words: str) -> None:
        self.violations.append(f"{self._loop.time():.3f} {words}")


def committed(broker: Broker) -> Mapping[tuple[str, int], int]:
    """(group, queue) -> offset of the topic."""
    return {
        (group, queue_id): offset
        for topic, group, queues in broker.offsets.entries()
        if topic == TOPIC
        for queue_id, offset in queues.items()
    }


def keys_in(broker: Broker) -> set[str]:
    """What a broker's log has of the topic."""
    return {each.key for each in log_records(broker.store) if each.topic == TOPIC}
