"""Counters and rates of a broker."""

from __future__ import annotations

from pocketmq.broker.stats import BrokerStats


def test_rates_are_averages_over_10_60_and_600_s() -> None:  # E-29
    stats = BrokerStats()
    stats.note_put(600, 6000, now=1000.0)
    stats.note_put(60, 600, now=1050.5)
    assert stats.rates(1055.0)["putTps"] == "6.00 11.00 1.10"
    assert (stats.put_messages, stats.put_bytes) == (660, 6600)


def test_pulls_that_find_nothing_are_misses() -> None:  # E-29
    stats = BrokerStats()
    stats.note_get(32, 320, now=5.0)
    stats.note_get(0, 0, now=5.0)
    stats.note_get(0, 0, now=6.0)
    rates = stats.rates(6.0)
    assert rates["getTransferredTps"].split()[0] == "3.20"
    assert rates["getFoundTps"].split()[0] == "0.10"
    assert rates["getMissTps"].split()[0] == "0.20"
    assert rates["getTotalTps"].split()[0] == "0.30"


def test_seconds_older_than_ten_minutes_are_forgotten() -> None:
    stats = BrokerStats()
    for second in range(2000):
        stats.note_put(1, 1, now=float(second))
    assert len(stats._seconds) == 601
    assert stats.rates(1999.0)["putTps"].split()[2] == "1.00"
