"""After retention a queue begins at its first message (S-73).

A broker removes a file of its log, then has its queues follow. A disk in trouble may keep it from
that for a while; what consumers then miss has expired all the same.
"""

from __future__ import annotations

from pocketmq.protocol.messages.message import MessageQueue

LIMIT_S = 60.0
"""A disk is in trouble for at most half of it, and a broker cleans up every 10 s."""


class QueueStarts:
    """Queues whose own minimum is before their first message.

    Args:
        violations: Gets a line for each that stays so.
    """

    def __init__(self, violations: list[str]) -> None:
        self._violations = violations
        self._behind: dict[MessageQueue, tuple[int, float]] = {}

    @property
    def is_open(self) -> bool:
        """Whether a queue is to follow."""
        return bool(self._behind)

    def at(self, broker: str) -> list[MessageQueue]:
        """The queues of a broker that are to follow."""
        return [queue for queue in self._behind if queue.broker_name == broker]

    def expired(self, queue: MessageQueue, begins: int, first: int, now: float) -> None:
        """What was before offset `first` was removed, and the queue says that it begins there."""
        if begins < first:
            _, since = self._behind.get(queue, (first, now))
            self._behind[queue] = (first, since)

    def begins_at(self, queue: MessageQueue, begins: int, now: float) -> None:
        """What a queue says now."""
        first, since = self._behind[queue]
        if begins >= first:
            del self._behind[queue]
        elif now - since > LIMIT_S:
            self._violations.append(
                f"{now:.3f} after retention {queue} begins at {begins}, "
                f"its first message is {first}"
            )

    def restarted(self, broker: str) -> None:
        """A new process finds by itself where its queues begin."""
        for queue in self.at(broker):
            del self._behind[queue]
