"""Queue locks of orderly consumers: RocketMQ's RebalanceLockManager (B-45 to B-50).

A lock lives for 60 s after its last renewal, in memory, on this broker only. It does not end with
its holder's connection: an orderly consumer that is killed keeps its queues that long.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pocketmq.protocol.messages.message import MessageQueue


class QueueLock:
    """Who holds a queue, and since when in the caller's monotonic seconds."""

    __slots__ = ("client_id", "renewed_at")

    def __init__(self, client_id: str, renewed_at: float) -> None:
        self.client_id = client_id
        self.renewed_at = renewed_at


@dataclass(slots=True)
class RebalanceLockManager:
    """group -> queue -> lock. O(queues asked for) per request."""

    lifetime_s: float = 60.0
    """`rocketmq.broker.rebalance.lockMaxLiveTime`; a lock is expired when it is *older* than it."""
    count: int = field(default=0, init=False)
    """Locks of all groups, expired ones too."""
    _table: dict[str, dict[MessageQueue, QueueLock]] = field(
        default_factory=dict, init=False, repr=False
    )

    def unknown(self, group: str, queues: Iterable[MessageQueue]) -> int:
        """How many of the queues nobody of the group has locked yet."""
        locks = self._table.get(group, {})
        return sum(queue not in locks for queue in queues)

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], now: float
    ) -> list[MessageQueue]:
        """The queues that `client_id` holds after this call: free, its own, or expired (B-46)."""
        locks = self._table.get(group, {})
        granted = []
        for queue in queues:
            lock = locks.get(queue)
            if lock is None:
                locks[queue] = QueueLock(client_id, now)
                self.count += 1
            elif lock.client_id == client_id or now - lock.renewed_at > self.lifetime_s:
                lock.client_id = client_id
                lock.renewed_at = now
            else:
                # Another client holds the lock: the answer leaves the queue out (B-46).
                continue
            granted.append(queue)
        if locks:
            self._table[group] = locks
        return granted

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Release those of the queues that `client_id` owns; others' locks stay (B-48)."""
        locks = self._table.get(group)
        if locks is None:
            return
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                del locks[queue]
                self.count -= 1
        if not locks:
            del self._table[group]

    def holder(self, group: str, queue: MessageQueue, now: float) -> str | None:
        """The client id that holds the queue's unexpired lock; None when nobody does."""
        lock = self._table.get(group, {}).get(queue)
        if lock is None or now - lock.renewed_at > self.lifetime_s:
            return None
        return lock.client_id

    def holds_live_lock(self, group: str, now: float) -> bool:
        """Whether any queue of the group is locked: the group consumes in order (B-86)."""
        locks = self._table.get(group)
        return locks is not None and any(
            now - lock.renewed_at <= self.lifetime_s for lock in locks.values()
        )

    def expire(self, now: float) -> None:
        """Forget expired locks, so that groups long gone take no memory."""
        for group in list(self._table):
            locks = self._table[group]
            for queue in [q for q, k in locks.items() if now - k.renewed_at > self.lifetime_s]:
                del locks[queue]
                self.count -= 1
            if not locks:
                del self._table[group]
