"""The checkpoint's durable offset is never beyond what is on the medium (S-53, S-54). Pure.

Recovery reads the log from that offset on, so a record or queue entry missing below it is lost.
"""

from __future__ import annotations

from collections import Counter
from struct import Struct

from pocketmq.simulation.invariants.medium import Kept, Medium
from pocketmq.simulation.invariants.rule import DurabilityRule

DURABLE = Struct(">q")
DURABLE_AT = 72
"""Behind RocketMQ's six numbers, the entries and the boot id (docs/store-files.md)."""
ENTRY = Struct(">qiq")
"""An entry of a consume queue: log offset, size, tags code (S-30)."""


class CheckpointRule(DurabilityRule):
    """Compares each checkpoint with the log and the queues' entries."""

    ABOUT = frozenset({"checkpoints noted", "queue entries confirmed"})
    WORDS = "confirmed before it was on the disk"

    def __init__(
        self, broker: str, medium: Medium, violations: list[str], seen: Counter[str]
    ) -> None:
        super().__init__(broker, medium, violations, seen)
        self._checked = 0
        """Number of records whose queue entries were checked."""
        self._least: dict[tuple[str, int], int] = {}

    def expired(self, topic: str, queue_id: int, min_offset: int) -> None:
        self._least[topic, queue_id] = min_offset

    def noted(self, path: str, content: bytes) -> None:
        if path != self.medium.path("checkpoint") or not content:
            return
        (confirmed,) = DURABLE.unpack_from(content, DURABLE_AT)
        self.seen["checkpoints noted"] += 1
        if confirmed > self.medium.log_end:
            self.violated(f"log offset {confirmed}, the log is safe to {self.medium.log_end}")
            return
        records = self.medium.records
        while self._checked < len(records) and records[self._checked].end <= confirmed:
            record = records[self._checked]
            self._checked += 1
            self.seen["queue entries confirmed"] += 1
            if not self._has_entry(record):
                self.violated(f"{record.topic} {record.queue_id} offset {record.queue_offset}, "
                              f"by {confirmed}")  # fmt: skip

    def _has_entry(self, record: Kept) -> bool:
        queue = record.topic, record.queue_id
        if record.queue_offset < self._least.get(queue, 0):
            return True
        at = record.queue_offset * ENTRY.size
        folder = self.medium.path("consumequeue", record.topic, str(record.queue_id))
        place = self.medium.file_of(folder, at)
        if place is None:
            return False
        found, size, _ = ENTRY.unpack_from(place[1], at - place[0])
        return bool(found == record.start and size == record.end - record.start)
