"""Statistics of a broker: VIEW_BROKER_STATS_DATA (315) (O-30, O-31), and GET_TRAFFIC (30008)."""

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


class TopicTraffic(BodyStruct, kw_only=True):
    """What was stored in a topic, or handed out of it to a group, since the broker's start."""

    topic: str
    group: str = ""
    """Empty: stored."""
    messages: Int64
    size_bytes: Int64
    """Of the stored records."""


class TrafficReport(BodyStruct, kw_only=True):
    """The answer to GET_TRAFFIC (30008), which is PocketMQ's own."""

    stored: list[TopicTraffic] = always(list)
    handed_out: list[TopicTraffic] = always(list)
