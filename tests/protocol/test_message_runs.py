"""Several received messages at once are as each of them by itself."""

from __future__ import annotations

import re

import pytest

from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.message_runs import any_stores, note_on_each, noted_alike_until
from pocketmq.protocol.store_layout import MAGIC_V1, MAGIC_V2
from pocketmq.protocol.stored.record import decode_records
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


def popped(count: int, note: object) -> list[MessageExt]:
    """Messages of one answer that share a note, as those of one pop and queue do."""
    messages = received(*[b"A\x011\x02"] * count)
    note_on_each(messages, {"NOTE": note})
    return messages


@pytest.mark.parametrize("at", range(4))
def test_messages_with_one_note_are_alike_up_to_the_last(at: int) -> None:
    assert noted_alike_until(popped(4, "n"), at, "NOTE") == 4


@pytest.mark.parametrize("at", range(6))
def test_messages_with_another_note_are_not_alike(at: int) -> None:
    messages = popped(2, "n") + popped(1, "other") + popped(3, "n too")
    assert noted_alike_until(messages, at, "NOTE") == (2, 2, 3, 6, 6, 6)[at]


def test_messages_with_more_notes_are_alike_while_the_one_asked_for_is_the_same() -> None:
    messages = popped(5, "n")
    messages[1].note("SEEN", "once")
    messages[2].note("SEEN", "twice")
    messages[4].note("NOTE", "changed")
    assert noted_alike_until(messages, 0, "NOTE") == 4
    assert noted_alike_until(messages, 1, "NOTE") == 4
    assert noted_alike_until(messages, 1, "SEEN") == 2


def test_a_message_without_the_note_is_alone_and_ends_a_run() -> None:
    messages = popped(2, "n") + received(b"A\x011\x02", b"A\x011\x02") + popped(2, "n")
    assert [noted_alike_until(messages, at, "NOTE") for at in range(6)] == [2, 2, 3, 4, 6, 6]
    assert [noted_alike_until(messages, at, "OTHER") for at in range(6)] == [1, 2, 3, 4, 5, 6]


def test_a_message_whose_properties_were_read_is_alone_and_ends_a_run() -> None:
    messages = popped(4, "n")
    messages[2].properties["NOTE"] = "changed by whoever read it"
    assert [noted_alike_until(messages, at, "NOTE") for at in range(4)] == [2, 2, 3, 4]


def test_a_message_of_another_topic_ends_a_run() -> None:
    messages = popped(4, "n")
    messages[2].topic = "another"
    assert [noted_alike_until(messages, at, "NOTE") for at in range(4)] == [2, 2, 3, 4]
