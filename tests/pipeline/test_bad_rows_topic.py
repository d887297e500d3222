"""Bad rows of a write as messages of a topic, which the write may send to as well."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from pocketmq.pipeline.columns.repeats import ROW_PROPERTY
from pocketmq.pipeline.sending.bad_rows import BadRow
from pocketmq.pipeline.sending.bad_rows_topic import BadRowTopic
from pocketmq.pipeline.sending.sender import Sender
from pocketmq.pipeline.sending.sink_rows import Batch
from pocketmq.protocol.errors import IllegalMessageError
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.properties import decode_properties


class FakeSender:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, dict[str, str]]] = []

    def uniq_keys(self) -> Any:
        return lambda: "id"

    def queues_of(self, topic: str) -> list[MessageQueue]:
        return [MessageQueue(topic, "broker-a", 0)]

    def send(self, batch: Batch) -> None:
        body, text = batch.first
        self.sent.append((body, decode_properties(text)))


def refused(sender: FakeSender) -> BadRow:
    """Its last message, as the sender gives it when a broker has refused it."""
    body, properties = sender.sent[-1]
    number = int(properties.pop(ROW_PROPERTY).split(":")[3])
    properties = {name: properties[name] for name in properties if name == names.KEYS}
    return BadRow(number, "MESSAGE_ILLEGAL", "Bad", body, properties)


@pytest.fixture
def sender() -> FakeSender:
    return FakeSender()


@pytest.fixture
def topic(sender: FakeSender) -> BadRowTopic:
    return BadRowTopic(cast(Sender, sender), "Bad", "w:0:0:", 0)


@pytest.mark.parametrize(
    ("body", "keys"),
    [(None, "row-3"), (b"", "row-3"), (b"no JSON", "row-3"), (b'{"reason":1}', "k3")],
)
def test_a_bad_row_of_a_write_to_the_same_topic_is_told_as_any_other(
    sender: FakeSender, topic: BadRowTopic, body: bytes | None, keys: str
) -> None:
    topic.add(BadRow(3, "its body is empty", "Bad", body, {names.KEYS: keys}))
    ((message, properties),) = sender.sent
    told = json.loads(message)
    assert (told["row"], told["topic"], told["reason"]) == (3, "Bad", "its body is empty")
    assert properties[names.KEYS] == "row-3"
    assert topic.count == 1


def test_a_message_that_is_refused_is_sent_without_the_body_and_then_an_error(
    sender: FakeSender, topic: BadRowTopic
) -> None:
    topic.add(BadRow(3, "too large", "T", b"x" * 100, {names.KEYS: "k"}))
    topic.add(refused(sender))
    assert [json.loads(body)["body"] is None for body, _ in sender.sent] == [False, True]
    with pytest.raises(IllegalMessageError, match="it tells of a bad row"):
        topic.add(refused(sender))
    assert topic.count == 1
