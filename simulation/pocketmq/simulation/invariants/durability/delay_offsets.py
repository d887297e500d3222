"""`delayOffset.json` counts a delayed message as delivered once its copy is on the medium. Pure.

After a restart, no message below the stored offset is delivered again (B-94).
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque

from pocketmq.protocol.messages.properties import REAL_TOPIC
from pocketmq.protocol.messages.validation import SCHEDULE_TOPIC
from pocketmq.simulation.invariants.medium import Identity, Kept, Medium, table_of
from pocketmq.simulation.invariants.progress import Done
from pocketmq.simulation.invariants.rule import DurabilityRule

FILE = "delayOffset.json"


class DelayOffsetRule(DurabilityRule):
    """Follows each delayed message to its copy."""

    ABOUT = frozenset({"delay offsets noted"})
    WORDS = "noted as delivered before its copy was on the disk"

    def __init__(
        self, broker: str, medium: Medium, violations: list[str], seen: Counter[str]
    ) -> None:
        super().__init__(broker, medium, violations, seen)
        self._waiting: dict[Identity, deque[tuple[int, int]]] = defaultdict(deque)
        self._delivered: dict[int, Done] = defaultdict(Done)
        """Queue of the schedule topic -> offsets whose copies are stored."""

    def survives(self, record: Kept) -> None:
        if record.topic == SCHEDULE_TOPIC:
            goes_to = record.identity(record.message.properties.get(REAL_TOPIC))
            self._waiting[goes_to].append((record.queue_id, record.queue_offset))
            return
        waiting = self._waiting.get(record.identity())
        while waiting:
            queue_id, offset = waiting.popleft()
            delivered = self._delivered[queue_id]
            if offset >= delivered.first_left:  # otherwise it has expired
                delivered.add(offset)
                break

    def expired(self, topic: str, queue_id: int, min_offset: int) -> None:
        if topic == SCHEDULE_TOPIC:
            self._delivered[queue_id].skip_to(min_offset)

    def noted(self, path: str, content: bytes) -> None:
        if not path.endswith("/" + FILE):
            return
        for level, offset in table_of(content).get("offsetTable", {}).items():
            first_left = self._delivered[int(level) - 1].first_left
            self.seen["delay offsets noted"] += 1
            if offset > first_left:
                self.violated(f"level {level} to {offset}, of which {first_left} is not safe")
