"""Receipt handles on popped messages: made from a pop's answer, and found again (K-45, K-47).

The messages that one pop took of one queue share an object, of which a handle is made when somebody
asks for it, and its text when somebody reads the message's properties. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.headers.pop import PopMessageResponseHeader
from pocketmq.protocol.message import MessageExt, SharedNote
from pocketmq.protocol.properties import FIRST_POP_TIME, POP_CK
from pocketmq.protocol.receipts import (
    NORMAL,
    ReceiptHandle,
    parse_msg_offset_info,
    parse_start_offset_info,
    retry_mark,
)

_POP: Final = re.compile(b"POP_")
"""What POP_CK and 1ST_POP_TIME have in common."""


class PoppedQueue(SharedNote, msgspec.Struct, frozen=True, gc=False):
    """What the receipt handles of the messages have in common that one pop took of one queue."""

    start_offset: int
    pop_time_ms: int
    invisible_ms: int
    revive_queue_id: int
    mark: int
    broker_name: str
    queue_id: int

    @classmethod
    def of(cls, handle: ReceiptHandle) -> PoppedQueue:
        """All of a handle but the message's offset."""
        return cls(
            handle.start_offset,
            handle.pop_time_ms,
            handle.invisible_ms,
            handle.revive_queue_id,
            handle.mark,
            handle.broker_name,
            handle.queue_id,
        )

    def handle(self, queue_offset: int) -> ReceiptHandle:
        """The handle of one message."""
        return ReceiptHandle(
            self.start_offset,
            self.pop_time_ms,
            self.invisible_ms,
            self.revive_queue_id,
            self.mark,
            self.broker_name,
            self.queue_id,
            queue_offset,
        )

    def text_of(self, message: MessageExt) -> str:
        return str(self.handle(message.queue_offset))


def handle_of(message: MessageExt) -> ReceiptHandle:
    """The receipt handle of a popped message.

    Raises:
        BadRequestError: it was not popped.
    """
    noted = message.noted(POP_CK)
    if isinstance(noted, PoppedQueue):
        return noted.handle(message.queue_offset)
    if isinstance(noted, ReceiptHandle):
        return noted
    text = message.properties.get(POP_CK)
    if text is None:
        raise BadRequestError("the message has no receipt handle: it was pulled and not popped")
    return ReceiptHandle.parse(text)


def put_handles_on(
    messages: list[MessageExt], found: PopMessageResponseHeader, broker_name: str
) -> None:
    """Give each popped message its receipt handle, unless the broker did (K-47).

    Raises:
        BadRequestError: the answer's offsets do not fit its messages.
    """
    starts = parse_start_offset_info(found.start_offset_info)
    offsets = {
        key: iter(taken) for key, taken in parse_msg_offset_info(found.msg_offset_info).items()
    }
    nothing: Iterator[int] = iter(())
    pop_time, invisible_time, revive_qid = found.pop_time, found.invisible_time, found.revive_qid
    popped_at = str(pop_time)
    topic, queue_id, mark, taken = "", -1, NORMAL, nothing
    start: int | None = None
    shared: dict[str, object] = {}
    for message in messages:
        if message.stores(_POP):
            message.properties.setdefault(FIRST_POP_TIME, popped_at)
            if POP_CK in message.properties:
                continue
        if message.queue_id != queue_id or message.topic != topic:
            topic, queue_id = message.topic, message.queue_id
            mark = retry_mark(topic)
            taken, start = offsets.get((mark, queue_id), nothing), starts.get((mark, queue_id))
            if start is not None:
                popped = PoppedQueue(
                    start, pop_time, invisible_time, revive_qid, mark, broker_name, queue_id
                )
                shared = {FIRST_POP_TIME: popped_at, POP_CK: popped}
        offset = next(taken, None)
        if offset == message.queue_offset and start is not None:
            message.note_all(shared)
            continue
        if offset is None:
            raise BadRequestError(
                f"the pop's answer names no offset for a message of {(mark, queue_id)}"
            )
        handle = ReceiptHandle(
            offset if start is None else start,
            pop_time,
            invisible_time,
            revive_qid,
            mark,
            broker_name,
            queue_id,
            offset,
        )
        message.note_all({FIRST_POP_TIME: popped_at, POP_CK: handle})
