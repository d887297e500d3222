"""Check points and acks, against what RocketMQ's classes write (K-70 to K-74)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.broker.pop.records import Ack, CheckPoint, decode_ack, decode_check_point
from pocketmq.protocol.errors import BadRequestError
from support.java_lines import java_text

POPPED_MS = 1795336206471


def check_point(*offsets: int) -> CheckPoint:
    return CheckPoint.of_pop(("G1", "TP", 3, "broker-a"), offsets, POPPED_MS, 6000)


def test_a_check_point_is_written_as_rocketmq_writes_it() -> None:  # K-71
    point = check_point(7, 9, 12)
    assert point.encode().decode() == java_text("record.ck")
    again = decode_check_point(java_text("record.ck.again").encode())
    assert again.encode().decode() == java_text("record.ck.again")
    assert (again.bit_map, again.revive_offset, again.put_again) == (5, 12, "1")
    assert point.uniq_key == f"TP@3@7@G1@{POPPED_MS}@broker-a@ck"


def test_a_check_point_of_an_old_broker_counts_from_its_start() -> None:  # K-73
    old = decode_check_point(java_text("record.ck.old").encode())
    assert old.encode().decode() == java_text("record.ck.old")
    assert [old.index_of(offset) for offset in (6, 7, 9, 10)] == [None, 0, 2, None]
    assert old.open_offsets() == [7, 8, 9]


def test_acks_are_written_as_rocketmq_writes_them() -> None:  # K-71
    ack = Ack(
        offset=9,
        broker_name="broker-a",
        group="G1",
        pop_time_ms=POPPED_MS,
        queue_id=3,
        start_offset=7,
        topic="TP",
    )
    assert ack.encode().decode() == java_text("record.ack")
    for name in ("record.ack", "record.bAck", "record.bAck.flushed"):
        assert decode_ack(java_text(name).encode()).encode().decode() == java_text(name)
    batch = decode_ack(java_text("record.bAck").encode())
    assert (batch.tag, list(batch.acknowledged)) == ("bAck", [7, 9])
    assert ack.uniq_key == f"TP@3@9@G1@{POPPED_MS}@broker-a@ack"


def test_an_ack_finds_its_check_point_also_without_a_broker_s_name() -> None:  # K-74
    point = check_point(7, 9)
    for name in ("record.ack", "record.bAck", "record.bAck.flushed"):
        assert decode_ack(java_text(name).encode()).key("broker-a") == point.key


def test_long_names_are_read_as_well() -> None:  # K-72
    text = (
        '{"ackOffset":9,"brokerName":"broker-a","consumerGroup":"G1","popTime":1795336206471,'
        '"queueId":3,"startOffset":7,"topic":"TP"}'
    )
    assert decode_ack(text.encode()).encode().decode() == java_text("record.ack")


@given(st.sets(st.integers(0, 1000), min_size=1, max_size=32), st.data())
def test_what_nobody_acknowledged_stays_open(offsets: set[int], data: st.DataObject) -> None:
    ordered = sorted(offsets)
    point = decode_check_point(check_point(*ordered).encode())
    done = data.draw(st.sets(st.sampled_from(ordered)))
    for offset in done:
        assert point.acknowledge(offset)
    assert point.open_offsets() == [offset for offset in ordered if offset not in done]
    assert point.is_done == (done == offsets)
    assert not point.acknowledge(1001)


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"so":"x"}', b"\xff", b"null"])
def test_what_is_no_record_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequestError):
        decode_check_point(body)
    with pytest.raises(BadRequestError):
        decode_ack(body)


def test_an_ack_of_what_the_check_point_does_not_hold_changes_nothing() -> None:  # K-74
    point = check_point(7, 9, 12)
    assert point.acknowledge(8) is False
    assert point.acknowledge(9) is True
    assert point.bit_map == 2
    assert point.open_offsets() == [7, 12]


def test_numbers_may_stand_in_quotes() -> None:  # as fastjson reads them
    text = (
        '{"ao":"9","bn":"broker-a","c":"G1","pt":"1795336206471","q":"3","so":"7","t":"TP"}',
        '{"ackOffset":"9","brokerName":"broker-a","consumerGroup":"G1",'
        '"popTime":"1795336206471","queueId":"3","startOffset":"7","topic":"TP"}',
    )
    for each in text:
        assert decode_ack(each.encode()).encode().decode() == java_text("record.ack")
    point = java_text("record.ck").replace('"so":7', '"so":"7"').replace('"q":3', '"q":"3"')
    assert '"so":"7"' in point
    assert decode_check_point(point.encode()).encode().decode() == java_text("record.ck")


POINT = {"so": 0, "pt": 0, "it": 0, "bm": 0, "n": 1, "q": 0, "t": "T", "c": "G", "d": [0]}
LONGS = (2**63 - 1, -(2**63))


@pytest.mark.parametrize(
    "fits",
    [
        *({"so": end, "d": [0]} for end in LONGS),
        {"so": 2**63 - 8, "d": [7]},
        *({"pt": end} for end in LONGS),
        {"pt": 2**63 - 8, "it": 7},
        {"q": 0},
        {"n": 0},
        {"n": 2, "d": [0, 1]},
        {"n": 1, "d": [0, 1]},
        {"n": 32, "d": None},
    ],
)
def test_a_check_point_with_numbers_at_their_ends_is_read(fits: dict[str, object]) -> None:
    assert decode_check_point(json.dumps(POINT | fits).encode()).topic == "T"


@pytest.mark.parametrize(
    "broken",
    [
        {"so": 2**63 - 8, "d": [8]},
        {"so": -(2**63), "d": [-1]},
        {"pt": 2**63 - 8, "it": 8},
        {"pt": -(2**63), "it": -1},
        {"q": -1},
        {"n": -1},
        {"n": 33, "d": None},
        {"n": 2, "d": [0]},
    ],
)
def test_a_check_point_with_a_number_beyond_is_none(broken: dict[str, object]) -> None:
    with pytest.raises(BadRequestError, match="not a valid record of the revive topic"):
        decode_check_point(json.dumps(POINT | broken).encode())


def test_a_record_has_65536_bytes_at_most() -> None:
    body = json.dumps(POINT).encode()
    assert decode_check_point(body.ljust(65_536)).count == 1
    with pytest.raises(BadRequestError, match="65537 bytes"):
        decode_check_point(body.ljust(65_537))


def test_a_check_point_is_due_10_s_after_it_was_stored_at_the_latest() -> None:
    point = check_point(7)
    point.stored_at(POPPED_MS)
    assert point.revive_time_ms == POPPED_MS + 6000
    point.stored_at(POPPED_MS - 5000)  # by hand: timers store it 2 s before that at most
    assert point.revive_time_ms == POPPED_MS + 5000
