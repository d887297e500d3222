"""The templates for send replies, held against the codecs."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.broker.address import BrokerAddress
from pocketmq.broker.sending.send_replies import SendReplies
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.frame import FrameDecoder, encode_frame
from pocketmq.protocol.headers.send import SendMessageResponseHeader
from pocketmq.protocol.messages.ids import offset_msg_id

ADDRESS_V4 = BrokerAddress("127.0.0.1", 10911)
ADDRESS_V6 = BrokerAddress("::1", 10911)
int31 = st.integers(0, 2**31 - 1)
int63 = st.integers(0, 2**63 - 1)


def read(frame: bytes) -> Command:
    decoder = FrameDecoder()
    (command,) = decoder.feed(frame)
    assert decoder.failure is None
    assert decoder.pending_bytes == 0
    return command


@pytest.mark.parametrize("address", [ADDRESS_V4, ADDRESS_V6])
@pytest.mark.parametrize("encoding", list(Encoding))
@given(
    opaque=st.integers(-(2**31), 2**31 - 1),
    physical=int63,
    queue_id=int31,
    queue_offset=int63,
    uniq_key=st.text(min_size=1, max_size=300),
)
def test_a_template_says_what_the_codec_would_say(  # E-20, E-21
    encoding: Encoding,
    address: BrokerAddress,
    opaque: int,
    physical: int,
    queue_id: int,
    queue_offset: int,
    uniq_key: str,
) -> None:
    build = SendReplies(address, version=479).builder(encoding)
    reply = read(build(opaque, physical, queue_id, queue_offset, uniq_key))
    assert (reply.code, reply.flag, reply.opaque, reply.remark) == (0, 1, opaque, None)
    assert (reply.version, reply.language, reply.encoding) == (479, 3, encoding)
    assert bytes(reply.body_view) == b""
    assert reply.header(SendMessageResponseHeader) == SendMessageResponseHeader(
        msg_id=offset_msg_id(address.packed, physical),
        queue_id=queue_id,
        queue_offset=queue_offset,
        transaction_id=uniq_key,
        region="DefaultRegion",
        trace="true",
    )


@pytest.mark.parametrize("address", [ADDRESS_V4, ADDRESS_V6])
@pytest.mark.parametrize("encoding", list(Encoding))
@given(
    opaque=st.integers(-(2**31), 2**31 - 1),
    offsets=st.lists(int63, min_size=1, max_size=40),
    queue_id=int31,
    queue_offset=int63,
    uniq_key=st.none() | st.text(min_size=1, max_size=300),
)
def test_a_batch_is_answered_as_the_codec_would(
    encoding: Encoding,
    address: BrokerAddress,
    opaque: int,
    offsets: list[int],
    queue_id: int,
    queue_offset: int,
    uniq_key: str | None,
) -> None:
    request = Command(320, opaque=opaque, encoding=encoding)
    replies = SendReplies(address, version=479)
    answer = replies.to_batch(request, offsets, queue_id, queue_offset, uniq_key)
    reply = read(answer if isinstance(answer, bytes) else b"".join(encode_frame(answer)))
    assert (reply.code, reply.flag, reply.opaque, reply.remark) == (0, 1, opaque, None)
    assert (reply.version, reply.language, reply.encoding) == (479, 3, encoding)
    assert bytes(reply.body_view) == b""
    assert reply.header(SendMessageResponseHeader) == SendMessageResponseHeader(
        msg_id=",".join(offset_msg_id(address.packed, offset) for offset in offsets),
        queue_id=queue_id,
        queue_offset=queue_offset,
        transaction_id=uniq_key,
        region="DefaultRegion",
        trace="true",
    )


@pytest.mark.parametrize("encoding", list(Encoding))
def test_brokers_of_4_9_tell_no_transaction_id(encoding: Encoding) -> None:
    replies = SendReplies(ADDRESS_V4, version=409, tells_key=False)
    reply = read(replies.builder(encoding)(7, 16, 3, 9, "KEY"))
    assert (reply.code, reply.opaque, reply.version, reply.encoding) == (0, 7, 409, encoding)
    told = {name: str(value) for name, value in reply.fields.items() if value is not None}
    assert told == {
        "msgId": offset_msg_id(ADDRESS_V4.packed, 16),
        "queueId": "3",
        "queueOffset": "9",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }
    answer = replies.to_batch(Command(320, opaque=7, encoding=encoding), [16], 3, 9, "KEY")
    batch = read(answer if isinstance(answer, bytes) else b"".join(encode_frame(answer)))
    assert batch.header(SendMessageResponseHeader).transaction_id is None


def test_a_bare_msgpack_reader_understands_the_template() -> None:  # encoding 77
    frame = SendReplies(ADDRESS_V4, version=479).builder(Encoding.MSGPACK)(7, 16, 3, 9, "KEY")
    assert msgpack.unpackb(frame[8:]) == {
        "code": 0,
        "language": 3,
        "version": 479,
        "flag": 1,
        "remark": None,
        "opaque": 7,
        "ext": {
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
            "msgId": "7F00000100002A9F0000000000000010",
            "queueId": 3,
            "queueOffset": 9,
            "transactionId": "KEY",
        },
    }
