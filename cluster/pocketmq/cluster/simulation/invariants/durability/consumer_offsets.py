"""`consumerOffset.json` has no offset beyond the messages in the log. Pure.

With a larger offset, the group would skip messages that are stored after a power cut.
"""

from __future__ import annotations

from pocketmq.cluster.simulation.invariants.medium import table_of
from pocketmq.cluster.simulation.invariants.rule import DurabilityRule

FILE = "consumerOffset.json"


class ConsumerOffsetRule(DurabilityRule):
    """Compares stored offsets with the queues' surviving records."""

    ABOUT = frozenset({"consumer offsets noted"})
    WORDS = "noted as consumed before its messages were on the disk"

    def noted(self, path: str, content: bytes) -> None:
        if not path.endswith("/" + FILE):
            return
        for key, offsets in table_of(content).get("offsetTable", {}).items():
            topic = key.partition("@")[0]
            for queue_id, offset in offsets.items():
                self.seen["consumer offsets noted"] += 1
                end = self.medium.queue_ends.get((topic, int(queue_id)), 0)
                if offset > end:
                    self.violated(f"{key} {queue_id} to {offset}, the log has {end}")
