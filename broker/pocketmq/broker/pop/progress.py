"""How far each queue was handed out beyond its committed offset, and how much is in flight."""

from __future__ import annotations

QueueOf = tuple[str, str, int]
"""Group, topic, queue id."""


class PopProgress:
    """Where the next pop of a queue begins while the last check point is not yet on the disk.

    A group's committed offset must not pass messages whose check point a power cut could take.

    Args:
        since_ms: when the broker started; what was popped before is not counted as in flight.
    """

    def __init__(self, since_ms: int = 0) -> None:
        self._since_ms = since_ms
        self._ahead: dict[QueueOf, int] = {}
        self._in_flight: dict[QueueOf, int] = {}

    def begin(self, key: QueueOf, committed: int) -> int:
        """Where to read from."""
        # Never hand out again what is handed out already (K-34).
        return max(committed, self._ahead.get(key, committed))

    def is_ahead(self, key: QueueOf) -> bool:
        """Whether a check point of the queue is not yet on the disk."""
        return key in self._ahead

    def ahead(self, key: QueueOf) -> int | None:
        """How far the queue is handed out, if that is not yet the committed offset."""
        return self._ahead.get(key)

    def is_handed_out(self, key: QueueOf, next_offset: int) -> bool:
        """Whether the queue is still handed out so far: nothing was reset or deleted meanwhile."""
        return self._ahead.get(key, -1) >= next_offset

    def taken_back(self, key: QueueOf, ahead: int | None, count: int) -> None:
        """What was handed out last was not: its check point could not be stored.

        Args:
            key: of the queue.
            ahead: what `ahead` said before.
            count: of the messages.
        """
        if ahead is None:
            self._ahead.pop(key, None)
        else:
            self._ahead[key] = ahead
        self.returned(key, self._since_ms, count)

    def handed_out(self, key: QueueOf, next_offset: int, count: int) -> None:
        """Messages below `next_offset` were handed out."""
        # The offset must not move back.
        self._ahead[key] = max(next_offset, self._ahead.get(key, 0))
        self._in_flight[key] = self._in_flight.get(key, 0) + count

    def committed(self, key: QueueOf, offset: int) -> None:
        """The group's committed offset has reached it."""
        if self._ahead.get(key, offset) <= offset:
            self._ahead.pop(key, None)

    def returned(self, key: QueueOf, popped_ms: int, count: int = 1) -> None:
        """Messages of a pop at that time were acknowledged, or are delivered again (K-146)."""
        # Messages popped before the broker started were never counted (K-146).
        if popped_ms < self._since_ms:
            return
        left = self._in_flight.get(key, 0) - count
        if left > 0:
            self._in_flight[key] = left
        else:
            self._in_flight.pop(key, None)

    def in_flight(self, key: QueueOf) -> int:
        """Number of messages handed out since the broker started and not acknowledged (K-146)."""
        return self._in_flight.get(key, 0)

    def reset(self, key: QueueOf) -> None:
        """The group's offset was reset by a tool."""
        self._ahead.pop(key, None)
        self._in_flight.pop(key, None)

    def forget(self) -> None:
        """This broker is a slave now: what it handed out, another one may hand out."""
        self._ahead.clear()
        self._in_flight.clear()

    def forget_group(self, group: str, *, with_offsets: bool) -> None:
        """The group was deleted; with its offsets kept, it goes on behind what was handed out."""
        for table in (self._ahead, self._in_flight) if with_offsets else (self._in_flight,):
            for key in [key for key in table if key[0] == group]:
                del table[key]

    def forget_topic(self, topic: str) -> None:
        """The topic was deleted."""
        for table in (self._ahead, self._in_flight):
            for key in [key for key in table if key[1] == topic]:
                del table[key]
