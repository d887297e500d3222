"""The order of durability: each rule sees what it is there to see, on a medium made by hand."""

from __future__ import annotations

import struct

import pytest

from pocketmq.broker.store.flush.checkpoint import CHECKPOINT
from pocketmq.protocol.command import Command
from pocketmq.protocol.headers.send import ConsumerSendMsgBackRequestHeader
from pocketmq.protocol.headers.topics import UpdateAndCreateTopicRequestHeader
from pocketmq.simulation.invariants.durability import RULES
from pocketmq.simulation.invariants.durability.checkpoint import DURABLE_AT
from simulation.handmade import Medium

TOPICS = b'{"topicConfigTable":{"T":{"writeQueueNums":%d},"%%RETRY%%G":{"writeQueueNums":1}}}'


@pytest.fixture
def medium() -> Medium:
    made = Medium()
    made.keep("/a/config/topics.json", TOPICS % 2)
    return made


def test_a_send_is_answered_when_its_record_is_on_the_disk(medium: Medium) -> None:
    at = medium.write(b"m0")
    [violation] = medium.answer_send(at)
    assert violation.startswith("7.000 a: a send stored at 0")
    assert violation.endswith("acknowledged before its record was on the disk")
    medium.sync()
    assert medium.answer_send(at) == []
    assert len(medium.answer_send(at, medium.write(b"m1"))) == 1, "the second of a batch"


def test_a_send_is_answered_when_its_queue_is_in_the_topic_table(medium: Medium) -> None:
    known, unknown = medium.write(b"m0", queue_id=1), medium.write(b"m1", queue_id=2)
    medium.sync()
    assert medium.answer_send(known) == []
    [violation] = medium.answer_send(unknown)
    assert "queue 2 of T, of which 2 queues are noted" in violation
    medium.ledger.failed("/a/config/topics.json.tmp")  # a broker that cannot write serves on
    assert medium.answer_send(unknown) == []
    medium.keep("/a/config/topics.json", TOPICS % 3)
    assert medium.answer_send(unknown) == []


def test_a_topic_change_is_answered_when_it_is_on_the_disk(medium: Medium) -> None:
    for queues, wrong in ((2, 0), (3, 1)):
        header = UpdateAndCreateTopicRequestHeader(
            topic="T", read_queue_nums=queues, write_queue_nums=queues, perm=6
        )
        request = Command(header.CODE, header)
        medium.ledger.answered(request, request.reply())
        assert len(medium.found()) == wrong


@pytest.mark.parametrize("topic", ["SCHEDULE_TOPIC_XXXX", "%DLQ%G"])
def test_a_send_back_is_answered_when_the_copy_is_on_the_disk(medium: Medium, topic: str) -> None:
    at = medium.write(b"m0")
    medium.sync()
    header = ConsumerSendMsgBackRequestHeader(offset=at, group="G", delay_level=0)
    request = Command(header.CODE, header)
    medium.ledger.answered(request, request.reply(code=1))  # refused: nothing is promised
    assert medium.found() == []
    medium.write(b"m0", topic, times=1, waits_for="" if topic == "%DLQ%G" else "%RETRY%G")
    medium.ledger.answered(request, request.reply())
    [violation] = medium.found()
    assert "m0 failed at 0 retries: its send-back was acknowledged before" in violation
    medium.sync()
    medium.write(b"m0", topic, times=1, waits_for="" if topic == "%DLQ%G" else "%RETRY%G")
    medium.sync()
    medium.ledger.answered(request, request.reply())
    assert medium.found() == []


def test_a_delivery_is_noted_when_the_copies_are_on_the_disk(medium: Medium) -> None:
    path = "/a/config/delayOffset.json"
    for body in (b"m0", b"m1"):
        medium.write(body, "SCHEDULE_TOPIC_XXXX", queue_id=2, waits_for="T")
    medium.sync()
    medium.write(b"m0")
    medium.ledger.noted(path, b'{"offsetTable":{"3":1}}')
    [violation] = medium.found()
    assert "level 3 to 1, of which 0 is not safe" in violation
    medium.sync()
    medium.ledger.noted(path, b'{"offsetTable":{"3":1}}')
    assert medium.found() == []
    medium.ledger.noted(path, b'{"offsetTable":{"3":2}}')
    assert len(medium.found()) == 1
    medium.ledger.expired("SCHEDULE_TOPIC_XXXX", 2, 2)
    medium.ledger.noted(path, b'{"offsetTable":{"3":2}}')
    assert medium.found() == []


def test_an_offset_is_noted_when_the_log_has_come_so_far(medium: Medium) -> None:
    path, noted = "/a/config/consumerOffset.json", b'{"offsetTable":{"T@G":{"0":1}}}'
    medium.write(b"m0")
    medium.ledger.noted(path, noted)
    [violation] = medium.found()
    assert "T@G 0 to 1, the log has 0" in violation
    medium.sync()
    medium.ledger.noted(path, noted)
    assert medium.found() == []


def test_the_number_is_read_where_the_store_writes_it() -> None:
    assert CHECKPOINT.offset_of("durable offset") == DURABLE_AT


def test_the_checkpoint_confirms_what_log_and_queues_have_on_the_disk(medium: Medium) -> None:
    medium.write(b"m0")
    end = medium.write(b"m1")
    note = bytes(DURABLE_AT) + struct.pack(">q", end)
    medium.ledger.noted("/a/checkpoint", note)
    assert f"log offset {end}, the log is safe to 0" in medium.found()[0]
    medium.sync()
    medium.ledger.noted("/a/checkpoint", note)
    assert f"T 0 offset 0, by {end}: confirmed before" in medium.found()[0]


def test_queue_entries_of_what_is_confirmed_are_compared(medium: Medium) -> None:
    end = medium.write(b"m0")
    end = medium.write(b"m1")
    medium.sync()
    medium.keep("/a/consumequeue/T/0/" + "0" * 20, struct.pack(">qiq", 0, end, 0))
    medium.ledger.noted("/a/checkpoint", bytes(DURABLE_AT) + struct.pack(">q", end))
    assert medium.found() == []


def test_recovery_keeps_what_was_on_the_disk(medium: Medium) -> None:
    end = medium.write(b"m0")
    medium.sync()
    end = medium.ledger.medium.log_end
    medium.ledger.restarted(end)
    assert medium.found() == []
    medium.ledger.restarted(end - 1)
    assert "cut by recovery although it was on the disk" in medium.found()[0]


def test_every_rule_says_what_it_is_about_in_words_of_its_own() -> None:
    assert all(rule.ABOUT for rule in RULES)
    assert len({rule.WORDS for rule in RULES}) == len(RULES)
