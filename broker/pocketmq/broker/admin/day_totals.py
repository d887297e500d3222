"""How much had gone through the broker at the last two midnights (O-24)."""

from __future__ import annotations

from datetime import date

from pocketmq.broker.stats.broker_stats import BrokerStats


class DayTotals:
    """Totals without system topics; 0 until the first midnight after the start."""

    def __init__(self, stats: BrokerStats, now_ms: int) -> None:
        self.put_yesterday = 0
        self.put_today = 0
        self.got_yesterday = 0
        self.got_today = 0
        self._stats = stats
        self._day = _local_day(now_ms)

    def look(self, now_ms: int) -> None:
        """Note the totals when a new day has begun."""
        day = _local_day(now_ms)
        if day == self._day:
            return
        self._day = day
        self.put_yesterday, self.put_today = self.put_today, self._stats.put_by_people.messages
        self.got_yesterday, self.got_today = self.got_today, self._stats.got_by_people.messages


def _local_day(now_ms: int) -> date:
    return date.fromtimestamp(now_ms / 1000)  # noqa: DTZ012 - the local day is meant
