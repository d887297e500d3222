"""What a cluster is like after a number of events: a recording can be replayed. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pocketmq.operation.events.event import Event
from pocketmq.operation.events.groups import (
    MemberJoined,
    MemberLeft,
    MemberSilent,
    QueuesLocked,
    QueuesUnlocked,
    Rebalanced,
)
from pocketmq.operation.events.messages import (
    MessageDispatched,
    MessageStored,
    OffsetCommitted,
    StoreFlushed,
)
from pocketmq.operation.events.roles import (
    BrokerForgotten,
    BrokerRegistered,
    RoleStarted,
    RoleStopped,
)

Queue = tuple[str, str, int]
"""(topic, broker, queue)."""


@dataclass(slots=True)
class ClusterState:
    """Folds events, in their order."""

    at_ms: int = 0
    roles: dict[str, str] = field(default_factory=dict)
    """`running`, `frozen` or `ended`."""
    known: dict[str, dict[tuple[str, int], str | None]] = field(default_factory=dict)
    """Nameserver -> (broker name, id) -> address."""
    members: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """(broker, group) -> client ids, one for each connection."""
    owned: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """(group, client id) -> its queues."""
    locks: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """(broker, group, queue) -> the client that was last granted it."""
    committed: dict[tuple[str, Queue], int] = field(default_factory=dict)
    """(group, queue) -> offset."""
    ends: dict[Queue, int] = field(default_factory=dict)
    """Offset behind the last message that can be pulled."""
    log_ends: dict[str, int] = field(default_factory=dict)
    """Broker -> physical offset behind the last message."""
    flushed: dict[str, int] = field(default_factory=dict)
    """Broker -> physical offset up to which the log is on the disk."""

    def take_all(self, events: Iterable[Event]) -> ClusterState:
        """Fold all of them; returns itself."""
        for event in events:
            self.take(event)
        return self

    def take(self, event: Event) -> None:
        """Fold the next one."""
        # Events of several roles are ordered by real time, so protocol time may step back a little.
        self.at_ms = max(self.at_ms, event.at_ms)
        match event:
            case RoleStarted():
                self.roles[event.role] = "running"
            case RoleStopped():
                self.roles[event.role] = event.how
                # A frozen role keeps its memory.
                if event.how == "ended":
                    self._ended(event.role)
            case BrokerRegistered():
                known = self.known.setdefault(event.nameserver, {})
                # The key has the id, too: a master and its slaves share a name.
                known[event.broker, event.broker_id] = event.address
            case BrokerForgotten():
                known = self.known.setdefault(event.nameserver, {})
                known.pop((event.broker, event.broker_id), None)
            case MemberJoined() | MemberLeft() | MemberSilent():
                self._member(event)
            case Rebalanced():
                self.owned[event.group, event.client_id] = event.queues
            case QueuesLocked():
                for queue in event.queues:
                    self.locks[event.broker, event.group, queue] = event.client_id
            case QueuesUnlocked():
                for queue in event.queues:
                    key = (event.broker, event.group, queue)
                    # Another client may have got the lock since, after it had expired.
                    if self.locks.get(key) == event.client_id:
                        del self.locks[key]
            case MessageStored() | MessageDispatched() | StoreFlushed():
                self._stored(event)
            case OffsetCommitted():
                queue_key = (event.topic, event.broker, event.queue)
                self.committed[event.group, queue_key] = event.offset

    def _ended(self, role: str) -> None:
        """What it had in memory is gone."""
        self.known.pop(role, None)
        for place in [each for each in self.members if each[0] == role]:
            del self.members[place]
        for lock in [each for each in self.locks if each[0] == role]:
            del self.locks[lock]
        for owner in [each for each in self.owned if each[1] == role]:
            del self.owned[owner]

    def _member(self, event: MemberJoined | MemberLeft | MemberSilent) -> None:
        if isinstance(event, MemberJoined):
            # A client with two connections is listed twice; each that ends removes one.
            self.members.setdefault((event.broker, event.group), []).append(event.client_id)
            return
        if isinstance(event, MemberLeft):
            places = [(event.broker, event.group)]
        else:
            # A silent client is dropped from all its groups at that broker.
            places = [place for place in self.members if place[0] == event.broker]
        for place in places:
            members = self.members.get(place, [])
            if event.client_id not in members:
                continue
            members.remove(event.client_id)
            if not members:
                del self.members[place]

    def _stored(self, event: MessageStored | MessageDispatched | StoreFlushed) -> None:
        if isinstance(event, StoreFlushed):
            # Flushes are reported in order, so the last one is the furthest.
            self.flushed[event.broker] = event.physical_to
            # To somebody who began to watch late, only this shows the end of the log.
            if event.physical_end is not None:
                self.log_ends[event.broker] = event.physical_end
        elif isinstance(event, MessageStored):
            self.log_ends[event.broker] = event.physical_offset + event.size
        else:
            self.ends[event.topic, event.broker, event.queue] = event.offset + event.count
