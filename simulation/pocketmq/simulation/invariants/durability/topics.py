"""Acknowledged messages and changes of a topic need the topic table on the medium. Pure.

Messages of a topic that is unknown after a restart cannot be consumed. Like RocketMQ's, a broker
that cannot write its table continues to serve; its answers after the error are not checked.
"""

from __future__ import annotations

from collections import Counter

from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.headers.topics import UpdateAndCreateTopicRequestHeader
from pocketmq.protocol.messages.properties import REAL_QUEUE_ID, REAL_TOPIC
from pocketmq.protocol.messages.validation import SCHEDULE_TOPIC
from pocketmq.simulation.invariants.durability.sends import stored_at
from pocketmq.simulation.invariants.medium import Kept, Medium, table_of
from pocketmq.simulation.invariants.rule import DurabilityRule

FILE = "topics.json"


class TopicRule(DurabilityRule):
    """Compares answers about topics with `topics.json`."""

    ABOUT = frozenset({"topic tables kept", "answered topic changes"})
    WORDS = "acknowledged before the topic table was on the disk"
    MARKERS = (b"readQueueNums",)
    ANSWER_MARKERS = (b"msgId",)

    def __init__(
        self, broker: str, medium: Medium, violations: list[str], seen: Counter[str]
    ) -> None:
        super().__init__(broker, medium, violations, seen)
        self._queues: dict[str, int] = {}
        """Topic -> number of queues after a restart."""
        self._could_not_save = False

    def kept(self, path: str, content: bytes | bytearray) -> None:
        if path.endswith("/" + FILE):
            self.seen["topic tables kept"] += 1
            self._could_not_save = False
            table = table_of(content).get("topicConfigTable", {})
            self._queues = {name: topic["writeQueueNums"] for name, topic in table.items()}

    def failed(self, path: str) -> None:
        # Before its first save a new process syncs the name of its `config` directory.
        self._could_not_save |= f"/{FILE}" in path or path == f"/{self.broker}"

    def answered(self, request: Command | None, answer: Command) -> None:
        for offset in stored_at(answer):
            record = self.medium.by_start.get(offset)
            if record is not None:
                self._check(*_place(record))
        if request is None or request.code != RequestCode.UPDATE_AND_CREATE_TOPIC:
            return
        if answer.code == ResponseCode.SUCCESS:
            self.seen["answered topic changes"] += 1
            header = request.header(UpdateAndCreateTopicRequestHeader)
            self._check(header.topic, header.write_queue_nums - 1)

    def _check(self, topic: str, queue_id: int) -> None:
        known = self._queues.get(topic, 0)
        if queue_id < known:
            return
        if self._could_not_save:
            self.at_risk.add((topic, queue_id))
        else:
            self.violated(f"queue {queue_id} of {topic}, of which {known} queues are noted")


def _place(record: Kept) -> tuple[str, int]:
    if record.topic != SCHEDULE_TOPIC:
        return record.topic, record.queue_id
    properties = record.message.properties
    return properties.get(REAL_TOPIC, ""), int(properties.get(REAL_QUEUE_ID, "0"))
