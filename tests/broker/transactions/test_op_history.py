"""How far back op records are read for a half message of before a restart (X-4)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.broker.store import MessageStore, PutStatus, StoredMessage
from pocketmq.broker.transactions import op_history
from pocketmq.broker.transactions.half_messages import op_record
from pocketmq.broker.transactions.op_history import AT_ONCE, OpHistory
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.validation import HALF_TOPIC, OP_HALF_TOPIC
from pocketmq.protocol.stored.record import decode_record, decode_records
from support.tiny_store import HOST, IN_MEMORY, NOW_MS, run_inline, store_at, text_message

Step = list[int] | None
"""None: a half message; numbers: an op record that names these half messages."""


@contextmanager
def halves_and_ops(steps: Sequence[Step]) -> Iterator[tuple[MessageStore, list[MessageExt]]]:
    """A store, and the half messages in it."""
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        store = store_at(Path(folder))
        store.load()
        run_inline(store)
        halves: list[MessageExt] = []
        for number, step in enumerate(steps):
            if step is None:
                put(store, text_message(number, HALF_TOPIC, queues=1))
                place = store.reads.physical_offset(HALF_TOPIC, 0, len(halves))
                assert place is not None
                record = store.commit_log.record_at(place)
                assert record is not None
                halves.append(decode_record(record))
            else:
                text = "".join(f"{each}," for each in step)
                put(store, op_record(text, 0, NOW_MS, HOST))
        yield store, halves
        store.close_files()


def put(store: MessageStore, message: StoredMessage) -> None:
    assert store.put_messages([message])[0].status is PutStatus.PUT_OK


def count_reads(store: MessageStore, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Offsets of op records, as they are read."""
    read: list[int] = []

    def decoded(data: bytes) -> Iterator[MessageExt]:
        for record in decode_records(data):
            read.append(record.queue_offset)
            yield record

    monkeypatch.setattr(op_history, "decode_records", decoded)
    return read


def test_a_question_reads_no_further_back_than_its_half_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ops = 10 * AT_ONCE  # 1.2 s of one turn for 20,000 of them, were all read
    steps: list[Step] = []
    for number in range(ops):
        steps += [None, [number]]
    with halves_and_ops([*steps, None]) as (store, halves):
        history = OpHistory(store.reads)
        read = count_reads(store, monkeypatch)
        assert not history.names(halves[-1]), "it is open"
        assert read == [], "no op record is behind it"
        assert history.names(halves[-2])
        assert len(read) == AT_ONCE
        assert history.names(halves[ops // 2])
        assert sorted(read) == list(range(ops - len(read), ops)), "none twice"
        assert ops // 2 <= len(read) <= ops // 2 + AT_ONCE
        history.forget()
        assert history.names(halves[-2])


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_what_op_records_name_is_known_whatever_is_asked_first(data: st.DataObject) -> None:
    steps: list[Step] = [None]
    for is_half in data.draw(st.lists(st.booleans(), max_size=3 * AT_ONCE)):
        count = steps.count(None)
        named = st.lists(st.integers(0, count - 1), max_size=3)
        steps.append(None if is_half else data.draw(named))
    with halves_and_ops(steps) as (store, halves):
        decided = {number for step in steps if step is not None for number in step}
        history = OpHistory(store.reads)
        for number in data.draw(st.permutations(range(len(halves)))):
            assert history.names(halves[number]) is (number in decided)


def test_only_the_newest_op_records_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_history, "MOST_RECORDS", 3)
    with halves_and_ops([None, None, [0], [1], [], []]) as (store, halves):
        history = OpHistory(store.reads)
        assert [history.names(half) for half in halves] == [False, True]


def test_an_offset_that_no_half_message_has_is_not_remembered() -> None:
    with halves_and_ops([None, [0, 1, 10**18]]) as (store, [half]):
        history = OpHistory(store.reads)
        assert history.names(half)
        put(store, text_message(7, HALF_TOPIC, queues=1))
        place = store.reads.physical_offset(HALF_TOPIC, 0, 1)
        assert place is not None
        record = store.commit_log.record_at(place)
        assert record is not None
        assert not history.names(decode_record(record))
        assert store.reads.max_offset(OP_HALF_TOPIC, 0) == 1
