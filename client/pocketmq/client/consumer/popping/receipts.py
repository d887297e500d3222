"""Receipt handles on popped messages: made from a pop's answer, and found again (K-45, K-47).

The messages that one pop took of one queue share an object, of which a handle is made when somebody
asks for it, and its text when somebody reads the message's properties. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.headers.pop import PopMessageResponseHeader
from pocketmq.protocol.messages.message import MessageExt, SharedNote
from pocketmq.protocol.messages.message_runs import any_stores, note_on_each
from pocketmq.protocol.messages.properties import FIRST_POP_TIME, POP_CK
from pocketmq.protocol.messages.receipts import (
    QueueKey,
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
        raise BadRequestError(
            "the message has no receipt handle, because it was pulled and not popped; "
            "acknowledge only popped messages"
        )
    return ReceiptHandle.parse(text)


def put_handles_on(
    messages: list[MessageExt], found: PopMessageResponseHeader, broker_name: str
) -> None:
    """Give each popped message its receipt handle, unless the broker did (K-47).

    Raises:
        BadRequestError: the answer's offsets do not fit its messages.
    """
    starts = parse_start_offset_info(found.start_offset_info)
    offsets = parse_msg_offset_info(found.msg_offset_info)
    popped_at = str(found.pop_time)
    used: dict[QueueKey, int] = {}
    """How many of a queue's offsets are given away."""
    at = 0
    while at < len(messages):
        first = messages[at]
        run = messages[at : _queue_until(messages, at)]
        at += len(run)
        mark, queue_id = key = retry_mark(first.topic), first.queue_id
        start, taken, begin = starts.get(key), offsets.get(key, ()), used.get(key, 0)
        popped = PoppedQueue(
            0 if start is None else start,
            found.pop_time,
            found.invisible_time,
            found.revive_qid,
            mark,
            broker_name,
            queue_id,
        )
        end = begin + len(run)
        if (
            # The usual answer: one run of a queue, all offsets as promised, no handle stored in a
            # message. One object then serves the whole run.
            start is not None
            and taken[begin:end] == [message.queue_offset for message in run]
            and not any_stores(run, _POP)
        ):
            note_on_each(run, {FIRST_POP_TIME: popped_at, POP_CK: popped})
            used[key] = end
        else:
            used[key] = _put_one_by_one(run, taken, begin, popped, popped_at, start)


def _put_one_by_one(
    run: Iterable[MessageExt],
    taken: Sequence[int],
    at: int,
    popped: PoppedQueue,
    popped_at: str,
    start: int | None,
) -> int:
    """`put_handles_on` for neighbours of one queue; the offset at which the next one goes on."""
    for message in run:
        # The broker stores the handle in messages of an orderly pop, and in those that come back.
        if message.stores(_POP):
            message.properties.setdefault(FIRST_POP_TIME, popped_at)
            if POP_CK in message.properties:
                continue
        # Guessing would acknowledge another message than the one that was consumed.
        if at >= len(taken):
            raise BadRequestError(
                "the broker's answer to a pop has fewer offsets than messages for queue "
                f"{popped.queue_id} (topic mark {popped.mark})"
            )
        offset = taken[at]
        at += 1
        handle: object = popped
        if start is None or offset != message.queue_offset:
            handle = ReceiptHandle(
                offset if start is None else start,
                popped.pop_time_ms,
                popped.invisible_ms,
                popped.revive_queue_id,
                popped.mark,
                popped.broker_name,
                popped.queue_id,
                offset,
            )
        message.note_all({FIRST_POP_TIME: popped_at, POP_CK: handle})
    return at


def _queue_until(messages: Sequence[MessageExt], at: int) -> int:
    """Behind the messages that lie in the queue of the one at `at`, and follow it."""
    topic, queue_id = messages[at].topic, messages[at].queue_id
    at, count = at + 1, len(messages)
    while at < count and messages[at].queue_id == queue_id and messages[at].topic == topic:
        at += 1
    return at
