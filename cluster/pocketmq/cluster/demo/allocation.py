"""Records who owns which queue after each change of the group, and how long the change took.

Consumers report the queues that they own and have pulled; the director reports what it did to them.
A rebalance begins with an event of the director. It is settled when every consumer that joined has
reported, every queue has exactly one owner, and that owner has pulled it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

BESIDES = "+"
"""Between the names of a queue's several owners."""


class QueueName(NamedTuple):
    """One queue of the demo's topic."""

    broker: str
    queue: int

    def __str__(self) -> str:
        return f"{self.broker}/{self.queue}"


@dataclass(slots=True)
class Rebalance:
    """One change of the group and the owners after it."""

    reason: str
    began_at_ms: int
    settled_at_ms: int | None = None
    """None while it is not settled; stays None if the next event came first."""
    owners: dict[QueueName, str] = field(default_factory=dict)
    """The owners when it settled, or when the next event came."""
    moved: int = 0
    """Number of queues whose owner differs from that after the previous rebalance."""

    @property
    def took_ms(self) -> int | None:
        """Time from the event until every queue had one owner that had pulled."""
        return None if self.settled_at_ms is None else self.settled_at_ms - self.began_at_ms

    def queues_of(self, consumer: str) -> list[QueueName]:
        """The queues that one consumer owns, alone or with others, in order."""
        return sorted(
            queue for queue, owners in self.owners.items() if consumer in owners.split(BESIDES)
        )


@dataclass(slots=True)
class _Member:
    owned: frozenset[QueueName] = frozenset()
    pulled: set[QueueName] = field(default_factory=set)
    spoke: bool = False
    """Whether it has reported which queues it owns."""


class AllocationLog:
    """Turns events and reports into rebalances. The caller passes all times.

    Args:
        queues: All queues of the topic.
        everyone_owns_all: With broadcasting all consumers own and pull each queue.
    """

    def __init__(self, queues: Iterable[QueueName], *, everyone_owns_all: bool = False) -> None:
        self.queues = sorted(queues)
        self.rebalances: list[Rebalance] = []
        self._members: dict[str, _Member] = {}
        self._everyone_owns_all = everyone_owns_all
        self._latest_ms = 0
        """Reports come through several pipes, so their order may be slightly wrong."""

    @property
    def settled(self) -> bool:
        """Whether the latest rebalance has settled."""
        return bool(self.rebalances) and self.rebalances[-1].settled_at_ms is not None

    @property
    def members(self) -> list[str]:
        """Consumers that run, sorted."""
        return sorted(self._members)

    def joined(self, consumers: Iterable[str], at_ms: int, reason: str) -> None:
        """Note that consumers start."""
        self._begin(reason, at_ms)
        for name in consumers:
            self._members[name] = _Member()

    def began_later(self, at_ms: int) -> None:
        """Move the begin of the latest event, which had several parts, to its last part."""
        # The start of several consumers is one event, measured from when the last one was there.
        self.rebalances[-1].began_at_ms = max(self.rebalances[-1].began_at_ms, at_ms)

    def left(self, consumer: str, at_ms: int, reason: str) -> None:
        """Note that a consumer ended; its queues have no owner then."""
        self._begin(reason, at_ms)
        self._members.pop(consumer, None)
        if self._everyone_owns_all:
            self._look(at_ms)  # no consumer takes over a queue, so none will report

    def assigned(self, consumer: str, queues: Iterable[QueueName], at_ms: int) -> None:
        """Note the queues that a consumer reports after each of its rebalances."""
        member = self._members.get(consumer)
        if member is None:
            return  # the consumer was killed meanwhile
        member.owned = frozenset(queues)
        # A queue that comes back to its owner counts only after a new pull.
        member.pulled &= member.owned
        member.spoke = True
        self._look(at_ms)

    def pulled(self, consumer: str, queue: QueueName, at_ms: int) -> None:
        """Note a consumer's first pull of a queue that it owns."""
        member = self._members.get(consumer)
        if member is not None and queue in member.owned:
            member.pulled.add(queue)
            self._look(at_ms)

    def owners(self) -> Mapping[QueueName, list[str]]:
        """Owners of each queue by the latest reports; exactly one when settled."""
        owners: dict[QueueName, list[str]] = {queue: [] for queue in self.queues}
        for name, member in sorted(self._members.items()):
            # Also queues that the topic does not have: the report then shows them as wrong.
            for queue in member.owned:
                owners.setdefault(queue, []).append(name)
        return owners

    def _begin(self, reason: str, at_ms: int) -> None:
        # The next event has come before all was settled, so the present owners are noted.
        if self.rebalances and self.rebalances[-1].settled_at_ms is None:
            self._keep_owners(self.rebalances[-1])
        self.rebalances.append(Rebalance(reason, at_ms))

    def _look(self, at_ms: int) -> None:
        # Reports may arrive out of order; with an earlier time it would settle before its cause.
        self._latest_ms = max(self._latest_ms, at_ms)
        if not self.rebalances or self.settled:
            return
        # Before each consumer has reported, a missing owner may just not have reported yet.
        if not all(member.spoke for member in self._members.values()):
            return
        owners = self.owners()
        # With broadcasting every consumer owns each queue, otherwise exactly one does.
        wanted = len(self._members) if self._everyone_owns_all else 1
        for queue in self.queues:
            if len(owners[queue]) != wanted:
                return
            # An owner that has not pulled may still wait for the former owner's lock or offset.
            if any(queue not in self._members[owner].pulled for owner in owners[queue]):
                return
        self.rebalances[-1].settled_at_ms = self._latest_ms
        self._keep_owners(self.rebalances[-1])

    def _keep_owners(self, rebalance: Rebalance) -> None:
        rebalance.owners = {queue: BESIDES.join(names) for queue, names in self.owners().items()}
        if self._everyone_owns_all:
            return  # all owners stay
        before = self.rebalances[-2].owners if len(self.rebalances) > 1 else {}
        rebalance.moved = sum(
            before.get(queue) != owner for queue, owner in rebalance.owners.items()
        )
