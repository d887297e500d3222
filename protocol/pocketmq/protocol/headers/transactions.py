"""Transactions: what a producer decides, and what a broker asks (X-20, X-45)."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.header import Header
from pocketmq.protocol.scalars import Int32, Int64


class EndTransactionRequestHeader(Header, kw_only=True):
    """END_TRANSACTION (37): commit or roll back a half message; clients send it one-way."""

    CODE: ClassVar[int] = RequestCode.END_TRANSACTION

    producer_group: str
    tran_state_table_offset: Int64
    """The half message's offset in its half queue."""

    commit_log_offset: Int64
    """Its physical offset."""

    commit_or_rollback: Int32
    """8 commit, 12 roll back, 0 not decided (`MessageSysFlag`)."""

    msg_id: str
    """Its UNIQ_KEY."""

    from_transaction_check: bool = False
    """Whether it answers CHECK_TRANSACTION_STATE."""

    transaction_id: str | None = None
    topic: str | None = None
    bname: str | None = None


class CheckTransactionStateRequestHeader(Header, kw_only=True):
    """CHECK_TRANSACTION_STATE (39): a broker asks; the body is the half message's record."""

    CODE: ClassVar[int] = RequestCode.CHECK_TRANSACTION_STATE

    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    """The half message's UNIQ_KEY."""

    transaction_id: str | None = None
    offset_msg_id: str | None = None
    topic: str | None = None
    """The half topic; the message's own topic stands in the record."""

    bname: str | None = None


class ResumeCheckHalfMessageRequestHeader(Header, kw_only=True):
    """RESUME_CHECK_HALF_MESSAGE (323): have a half message that was given up checked again."""

    CODE: ClassVar[int] = RequestCode.RESUME_CHECK_HALF_MESSAGE

    msg_id: str | None = None
    """Offset message id of the half message (X-51)."""

    topic: str | None = None
