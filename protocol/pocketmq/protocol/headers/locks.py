"""Queue locks of orderly consumers (E-24, B-45)."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.bodies.clients import LockBatchBody, LockedQueues
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.header import Header


class LockBatchMqRequestHeader(Header, kw_only=True):
    """LOCK_BATCH_MQ (41)."""

    CODE: ClassVar[int] = RequestCode.LOCK_BATCH_MQ
    BODY = LockBatchBody
    RESPONSE_BODY = LockedQueues


class UnlockBatchMqRequestHeader(Header, kw_only=True):
    """UNLOCK_BATCH_MQ (42)."""

    CODE: ClassVar[int] = RequestCode.UNLOCK_BATCH_MQ
    BODY = LockBatchBody
