"""CONSUMER_SEND_MSG_BACK (36) is answered with success when the copy is on the medium. Pure.

After that answer the consumer commits an offset behind the message, so only the copy is left.
"""

from __future__ import annotations

from collections import Counter

from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.headers.send import ConsumerSendMsgBackRequestHeader
from pocketmq.protocol.messages.properties import REAL_TOPIC
from pocketmq.protocol.messages.validation import SCHEDULE_TOPIC, dlq_topic, retry_topic
from pocketmq.simulation.invariants.medium import Identity, Kept, Medium
from pocketmq.simulation.invariants.rule import DurabilityRule


class SendBackRule(DurabilityRule):
    """Compares the number of copies of each failed delivery with that of answers."""

    ABOUT = frozenset({"answered send-backs"})
    WORDS = "its send-back was acknowledged before the copy was on the disk"
    MARKERS = (b"originMsgId",)

    def __init__(
        self, broker: str, medium: Medium, violations: list[str], seen: Counter[str]
    ) -> None:
        super().__init__(broker, medium, violations, seen)
        self._copies: Counter[Identity] = Counter()
        self._answered: Counter[Identity] = Counter()

    def survives(self, record: Kept) -> None:
        if record.topic == SCHEDULE_TOPIC:
            self._copies[record.identity(record.message.properties.get(REAL_TOPIC))] += 1
        else:
            self._copies[record.identity()] += 1

    def answered(self, request: Command | None, answer: Command) -> None:
        if request is None or request.code != RequestCode.CONSUMER_SEND_MSG_BACK:
            return
        if answer.code != ResponseCode.SUCCESS:
            return
        header = request.header(ConsumerSendMsgBackRequestHeader)
        failed = self.medium.by_start.get(header.offset)
        if failed is None:
            return  # it was deleted by retention, or stored before the run
        self.seen["answered send-backs"] += 1
        key, _, times = failed.identity()
        retry = Identity(key, retry_topic(header.group), times + 1)
        dead = Identity(key, dlq_topic(header.group), times + 1)
        self._answered[retry] += 1
        if self._answered[retry] > self._copies[retry] + self._copies[dead]:
            self.violated(f"{bytes(failed.message.body).decode()} failed at {times} retries")
