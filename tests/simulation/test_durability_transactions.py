"""The order of durability of half messages and op records, on a medium made by hand."""

from __future__ import annotations

import json

import pytest

from pocketmq.broker.transactions.check_service import GROUP as CHECK_GROUP
from pocketmq.protocol.command import Command
from pocketmq.protocol.headers.transactions import EndTransactionRequestHeader
from pocketmq.protocol.messages.validation import (
    HALF_TOPIC,
    OP_HALF_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
)
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.simulation.invariants.durability.half_messages import GROUP
from simulation.handmade import Medium

OFFSETS = "/a/config/consumerOffset.json"


def progress(halves: int, ops: int = 0) -> bytes:
    table = {f"{HALF_TOPIC}@{GROUP}": {"0": halves}, f"{OP_HALF_TOPIC}@{GROUP}": {"0": ops}}
    return json.dumps({"offsetTable": table}).encode()


def end(half: int, outcome: int, key: str) -> Command:
    header = EndTransactionRequestHeader(
        producer_group="P", tran_state_table_offset=0, commit_log_offset=half,
        commit_or_rollback=outcome, msg_id=key,
    )  # fmt: skip
    return Command(header.CODE, header)


def test_the_group_is_that_of_brokers() -> None:
    assert GROUP == CHECK_GROUP


def becomes(medium: Medium, half: int, what: str) -> None:
    match what:
        case "committed":
            medium.write(b"m0", sys_flag=MessageSysFlag.TRANSACTION_COMMIT)
        case "given up":
            medium.write(b"m0", TRANS_CHECK_MAX_TIME_TOPIC)
        case "stored again":
            medium.write(b"m0", HALF_TOPIC, properties={"TRANSACTION_CHECK_TIMES": "1"})
        case _:
            medium.ledger.asked(end(half, MessageSysFlag.TRANSACTION_ROLLBACK, "m0"))


@pytest.mark.parametrize("what", ["committed", "given up", "stored again"])
def test_a_half_message_is_passed_when_what_became_of_it_is_on_the_disk(what: str) -> None:
    medium = Medium()
    half = medium.write(b"m0", HALF_TOPIC, waits_for="T")
    medium.sync()
    medium.ledger.asked(end(half, MessageSysFlag.TRANSACTION_COMMIT, "m0"))
    becomes(medium, half, what)
    [violation] = medium.note(OFFSETS, progress(1))
    assert "half message 0 of queue 0, by 1: passed before what became of it" in violation


@pytest.mark.parametrize("what", ["committed", "given up", "stored again", "rolled back"])
def test_then_it_is_passed(what: str) -> None:
    medium = Medium()
    half = medium.write(b"m0", HALF_TOPIC, waits_for="T")
    becomes(medium, half, what)
    medium.sync()
    assert medium.note(OFFSETS, progress(1)) == []


def test_what_was_stored_again_is_passed_when_that_is_settled() -> None:
    medium = Medium()
    medium.write(b"m0", HALF_TOPIC)
    medium.write(b"m0", HALF_TOPIC, properties={"TRANSACTION_CHECK_TIMES": "1"})
    medium.sync()
    [violation] = medium.note(OFFSETS, progress(2))
    assert "half message 1 of queue 0, by 2" in violation


def test_an_op_record_is_passed_after_the_half_messages_that_it_names() -> None:
    medium = Medium()
    for body in (b"m0", b"m1"):
        medium.write(body, HALF_TOPIC)
        medium.write(body, sys_flag=MessageSysFlag.TRANSACTION_COMMIT)
    medium.write(b"0,1,", OP_HALF_TOPIC)
    medium.write(b"1", OP_HALF_TOPIC)
    medium.sync()
    assert medium.note(OFFSETS, progress(1, 1)) == [], "the next one names it, too"
    [violation] = medium.note(OFFSETS, progress(1, 2))
    assert "half message 1 of queue 0, of which 1 are passed, and op record 1" in violation
    assert medium.note(OFFSETS, progress(2, 2)) == []
