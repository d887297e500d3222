"""Bodies and fields that are wrong are bad requests, and cost little (faults 27, 28)."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.bodies.clients import HeartbeatData
from pocketmq.protocol.bodies.topics import RegisterBrokerBody
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.frame import FrameDecoder
from pocketmq.protocol.headers.pull import PullMessageRequestHeader
from support.cost import DEPTH, cost_s, slowest_s
from support.wire_pair import raw_frame

BAD_BODIES = {
    Encoding.JSON: [
        b"", b"{", b"nonsense", b"[" * DEPTH, b'{"clientID":' + b"[" * DEPTH, b"\xff\xfe",
        b'{"clientID":1e999}', b'{"clientID":NaN}', b"9" * 5000, b'{"clientID":"\\ud800"}',
        b'{"clientID":"x","consumerDataSet":{"$ref":"$"}}', b'{"$ref":"$"}', b"null", b"[]",
    ],
    Encoding.MSGPACK: [
        b"", b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xff\x01", b"\x91" * DEPTH, b"\x81" * DEPTH,
        b"\x81\x81\x01\x02\x03", b"\x81\x90\x01", b"\xc1", b"\xa2\xff\xff",
        b"\xd6\xff\x00\x00\x00\x01", b"\xc0", b"\x90", b"\x80", b"\x80\x80",
    ],
}  # fmt: skip

# -- made by hand -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoding", "data"),
    [(encoding, data) for encoding, found in BAD_BODIES.items() for data in found],
    ids=lambda value: value.name if isinstance(value, Encoding) else repr(value[:40]),
)
def test_a_broken_body_is_a_bad_request_and_nothing_else(encoding: Encoding, data: bytes) -> None:
    def refused() -> None:
        with pytest.raises(BadRequestError, match="body is no HeartbeatData"):
            decode_body(data, HeartbeatData, encoding)

    assert cost_s(refused) < slowest_s()


def test_a_body_that_lacks_a_field_says_which() -> None:
    for encoding, data in ((Encoding.JSON, b"{}"), (Encoding.MSGPACK, b"\x80")):
        with pytest.raises(BadRequestError, match="clientID"):
            decode_body(data, HeartbeatData, encoding)


# -- fuzz ---------------------------------------------------------------------------------------

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=5) | st.integers(0, 9), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
fields = st.dictionaries(
    st.sampled_from(["consumerGroup", "topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag"])
    | st.text(max_size=4),
    values,
)


@given(fields)
def test_any_typed_fields_are_a_header_or_a_bad_request(ext: dict[str, Any]) -> None:
    header = msgpack.packb({"code": 11, "ext": ext}, unicode_errors="surrogatepass")
    decoder = FrameDecoder()
    for command in decoder.feed(raw_frame(77, header)):
        try:
            command.header(PullMessageRequestHeader)
        except BadRequestError as exc:
            error = exc
            assert error.code == ResponseCode.SYSTEM_ERROR


@given(values)
def test_any_msgpack_value_as_a_body_is_a_body_or_a_bad_request(value: Any) -> None:
    data = msgpack.packb(value, unicode_errors="surrogatepass")
    for cls in (HeartbeatData, RegisterBrokerBody):
        try:
            decode_body(data, cls, Encoding.MSGPACK)
        except BadRequestError as exc:
            error = exc
            assert cls.__name__ in str(error)


@given(st.binary(max_size=100), st.sampled_from(list(Encoding)))
def test_any_bytes_as_a_body_are_a_body_or_a_bad_request(data: bytes, encoding: Encoding) -> None:
    for cls in (HeartbeatData, RegisterBrokerBody):
        try:
            decode_body(data, cls, encoding)
        except BadRequestError as exc:
            error = exc
            assert cls.__name__ in str(error)
