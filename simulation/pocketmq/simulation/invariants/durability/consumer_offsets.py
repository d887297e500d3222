"""`consumerOffset.json` has no offset beyond the messages in the log. Pure.

With a larger offset, the group would skip messages that are stored after a power cut.
"""

from __future__ import annotations

from collections.abc import Iterator

from pocketmq.simulation.invariants.medium import table_of
from pocketmq.simulation.invariants.rule import DurabilityRule

FILE = "consumerOffset.json"


class ConsumerOffsetRule(DurabilityRule):
    """Compares stored offsets with the queues' surviving records."""

    ABOUT = frozenset({"consumer offsets noted"})
    WORDS = "noted as consumed before its messages were on the disk"

    def noted(self, path: str, content: bytes) -> None:
        for topic, group, queue_id, offset in noted_offsets(path, content):
            self.seen["consumer offsets noted"] += 1
            end = self.medium.queue_ends.get((topic, queue_id), 0)
            if offset > end:
                self.violated(f"{topic}@{group} {queue_id} to {offset}, the log has {end}")


def noted_offsets(path: str, content: bytes) -> Iterator[tuple[str, str, int, int]]:
    """Topic, group, queue and offset of each entry, if the file is `consumerOffset.json`."""
    if not path.endswith("/" + FILE):
        return
    for key, offsets in table_of(content).get("offsetTable", {}).items():
        topic, _, group = key.partition("@")
        for queue_id, offset in offsets.items():
            yield topic, group, int(queue_id), offset


def offsets_of_group(path: str, content: bytes, group: str) -> dict[str, dict[int, int]]:
    """Topic -> queue -> offset of one group, as `noted_offsets` finds them."""
    found: dict[str, dict[int, int]] = {}
    for topic, owner, queue_id, offset in noted_offsets(path, content):
        if owner == group:
            found.setdefault(topic, {})[queue_id] = offset
    return found
