"""What a send ends with."""

from __future__ import annotations

from enum import Enum

import msgspec

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.messages.message import MessageQueue


class SendStatus(Enum):
    """How safely the message is stored. It *is* stored in each of these cases (P-42)."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    """Not flushed to disk in time."""
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    """Not copied to a slave in time."""
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    """No slave is there to copy it."""


STATUS_BY_CODE = {
    int(ResponseCode.SUCCESS): SendStatus.SEND_OK,
    int(ResponseCode.FLUSH_DISK_TIMEOUT): SendStatus.FLUSH_DISK_TIMEOUT,
    int(ResponseCode.FLUSH_SLAVE_TIMEOUT): SendStatus.FLUSH_SLAVE_TIMEOUT,
    int(ResponseCode.SLAVE_NOT_AVAILABLE): SendStatus.SLAVE_NOT_AVAILABLE,
}
"""The response codes that say "stored" (E-20, E-21); any other is an error."""


class SendResult(msgspec.Struct, gc=False):
    """Where a message was stored. A msgspec struct because one is made per send."""

    status: SendStatus
    msg_id: str
    """The message's UNIQ_KEY, which retries share; of a batch all of them, joined by commas."""
    offset_msg_id: str
    """Broker address and commit log offset, as the broker named it."""
    queue: MessageQueue
    queue_offset: int
    """Position in the queue; of a batch that of its first message."""
    transaction_id: str | None = None
    recall_handle: str | None = None
    """Of a message that waits for its delivery time: with it `Producer.recall` takes it back."""

    @property
    def is_ok(self) -> bool:
        """Whether everything that the flush mode promises has happened."""
        return self.status is SendStatus.SEND_OK
