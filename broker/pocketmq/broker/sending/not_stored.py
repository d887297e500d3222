"""What a sender is told whose message was not stored (B-110, B-111)."""

from __future__ import annotations

from collections.abc import Mapping

from pocketmq.broker.store import MessageStore, PutStatus
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command

NOT_STORED: dict[PutStatus, tuple[int, str]] = {
    PutStatus.SERVICE_NOT_AVAILABLE: (
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "the store takes no messages now",
    ),
    PutStatus.CREATE_MAPPED_FILE_FAILED: (
        ResponseCode.SYSTEM_ERROR,
        "no new commit-log file could be made; is the disk full?",
    ),
    PutStatus.MESSAGE_ILLEGAL: (
        ResponseCode.MESSAGE_ILLEGAL,
        "the message is too long: its body may have maxMessageSize bytes, its topic 127",
    ),
    PutStatus.PROPERTIES_SIZE_EXCEEDED: (
        ResponseCode.MESSAGE_ILLEGAL,
        "the message's properties are longer than 32767 bytes",
    ),
    PutStatus.OS_PAGE_CACHE_BUSY: (
        ResponseCode.SYSTEM_BUSY,
        "[PC_SYNCHRONIZED]broker busy, start flow control for a while",
    ),
    PutStatus.UNKNOWN_ERROR: (ResponseCode.SYSTEM_ERROR, "the store failed"),
}
"""Answers to messages that were not stored (B-110, B-111)."""


def not_stored(
    request: Command, status: PutStatus, store: MessageStore, header: Mapping[str, object]
) -> Command:
    """The answer to a message that the store refused."""
    code, remark = NOT_STORED.get(
        status, (int(ResponseCode.SYSTEM_ERROR), f"the store said {status.name}")
    )
    # Name the reasons: a full disk and a failed sync have the same code (B-111).
    if store.readiness.reasons:
        remark += ": " + "; ".join(sorted(store.readiness.reasons))
    return request.reply(header, code=code, remark=remark)
