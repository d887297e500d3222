"""Statistics of a broker: VIEW_BROKER_STATS_DATA (315) (O-30, O-31), and GET_METRICS (30008)."""

from __future__ import annotations

import msgspec

from pocketmq.protocol.body import BodyStruct, always
from pocketmq.protocol.scalars import Int64


class BrokerStatsItem(BodyStruct, kw_only=True, omit_defaults=False):
    """One statistic over one period."""

    sum: Int64 = 0
    tps: float = 0.0
    """Per second."""

    avgpt: float = 0.0
    """Sum over the number of additions."""


class BrokerStatsData(BodyStruct, kw_only=True, omit_defaults=False):
    """One statistic over the last minute, hour and day."""

    stats_minute: BrokerStatsItem = msgspec.field(default_factory=BrokerStatsItem)
    stats_hour: BrokerStatsItem = msgspec.field(default_factory=BrokerStatsItem)
    stats_day: BrokerStatsItem = msgspec.field(default_factory=BrokerStatsItem)


class MetricNumber(BodyStruct, kw_only=True):
    """One number of a counter or a gauge."""

    name: str
    """Of an `operation.metrics.Metric`, which says what the labels are."""
    labels: list[str] = always(list)
    """Their values, in its order; an empty one is left out."""
    value: Int64 = 0


class MetricDistribution(BodyStruct, kw_only=True):
    """One histogram."""

    name: str
    labels: list[str] = always(list)
    """As `MetricNumber.labels`."""
    counts: list[Int64] = always(list)
    """Of each bucket by itself, that without a bound last."""
    total: Int64 = 0
    """Sum of the values."""


class MetricsReport(BodyStruct, kw_only=True):
    """The answer to GET_METRICS (30008), which is PocketMQ's own."""

    numbers: list[MetricNumber] = always(list)
    distributions: list[MetricDistribution] = always(list)
