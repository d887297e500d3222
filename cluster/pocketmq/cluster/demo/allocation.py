"""Who owns which queue after each change of the group, why, and how long the change took.

The consumers tell what they own and which queue they have pulled; the director tells what it did
to them. A rebalance begins with the director's event and is settled when every consumer that joined
has spoken, every queue has exactly one owner, and that owner has pulled it.
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
    """One change of the group and what became of it."""

    reason: str
    began_at_ms: int
    settled_at_ms: int | None = None
    """None while it runs, and for ever when the next event came first."""
    owners: dict[QueueName, str] = field(default_factory=dict)
    """As they were when it settled, or when the next event came."""
    moved: int = 0
    """Queues that have another owner than after the previous rebalance."""

    @property
    def took_ms(self) -> int | None:
        """From the event until every queue had one owner that had pulled."""
        return None if self.settled_at_ms is None else self.settled_at_ms - self.began_at_ms

    def queues_of(self, consumer: str) -> list[QueueName]:
        """What one consumer owns, alone or with others, in order."""
        return sorted(
            queue for queue, owners in self.owners.items() if consumer in owners.split(BESIDES)
        )


@dataclass(slots=True)
class _Member:
    owned: frozenset[QueueName] = frozenset()
    pulled: set[QueueName] = field(default_factory=set)
    spoke: bool = False
    """Whether it has reported at all what it owns."""


class AllocationLog:
    """Turns events and reports into rebalances. Every moment comes from the caller.

    Args:
        queues: All queues of the topic.
        everyone_owns_all: Broadcasting: each queue is to be owned, and pulled, by all.
    """

    def __init__(self, queues: Iterable[QueueName], *, everyone_owns_all: bool = False) -> None:
        self.queues = sorted(queues)
        self.rebalances: list[Rebalance] = []
        self._members: dict[str, _Member] = {}
        self._everyone_owns_all = everyone_owns_all
        self._latest_ms = 0
        """Reports come through several pipes and may be a little out of order."""

    @property
    def settled(self) -> bool:
        """Whether the latest rebalance has settled."""
        return bool(self.rebalances) and self.rebalances[-1].settled_at_ms is not None

    @property
    def members(self) -> list[str]:
        """Living consumers."""
        return sorted(self._members)

    def joined(self, consumers: Iterable[str], at_ms: int, reason: str) -> None:
        """Consumers start and will take part."""
        self._begin(reason, at_ms)
        for name in consumers:
            self._members[name] = _Member()

    def began_later(self, at_ms: int) -> None:
        """The latest event, of several parts, ended at this moment."""
        self.rebalances[-1].began_at_ms = max(self.rebalances[-1].began_at_ms, at_ms)

    def left(self, consumer: str, at_ms: int, reason: str) -> None:
        """A consumer is gone; whatever it owned has no owner any more."""
        self._begin(reason, at_ms)
        self._members.pop(consumer, None)
        if self._everyone_owns_all:
            self._look(at_ms)  # nobody takes anything over, so nobody will speak

    def assigned(self, consumer: str, queues: Iterable[QueueName], at_ms: int) -> None:
        """A consumer says what it owns now; not before its first own rebalance."""
        member = self._members.get(consumer)
        if member is None:
            return  # the last words of one that was killed meanwhile
        member.owned = frozenset(queues)
        member.pulled &= member.owned
        member.spoke = True
        self._look(at_ms)

    def pulled(self, consumer: str, queue: QueueName, at_ms: int) -> None:
        """A consumer got its first answer for a queue that it owns."""
        member = self._members.get(consumer)
        if member is not None and queue in member.owned:
            member.pulled.add(queue)
            self._look(at_ms)

    def owners(self) -> Mapping[QueueName, list[str]]:
        """Owners of each queue by the consumers' latest words; one each when all is settled."""
        owners: dict[QueueName, list[str]] = {queue: [] for queue in self.queues}
        for name, member in sorted(self._members.items()):
            for queue in member.owned:
                owners.setdefault(queue, []).append(name)
        return owners

    def _begin(self, reason: str, at_ms: int) -> None:
        if self.rebalances and self.rebalances[-1].settled_at_ms is None:
            self._keep_owners(self.rebalances[-1])
        self.rebalances.append(Rebalance(reason, at_ms))

    def _look(self, at_ms: int) -> None:
        self._latest_ms = max(self._latest_ms, at_ms)
        if not self.rebalances or self.settled:
            return
        if not all(member.spoke for member in self._members.values()):
            return
        owners = self.owners()
        wanted = len(self._members) if self._everyone_owns_all else 1
        for queue in self.queues:
            if len(owners[queue]) != wanted:
                return
            if any(queue not in self._members[owner].pulled for owner in owners[queue]):
                return
        self.rebalances[-1].settled_at_ms = self._latest_ms
        self._keep_owners(self.rebalances[-1])

    def _keep_owners(self, rebalance: Rebalance) -> None:
        rebalance.owners = {queue: BESIDES.join(names) for queue, names in self.owners().items()}
        if self._everyone_owns_all:
            return  # nothing moves
        before = self.rebalances[-2].owners if len(self.rebalances) > 1 else {}
        rebalance.moved = sum(
            before.get(queue) != owner for queue, owner in rebalance.owners.items()
        )
