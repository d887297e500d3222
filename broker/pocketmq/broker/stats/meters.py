"""What a broker counts for its metrics only; `stats.py` counts what RocketMQ's tools ask, too."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Final

from pocketmq.operation.metrics import CONSUMER_GROUP, IS_SYSTEM, STORE, TOPIC, Metric

MAX_SERIES: Final = 10_000
"""Of one metric; more sets of labels are not counted, so that names cost no memory without end."""

_COMPLETED: Final = (*STORE, IS_SYSTEM)
"""Labels by which nothing is counted: they follow from the others."""


class Distribution:
    """How often values fell into each bucket of a histogram.

    Args:
        bounds: highest value of each bucket but the last, which has none.
    """

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0
        """The sum of the values."""

    def note(self, value: int, count: int = 1) -> None:
        """One more value, or several that are the same."""
        self.counts[bisect_left(self._bounds, value)] += count
        self.total += value * count


class Meters:
    """Counters by metric and labels. They only grow, until their topic or group is deleted."""

    def __init__(self) -> None:
        self.popped: dict[tuple[str, str, bool], tuple[int, int]] = {}
        """(topic, group, whether from its retry topic): messages and bytes that were popped."""
        self._counts: dict[Metric, dict[tuple[str, ...], int]] = {}
        self._distributions: dict[Metric, dict[tuple[str, ...], Distribution]] = {}

    def popped_out(
        self, topic: str, group: str, messages: int, size_bytes: int, *, retry: bool
    ) -> None:
        """Messages were popped, from the topic itself or from the group's retry topic of it."""
        key = topic, group, retry
        known = self.popped.get(key)
        if known is not None or len(self.popped) < MAX_SERIES:
            before, bytes_before = known or (0, 0)
            self.popped[key] = before + messages, bytes_before + size_bytes

    def add(self, metric: Metric, *labels: str, count: int = 1) -> None:
        """Count in a counter with the values of its labels."""
        series = self._counts.setdefault(metric, {})
        if labels in series or len(series) < MAX_SERIES:
            series[labels] = series.get(labels, 0) + count

    def note(self, metric: Metric, value: int, *labels: str, count: int = 1) -> None:
        """One more value of a histogram, or several that are the same."""
        series = self._distributions.setdefault(metric, {})
        distribution = series.get(labels)
        if distribution is None:
            if len(series) >= MAX_SERIES:
                return
            distribution = series[labels] = Distribution(metric.bounds)
        distribution.note(value, count)

    @property
    def counts(self) -> Mapping[Metric, Mapping[tuple[str, ...], int]]:
        """All counters."""
        return self._counts

    @property
    def distributions(self) -> Mapping[Metric, Mapping[tuple[str, ...], Distribution]]:
        """All histograms but that of sizes."""
        return self._distributions

    def forget_topic(self, topic: str) -> None:
        """The topic was deleted."""
        self._forget_popped(0, topic)
        self._forget(TOPIC, topic)

    def forget_group(self, group: str) -> None:
        """The group was deleted."""
        self._forget_popped(1, group)
        self._forget(CONSUMER_GROUP, group)

    def _forget_popped(self, at: int, name: str) -> None:
        for key in [key for key in self.popped if key[at] == name]:
            del self.popped[key]

    def _forget(self, label: str, value: str) -> None:
        for table in (self._counts, self._distributions):
            for metric, series in table.items():
                counted_by = [each for each in metric.labels if each not in _COMPLETED]
                if label not in counted_by:
                    continue
                at = counted_by.index(label)
                for labels in [labels for labels in series if labels[at] == value]:
                    del series[labels]
