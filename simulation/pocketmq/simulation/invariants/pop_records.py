"""Check points and acks of pops, as they stand in records and requests. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pocketmq.protocol.bodies.pop import BatchAckBody
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.headers.pop import (
    AckMessageRequestHeader,
    ChangeInvisibleTimeRequestHeader,
)
from pocketmq.protocol.messages.receipts import ReceiptHandle, marked_topic
from pocketmq.simulation.invariants.medium import Kept, table_of

CHECK_POINT = "ck"
ACKS = ("ack", "bAck")


class PopQueue(NamedTuple):
    """A queue that a group pops."""

    group: str
    topic: str
    queue_id: int


class PopKey(NamedTuple):
    """What acks and their check point have in common."""

    queue: PopQueue
    start: int
    popped_ms: int


class Marked(NamedTuple):
    """Messages of one pop from one queue."""

    key: PopKey
    offsets: tuple[int, ...]


def check_point_of(record: Kept) -> Marked | None:
    """The check point in a record; None if it is another one."""
    if record.message.tags != CHECK_POINT:
        return None
    fields = table_of(bytes(record.message.body))
    start = fields["so"]
    return Marked(_key(fields), tuple(start + each for each in fields["d"]))


def ack_of(record: Kept) -> Marked | None:
    """The ack, or several, in a record; None if it is another one."""
    if record.message.tags not in ACKS:
        return None
    fields = table_of(bytes(record.message.body))
    return Marked(_key(fields), tuple(fields.get("aol") or [fields["ao"]]))


def _key(fields: dict[str, object]) -> PopKey:
    queue = PopQueue(str(fields["c"]), str(fields["t"]), int(str(fields["q"])))
    return PopKey(queue, int(str(fields["so"])), int(str(fields["pt"])))


def acks_in(request: Command) -> Iterator[Marked]:
    """What a request acknowledges."""
    if request.code == RequestCode.ACK_MESSAGE:
        header = request.header(AckMessageRequestHeader)
        yield _by_handle(header, header.consumer_group)
    elif request.code == RequestCode.CHANGE_MESSAGE_INVISIBLETIME:
        changes = request.header(ChangeInvisibleTimeRequestHeader)
        yield _by_handle(changes, changes.consumer_group)
    elif request.code == RequestCode.BATCH_ACK_MESSAGE:
        for each in decode_body(request.body_view, BatchAckBody, request.encoding).acks or ():
            group = each.consumer_group
            queue = PopQueue(group, marked_topic(each.topic, group, each.retry), each.queue_id)
            yield Marked(PopKey(queue, each.start_offset, each.pop_time), tuple(each.offsets()))


def _by_handle(
    header: AckMessageRequestHeader | ChangeInvisibleTimeRequestHeader, group: str
) -> Marked:
    handle = ReceiptHandle.parse(header.extra_info, header.offset)
    queue = PopQueue(group, header.topic, header.queue_id)
    return Marked(PopKey(queue, handle.start_offset, handle.pop_time_ms), (header.offset,))
