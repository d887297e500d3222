"""Timers: taking a message back before it is due (R-31), and how far a broker is (T-151)."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.header import Header


class RecallMessageResponseHeader(
    Header, kw_only=True, rename={"msg_id": "msgId", "region": "MSG_REGION"}
):
    """Whose recall was noted."""

    msg_id: str
    """The message's UNIQ_KEY."""

    region: str | None = None
    """MSG_REGION; the Java client writes no trace of a recall without it."""


class RecallMessageRequestHeader(Header, kw_only=True):
    """RECALL_MESSAGE (370): do not deliver the message of this handle."""

    CODE: ClassVar[int] = RequestCode.RECALL_MESSAGE
    RESPONSE = RecallMessageResponseHeader

    topic: str
    recall_handle: str
    """From the send's answer; see `receipts.RecallHandle`."""

    producer_group: str | None = None
    bname: str | None = None


class GetTimerCheckPointRequestHeader(Header, kw_only=True):
    """GET_TIMER_CHECK_POINT (60): for slaves; the body is 56 bytes (T-114)."""

    CODE: ClassVar[int] = RequestCode.GET_TIMER_CHECK_POINT


class GetTimerMetricsRequestHeader(Header, kw_only=True):
    """GET_TIMER_METRICS (61): for slaves; the body is JSON in every encoding (T-115)."""

    CODE: ClassVar[int] = RequestCode.GET_TIMER_METRICS
