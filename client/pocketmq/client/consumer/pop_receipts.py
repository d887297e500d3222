"""Receipt handles on popped messages: made from a pop's answer, and found again (K-45, K-47).

A handle stays an object until somebody reads the message's properties, where it is text. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.headers.pop import PopMessageResponseHeader
from pocketmq.protocol.message import Buffer, MessageExt
from pocketmq.protocol.properties import FIRST_POP_TIME, POP_CK
from pocketmq.protocol.receipts import (
    ReceiptHandle,
    parse_msg_offset_info,
    parse_start_offset_info,
    retry_mark,
)

_POP_CK: Final = POP_CK.encode()
_FIRST_POP_TIME: Final = FIRST_POP_TIME.encode()


def handle_of(message: MessageExt) -> ReceiptHandle:
    """The receipt handle of a popped message.

    Raises:
        BadRequestError: it was not popped.
    """
    noted = message.noted(POP_CK)
    if isinstance(noted, ReceiptHandle):
        return noted
    text = message.properties.get(POP_CK)
    if text is None:
        raise BadRequestError("the message has no receipt handle: it was pulled and not popped")
    return ReceiptHandle.parse(text)


def put_handles_on(
    messages: list[MessageExt], found: PopMessageResponseHeader, broker_name: str, body: Buffer
) -> None:
    """Give each popped message its receipt handle, unless the broker did (K-47).

    Args:
        messages: Of the answer.
        found: Its header.
        broker_name: Who answered.
        body: Of the answer. Where it names neither property, none of the messages has one.

    Raises:
        BadRequestError: the answer's offsets do not fit its messages.
    """
    starts = parse_start_offset_info(found.start_offset_info)
    offsets = {
        key: iter(taken) for key, taken in parse_msg_offset_info(found.msg_offset_info).items()
    }
    content = bytes(body)
    may_have = _POP_CK in content or _FIRST_POP_TIME in content
    nothing: Iterator[int] = iter(())
    popped_at = str(found.pop_time)
    topic, queue_id, key, taken = "", -1, (0, 0), nothing
    for message in messages:
        if may_have:
            message.properties.setdefault(FIRST_POP_TIME, popped_at)
            if POP_CK in message.properties:
                continue
        if message.queue_id != queue_id or message.topic != topic:
            topic, queue_id = message.topic, message.queue_id
            key = (retry_mark(topic), queue_id)
            taken = offsets.get(key, nothing)
        offset = next(taken, None)
        if offset is None:
            raise BadRequestError(f"the pop's answer names no offset for a message of queue {key}")
        handle = ReceiptHandle(
            starts.get(key, offset),
            found.pop_time,
            found.invisible_time,
            found.revive_qid,
            key[0],
            broker_name,
            queue_id,
            offset,
        )
        message.note_all({FIRST_POP_TIME: popped_at, POP_CK: handle})
