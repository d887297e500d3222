"""Every header through every codec, derived from its declaration (E-3, E-4)."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.codes import LanguageCode, RequestCode
from pocketmq.protocol.command import FLAG_ONEWAY, FLAG_RESPONSE, Body, Command, Encoding
from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.frame import FrameDecoder, encode_frame, encode_request
from pocketmq.protocol.header import REQUEST_HEADERS, Header
from pocketmq.protocol.headers.kv import PutKvConfigRequestHeader
from pocketmq.protocol.headers.offsets import QueryConsumerOffsetRequestHeader
from pocketmq.protocol.headers.pull import PullMessageRequestHeader
from pocketmq.protocol.headers.send import SendMessageRequestHeaderV2
from pocketmq.protocol.headers.topics import UpdateAndCreateTopicRequestHeader
from pocketmq.protocol.scalars import INT32_MAX, INT32_MIN
from support.declared import HEADERS, for_each_class, instances, texts

ENCODINGS = list(Encoding)
int32s = st.integers(INT32_MIN, INT32_MAX)


def over_the_wire(command: Command) -> Command:
    """The command as its reader gets it."""
    decoder = FrameDecoder()
    [read] = decoder.feed(b"".join(encode_frame(command)))
    assert decoder.failure is None
    return read


def frame(encoding: int, header: bytes, body: bytes = b"") -> bytes:
    total = 4 + len(header) + len(body)
    return total.to_bytes(4) + bytes([encoding]) + len(header).to_bytes(3) + header + body


def read_one(data: bytes) -> Command:
    decoder = FrameDecoder()
    [command] = decoder.feed(data)
    assert decoder.failure is None
    return command


def json_request(**header: Any) -> Command:
    fields = {"code": 11, "language": "JAVA", "version": 399, "opaque": 5, "flag": 0} | header
    return read_one(frame(0, json.dumps(fields).encode()))


# -- round trips --------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", HEADERS, ids=lambda cls: cls.__name__)
@for_each_class
@given(data=st.data())
def test_every_header_comes_back_as_it_was_sent(cls: type[Header], data: st.DataObject) -> None:
    header = data.draw(instances(cls))
    for encoding in ENCODINGS:  # drawing takes far longer than the three round trips
        read = over_the_wire(Command(1, header, encoding=encoding))
        assert read.header(cls) == header, encoding
        # The fields are there by name as well, for whoever asks without a type.
        assert set(read.fields) >= set(Command(1, header).fields), encoding


@given(
    code=st.integers(-0x8000, 0x7FFF),
    opaque=int32s,
    flag=int32s.map(lambda flag: flag | FLAG_RESPONSE),
    remark=st.none() | texts.filter(bool),
    version=st.integers(-0x8000, 0x7FFF),
    language=st.sampled_from(list(LanguageCode)),
    body=st.binary(max_size=50),
    encoding=st.sampled_from(ENCODINGS),
)
def test_the_rest_of_a_command_comes_back_as_well(
    code: int,
    opaque: int,
    flag: int,
    remark: str | None,
    version: int,
    language: LanguageCode,
    body: bytes,
    encoding: Encoding,
) -> None:
    sent = Command(
        code, None, body, opaque, flag, remark,
        encoding=encoding, language=language, version=version,
    )  # fmt: skip
    read = over_the_wire(sent)
    assert (read.code, read.opaque, read.flag, read.remark) == (code, opaque, flag, remark)
    assert (read.language, read.version, read.encoding) == (language, version, encoding)
    assert bytes(read.body_view) == body
    assert dict(read.fields) == {}


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda e: e.name)
@given(fields=st.dictionaries(texts, texts, max_size=4))
def test_fields_that_no_header_declares_travel_too(
    encoding: Encoding, fields: dict[str, str]
) -> None:
    read = over_the_wire(Command(1, fields, encoding=encoding))
    assert dict(read.fields) == fields


@given(data=st.data())
def test_a_bare_msgpack_reader_finds_typed_fields_under_their_standard_names(
    data: st.DataObject,
) -> None:  # encoding 77: the two libraries are each other's oracle
    cls = data.draw(st.sampled_from(HEADERS))
    header = data.draw(instances(cls))
    [first, *_] = encode_frame(Command(1, header, opaque=9, remark="why"))
    read = msgpack.unpackb(bytes(first[8:]))
    assert list(read) == ["code", "language", "version", "opaque", "flag", "remark", "ext"]
    assert (read["opaque"], read["remark"]) == (9, "why")
    assert cls.from_fields(read["ext"]) == header


def test_every_request_code_has_one_header_class() -> None:
    for code, cls in REQUEST_HEADERS.items():
        assert code == cls.CODE
        RequestCode(code)


# -- widths --------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda e: e.name)
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("queueId", 2**31),
        ("queueId", -(2**31) - 1),
        ("queueOffset", 2**63),
        ("maxMsgNums", 10**40),
        ("queueId", "seven"),
        ("queueId", 1.5),
        ("topic", None),
    ],
)
def test_a_value_outside_its_width_or_type_is_refused_and_named(
    encoding: Encoding, field: str, value: object
) -> None:
    fields: dict[str, Any] = {
        "consumerGroup": "g", "topic": "t", "queueId": 1, "queueOffset": 2, "maxMsgNums": 3,
        "sysFlag": 0, field: value,
    }  # fmt: skip
    if isinstance(value, int) and not -(2**63) <= value < 2**64 and encoding is Encoding.MSGPACK:
        fields[field] = float(value)  # msgpack itself has no such number
    read = over_the_wire(Command(11, fields, encoding=encoding))
    with pytest.raises(BadRequestError, match=field):
        read.header(PullMessageRequestHeader)


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda e: e.name)
def test_a_missing_field_is_named(encoding: Encoding) -> None:
    read = over_the_wire(Command(14, {"consumerGroup": "g", "topic": "t"}, encoding=encoding))
    with pytest.raises(BadRequestError, match="queueId"):
        read.header(QueryConsumerOffsetRequestHeader)


def test_an_empty_text_stays_a_text_and_an_empty_number_is_no_number() -> None:
    # RocketMQ's binary header writes both with length zero (E-4).
    header = PutKvConfigRequestHeader(namespace="", key="", value="")
    for encoding in ENCODINGS:
        read = over_the_wire(Command(100, header, encoding=encoding))
        assert read.header(PutKvConfigRequestHeader) == header
    fields = {
        "consumerGroup": "g", "topic": "t", "queueId": "1", "setZeroIfNotFound": "",
    }  # fmt: skip
    for encoding in (Encoding.JSON, Encoding.ROCKETMQ):
        read = over_the_wire(Command(14, fields, encoding=encoding))
        assert read.header(QueryConsumerOffsetRequestHeader).set_zero_if_not_found is None


def test_a_boolean_that_is_not_true_is_false_as_in_java() -> None:  # `Boolean.parseBoolean`
    for text, value in {"true": True, "TRUE": True, "yes": False, "broker-z": False}.items():
        fields = {"consumerGroup": "g", "topic": "t", "queueId": "1", "setZeroIfNotFound": text}
        for encoding in (Encoding.JSON, Encoding.ROCKETMQ):
            read = over_the_wire(Command(14, fields, encoding=encoding))
            assert read.header(QueryConsumerOffsetRequestHeader).set_zero_if_not_found is value


# -- JSON as real peers write it ----------------------------------------------------------------


def test_numbers_and_booleans_may_stand_where_text_belongs() -> None:  # Node, C++ clients
    command = json_request(
        code=310,
        extFields={
            "a": 77, "b": "T", "c": True, "d": "4", "e": 0, "f": "0", "g": 1, "h": "0", "i": None,
            "k": "false", "m": False,
        },
    )  # fmt: skip
    header = command.header(SendMessageRequestHeaderV2)
    assert (header.producer_group, header.default_topic) == ("77", "true")
    assert (header.default_topic_queue_nums, header.queue_id) == (4, 0)
    assert header.unit_mode is False


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("JAVA", LanguageCode.JAVA), ("GO", LanguageCode.GO), (12, LanguageCode.RUST),
        ("KLINGON", LanguageCode.OTHER), (99, LanguageCode.OTHER), (None, LanguageCode.JAVA),
    ],
)  # fmt: skip
def test_a_language_may_be_a_name_a_number_or_unknown(
    language: object, expected: LanguageCode
) -> None:
    assert json_request(language=language).language is not None
    assert json_request(language=language).language == expected


def test_unknown_keys_and_absent_optional_ones_are_no_error() -> None:
    command = read_one(frame(0, b'{"code":7,"serializeTypeCurrentRPC":"JSON","new":{"a":[1]}}'))
    assert (command.code, command.opaque, command.flag, command.remark) == (7, 0, 0, None)
    assert dict(json_request(extFields=None).fields) == {}


def test_of_two_equal_keys_the_last_counts() -> None:
    command = read_one(
        frame(0, b'{"code":1,"code":2,"extFields":{"topic":"a","topic":"b","queueId":"0"}}')
    )
    assert command.code == 2
    assert command.fields["topic"] == "b"


# -- frames that RocketMQ wrote ------------------------------------------------------------------


def test_the_json_header_has_java_s_keys_in_java_s_order() -> None:
    sent = Command(
        0, None, b"", 7, FLAG_RESPONSE, None,
        encoding=Encoding.JSON, language=LanguageCode.JAVA, version=399,
    )  # fmt: skip
    [first, *_] = encode_frame(sent)
    assert bytes(first[8:]) == (
        b'{"code":0,"flag":1,"language":"JAVA","opaque":7,'
        b'"serializeTypeCurrentRPC":"JSON","version":399}'
    )


def test_the_length_words_of_a_json_frame_count_as_java_counts() -> None:
    data = frame(0, b" " * 0x11C + b"1")
    assert data[:8].hex() == "000001210000011d"


BINARY = bytes.fromhex(
    "00000028 01000023 0069 00 018f 00000009 00000000 00000002 6869"
    "0000000c 0005 746f706963 00000001 54 42"
)


def test_the_binary_frame_is_java_s_byte_for_byte() -> None:
    sent = Command(
        105, {"topic": "T"}, b"B", 9, 0, "hi",
        encoding=Encoding.ROCKETMQ, language=LanguageCode.JAVA, version=399,
    )  # fmt: skip
    assert b"".join(encode_frame(sent)) == BINARY
    read = read_one(BINARY)
    assert (read.code, read.opaque, read.remark, read.version) == (105, 9, "hi", 399)
    assert (dict(read.fields), bytes(read.body_view)) == ({"topic": "T"}, b"B")


@pytest.mark.parametrize(
    ("code", "on_the_wire"),
    [
        (200050, 3442), (200051, 3443), (200052, 3444), (200053, 3445), (200054, 3446),
        (200055, 3447), (200056, 3448), (200151, 3543),
    ],
)  # fmt: skip
def test_codes_over_16_bits_are_truncated_by_the_binary_header_and_restored(
    code: int, on_the_wire: int
) -> None:  # E-4
    [first, *_] = encode_frame(Command(code, encoding=Encoding.ROCKETMQ))
    assert int.from_bytes(first[8:10]) == on_the_wire
    assert over_the_wire(Command(code, encoding=Encoding.ROCKETMQ)).code == code
    for encoding in (Encoding.JSON, Encoding.MSGPACK):
        assert over_the_wire(Command(code, encoding=encoding)).code == code
    # A response code is never one of them.
    answer = Command(on_the_wire, flag=FLAG_RESPONSE, encoding=Encoding.ROCKETMQ)
    assert over_the_wire(answer).code == on_the_wire


@pytest.mark.parametrize("encoding", list(Encoding))
@pytest.mark.parametrize("body", [b"", b"hello", (b"hel", memoryview(b"lo"))])
@pytest.mark.parametrize(("opaque", "flag"), [(0, FLAG_ONEWAY), (70_000, 0)])
def test_a_request_has_the_bytes_of_the_command_that_it_is(
    encoding: Encoding, body: Body, opaque: int, flag: int
) -> None:
    header = PullMessageRequestHeader(
        consumer_group="g", topic="T", queue_id=3, queue_offset=1 << 40, max_msg_nums=32, sys_flag=2
    )
    command = Command(11, header, body, opaque, flag, encoding=encoding, version=401)
    request = encode_request(encoding, header, body, 11, opaque, flag, 401)
    assert b"".join(request) == b"".join(encode_frame(command))


@pytest.mark.parametrize("encoding", [Encoding.JSON, Encoding.ROCKETMQ])
def test_rocketmqs_mandatory_fields_travel_as_text_also_when_they_equal_our_default(
    encoding: Encoding,
) -> None:
    """A real broker refuses topicFilterType=null and logs an error for commitOffset=null."""
    topic = UpdateAndCreateTopicRequestHeader(
        topic="T", read_queue_nums=4, write_queue_nums=4, perm=6
    )
    pull = PullMessageRequestHeader(
        consumer_group="g", topic="T", queue_id=0, queue_offset=0, max_msg_nums=32, sys_flag=0
    )
    for header, wanted in ((topic, "topicFilterType"), (pull, "commitOffset")):
        frame = b"".join(encode_frame(Command(header.CODE, header, encoding=encoding)))
        (command,) = FrameDecoder().feed(frame)
        assert wanted in command.fields
        assert "attributes" not in command.fields


def test_text_fields_are_written_as_java_writes_them() -> None:
    header = UpdateAndCreateTopicRequestHeader(
        topic="T", default_topic="D", read_queue_nums=4, write_queue_nums=-1, perm=6,
        topic_filter_type="SINGLE_TAG", order=True,
    )  # fmt: skip
    told = header.to_text()
    assert (told["topic"], told["readQueueNums"], told["writeQueueNums"]) == ("T", "4", "-1")
    assert (told["order"], told["topicSysFlag"]) == ("true", "0")
    assert msgspec.structs.replace(header, order=False).to_text()["order"] == "false"
    assert "attributes" not in told


def test_an_empty_number_does_not_excuse_a_wrong_one() -> None:
    fields = {"consumerGroup": "g", "topic": "t", "queueId": "0", "setZeroIfNotFound": ""}
    header = QueryConsumerOffsetRequestHeader.from_fields(fields)
    assert (header.queue_id, header.set_zero_if_not_found) == (0, None)
    with pytest.raises(BadRequestError, match="queueId"):
        QueryConsumerOffsetRequestHeader.from_fields(fields | {"queueId": "many"})


def test_a_header_does_not_say_how_it_is_encoded_nor_what_the_body_is() -> None:
    header = {"code": 11, "opaque": 5, "encoding": 0, "body": "header"}
    for body in (b"", b"frame"):
        read = read_one(frame(77, msgpack.packb(header), body))
        assert (read.encoding, bytes(read.body_view)) == (Encoding.MSGPACK, body)
        assert read.reply().encoding == Encoding.MSGPACK
