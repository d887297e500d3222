"""Statistics of a broker: VIEW_BROKER_STATS_DATA (315) (O-30, O-31)."""

from __future__ import annotations

import msgspec

from pocketmq.protocol.body import BodyStruct
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
