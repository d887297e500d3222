"""Pulling messages (E-22)."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.header import Header
from pocketmq.protocol.scalars import Int32, Int64


class PullMessageResponseHeader(Header, kw_only=True):
    """Where to pull next; the four offsets are on every answer, Java unboxes them unchecked."""

    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    offset_delta: Int64 | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None


class PullMessageRequestHeader(Header, kw_only=True):
    """PULL_MESSAGE (11)."""

    CODE: ClassVar[int] = RequestCode.PULL_MESSAGE
    RESPONSE = PullMessageResponseHeader

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    """1 commit `commit_offset`, 2 may be held, 4 `subscription` counts (E-41)."""

    commit_offset: Int64 = 0
    suspend_timeout_millis: Int64 = 0
    sub_version: Int64 = 0
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    """1: a proxy pulls for a member of a broadcasting group; below 0 its `queue_offset` asks where
    to begin (B-36)."""

    proxy_froward_client_id: str | None = None
    """That member. RocketMQ's own spelling."""

    bname: str | None = None


class LitePullMessageRequestHeader(PullMessageRequestHeader, kw_only=True):
    """LITE_PULL_MESSAGE (361), the same shape."""

    CODE: ClassVar[int] = RequestCode.LITE_PULL_MESSAGE
