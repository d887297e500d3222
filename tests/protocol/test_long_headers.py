"""Headers over `budget.header_bytes` are answered with a code, and cost no memory."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import pytest

from pocketmq.protocol.budget import Budget
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import FLAG_ONEWAY, FLAG_RESPONSE, Command, Encoding
from pocketmq.protocol.frame import FrameDecoder
from pocketmq.protocol.headers.pull import PullMessageRequestHeader
from pocketmq.protocol.transport.tcp import TcpNetwork
from support.cost import cost_s, peak_bytes, slowest_s
from support.own_logs import own_logs
from support.wire_pair import Echo, RawPeer, Word, frame_bytes, raw_frame, request_bytes, served

LIMIT = 1000


@pytest.fixture(params=list(Encoding), ids=lambda each: each.name)
def encoding(request: pytest.FixtureRequest) -> Encoding:
    """Each way to write a header."""
    found: Encoding = request.param
    return found


def long_request(
    encoding: Encoding, *, opaque: int = 77, flag: int = 0, size: int = LIMIT
) -> bytes:
    return request_bytes(word="x" * size, body=b"body", opaque=opaque, flag=flag, encoding=encoding)


@pytest.mark.parametrize("step", [1, 7, 500, 5000])
@pytest.mark.parametrize("opaque", [0, 77, 200, 40_000, 2**31 - 1, -5, -100, -1000, -(2**31)])
def test_it_is_passed_over_wherever_the_stream_is_cut(
    encoding: Encoding, opaque: int, step: int
) -> None:
    short = request_bytes(word="short", opaque=3, encoding=encoding)
    stream = short + long_request(encoding, opaque=opaque) + short
    decoder = FrameDecoder(max_header_bytes=LIMIT)
    read = []
    for at in range(0, len(stream), step):
        read += decoder.feed(stream[at : at + step])
    assert (decoder.failure, decoder.pending_bytes) == (None, 0)
    assert [command.header(Word).word for command in read] == ["short"] * 2
    [refused] = decoder.too_long
    assert (refused.request.opaque, refused.request.code) == (opaque, read[0].code)
    assert refused.request.encoding is encoding
    assert "is over the limit of 1000 (budget.header_bytes)" in str(refused.error)


async def test_its_sender_is_told_and_may_go_on(encoding: Encoding) -> None:
    async with served(TcpNetwork(), Echo(Budget(header_bytes=LIMIT)).dispatcher) as (_, address):
        peer = await RawPeer.connect(address)
        with own_logs() as logs:
            peer.say(long_request(encoding) + request_bytes(opaque=78, encoding=encoding))
            answers = {answer.opaque: answer for answer in [await peer.answer() for _ in range(2)]}
        assert answers[77].code == ResponseCode.INVALID_PARAMETER
        assert "(budget.header_bytes)" in (answers[77].remark or "")
        assert answers[78].code == 0
        assert [line["event"] for line in logs if line["log_level"] == "warning"] == [
            "header.refused"
        ]
        for flag in (FLAG_ONEWAY, FLAG_RESPONSE):
            peer.say(long_request(encoding, flag=flag) + request_bytes(encoding=encoding))
            assert (await peer.answer()).opaque == 1, "neither wants an answer"
        await peer.close()


def test_a_subscription_of_13_mb_is_refused_without_being_kept(encoding: Encoding) -> None:
    header = PullMessageRequestHeader(
        consumer_group="g", topic="t", queue_id=0, queue_offset=0, max_msg_nums=1, sys_flag=4,
        commit_offset=0, suspend_timeout_millis=0, sub_version=0, subscription="a||" * 4_300_000,
    )  # fmt: skip
    frame = frame_bytes(Command(header.CODE, header, opaque=9, encoding=encoding))
    decoder = FrameDecoder(max_header_bytes=Budget().header_bytes)
    pieces = [frame[at : at + 65536] for at in range(0, len(frame), 65536)]

    def feed() -> None:
        for piece in pieces:
            assert not decoder.feed(piece)

    assert peak_bytes(feed) < 300_000
    assert [each.request.opaque for each in decoder.too_long] == [9]
    assert cost_s(feed) < slowest_s()


JSON_TEXT = {"code": 11, "extFields": {"a": "x" * 2000}, "flag": 0}
WITHOUT_OPAQUE: dict[str, Any] = {
    "JSON without one": (0, json.dumps(JSON_TEXT).encode()),
    "JSON with a text": (0, json.dumps(JSON_TEXT | {"opaque": "5"}).encode()),
    "JSON with too large a number": (0, json.dumps(JSON_TEXT | {"opaque": 2**31}).encode()),
    "JSON in the middle of the fields": (
        0, json.dumps({"z": "y" * 1000, "opaque": 4} | JSON_TEXT).encode()),
    "msgpack without one": (77, msgpack.packb({"code": 1, "ext": {"a": "x" * 2000}})),
    "msgpack with a text": (77, msgpack.packb({"opaque": "5", "ext": {"a": "x" * 2000}})),
    "msgpack with too large a number": (
        77, msgpack.packb({"opaque": 2**31, "ext": {"a": "x" * 2000}})),
    "msgpack that ends before it": (77, b"x" * 2000 + b"\xa6opaque"),
    "msgpack that ends in it": (77, b"x" * 2000 + b"\xa6opaque\xce\x01"),
}  # fmt: skip


@pytest.mark.parametrize("header", WITHOUT_OPAQUE)
def test_a_header_whose_opaque_is_not_found_ends_its_connection(header: str) -> None:
    decoder = FrameDecoder(max_header_bytes=LIMIT)
    assert not decoder.feed(raw_frame(*WITHOUT_OPAQUE[header]) + request_bytes())
    assert "(budget.header_bytes)" in str(decoder.failure)
    assert not decoder.too_long


def test_a_field_that_looks_like_an_opaque_is_none() -> None:
    text = json.dumps({"code": 11, "opaque": 6, "extFields": {"a": "x" * 2000 + '"opaque":5'}})
    decoder = FrameDecoder(max_header_bytes=LIMIT)
    decoder.feed(raw_frame(0, text.encode()))
    assert [each.request.opaque for each in decoder.too_long] == [6]
