"""The order of durability of check points and acks of pops, on a medium made by hand."""

from __future__ import annotations

import json

import pytest

from pocketmq.broker.pop.records import Ack, CheckPoint
from pocketmq.protocol.bodies.pop import BatchAck, BatchAckBody, ack_bits
from pocketmq.protocol.body import encode_body
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.headers.pop import (
    AckMessageRequestHeader,
    BatchAckMessageRequestHeader,
    ChangeInvisibleTimeRequestHeader,
    ChangeInvisibleTimeResponseHeader,
    PopMessageRequestHeader,
)
from pocketmq.protocol.messages.receipts import ReceiptHandle, pop_retry_topic
from pocketmq.protocol.messages.validation import REVIVE_GROUP, REVIVE_TOPIC_PREFIX
from simulation.handmade import Medium

OFFSETS = "/a/config/consumerOffset.json"
REVIVE = REVIVE_TOPIC_PREFIX + "c"
RETRY = pop_retry_topic("T", "G")


def noted(topic: str, group: str, offset: int) -> bytes:
    return json.dumps({"offsetTable": {f"{topic}@{group}": {"0": offset}}}).encode()


def write_point(medium: Medium, *offsets: int, popped_ms: int = 5) -> None:
    point = CheckPoint.of_pop(("G", "T", 0, "a"), offsets, popped_ms, 1000)
    medium.write(point.encode(), REVIVE, key=point.uniq_key, properties={"TAGS": "ck"})


def write_ack(medium: Medium, *offsets: int, start: int = 0, batch: bool = False) -> None:
    ack = Ack(
        offset=offsets[0], offsets=list(offsets) if batch else None, broker_name="a", group="G",
        pop_time_ms=5, queue_id=0, start_offset=start, topic="T",
    )  # fmt: skip
    medium.write(ack.encode(), REVIVE, key=ack.uniq_key, properties={"TAGS": ack.tag})


def handle(offset: int) -> str:
    return str(ReceiptHandle(0, 5, 1000, 0, 0, "a", 0, offset))


def ack_request(offset: int) -> Command:
    header = AckMessageRequestHeader(
        consumer_group="G", topic="T", queue_id=0, extra_info=handle(offset), offset=offset
    )
    return Command(header.CODE, header)


def batch_request(*offsets: int) -> Command:
    one = BatchAck(
        consumer_group="G", topic="T", retry="0", start_offset=0, queue_id=0, revive_queue_id=0,
        pop_time=5, invisible_time=1000, bits=ack_bits(offsets),
    )  # fmt: skip
    body = encode_body(BatchAckBody(broker_name="a", acks=[one]), Encoding.MSGPACK)
    return Command(BatchAckMessageRequestHeader.CODE, BatchAckMessageRequestHeader(), body=body)


@pytest.fixture
def medium() -> Medium:
    """Two messages on the disk, of a group that pops."""
    made = Medium()
    made.write(b"m0")
    made.write(b"m1")
    made.sync()
    header = PopMessageRequestHeader(
        consumer_group="G", topic="T", queue_id=-1, max_msg_nums=2, invisible_time=1000,
        poll_time=0, born_time=0, init_mode=0,
    )  # fmt: skip
    made.ledger.asked(Command(header.CODE, header))
    return made


def test_a_group_passes_what_has_its_check_point_on_the_disk(medium: Medium) -> None:
    write_point(medium, 0, 1)
    found = medium.note(OFFSETS, noted("T", "G", 1))
    assert [each.split(": ", 1)[1] for each in found] == [
        "T 0 offset 0 of G, by 1: passed by its group before its check point was on the disk"
    ]
    medium.sync()
    assert medium.note(OFFSETS, noted("T", "G", 2)) == []


@pytest.mark.parametrize("request_", [ack_request(1), batch_request(1)], ids=["one", "batch"])
def test_or_what_was_acknowledged(medium: Medium, request_: Command) -> None:
    medium.ledger.asked(ack_request(0))
    medium.ledger.asked(request_)
    assert medium.note(OFFSETS, noted("T", "G", 2)) == []


def test_other_groups_are_not_looked_at(medium: Medium) -> None:
    assert medium.note(OFFSETS, noted("T", "H", 2)) == []


@pytest.mark.parametrize("retry", [RETRY, pop_retry_topic("T", "G", v2=True)])
def test_a_check_point_is_passed_when_its_messages_are_safe(medium: Medium, retry: str) -> None:
    write_point(medium, 0, 1)
    write_point(medium, 0, popped_ms=9)
    medium.sync()
    write_ack(medium, 0)
    medium.write(b"m1", retry, times=1)
    path, note = OFFSETS, noted(REVIVE, REVIVE_GROUP, 0)
    found = medium.note(path, note)
    assert [each.split(": ")[1] for each in found] == [
        f"T 0 offset {each} of G, by {REVIVE} 0 up to 0" for each in (0, 1)
    ]
    fresh = Medium()
    for body in (b"m0", b"m1"):
        fresh.write(body)
    write_point(fresh, 0, 1)
    write_ack(fresh, 0, batch=True)
    fresh.write(b"m1", retry, times=1)
    fresh.sync()
    assert fresh.note(path, note) == []


def test_an_ack_is_answered_when_it_is_on_the_disk_beside_its_check_point(medium: Medium) -> None:
    one, both = ack_request(0), batch_request(0, 1)
    assert medium.answer(one, one.reply()) == [], "both are in memory"
    write_point(medium, 0, 1)
    medium.sync()
    [violation] = medium.answer(one, one.reply())
    assert "the ack of T 0 offsets [0] by G: answered before its records were" in violation
    assert medium.answer(one, one.reply(code=1)) == [], "refused: nothing is promised"
    write_ack(medium, 0)
    medium.sync()
    assert medium.answer(one, one.reply()) == []
    [violation] = medium.answer(both, both.reply())
    assert "offsets [1]" in violation


def test_a_new_time_is_answered_when_its_check_point_is_on_the_disk(medium: Medium) -> None:
    header = ChangeInvisibleTimeRequestHeader(
        consumer_group="G", topic="T", queue_id=0, extra_info=handle(0), offset=0,
        invisible_time=9,
    )  # fmt: skip
    request = Command(header.CODE, header)
    answer = request.reply(
        ChangeInvisibleTimeResponseHeader(pop_time=7, invisible_time=9, revive_qid=0)
    )
    [violation] = medium.answer(request, answer)
    assert "the new time of T 0 offset 0" in violation
    write_point(medium, 0, popped_ms=7)
    medium.sync()
    assert medium.answer(request, answer) == []
