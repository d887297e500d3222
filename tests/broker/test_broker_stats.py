"""Counters and rates of a broker."""

from __future__ import annotations

from typing import Any

import pytest

from pocketmq.broker.admin import assembly
from pocketmq.broker.stats.broker_stats import BrokerStats, PutTimes
from pocketmq.broker.stats.message_type import MessageType
from pocketmq.broker.stats.traffic import DAY_PERIOD_MS, HOUR_PERIOD_MS, Traffic
from pocketmq.protocol.messages.validation import SCHEDULE_TOPIC
from support.broker_rig import BrokerRig


def test_rates_are_averages_over_10_60_and_600_s() -> None:  # E-29
    stats = BrokerStats()
    stats.note_put("orders", 600, 6000, now=1000.0)
    stats.note_put("orders", 60, 600, now=1050.5)
    assert stats.rates(1055.0)["putTps"] == "6.0 11.0 1.1"
    assert (stats.put_messages, stats.put_bytes) == (660, 6600)


def test_pulls_that_find_nothing_are_misses() -> None:  # E-29
    stats = BrokerStats()
    stats.note_get("orders", "readers", 32, 320, now=5.0)
    stats.note_get("orders", "readers", 0, 0, now=5.0)
    stats.note_get("orders", "readers", 0, 0, now=6.0)
    rates = stats.rates(6.0)
    assert rates["getTransferredTps"].split()[0] == "3.2"
    assert rates["getFoundTps"].split()[0] == "0.1"
    assert rates["getMissTps"].split()[0] == "0.2"
    assert rates["getTotalTps"].split()[0] == "0.3"


def test_seconds_older_than_ten_minutes_are_forgotten() -> None:
    stats = BrokerStats()
    for second in range(2000):
        stats.note_put("orders", 1, 1, now=float(second))
    assert len(stats._seconds) == 601
    assert stats.rates(1999.0)["putTps"].split()[2] == "1.0"


def test_a_minute_is_seven_samples_and_the_first_has_zeros_before_it() -> None:  # O-31
    stats = BrokerStats()
    for tick in range(1, 20):
        stats.note_put("orders", 10, 1000, now=0.0)
        stats.sample(1_000_000 + tick * 10_000)
    minute = stats.topics["orders"].data(of_bytes=False).stats_minute
    assert (minute.sum, minute.tps, minute.avgpt) == (60, 1.0, 10.0)
    stats.forget_topic("orders")
    assert stats.topics == {}


def test_put_times_are_those_of_the_last_full_minute() -> None:  # O-24
    times = PutTimes()
    for took_s, count in ((0.0, 95), (0.007, 3), (0.3, 1), (60.0, 1)):
        times.note(took_s, count)
    assert times.percentile(0.99) == "0.00"
    times.turn()
    assert (times.percentile(0.98), times.percentile(0.99)) == ("7.00", "300.00")
    counts = [part.split(":")[1] for part in times.distribution().split()]
    assert counts == ["95", "3", "0", "0", "0", "1", "0", "0", "0", "0", "0", "0", "1"]
    assert times.max_ms == 60_000


@pytest.mark.parametrize(
    ("took_ms", "name"),
    [
        (0.9, "[<=0ms]"), (1, "[0~10ms]"), (9.9, "[0~10ms]"), (10, "[10~50ms]"),
        (49.9, "[10~50ms]"), (50, "[50~100ms]"), (99.9, "[50~100ms]"), (100, "[100~200ms]"),
        (199.9, "[100~200ms]"), (200, "[200~500ms]"), (499.9, "[200~500ms]"), (500, "[500ms~1s]"),
        (999.9, "[500ms~1s]"), (1_000, "[1~2s]"), (1_999.9, "[1~2s]"), (2_000, "[2~3s]"),
        (2_999.9, "[2~3s]"), (3_000, "[3~4s]"), (3_999.9, "[3~4s]"), (4_000, "[4~5s]"),
        (4_999.9, "[4~5s]"), (5_000, "[5~10s]"), (9_999.9, "[5~10s]"), (10_000, "[10s~]"),
    ],
)  # fmt: skip
def test_a_put_is_in_the_class_of_its_time(took_ms: float, name: str) -> None:  # O-24
    times = PutTimes()
    times.note((took_ms + 0.01) / 1000, 3)
    times.turn()
    assert [part for part in times.distribution().split() if not part.endswith(":0")] == [
        f"{name}:3"
    ]


def totals(traffic: Traffic | None) -> tuple[int, int, int]:
    assert traffic is not None
    return traffic.messages, traffic.size_bytes, traffic.times


def test_nothing_was_counted_at_the_start() -> None:
    stats = BrokerStats()
    counts = (stats.puts_failed, stats.pulls_found, stats.pulls_missed, stats.longest_get_ms)
    assert (counts, stats.got_messages, stats.put_times.max_ms) == ((0, 0, 0, 0), 0, 0)


def test_totals_for_people_leave_out_system_topics() -> None:  # O-24
    stats = BrokerStats()
    stats.note_put("orders", 2, 20, now=1.0)
    stats.note_put(SCHEDULE_TOPIC, 3, 30, now=1.0, took_s=0.005)
    assert (totals(stats.put), totals(stats.put_by_people)) == ((5, 50, 2), (2, 20, 1))
    assert stats.put_times.max_ms == 5
    stats.note_get("orders", "g", 4, 40, now=1.0, took_s=3.0)
    stats.note_get(SCHEDULE_TOPIC, "g", 5, 50, now=1.0)
    assert (totals(stats.got), totals(stats.got_by_people)) == ((9, 90, 2), (4, 40, 1))
    assert stats.got_messages == 9
    assert (stats.pulls_found, stats.pulls_missed, stats.longest_get_ms) == (2, 0, 3_000)


def test_what_finds_nothing_is_counted_and_no_message_of_a_group() -> None:
    stats = BrokerStats()
    stats.note_get("orders", "g", 0, 0, now=1.0)
    stats.note_get("orders", "g", 0, 0, now=1.0)
    assert (stats.pulls_found, stats.pulls_missed, stats.groups) == (0, 2, {})


def test_only_messages_of_clients_have_a_type() -> None:
    stats = BrokerStats()
    stats.note_put("orders", 1, 10, now=1.0)
    assert stats.topics["orders"].sent is None
    stats.note_put("orders", 1, 10, now=1.0, message_type=MessageType.FIFO)
    sent = stats.topics["orders"].sent
    assert sent is not None
    assert list(sent.rows()) == [(MessageType.FIFO, 1, 10, [1, 0, 0, 0, 0, 0, 0])]


def test_delayed_messages_are_counted_on_their_way_in_and_out() -> None:  # O-32
    stats = BrokerStats()
    stats.note_delayed(3, 100)
    stats.note_delivered("orders", 3, 120, now=1.0)
    stats.note_delivered("orders", 3, 80, now=1.0)
    named = {key: totals(traffic) for key, traffic in stats.named.items()}
    assert named == {
        ("QUEUE_PUT_NUMS", "SCHEDULE_TOPIC_XXXX@3"): (1, 100, 1),
        ("QUEUE_GET_NUMS", "SCHEDULE_TOPIC_XXXX@3@SCHEDULE_CONSUMER"): (2, 200, 2),
    }
    reader = stats.groups[SCHEDULE_TOPIC, "SCHEDULE_CONSUMER"]
    assert (totals(reader), reader.is_system) == ((2, 200, 2), True)
    orders = stats.topics["orders"]
    assert totals(orders) == (2, 200, 2)
    assert orders.sent is not None
    [(kind, messages, size_bytes, sizes)] = orders.sent.rows()
    assert (kind, messages, size_bytes) == (MessageType.DELAY, 2, 200)
    assert sizes[0] == 2  # both are small
    assert stats.put_times.max_ms == 0  # no client waited for it


def test_send_backs_check_points_and_acks_are_counted_by_group_and_in_all() -> None:  # O-32
    stats = BrokerStats()
    stats.note_send_back("orders", "g")
    stats.note_check_points("orders", "g")
    stats.note_check_points("bills", "g", 2)
    stats.note_acks("orders", "g")
    stats.note_acks("bills", "g", 4)
    assert {key: totals(traffic) for key, traffic in stats.named.items()} == {
        ("SNDBCK_PUT_NUMS", "orders@g"): (1, 0, 1),
        ("GROUP_CK_NUMS", "orders@g"): (1, 0, 1),
        ("GROUP_CK_NUMS", "bills@g"): (2, 0, 1),
        ("BROKER_CK_NUMS", ""): (3, 0, 2),
        ("GROUP_ACK_NUMS", "orders@g"): (1, 0, 1),
        ("GROUP_ACK_NUMS", "bills@g"): (4, 0, 1),
        ("BROKER_ACK_NUMS", ""): (5, 0, 2),
    }


def test_a_group_has_the_rate_of_its_last_minute() -> None:  # O-22
    stats = BrokerStats()
    assert stats.group_tps("orders", "g") == 0.0
    stats.note_get("orders", "g", 20, 200, now=1.0)
    stats.sample(1_000_000)
    assert stats.group_tps("orders", "g") == 2.0


def test_hours_and_days_have_samples_of_their_own() -> None:  # O-31
    stats = BrokerStats()
    start_ms = 100 * DAY_PERIOD_MS
    messages: list[tuple[float, float]] = []
    for at_ms in (0, HOUR_PERIOD_MS - 1, HOUR_PERIOD_MS, DAY_PERIOD_MS - 1, DAY_PERIOD_MS):
        stats.note_put("orders", 10, 100, now=0.0)
        stats.sample(start_ms + at_ms)
        data = stats.topics["orders"].data(of_bytes=False)
        messages.append((data.stats_hour.sum, data.stats_day.sum))
    # An hour's sample every 10 minutes, a day's every hour.
    assert messages == [(10, 10), (10, 10), (30, 10), (40, 10), (40, 50)]


def test_a_minute_of_put_times_is_60_s() -> None:  # O-24
    stats = BrokerStats()
    seen: list[str] = []
    for at_ms in (0, 59_999, 60_000, 119_999, 120_000):
        stats.note_put("orders", 1, 1, now=0.0)
        stats.sample(1_000_000_000 + at_ms)
        seen.append(stats.put_times.distribution().split()[0])
    assert seen == [f"[<=0ms]:{count}" for count in (1, 1, 2, 2, 2)]


def test_what_is_deleted_is_forgotten_and_nothing_else() -> None:
    stats = BrokerStats()
    for topic, group in (("orders", "a"), ("orders2", "a"), ("bills", "a"), ("bills", "b")):
        stats.note_get(topic, group, 1, 1, now=1.0)
        stats.note_send_back(topic, group)
        stats.meters.popped_out(topic, group, 1, 1, retry=False)
    stats.forget_topic("orders")
    assert set(stats.groups) == {("orders2", "a"), ("bills", "a"), ("bills", "b")}
    assert {key for _, key in stats.named} == {"orders2@a", "bills@a", "bills@b"}
    stats.forget_group("a")
    assert set(stats.groups) == {("bills", "b")}
    assert {key for _, key in stats.named} == {"bills@b"}
    assert set(stats.meters.popped) == {("bills", "b", False)}


def test_a_call_samples_some_and_the_next_goes_on_with_the_others() -> None:  # O-31
    stats = BrokerStats()
    topics = [f"topic-{number}" for number in range(5)]
    for start_ms in (1_000_000, 1_010_000):
        for topic in topics:
            stats.note_put(topic, 10, 1000, now=0.0)
        calls = 1
        while stats.sample(start_ms + calls, most=3):
            calls += 1
        assert calls == 3, "four totals and five topics"
    for topic in topics:
        minute = stats.topics[topic].data(of_bytes=False).stats_minute
        assert (minute.sum, minute.tps) == (20, 1.0), "all of one moment"


async def test_a_turn_samples_some_of_the_counters_only(
    rig: BrokerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "SAMPLED_PER_TURN", 2)
    stats, left = rig.broker.stats, []
    sample = stats.sample

    def counted(*args: Any) -> bool:
        left.append(sample(*args))
        return left[-1]

    monkeypatch.setattr(stats, "sample", counted)
    for number in range(3):
        stats.note_put(f"topic-{number}", 10, 1000, now=0.0)
    await rig.advance(10)
    assert left == [True, True, True, False], "four totals and three topics"
