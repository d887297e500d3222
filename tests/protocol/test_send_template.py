"""Heads of sends that are filled into a template, held against the codec's."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.errors import FrameError
from pocketmq.protocol.frame import FrameDecoder, encode_request
from pocketmq.protocol.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from pocketmq.protocol.send_template import SendTemplate

BODY = b"body"


def header_of(
    topic: str, properties: str, born_ms: int, queue_id: int = 3
) -> SendMessageRequestHeaderV2:
    return SendMessageRequestHeaderV2(
        producer_group="writers",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=born_ms,
        flag=0,
        properties=properties,
        broker_name="broker-a",
    )


def decoded(frame: bytes) -> Command:
    [command] = FrameDecoder().feed(frame)
    return command


@given(
    topic=st.text(min_size=1, max_size=40),
    properties=st.text(max_size=400),
    opaque=st.integers(0, 2**31 - 1),
    born_ms=st.integers(0, 2**63 - 1),
    queue_id=st.integers(-1, 2**31 - 1),
)
def test_a_filled_template_reads_as_what_the_codec_writes(
    topic: str, properties: str, opaque: int, born_ms: int, queue_id: int
) -> None:
    template = SendTemplate(header_of(topic, "A\x01b\x02", 1, queue_id), 479)
    header = header_of(topic, properties, born_ms, queue_id)
    by_codec = encode_request(Encoding.MSGPACK, header, BODY, header.CODE, opaque, 0, 479)
    want = decoded(b"".join(by_codec))
    for _ in range(2):  # the layout is made, and then found
        got = decoded(template.head(opaque, born_ms, properties, len(BODY)) + BODY)
        assert got.header(SendMessageRequestHeaderV2) == header
        assert bytes(got.body_view) == BODY
        for field in ("code", "opaque", "flag", "language", "version", "remark", "encoding"):
            assert getattr(got, field) == getattr(want, field)


def test_many_lengths_of_properties_are_not_all_remembered() -> None:
    template = SendTemplate(header_of("T", "", 1), 479)
    for length in [*range(300), 0]:
        text = "x" * length
        got = decoded(template.head(7, 8, text, 0))
        assert got.header(SendMessageRequestHeaderV2).properties == text


def test_long_names_have_a_template_too() -> None:
    header = SendMessageRequestHeader(
        **{
            name: value
            for name, value in msgspec.structs.asdict(header_of("T", "", 5)).items()
            if name in SendMessageRequestHeader.__struct_fields__
        }
    )
    got = decoded(SendTemplate(header, 479).head(1, 5, "K\x01v\x02", 0))
    assert got.code == 10
    assert got.header(SendMessageRequestHeader) == msgspec.structs.replace(
        header, properties="K\x01v\x02"
    )


def test_a_frame_that_no_peer_takes_is_refused() -> None:
    with pytest.raises(FrameError, match="may have at most"):
        SendTemplate(header_of("T", "", 1), 479).head(1, 1, "", 16 * 1024 * 1024)


def test_a_header_with_a_mark_in_it_has_no_template() -> None:
    header = msgspec.structs.replace(header_of("T", "", 1), broker_name="\x01\x02\x03")
    with pytest.raises(FrameError, match="mark"):
        SendTemplate(header, 479)
