"""How many timers and half messages of each topic wait (T-115, X-50)."""

from __future__ import annotations

import msgspec
import pytest

from pocketmq.broker.metrics.meters import Meters
from pocketmq.broker.tables.topic_counts import TopicCounts
from pocketmq.broker.timers.counts import TimerCounts
from pocketmq.broker.timers.layout import TimerMetrics
from pocketmq.broker.transactions.counts import TransactionCounts, TransactionMetrics
from pocketmq.protocol.body import encode_json


def test_each_change_counts_and_is_to_be_saved() -> None:
    counts = TopicCounts()
    counts.change("a", 2, 100)
    counts.change("b", 1, 200)
    counts.change("a", -1, 300)
    assert (counts.of("a"), counts.of("b"), counts.of("c"), counts.total) == (1, 1, 0, 2)
    assert {topic: count.time_stamp for topic, count in counts.table().items()} == {
        "a": 300, "b": 200,
    }  # fmt: skip
    assert (counts.version.counter, counts.version.timestamp) == (3, 300)
    assert counts.unsaved.take()


@pytest.mark.parametrize("topic", ["", None])
def test_what_has_no_topic_is_not_counted(topic: str | None) -> None:
    counts = TopicCounts()
    counts.change(topic, 1, 100)
    assert (counts.table(), counts.version.counter, bool(counts.unsaved)) == ({}, 0, False)


def test_a_deleted_topic_is_forgotten() -> None:  # T-157
    counts = TopicCounts()
    counts.change("a", 2, 100)
    assert counts.unsaved.take()
    counts.forget("b")
    assert not counts.unsaved
    counts.forget("a")
    assert counts.unsaved.take()
    assert (counts.of("a"), counts.total, counts.table()) == (0, 0, {})


def test_what_was_stored_is_counted_on_after_a_restart() -> None:
    timers, again = TimerCounts(), TimerCounts()
    timers.change("a", 2, 100)
    again.load(msgspec.json.decode(encode_json(timers.wrapper()), type=TimerMetrics))
    again.change("a", 1, 200)
    assert (again.of("a"), again.version.counter) == (3, 2)
    halves, later = TransactionCounts(Meters()), TransactionCounts(Meters())
    halves.change("a", 2, 100)
    later.load(msgspec.json.decode(encode_json(halves.wrapper()), type=TransactionMetrics))
    later.change("a", -1, 200)
    assert (later.of("a"), later.version.counter) == (1, 2)
