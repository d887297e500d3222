"""Replication between brokers, as tools see it."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.bodies.replication import HARuntimeInfo
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.header import Header


class GetBrokerHAStatusRequestHeader(Header, kw_only=True):
    """GET_BROKER_HA_STATUS (907, H-41)."""

    CODE: ClassVar[int] = RequestCode.GET_BROKER_HA_STATUS
    RESPONSE_BODY = HARuntimeInfo
