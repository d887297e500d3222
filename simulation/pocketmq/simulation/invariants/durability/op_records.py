"""An op record is passed after the half messages that it names. Pure.

It says that they are committed or rolled back. If it is passed first, a restart finds them
undecided: their producer is asked, and may commit them a second time.
"""

from __future__ import annotations

from collections import Counter

from pocketmq.protocol.messages.validation import HALF_TOPIC, OP_HALF_TOPIC
from pocketmq.simulation.invariants.durability.consumer_offsets import offsets_of_group
from pocketmq.simulation.invariants.durability.half_messages import GROUP
from pocketmq.simulation.invariants.medium import Kept, Medium
from pocketmq.simulation.invariants.rule import DurabilityRule


class OpRecordRule(DurabilityRule):
    """Compares the progress in op records with that in half messages."""

    ABOUT = frozenset({"op records passed"})
    WORDS = "the op record that names it was passed before it"

    def __init__(
        self, broker: str, medium: Medium, violations: list[str], seen: Counter[str]
    ) -> None:
        super().__init__(broker, medium, violations, seen)
        self._named: dict[tuple[int, int], list[int]] = {}
        """(queue, offset of an op record) -> half messages that it names."""
        self._last_op: dict[tuple[int, int], int] = {}
        """(queue, offset of a half message) -> the last op record that names it."""
        self._passed: Counter[int] = Counter()
        """Queue -> offset below which op records are passed."""

    def survives(self, record: Kept) -> None:
        if record.topic != OP_HALF_TOPIC:
            return
        text = bytes(record.message.body).decode()
        halves = [int(part) for part in text.split(",") if part]
        self._named[record.queue_id, record.queue_offset] = halves
        for half in halves:
            self._last_op[record.queue_id, half] = record.queue_offset

    def noted(self, path: str, content: bytes) -> None:
        noted = offsets_of_group(path, content, GROUP)
        for queue_id, to in noted.get(OP_HALF_TOPIC, {}).items():
            halves_to = noted.get(HALF_TOPIC, {}).get(queue_id, 0)
            for op in range(self._passed[queue_id], to):
                self.seen["op records passed"] += 1
                for half in self._named.pop((queue_id, op), ()):
                    if half >= halves_to and self._last_op[queue_id, half] < to:
                        self.violated(
                            f"half message {half} of queue {queue_id}, of which {halves_to} are "
                            f"passed, and op record {op}"
                        )
            self._passed[queue_id] = max(self._passed[queue_id], to)
