"""An ack of a popped message is answered when it, or its pop, needs nothing on the medium. Pure.

A check point that is on the medium brings its messages again, unless their acks are there, too. One
that is only in memory is lost in a power cut with its acks: the messages are popped anew.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.headers.pop import ChangeInvisibleTimeResponseHeader
from pocketmq.simulation.invariants.medium import Kept, Medium
from pocketmq.simulation.invariants.pop_records import (
    PopKey,
    ack_of,
    acks_in,
    check_point_of,
)
from pocketmq.simulation.invariants.rule import DurabilityRule


class AckRule(DurabilityRule):
    """Compares answers to acks and to changes of invisible times with the records of pops."""

    ABOUT = frozenset({"answered acks", "answered changes of invisible times"})
    WORDS = "answered before its records were on the disk"
    MARKERS = (b"extraInfo", b"acks")

    def __init__(
        self, broker: str, medium: Medium, violations: list[str], seen: Counter[str]
    ) -> None:
        super().__init__(broker, medium, violations, seen)
        self._points: set[PopKey] = set()
        self._acked: dict[PopKey, set[int]] = defaultdict(set)

    def survives(self, record: Kept) -> None:
        point, acks = check_point_of(record), ack_of(record)
        if point is not None:
            self._points.add(point.key)
        elif acks is not None:
            self._acked[acks.key].update(acks.offsets)

    def answered(self, request: Command | None, answer: Command) -> None:
        if request is None or answer.code != ResponseCode.SUCCESS:
            return
        changes = request.code == RequestCode.CHANGE_MESSAGE_INVISIBLETIME
        for acks in acks_in(request):
            about = "answered changes of invisible times" if changes else "answered acks"
            self.seen[about] += 1
            (group, topic, queue_id), offsets = acks.key.queue, acks.offsets
            missing = [each for each in offsets if each not in self._acked[acks.key]]
            if missing and acks.key in self._points:
                self.violated(f"the ack of {topic} {queue_id} offsets {missing} by {group}")
            if changes:
                popped_ms = answer.header(ChangeInvisibleTimeResponseHeader).pop_time
                if PopKey(acks.key.queue, offsets[0], popped_ms) not in self._points:
                    self.violated(f"the new time of {topic} {queue_id} offset {offsets[0]}")
