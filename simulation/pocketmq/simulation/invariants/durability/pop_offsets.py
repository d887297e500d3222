"""A group's offset passes popped messages whose check point is on the medium, or that are done.

Nothing below the offset is popped again, so a message there that is hidden needs its check point.
Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.headers.pop import PopMessageRequestHeader
from pocketmq.simulation.invariants.durability.consumer_offsets import noted_offsets
from pocketmq.simulation.invariants.medium import Kept, Medium
from pocketmq.simulation.invariants.pop_records import PopQueue, acks_in, check_point_of
from pocketmq.simulation.invariants.rule import DurabilityRule


class PopOffsetRule(DurabilityRule):
    """Compares offsets of groups that pop with check points and acks."""

    ABOUT = frozenset({"popped messages passed"})
    WORDS = "passed by its group before its check point was on the disk"
    ASKED_MARKERS = (b"extraInfo", b"acks", b"invisibleTime")

    def __init__(
        self, broker: str, medium: Medium, violations: list[str], seen: Counter[str]
    ) -> None:
        super().__init__(broker, medium, violations, seen)
        self._popping: set[str] = set()
        """Groups that have popped."""
        self._covered: dict[PopQueue, set[int]] = defaultdict(set)
        """Offsets that have a check point, or that somebody acknowledged."""
        self._passed: Counter[PopQueue] = Counter()

    def asked(self, request: Command) -> None:
        if request.code == RequestCode.POP_MESSAGE:
            self._popping.add(request.header(PopMessageRequestHeader).consumer_group)
        elif request.code != RequestCode.CHANGE_MESSAGE_INVISIBLETIME:  # stores a check point
            for each in acks_in(request):
                self._covered[each.key.queue].update(each.offsets)

    def survives(self, record: Kept) -> None:
        point = check_point_of(record)
        if point is not None:
            self._covered[point.key.queue].update(point.offsets)

    def expired(self, topic: str, queue_id: int, min_offset: int) -> None:
        for group in self._popping:
            queue = PopQueue(group, topic, queue_id)
            self._passed[queue] = max(self._passed[queue], min_offset)

    def noted(self, path: str, content: bytes) -> None:
        for topic, group, queue_id, to in noted_offsets(path, content):
            if group not in self._popping:
                continue
            queue = PopQueue(group, topic, queue_id)
            for offset in range(self._passed[queue], to):
                self.seen["popped messages passed"] += 1
                if offset not in self._covered[queue]:
                    self.violated(f"{topic} {queue_id} offset {offset} of {group}, by {to}")
            self._passed[queue] = max(self._passed[queue], to)
