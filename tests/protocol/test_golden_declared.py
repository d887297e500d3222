"""Every declared header and body against what RocketMQ's own classes write (`golden/declared`)."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest

from pocketmq.protocol.body import decode_body, encode_body
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.fastjson import parse
from pocketmq.protocol.frame import FrameDecoder, encode_frame
from pocketmq.protocol.header import Header
from support.declared import HEADERS
from support.golden import GOLDEN
from support.java_classes import GONE, MAPS, OWN, WITHOUT_HEADER, bodies, headers, unknown

FIELDS: dict[str, dict[str, Any]] = json.loads((GOLDEN / "declared/headers.json").read_text())
BODIES: dict[str, str] = json.loads((GOLDEN / "declared/bodies.json").read_text())

HEADER_PAIRS = list(headers())
BODY_PAIRS = list(bodies())


def name_of(each: type | str) -> str:
    """Id of a test: our class's name."""
    return each.rpartition(".")[2] if isinstance(each, str) else each.__name__


def fields_of(cls: type[Header], java: str) -> dict[str, Any]:
    """What RocketMQ's class wrote; a class that it does not have is named."""
    if java not in FIELDS:
        pytest.fail(unknown(cls.__name__, java))
    return FIELDS[java]


def body_of(cls: type[msgspec.Struct], java: str) -> str:
    """The same of a body."""
    if java not in BODIES:
        pytest.fail(unknown(cls.__name__, java))
    return BODIES[java]


ROUTING = {"ns", "nsd", "bname", "oway", "lo"}
"""What every request of a 5.x proxy may carry beside its own fields; `n` is `bname` of a send."""

NOT_READ: dict[str, set[str]] = {}
"""Fields of RocketMQ's headers that ours leave out."""

BESIDE_THE_CLASS = {
    "ChangeInvisibleTimeRequestHeader": {"suspend"},  # of 5.5, not yet of 5.3.3
    "DeleteSubscriptionGroupRequestHeader": {"removeOffset"},  # of 4.9
    "NotificationRequestHeader": {"exp", "expType"},  # of 5.5
    "QueryMessageRequestHeader": {"_UNIQUE_KEY_QUERY", "indexType", "lastKey"},  # two of 5.5
    "RecallMessageResponseHeader": {"MSG_REGION"},
    "RegisterBrokerRequestHeader": {"__ZONE_NAME"},
    "SendMessageResponseHeader": {"MSG_REGION", "TRACE_ON"},
    "SubscriptionGroupWrapper": {".forbiddenTable"},  # written by the broker's table, which is 201
}
"""Fields that RocketMQ adds to the request or the reply without declaring them in its class, or
declares in other releases."""

NOT_KEPT = {
    "ConsumerRunningInfo": {"userConsumerInfo"},  # of an application's own
    "QueryConsumeTimeSpanBody": {  # the times as text: who reads them has the numbers
        "consumeTimeSpanSet.consumeTimeStampStr",
        "consumeTimeSpanSet.maxTimeStampStr",
        "consumeTimeSpanSet.minTimeStampStr",
    },
    "QueueTimeSpan": {"consumeTimeStampStr", "maxTimeStampStr", "minTimeStampStr"},
    "RegisterBrokerBody": {  # of static topics
        "topicConfigSerializeWrapper.mappingDataVersion",
        "topicConfigSerializeWrapper.topicQueueMappingDetailMap",
        "topicConfigSerializeWrapper.topicQueueMappingInfoMap",
    },
    "TopicRouteData": {"topicQueueMappingByBroker"},  # of static topics
}
"""Keys of RocketMQ's bodies that ours leave out."""


@pytest.mark.parametrize(("cls", "java"), HEADER_PAIRS, ids=name_of)
def test_a_header_has_the_fields_that_rocketmq_s_class_has(cls: type[Header], java: str) -> None:
    written = fields_of(cls, java)["fields"]
    declared = set(cls.__struct_encode_fields__)
    assert set(written) - declared - ROUTING == NOT_READ.get(cls.__name__, set())
    assert declared - set(written) == BESIDE_THE_CLASS.get(cls.__name__, set())
    kept = {name: text for name, text in written.items() if name in declared}
    assert cls.from_fields(written).to_text() == kept


@pytest.mark.parametrize("encoding", ["json", "rocketmq"])
@pytest.mark.parametrize(("cls", "java"), HEADER_PAIRS, ids=name_of)
def test_a_header_in_a_frame_of_rocketmq_is_read_and_written_back(
    cls: type[Header], java: str, encoding: str
) -> None:
    [theirs] = _commands(base64.b64decode(fields_of(cls, java)[encoding]))
    assert (theirs.code, theirs.opaque) == (7, 9)
    header = theirs.header(cls)
    assert header == cls.from_fields(fields_of(cls, java)["fields"])
    ours = Command(7, header, opaque=9, encoding=Encoding[encoding.upper()])
    [read] = _commands(b"".join(encode_frame(ours)))
    assert dict(read.fields) == header.to_text()


@pytest.mark.parametrize(("cls", "java"), BODY_PAIRS, ids=name_of)
def test_a_body_of_rocketmq_is_read_and_written_back(cls: type[msgspec.Struct], java: str) -> None:
    read = decode_body(body_of(cls, java).encode(), cls, Encoding.JSON)
    ours = json.loads(encode_body(read, Encoding.JSON))
    missing, differing = _compare(parse(body_of(cls, java)), ours)
    assert differing == BESIDE_THE_CLASS.get(cls.__name__, set())
    assert missing == NOT_KEPT.get(cls.__name__, set())


def test_requests_without_a_header_class_declare_no_field() -> None:
    for cls in HEADERS:
        if cls.__name__ in WITHOUT_HEADER:
            assert cls.__struct_fields__ == (), cls


def test_every_declared_header_is_accounted_for() -> None:
    known = {cls.__name__ for cls, _ in headers()} | OWN | WITHOUT_HEADER | GONE | MAPS
    assert {cls.__name__ for cls in HEADERS} == known


def _commands(frame: bytes) -> list[Command]:
    decoder = FrameDecoder()
    commands = list(decoder.feed(frame))
    assert decoder.failure is None
    return commands


def _compare(theirs: Any, ours: Any, path: str = "") -> tuple[set[str], set[str]]:
    """Keys that ours lacks, and places where a value differs or only ours has one."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        missing = {f"{path}.{key}".lstrip(".") for key in theirs if key not in ours}
        differing = {f"{path}.{key}" for key in ours if key not in theirs}
        for key in theirs.keys() & ours.keys():
            below, other = _compare(theirs[key], ours[key], f"{path}.{key}")
            missing |= below
            differing |= other
        return missing, differing
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        parts = [_compare(a, b, path) for a, b in zip(theirs, ours, strict=True)]
        return set[str]().union(*(m for m, _ in parts)), set[str]().union(*(d for _, d in parts))
    return set(), set() if theirs == ours else {f"{path}: {theirs!r} != {ours!r}"}
