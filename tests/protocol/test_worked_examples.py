"""The worked examples that modules open with are what the code does."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import cast

from pocketmq.protocol import dispatch, frame
from pocketmq.protocol.codes import LanguageCode, RequestCode, ResponseCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.errors import IllegalMessageError
from pocketmq.protocol.messages import message, properties, subscription
from pocketmq.protocol.messages.message import Message
from pocketmq.protocol.messages.properties import decode_properties, encode_properties
from pocketmq.protocol.messages.subscription import SubscriptionData, tags_code
from pocketmq.protocol.stored import record
from pocketmq.protocol.stored.record import encode_record, pack_host
from support.worked_examples import rows


def example(module_file: str) -> bytes:
    """The bytes at the left of the indented lines in a module's docstring."""
    text = ast.get_docstring(ast.parse(Path(module_file).read_text())) or ""
    rows = re.findall(r"^ {4}((?:[0-9a-f]{2,} ?)+) {2,}\S", text, re.MULTILINE)
    return bytes.fromhex("".join(rows))


def test_the_frame_in_frame_py_is_what_encode_frame_makes() -> None:  # E-1, E-4
    command = Command(
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        {"topic": "T"},
        b"B",
        opaque=9,
        remark="hi",
        encoding=Encoding.ROCKETMQ,
        language=LanguageCode.JAVA,
        version=399,
    )
    assert b"".join(frame.encode_frame(command)) == example(frame.__file__)


def test_the_record_in_record_py_is_what_encode_record_makes() -> None:  # S-5
    made = encode_record(
        topic=b"TopicA",
        queue_id=1,
        flag=0,
        queue_offset=2,
        physical_offset=3,
        sys_flag=0,
        born_timestamp_ms=4,
        born_host=pack_host("127.0.0.1", 1),
        store_timestamp_ms=5,
        store_host=pack_host("127.0.0.1", 10911),
        reconsume_times=0,
        prepared_transaction_offset=0,
        body=b"hello",
        properties=b"k\x01v\x02",
    )
    assert made == example(record.__file__)


def test_the_tags_in_subscription_py_are_matched_as_it_says() -> None:  # S-31, C-41
    wanted = SubscriptionData.parse("orders", "Aa || new", 1)

    def row(tag: str) -> list[str]:
        code = tags_code(None if tag == "-" else tag)
        is_sent = wanted.matches(code)
        is_handed_over = is_sent and wanted.matches_tag(None if tag == "-" else tag)
        return [tag, str(code), *("yes" if each else "no" for each in (is_sent, is_handed_over))]

    shown = rows(subscription, "tag ")
    assert shown == [row(cells[0]) for cells in shown]
    assert [cells[2:] for cells in shown].count(["yes", "no"]) == 1  # two tags with one hash


def test_the_properties_in_properties_py_are_written_and_read_so() -> None:  # S-6
    given = {"TAGS": "new", "KEYS": "order-17 ann"}
    text = encode_properties(given)
    assert decode_properties(text) == given
    written = text.replace("\x01", " 0x01 ").replace("\x02", " 0x02 ").strip()
    read = "{" + ", ".join(f"{name}: {value}" for name, value in given.items()) + "}"
    assert f"    {written}        {read}\n" in (properties.__doc__ or "")


def test_the_message_in_message_py_has_these_properties() -> None:
    sent = Message("orders", b"hello", tags="new", keys=["order-17", "ann"])
    lines = dict(rows(message, 'sent = Message("orders", b"hello", tags="new", keys='))
    assert lines["sent.properties"] == str(sent.properties)


def test_the_requests_in_dispatch_py_are_answered_as_it_says() -> None:  # E-8
    class Somebody:
        address = "10.0.0.1:7"

    class Processors:
        @dispatch.handles_batch(RequestCode.SEND_MESSAGE_V2)
        def send(self, peers: object, requests: list[Command]) -> list[dispatch.Reply]:
            return [request.reply() for request in requests]

        @dispatch.handles(RequestCode.PULL_MESSAGE)
        def pull(self, peer: object, request: Command) -> dispatch.Reply:
            return None

        @dispatch.handles(RequestCode.VIEW_MESSAGE_BY_ID)
        def view(self, peer: object, request: Command) -> dispatch.Reply:
            raise IllegalMessageError("no such message")

    table, peer = dispatch.Dispatcher(), cast("dispatch.Peer", Somebody())
    table.add(Processors())
    sends = [Command(RequestCode.SEND_MESSAGE_V2, opaque=number) for number in (1, 2)]
    assert len(table.process_batch([peer, peer], sends)) == 2
    assert table.process(peer, Command(RequestCode.PULL_MESSAGE)) is None
    refused = table.process(peer, Command(RequestCode.VIEW_MESSAGE_BY_ID))
    unknown = table.process(peer, Command(9999))
    assert isinstance(refused, Command)
    assert isinstance(unknown, Command)
    assert (refused.code, refused.remark) == (IllegalMessageError.code, "no such message")
    assert unknown.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert [cells[1] for cells in rows(dispatch, "from ")] == [
        "SEND_MESSAGE_V2 (310)",
        "SEND_MESSAGE_V2 (310)",
        "PULL_MESSAGE (11)",
        "VIEW_MESSAGE_BY_ID (33)",
        "9999",
    ]
