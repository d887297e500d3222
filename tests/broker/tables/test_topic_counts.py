"""How many timers and half messages of each topic wait (T-115, X-50)."""

from __future__ import annotations

import msgspec
import pytest

from pocketmq.broker.stats.meters import Meters
from pocketmq.broker.tables.topic_counts import TopicCounts
from pocketmq.broker.timers.counts import TimerCounts
from pocketmq.broker.timers.layout import TimerMetrics
from pocketmq.broker.transactions.counts import TransactionCounts, TransactionMetrics
from pocketmq.operation.metrics import COMMITS, FINISH_LATENCY, ROLLBACKS
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


def test_what_is_decided_is_open_no_more_and_is_measured() -> None:
    meters = Meters()
    halves = TransactionCounts(meters)
    halves.change("a", 9, 100)
    halves.committed("a", [999, 1_000, -5, 1_001_000], 200)
    halves.rolled_back("a", 300)
    assert (halves.of("a"), halves.table()["a"].time_stamp) == (4, 300)
    assert (meters.counts[COMMITS]["a",], meters.counts[ROLLBACKS]["a",]) == (4, 1)
    seconds = meters.distributions[FINISH_LATENCY]["a",]
    assert (sum(seconds.counts), seconds.total) == (4, 0 + 1 + 0 + 1_001)
