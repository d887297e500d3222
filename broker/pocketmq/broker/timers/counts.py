"""How many timer messages of each topic wait (T-115)."""

from __future__ import annotations

from pocketmq.broker.timers.layout import TimerCount, TimerMetrics
from pocketmq.protocol.bodies.topics import DataVersion


class TimerCounts:
    """Counts by real topic, as `config/timermetrics` keeps them.

    They are shown by tools only, and may be wrong after a kill.
    """

    def __init__(self) -> None:
        self.version = DataVersion()
        self.dirty = False
        """They have changed since they were last stored."""
        self._counts: dict[str, TimerCount] = {}

    def change(self, topic: str | None, by: int, now_ms: int) -> None:
        """Change the number of the topic's waiting messages."""
        if not topic:
            return
        count = self._counts.get(topic)
        if count is None:
            count = self._counts[topic] = TimerCount()
        count.count += by
        count.time_stamp = now_ms
        self.version = self.version.next_version(now_ms)
        self.dirty = True

    @property
    def total(self) -> int:
        """How many of all topics wait."""
        return sum(count.count for count in self._counts.values())

    def of(self, topic: str) -> int:
        """How many of the topic wait."""
        count = self._counts.get(topic)
        return 0 if count is None else count.count

    def forget(self, topic: str) -> None:
        """The topic was deleted (T-157)."""
        self.dirty = self._counts.pop(topic, None) is not None or self.dirty

    def load(self, stored: TimerMetrics) -> None:
        """Take over what the file holds."""
        self._counts = dict(stored.timing_count)
        self.version = stored.data_version

    def wrapper(self) -> TimerMetrics:
        """As they are stored and shown: GET_TIMER_METRICS (61)."""
        return TimerMetrics(data_version=self.version, timing_count=dict(self._counts))
