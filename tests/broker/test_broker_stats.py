"""Counters and rates of a broker."""

from __future__ import annotations

from pocketmq.broker.stats import BrokerStats, PutTimes


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
