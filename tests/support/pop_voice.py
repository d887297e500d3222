"""Pops, acks and changes of the invisible time, asked of a broker."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.headers.pop import (
    AckMessageRequestHeader,
    ChangeInvisibleTimeRequestHeader,
    ChangeInvisibleTimeResponseHeader,
    PopMessageRequestHeader,
    PopMessageResponseHeader,
)
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.properties import POP_CK
from pocketmq.protocol.messages.receipts import (
    ReceiptHandle,
    marked_topic,
    parse_msg_offset_info,
    parse_start_offset_info,
    retry_mark,
)
from pocketmq.protocol.stored.record import decode_records
from support.broker_rig import Voice

GROUP = "poppers"
REVIVED_S = 14.0
"""After this the messages of a pop that hid them for 10 s are there again."""


@dataclass
class Popped:
    """One popped message."""

    message: MessageExt
    handle: ReceiptHandle

    @property
    def body(self) -> bytes:
        return bytes(self.message.body)


@dataclass
class PopAnswer:
    """A pop's answer, read as a client reads it."""

    code: int
    remark: str
    header: PopMessageResponseHeader
    messages: list[Popped]

    @property
    def bodies(self) -> list[bytes]:
        return [popped.body for popped in self.messages]


def pop_header(topic: str = "orders", **fields: Any) -> PopMessageRequestHeader:
    """A pop's header with the values that a test has not to say; it does not wait."""
    values: dict[str, Any] = {
        "consumer_group": GROUP,
        "topic": topic,
        "queue_id": -1,
        "max_msg_nums": 32,
        "invisible_time": 10_000,
        "poll_time": 0,
    } | fields
    return PopMessageRequestHeader(**values)


def read_pop(reply: Command, broker_name: str = "broker-a") -> PopAnswer:
    """The answer with a receipt handle for each message (K-47)."""
    header = reply.header(PopMessageResponseHeader)
    starts = parse_start_offset_info(header.start_offset_info)
    offsets = parse_msg_offset_info(header.msg_offset_info)
    popped = []
    for message in decode_records(reply.body_view) if reply.code == 0 else ():
        given = message.properties.get(POP_CK)
        if given is not None:
            popped.append(Popped(message, ReceiptHandle.parse(given)))
            continue
        key = (retry_mark(message.topic), message.queue_id)
        handle = ReceiptHandle(
            starts[key],
            header.pop_time,
            header.invisible_time,
            header.revive_qid,
            key[0],
            broker_name,
            message.queue_id,
            offsets[key].pop(0),
        )
        popped.append(Popped(message, handle))
    return PopAnswer(reply.code, reply.remark or "", header, popped)


async def pop(voice: Voice, topic: str = "orders", **fields: Any) -> PopAnswer:
    """Take messages."""
    return read_pop(await voice.ask(pop_header(topic, **fields)))


def pop_later(voice: Voice, topic: str = "orders", **fields: Any) -> asyncio.Future[Command]:
    """A pop that waits; read it with `read_pop`."""
    return voice.channel.request(pop_header(topic, **fields), timeout_s=60.0)


def ack_header(popped: Popped, group: str = GROUP, **fields: Any) -> AckMessageRequestHeader:
    """The ack of a popped message."""
    handle = popped.handle
    values: dict[str, Any] = {
        "consumer_group": group,
        "topic": marked_topic(popped.message.topic, group, handle.mark),
        "queue_id": handle.queue_id,
        "extra_info": str(handle),
        "offset": handle.queue_offset,
    } | fields
    return AckMessageRequestHeader(**values)


async def ack(voice: Voice, popped: Popped, **fields: Any) -> Command:
    """Say that a message is consumed; the answer, whatever it is."""
    return await voice.ask(ack_header(popped, **fields))


async def ack_all(voice: Voice, answer: PopAnswer) -> None:
    """Say that all are consumed."""
    for popped in answer.messages:
        reply = await ack(voice, popped)
        assert reply.code == ResponseCode.SUCCESS, reply.remark


async def change(
    voice: Voice, popped: Popped, invisible_ms: int, **fields: Any
) -> tuple[Command, ChangeInvisibleTimeResponseHeader]:
    """Ask for a message at another time."""
    handle = popped.handle
    values: dict[str, Any] = {
        "consumer_group": GROUP,
        "topic": marked_topic(popped.message.topic, GROUP, handle.mark),
        "queue_id": handle.queue_id,
        "extra_info": str(handle),
        "offset": handle.queue_offset,
        "invisible_time": invisible_ms,
    } | fields
    reply = await voice.ask(ChangeInvisibleTimeRequestHeader(**values))
    return reply, reply.header(ChangeInvisibleTimeResponseHeader)


async def fill(voice: Voice, count: int, topic: str = "orders", queues: int = 4) -> list[bytes]:
    """Send so many messages, to the queues in turn; their bodies."""
    sent = [b"%03d" % n for n in range(count)]
    for n, body in enumerate(sent):
        await voice.send(topic, body, queue_id=n % queues)
    return sent
