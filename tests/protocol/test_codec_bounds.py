"""Headers and bodies as peers may write them: lies about lengths, texts for numbers, nothing."""

from __future__ import annotations

import struct
from typing import Any

import msgpack
import msgspec
import pytest

from pocketmq.protocol.bodies.offsets import ConsumerOffsetTable, TopicOffset, TopicStatsTable
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.body import (
    MAX_DIALECT_BYTES,
    QUOTED_PER_DIALECT,
    decode_body,
    decode_json,
    decode_request_body,
    encode_large,
    mq_key,
    parse_mq_key,
)
from pocketmq.protocol.codecs import codec_of
from pocketmq.protocol.codecs.msgpack import MsgpackCodec
from pocketmq.protocol.codecs.rocketmq import fixed_part
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.errors import BadRequestError, FrameError
from pocketmq.protocol.headers.offsets import GetMaxOffsetRequestHeader
from pocketmq.protocol.messages.message import MessageQueue

FIXED = struct.Struct(">hbhiii")


def binary(
    fields: bytes = b"",
    remark: bytes = b"",
    *,
    code: int = 10,
    flag: int = 0,
    remark_len: int | None = None,
    fields_len: int | None = None,
) -> memoryview:
    """A binary header; lengths that are given may be lies."""
    said = len(remark) if remark_len is None else remark_len
    size = len(fields) if fields_len is None else fields_len
    head = FIXED.pack(code, 12, 479, 7, flag, said)
    return memoryview(head + remark + struct.pack(">i", size) + fields)


def field(name: bytes, value: bytes, name_len: int | None = None, size: int | None = None) -> bytes:
    """One field of a binary header."""
    return (
        struct.pack(">h", len(name) if name_len is None else name_len)
        + name
        + struct.pack(">i", len(value) if size is None else size)
        + value
    )


BINARY = codec_of(Encoding.ROCKETMQ)


@pytest.mark.parametrize("encoding", Encoding)
def test_each_encoding_has_a_codec(encoding: Encoding) -> None:
    header = GetMaxOffsetRequestHeader(topic="T", queue_id=3)
    command = Command(30, header, opaque=5, encoding=encoding)
    read = codec_of(encoding).decode(memoryview(codec_of(encoding).encode(command)))
    assert (read.code, read.opaque, read.fields["topic"]) == (30, 5, "T")
    assert read.header(GetMaxOffsetRequestHeader) == header


def test_a_remark_and_fields_end_where_the_header_ends() -> None:
    read = BINARY.decode(binary(field(b"a", b"1") + field(b"b", b"") + field(b"c", b"22"), b"why"))
    assert (read.remark, read.fields) == ("why", {"a": "1", "b": "", "c": "22"})
    assert BINARY.decode(binary(remark=b"w")).remark == "w"


def test_a_field_may_have_no_name_as_in_java() -> None:
    # RocketMQSerializable.readStr reads a length of 0 and goes on with what follows.
    read = BINARY.decode(binary(field(b"", b"x") + field(b"a", b"1")))
    assert read.fields == {"": "x", "a": "1"}


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (binary(remark=b"why", remark_len=4), "the remark has 4 bytes and does not fit"),
        (binary(remark_len=-1), "has -1 bytes and does not fit into the header, which has 21"),
        (binary(remark_len=1 << 30), "the remark has 1073741824 bytes"),
        (binary(field(b"a", b"1"), fields_len=9), "the fields have 9 bytes and do not fit"),
        (binary(fields_len=-1), "the fields have -1 bytes"),
        (binary(field(b"a", b"1", name_len=7)), "at byte 2 has 7 bytes, but"),
        (binary(field(b"a", b"1", name_len=-1)), "the field name at byte 2 has -1 bytes"),
        (binary(field(b"a", b"1", size=2)), "at byte 7 has 2 bytes, but"),
        (binary(field(b"a", b"1", size=-2)), "field 'a' at byte 7 has -2 bytes"),
        (
            binary(field(b"b", b"") + field(b"a", b"1", size=1 << 30)),
            "has 1073741824 bytes",
        ),
    ],
    ids=["remark+1", "remark-", "remark++", "fields+1", "fields-", "name+", "name-", "value+1",
         "value-", "value++"],
)  # fmt: skip
def test_a_length_that_does_not_fit_is_told(header: memoryview, reason: str) -> None:
    with pytest.raises(FrameError, match=reason):
        BINARY.decode(header).fields  # noqa: B018 - fields may be read late


def test_codes_beyond_a_short_come_back_in_requests_only() -> None:
    low = RequestCode.POP_MESSAGE & 0xFFFF  # of 200050, as Java's cast to short leaves it
    assert BINARY.decode(binary(code=low)).code == RequestCode.POP_MESSAGE
    assert fixed_part(binary(code=low)) == (RequestCode.POP_MESSAGE, 7, 0)
    assert fixed_part(binary(code=10, flag=1)) == (10, 7, 1)
    assert BINARY.decode(binary(code=low, flag=1)).code == low


@pytest.mark.parametrize("code", [code for code in RequestCode if code > 0x7FFF])
def test_each_code_beyond_a_short_is_its_low_16_bits(code: RequestCode) -> None:
    header = BINARY.encode(Command(code, encoding=Encoding.ROCKETMQ))
    assert struct.unpack_from(">H", header)[0] == code & 0xFFFF
    assert fixed_part(header)[0] == code


def test_fields_without_a_value_are_left_out_and_the_next_ones_stay() -> None:
    header = BINARY.encode(Command(10, {"a": None, "b": "2"}, encoding=Encoding.ROCKETMQ))
    assert BINARY.decode(memoryview(header)).fields == {"b": "2"}


def test_fields_of_a_binary_header_are_read_by_class() -> None:
    block = field(b"topic", b"T") + field(b"queueId", b"3")
    expected = GetMaxOffsetRequestHeader(topic="T", queue_id=3)
    assert BINARY.decode_fields(block, GetMaxOffsetRequestHeader) == expected
    assert BINARY.decode_mapping(block) == {"topic": "T", "queueId": "3"}


JSON = codec_of(Encoding.JSON)


def test_a_json_header_may_have_texts_for_numbers_and_little_else() -> None:
    read = JSON.decode(memoryview(b'{"code":"30","opaque":"5","flag":"1"}'))
    assert (read.code, read.opaque, read.flag, read.version) == (30, 5, 1, 0)
    fields = b'{"topic":"T","queueId":"3","committed":"false"}'
    header = JSON.decode_fields(fields, GetMaxOffsetRequestHeader)
    assert header == GetMaxOffsetRequestHeader(topic="T", queue_id=3, committed=False)


@pytest.mark.parametrize("number", [0, -1, -2, 2**31 - 1, -(2**31)])
def test_every_opaque_flag_and_version_is_written(number: int) -> None:
    command = Command(30, opaque=number, flag=number, version=number, encoding=Encoding.JSON)
    written = msgspec.json.decode(JSON.encode(command))
    assert (written["opaque"], written["flag"], written["version"]) == (number,) * 3


PACKED = MsgpackCodec()


def test_a_msgpack_header_may_leave_out_all_but_its_code() -> None:
    read = PACKED.decode(memoryview(msgpack.packb({"code": 30})))
    assert (read.code, read.opaque, read.language, read.flag, read.version) == (30, 0, 0, 0, 0)


def test_a_msgpack_header_is_read_again_by_the_same_class() -> None:
    fields: dict[str, Any] = {"topic": "T", "queueId": 3}
    packed = msgpack.packb({"code": 30, "ext": fields})
    for _ in range(2):  # the second one finds a decoder
        read = PACKED.decode(memoryview(packed))
        header = read.header(GetMaxOffsetRequestHeader)
        assert header == GetMaxOffsetRequestHeader(topic="T", queue_id=3)


def test_a_msgpack_command_whose_fields_were_let_go_has_none() -> None:
    packed = memoryview(msgpack.packb({"code": 30, "ext": {"topic": "T", "queueId": 3}}))
    PACKED.decode(packed).header(GetMaxOffsetRequestHeader)
    held = PACKED.decode(packed)
    held.ext = None  # as of a request that waits in the broker
    with pytest.raises(BadRequestError, match="topic"):
        held.header(GetMaxOffsetRequestHeader)


def test_a_received_msgpack_command_is_written_with_the_fields_that_it_has_for_us() -> None:
    packed = msgpack.packb({"code": 30, "ext": {1: "of no name", "topic": "T"}})
    read = PACKED.decode(memoryview(packed))
    assert msgpack.unpackb(PACKED.encode(read))["ext"] == dict(read.fields) == {"topic": "T"}


@pytest.mark.parametrize("data", [b"\xc1", b"\xc0", b"\x93\x01\x02\x03", b""])
def test_what_is_no_map_has_no_fields(data: bytes) -> None:
    assert PACKED.decode_mapping(data) == {}


def test_a_large_body_is_written_as_its_frame_is() -> None:
    version = DataVersion(counter=3)
    assert msgpack.unpackb(encode_large(version, Encoding.MSGPACK))["counter"] == 3
    assert msgspec.json.decode(encode_large(version, Encoding.JSON))["counter"] == 3


RAW_KEYS = b'{"offsetTable":{"T@g":{0:7}}}'
"""As fastjson writes integer keys."""


def test_raw_integer_keys_are_read_in_bodies_eight_times_as_long() -> None:
    read = decode_json(RAW_KEYS, ConsumerOffsetTable)
    assert read.offset_table == {"T@g": {0: 7}}
    least = -(-len(RAW_KEYS) // QUOTED_PER_DIALECT)
    assert decode_json(RAW_KEYS, ConsumerOffsetTable, dialect_bytes=least) == read
    with pytest.raises(BadRequestError):
        decode_json(RAW_KEYS, ConsumerOffsetTable, dialect_bytes=least - 1)
    exact = RAW_KEYS + b" " * (-len(RAW_KEYS) % QUOTED_PER_DIALECT)
    limit = len(exact) // QUOTED_PER_DIALECT
    assert decode_json(exact, ConsumerOffsetTable, dialect_bytes=limit) == read


def requested(body: bytes, size: int) -> ConsumerOffsetTable | None:
    """What a server reads of a request's body of so many bytes; None: it refuses it."""
    request = Command(30, body=body.ljust(size), encoding=Encoding.JSON)
    try:
        return decode_request_body(request, ConsumerOffsetTable)
    except BadRequestError:
        return None


def test_raw_integer_keys_are_read_in_requests_of_256_kib() -> None:
    expected = ConsumerOffsetTable(offset_table={"T@g": {0: 7}})
    assert requested(RAW_KEYS, len(RAW_KEYS)) == expected
    assert requested(RAW_KEYS, 256 * 1024) == expected
    assert requested(RAW_KEYS, 256 * 1024 + 1) is None


REFERENCE = b'{"offsetTable":{"a":{"0":7},"b":{"$ref":"$.offsetTable.a"}}}'
REFERRED = ConsumerOffsetTable(offset_table={"a": {0: 7}, "b": {0: 7}})


def test_the_whole_dialect_is_read_in_requests_of_32_kib() -> None:
    assert requested(REFERENCE, 32 * 1024) == REFERRED
    assert requested(REFERENCE, 32 * 1024 + 1) is None


def test_the_whole_dialect_is_read_in_answers_and_files_of_2_mib() -> None:
    size = 2 * 1024 * 1024
    assert decode_json(REFERENCE.ljust(size), ConsumerOffsetTable) == REFERRED
    with pytest.raises(BadRequestError):
        decode_json(REFERENCE.ljust(size + 1), ConsumerOffsetTable)
    for encoding in (Encoding.JSON, Encoding.ROCKETMQ):
        assert decode_body(REFERENCE.ljust(size), ConsumerOffsetTable, encoding) == REFERRED


def test_the_whole_dialect_is_read_up_to_its_own_length() -> None:
    # A key that is an object, which only the reader of the whole dialect knows.
    queue = b'{"brokerName":"b","queueId":0,"topic":"T"}'
    dialect = b'{"offsetTable":{' + queue + b':{"maxOffset":"3"}}}'
    expected = {mq_key(MessageQueue("T", "b", 0)): TopicOffset(max_offset=3)}
    for limit in (MAX_DIALECT_BYTES, len(dialect)):
        read = decode_json(dialect, TopicStatsTable, dialect_bytes=limit)
        assert read.offset_table == expected
    with pytest.raises(BadRequestError):
        decode_json(dialect, TopicStatsTable, dialect_bytes=len(dialect) - 1)


def test_references_of_fastjson_are_followed() -> None:
    assert decode_json(REFERENCE, ConsumerOffsetTable) == REFERRED


def test_json_of_another_type_says_which_field_it_is() -> None:
    with pytest.raises(BadRequestError, match=r"\$\.counter"):
        decode_json(b'{"counter":"many"}', DataVersion)
    with pytest.raises(BadRequestError, match=r"offsetTable"):
        decode_json(b'{"offsetTable":{"T@g":{0:"many"}}}', ConsumerOffsetTable)
    with pytest.raises(BadRequestError, match=r"no DataVersion: .* recursion depth"):
        decode_json(b'{"more":' + b"[" * 100_000, DataVersion)


def test_a_key_that_is_no_queue_is_told_in_part() -> None:
    with pytest.raises(BadRequestError, match=r"not a message queue: '\{x{199}'$"):
        parse_mq_key("{" + "x" * 300)
