"""A check point of a pop is passed once its messages need it no more. Pure.

The broker's own group has read the check points up to the noted offset. A message of theirs that is
neither acknowledged nor stored for another delivery, both on the medium, would be hidden for ever.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from pocketmq.protocol.messages.receipts import pop_retry_topic
from pocketmq.protocol.messages.validation import REVIVE_GROUP, REVIVE_TOPIC_PREFIX, is_retry
from pocketmq.simulation.invariants.durability.consumer_offsets import offsets_of_group
from pocketmq.simulation.invariants.medium import Kept, Medium
from pocketmq.simulation.invariants.pop_records import (
    Marked,
    PopKey,
    ack_of,
    check_point_of,
)
from pocketmq.simulation.invariants.rule import DurabilityRule


class ReviveOffsetRule(DurabilityRule):
    """Follows each popped message to its ack or its next copy."""

    ABOUT = frozenset({"check points passed"})
    WORDS = "its check point was passed before its ack or its next copy was on the disk"

    def __init__(
        self, broker: str, medium: Medium, violations: list[str], seen: Counter[str]
    ) -> None:
        super().__init__(broker, medium, violations, seen)
        self._points: dict[int, dict[int, Marked]] = defaultdict(dict)
        """Revive queue -> offset -> a check point that is not passed."""
        self._passed: Counter[int] = Counter()
        """Revive queue -> offset below which all are passed."""
        self._acked: dict[PopKey, set[int]] = defaultdict(set)
        self._copies: Counter[tuple[str, str]] = Counter()
        """(retry topic, key) -> most retries of a copy."""
        self._message_at: dict[tuple[str, int, int], tuple[str, int]] = {}
        """(topic, queue, offset) -> key and number of retries."""

    def survives(self, record: Kept) -> None:
        point = check_point_of(record)
        acks = ack_of(record)
        if point is not None:
            if record.topic.startswith(REVIVE_TOPIC_PREFIX):
                self._points[record.queue_id][record.queue_offset] = point
        elif acks is not None:
            self._acked[acks.key].update(acks.offsets)
        else:
            key, topic, times = record.identity()
            self._message_at[topic, record.queue_id, record.queue_offset] = key, times
            if is_retry(topic):
                self._copies[topic, key] = max(self._copies[topic, key], times)

    def noted(self, path: str, content: bytes) -> None:
        for topic, queues in offsets_of_group(path, content, REVIVE_GROUP).items():
            for queue_id, last in queues.items():
                self._check(topic, queue_id, last + 1)  # it notes the last one that is settled

    def _check(self, topic: str, queue_id: int, to: int) -> None:
        points = self._points[queue_id]
        for offset in range(self._passed[queue_id], to):
            point = points.pop(offset, None)
            if point is None:
                continue  # it is an ack
            self.seen["check points passed"] += 1
            for each in point.offsets:
                if each not in self._acked[point.key] and not self._comes_again(point, each):
                    queue = point.key.queue
                    self.violated(f"{queue.topic} {queue.queue_id} offset {each} of "
                                  f"{queue.group}, by {last_of(topic, queue_id, to)}")  # fmt: skip
        self._passed[queue_id] = max(self._passed[queue_id], to)

    def _comes_again(self, point: Marked, offset: int) -> bool:
        group, topic, queue_id = point.key.queue
        message = self._message_at.get((topic, queue_id, offset))
        if message is None:
            return True  # it was deleted
        key, times = message
        copies = [topic] if is_retry(topic) else [
            pop_retry_topic(topic, group, v2=v2) for v2 in (False, True)
        ]  # fmt: skip
        return any(self._copies[each, key] > times for each in copies)


def last_of(topic: str, queue_id: int, to: int) -> str:
    """The words for a place of the revive topic."""
    return f"{topic} {queue_id} up to {to - 1}"
