"""Several received messages at once are as each of them by itself."""

from __future__ import annotations

import re

import pytest

from pocketmq.protocol.message import MessageExt
from pocketmq.protocol.message_runs import any_stores, note_on_each
from pocketmq.protocol.record import decode_records
from pocketmq.protocol.store_layout import MAGIC_V1, MAGIC_V2
from support.strategies import RecordFields


def received(*properties: bytes) -> list[MessageExt]:
    """Messages with these properties, out of one answer."""
    records = [RecordFields(body=b"IN_BODY\x01", properties=each).encode() for each in properties]
    return decode_records(b"".join(records))


@pytest.mark.parametrize(
    ("name", "is_stored"),
    [(b"A", True), (b"B", True), (b"C", False), (b"IN_BODY", False)],
)
def test_a_property_of_one_of_them_is_found(name: bytes, is_stored: bool) -> None:
    messages = received(b"A\x011\x02", b"B\x012\x02")
    assert any_stores(messages, re.compile(name + b"\x01")) is is_stored
    assert any_stores([], re.compile(name)) is False


def test_a_note_is_a_property_of_each() -> None:
    messages = received(b"A\x011\x02", b"A\x012\x02", b"A\x013\x02")
    assert messages[0].properties["A"] == "1"  # of this one they were read before
    messages[1].note_all({"EARLIER": "e"})
    note_on_each(messages, {"NOTE": "n"})
    assert [message.properties["NOTE"] for message in messages] == ["n"] * 3
    assert [message.properties["A"] for message in messages] == ["1", "2", "3"]
    assert ["EARLIER" in message.properties for message in messages] == [False, True, False]


@pytest.mark.parametrize(("length", "magic"), [(127, MAGIC_V1), (128, MAGIC_V2)])
def test_a_topic_of_128_bytes_needs_the_second_version(length: int, magic: int) -> None:  # S-5
    record = RecordFields(topic=b"t" * length).encode()
    assert int.from_bytes(record[4:8], "big", signed=True) == magic
    [message] = decode_records(record)
    assert message.topic == "t" * length
