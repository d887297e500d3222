"""Settings of a running server, and one of its statistics (E-29; M-)."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.bodies.stats import BrokerStatsData
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.header import Header


class UpdateBrokerConfigRequestHeader(Header, kw_only=True):
    """UPDATE_BROKER_CONFIG (25): the body is lines of `key=value`."""

    CODE: ClassVar[int] = RequestCode.UPDATE_BROKER_CONFIG


class GetBrokerConfigResponseHeader(Header, kw_only=True):
    """Beside the settings."""

    version: str
    """JSON text of the settings' data version."""


class GetBrokerConfigRequestHeader(Header, kw_only=True):
    """GET_BROKER_CONFIG (26): the answer's body is lines of `key=value`."""

    CODE: ClassVar[int] = RequestCode.GET_BROKER_CONFIG
    RESPONSE = GetBrokerConfigResponseHeader


class UpdateNamesrvConfigRequestHeader(Header, kw_only=True):
    """UPDATE_NAMESRV_CONFIG (318): the body is lines of `key=value`."""

    CODE: ClassVar[int] = RequestCode.UPDATE_NAMESRV_CONFIG


class ViewBrokerStatsDataRequestHeader(Header, kw_only=True):
    """VIEW_BROKER_STATS_DATA (315): one statistic, per minute, hour and day."""

    CODE: ClassVar[int] = RequestCode.VIEW_BROKER_STATS_DATA
    RESPONSE_BODY = BrokerStatsData

    stats_name: str
    """Such as `TOPIC_PUT_NUMS`."""

    stats_key: str
    """Such as a topic, or `topic@group`."""
