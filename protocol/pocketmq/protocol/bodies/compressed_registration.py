"""Body of REGISTER_BROKER when its header says `compressed` (E-63).

    one zlib stream of
    +--------------------+-----------------+------------------+-------------------+---------------+
    | i32 + DataVersion  | i32 topic count | per topic        | i32 + filter      | from 5.0 on:  |
    | as JSON            |                 | i32 + its text   | servers as JSON   | i32 + mappings|
    +--------------------+-----------------+------------------+-------------------+---------------+
    a topic's text: name read write perm filterType {attributes as JSON, from 5.0 on}

RocketMQ 5 no longer sends it by itself; 4.9 brokers may. Mappings of static topics are skipped.
"""

from __future__ import annotations

import struct
import zlib

import msgspec

from pocketmq.protocol.bodies.topics import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from pocketmq.protocol.body import decode_json, encode_json
from pocketmq.protocol.budget import DEFAULT_BUDGET, Budget
from pocketmq.protocol.command import Buffer
from pocketmq.protocol.errors import BadRequestError

VERSION_5_0_0 = 413
"""From this requester version on a topic has attributes and the mappings follow."""

_I32 = struct.Struct(">i")
_NAME = "compressed registration"


def encode_compressed(body: RegisterBrokerBody, *, version: int) -> bytes:
    """The body as a broker of this version ordinal compresses it."""
    wrapper = body.topic_config_serialize_wrapper
    topics = wrapper.topic_config_table.values()
    parts = [_sized(encode_json(wrapper.data_version)), _I32.pack(len(topics))]
    parts += [_sized(_topic_text(topic, version).encode()) for topic in topics]
    parts.append(_sized(msgspec.json.encode(body.filter_server_list or [])))
    if version >= VERSION_5_0_0:
        parts.append(_I32.pack(0))
    return zlib.compress(b"".join(parts))


def decode_compressed(data: Buffer, budget: Budget = DEFAULT_BUDGET) -> RegisterBrokerBody:
    """Read a compressed registration of any version.

    Raises:
        BadRequestError: it cannot be inflated, or something inside does not fit; says what.
        OverBudgetError: it inflates to too much, or says more topics than a broker may have.
    """
    reader = _Reader(_inflate(data, budget))
    data_version = decode_json(reader.part("data version"), DataVersion)
    # The count is only a bound: a part that is not there ends the loop, whatever it claims.
    count = reader.number("topic count")
    budget.check("topics_per_registration", count, "topics of the registration")
    table: dict[str, TopicConfig] = {}
    for _ in range(count):
        topic = _topic(reader.part("topic"))
        table[topic.topic_name] = topic
    filter_servers = decode_json(reader.part("filter servers"), list[str])
    return RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigSerializeWrapper(
            data_version=data_version, topic_config_table=table
        ),
        filter_server_list=filter_servers,
    )


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._at = 0

    def number(self, what: str) -> int:
        """The next int32; it is a size, so never negative."""
        if self._at + 4 > len(self._data):
            raise BadRequestError(f"{_NAME}: it ends before the {what}", field="body")
        (value,) = _I32.unpack_from(self._data, self._at)
        self._at += 4
        if value < 0:
            raise BadRequestError(f"{_NAME}: the {what} has size {value}", field="body")
        return int(value)

    def part(self, what: str) -> memoryview:
        """The next sized part."""
        size = self.number(what)
        begin, self._at = self._at, self._at + size
        if self._at > len(self._data):
            raise BadRequestError(f"{_NAME}: it ends inside the {what}", field="body")
        return self._data[begin : self._at]


def _inflate(data: Buffer, budget: Budget) -> bytes:
    inflater = zlib.decompressobj()
    try:
        inflated = inflater.decompress(data, budget.registration_bytes + 1)
    except zlib.error as exc:
        raise BadRequestError(f"{_NAME}: {exc}", field="body") from exc
    if not inflater.eof:
        budget.check("registration_bytes", len(inflated), "inflated registration")
        raise BadRequestError(f"{_NAME}: it is cut short", field="body")
    budget.check("registration_bytes", len(inflated), "inflated registration")
    return inflated


def _topic(text: memoryview) -> TopicConfig:
    try:
        name, read, write, perm, filter_type, *rest = str(text, "utf-8").split(" ", 5)
        # Nothing stands behind the separator where a 5.x broker's attributes are null.
        attributes = decode_json(rest[0].encode(), dict[str, str]) if any(rest) else {}
        fields = {
            "topicName": name,
            "readQueueNums": int(read),
            "writeQueueNums": int(write),
            "perm": int(perm),
            "topicFilterType": filter_type,
            "attributes": attributes,
        }
        return msgspec.convert(fields, TopicConfig)
    except (ValueError, msgspec.ValidationError) as exc:  # UnicodeDecodeError is a ValueError
        raise BadRequestError(
            f"{_NAME}: one of its topics cannot be read: {exc}", field="body"
        ) from exc


def _topic_text(topic: TopicConfig, version: int) -> str:
    fields: list[object] = [
        topic.topic_name,
        topic.read_queue_nums,
        topic.write_queue_nums,
        topic.perm,
        topic.topic_filter_type,
    ]
    if version >= VERSION_5_0_0:
        fields.append(msgspec.json.encode(topic.attributes).decode())
    return " ".join(map(str, fields))


def _sized(part: bytes) -> bytes:
    return _I32.pack(len(part)) + part
