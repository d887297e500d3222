"""How many timer messages of each topic wait (T-115)."""

from __future__ import annotations

from pocketmq.broker.tables.topic_counts import TopicCounts
from pocketmq.broker.timers.layout import TimerMetrics


class TimerCounts(TopicCounts):
    """Counts by real topic, as `config/timermetrics` keeps them."""

    def load(self, stored: TimerMetrics) -> None:
        """Take over what the file holds."""
        self.restore(stored.timing_count, stored.data_version)

    def wrapper(self) -> TimerMetrics:
        """As they are stored and shown: GET_TIMER_METRICS (61)."""
        return TimerMetrics(data_version=self.version, timing_count=self.table())
