"""Encoding 77 as files: a bare `msgpack.unpackb` reads what `docs/protocol.md` defines."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import msgpack
import pytest

from pocketmq.operation.control.requests import ClockResponseHeader, MoveClockRequestHeader
from pocketmq.protocol.bodies.clients import ConsumerData, HeartbeatData, LockBatchBody
from pocketmq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from pocketmq.protocol.body import decode_body, encode_body
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import FLAG_ONEWAY, FLAG_RESPONSE, Command, Encoding
from pocketmq.protocol.frame import FrameDecoder
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.clients import (
    HeartbeatRequestHeader,
    NotifyConsumerIdsChangedRequestHeader,
)
from pocketmq.protocol.headers.locks import LockBatchMqRequestHeader
from pocketmq.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from pocketmq.protocol.headers.route import GetRouteInfoRequestHeader
from pocketmq.protocol.headers.send import SendMessageRequestHeaderV2, SendMessageResponseHeader
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.subscription import SubscriptionData
from support.golden import GOLDEN, read_hex, write_hex
from support.wire_pair import frame_bytes

FOLDER = GOLDEN / "wire77"


def packed(body: Any) -> bytes:
    return encode_body(body, Encoding.MSGPACK)


def request(header: Header, body: bytes = b"", *, opaque: int = 7, flag: int = 0) -> Command:
    return Command(header.CODE, header, body, opaque, flag)


def answer(header: Header | None, body: bytes = b"", *, code: int = 0, **more: Any) -> Command:
    return Command(code, header, body, 7, FLAG_RESPONSE, **more)


COMMANDS: dict[str, tuple[str, Command]] = {
    "send_message_v2.request": (
        "310 with body 'hello'; one-letter names, as in RocketMQ",
        request(
            SendMessageRequestHeaderV2(
                producer_group="p", topic="flights", default_topic="TBW102",
                default_topic_queue_nums=4, queue_id=3, sys_flag=0,
                born_timestamp=1_700_000_000_000, flag=0, properties="TAGS\x01UA\x02",
            ),
            b"hello",
        ),
    ),
    "send_message_v2.response": (
        "0 with the place where it was stored",
        answer(
            SendMessageResponseHeader(
                msg_id="7F00000100002A9F0000000000000003", queue_id=3, queue_offset=2**40
            )
        ),
    ),
    "pull_message.request": (
        "11; a negative number, a number over 32 bits, a text outside ASCII",
        request(
            PullMessageRequestHeader(
                consumer_group="größe", topic="flights", queue_id=-1, queue_offset=2**62,
                max_msg_nums=32, sys_flag=2, suspend_timeout_millis=15_000,
            )
        ),
    ),
    "pull_message.not_found.response": (
        "19 with a remark and all four offsets",
        answer(
            PullMessageResponseHeader(
                suggest_which_broker_id=0, next_begin_offset=9, min_offset=0, max_offset=9
            ),
            code=19,
            remark="nothing new at offset 9",
        ),
    ),
    "heart_beat.request": (
        "34 with a structured body",
        request(
            HeartbeatRequestHeader(),
            packed(
                HeartbeatData(
                    client_id="10.0.0.1@7",
                    consumer_data_set=[
                        ConsumerData(
                            group_name="g",
                            subscription_data_set=[
                                SubscriptionData.parse("flights", "UA", 1_700_000_000_000)
                            ],
                        )
                    ],
                )
            ),
        ),
    ),
    "get_routeinfo_by_topic.request": (
        "105; accept_standard_json_only means nothing here and is left out",
        request(GetRouteInfoRequestHeader(topic="flights")),
    ),
    "get_routeinfo_by_topic.response": (
        "a route; the keys of brokerAddrs are integers",
        answer(
            None,
            packed(
                TopicRouteData(
                    queue_datas=[
                        QueueData(
                            broker_name="broker-a", read_queue_nums=4, write_queue_nums=4, perm=6
                        )
                    ],
                    broker_datas=[
                        BrokerData(
                            cluster="DefaultCluster", broker_name="broker-a",
                            broker_addrs={0: "127.0.0.1:10911", 1: "127.0.0.1:10921"},
                        )
                    ],
                )
            ),
        ),
    ),
    "lock_batch_mq.request": (
        "41; message queues are maps inside a list",
        request(
            LockBatchMqRequestHeader(),
            packed(
                LockBatchBody(
                    consumer_group="g", client_id="c", mq_set=[MessageQueue("T", "broker-a", 0)]
                )
            ),
        ),
    ),
    "notify_consumer_ids_changed.oneway.request": (
        "40, one-way",
        request(NotifyConsumerIdsChangedRequestHeader(consumer_group="g"), flag=FLAG_ONEWAY),
    ),
    "move_clock.request": (
        "30002, PocketMQ's own",
        request(MoveClockRequestHeader(time_ms=1_700_000_126_000)),
    ),
    "move_clock.response": (
        "booleans are booleans",
        answer(
            ClockResponseHeader(
                now_ms=1_700_000_126_000, next_deadline_ms=1_700_000_130_000, manual=True
            )
        ),
    ),
    "not_supported.response": (
        "3, without fields",
        answer(None, code=3, remark="request type 4711 is not supported"),
    ),
}  # fmt: skip
"""What each file holds. `python tests/protocol/test_golden_wire77.py` writes the files anew."""


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.hex"


@pytest.mark.parametrize("name", COMMANDS)
def test_we_write_what_the_file_holds(name: str) -> None:
    assert frame_bytes(COMMANDS[name][1]) == read_hex(path_of(name))


@pytest.mark.parametrize("name", COMMANDS)
def test_bare_msgpack_reads_the_file(name: str) -> None:
    data = read_hex(path_of(name))
    total, encoding, header_size = struct.unpack(">iB3s", data[:8])
    end = 8 + int.from_bytes(header_size)
    assert (total, encoding) == (len(data) - 4, ord("M"))
    header = msgpack.unpackb(data[8:end])
    command = COMMANDS[name][1]
    expected_ext = None if command.ext is None else dict(command.fields)
    assert header == {
        "code": command.code,
        "language": 3,
        "version": 479,
        "opaque": 7,
        "flag": command.flag,
        "remark": command.remark,
        "ext": expected_ext,
    }
    assert data[end:] == bytes(command.body_view)


@pytest.mark.parametrize("name", COMMANDS)
def test_we_read_what_the_file_holds(name: str) -> None:
    sent = COMMANDS[name][1]
    [read] = FrameDecoder().feed(read_hex(path_of(name)))
    assert (read.code, read.flag, read.remark) == (sent.code, sent.flag, sent.remark)
    if isinstance(sent.ext, Header):
        assert read.header(type(sent.ext)) == sent.ext
        body_type = type(sent.ext).BODY
        if body_type is not None:
            body = decode_body(read.body_view, body_type, Encoding.MSGPACK)
            assert encode_body(body, Encoding.MSGPACK) == bytes(sent.body_view)


def test_each_file_is_known_and_each_command_has_one() -> None:
    assert {path.stem for path in FOLDER.glob("*.hex")} == set(COMMANDS)


def test_the_typed_bodies_have_integer_keys_and_nested_maps() -> None:
    route = msgpack.unpackb(
        COMMANDS["get_routeinfo_by_topic.response"][1].body_view, strict_map_key=False
    )
    assert route["brokerDatas"][0]["brokerAddrs"] == {0: "127.0.0.1:10911", 1: "127.0.0.1:10921"}
    locks = msgpack.unpackb(COMMANDS["lock_batch_mq.request"][1].body_view)
    assert locks["mqSet"] == [{"topic": "T", "brokerName": "broker-a", "queueId": 0}]
    assert COMMANDS["heart_beat.request"][1].code == RequestCode.HEART_BEAT


if __name__ == "__main__":
    for name, (meaning, command) in COMMANDS.items():
        write_hex(path_of(name), frame_bytes(command), meaning)
