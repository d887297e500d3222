"""Reads RocketMQ's protocol in passing and writes a history of it: for clients of any kind.

A message is known by its UNIQ_KEY, which every client of RocketMQ gives it, and its key is the
KEYS property. A send that is seen twice is another try. What a pull brought counts as received by
its group. Batches and one-way sends get no answer that names each message's place; they are left
out, as are messages without a UNIQ_KEY.
"""

from __future__ import annotations

from typing import TypeVar

from pocketmq.cluster.histories.recorder import Recorder
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.frame import FrameDecoder
from pocketmq.protocol.headers.offsets import (
    OffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from pocketmq.protocol.headers.pull import PullMessageRequestHeader
from pocketmq.protocol.headers.send import (
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from pocketmq.protocol.properties import decode_properties
from pocketmq.protocol.record import decode_records

T = TypeVar("T")

COMMITS = 1
"""Bit of a pull's `sys_flag`: its `commit_offset` counts (E-41)."""

MOST_OPEN = 100_000
"""Requests of one connection whose answers are awaited; one-way and lost ones fall out."""


class WireWatch:
    """What all connections to one broker have in common.

    Args:
        broker: Its name, the first part of a queue's.
        recorder: Gets the lines.
        messages: Whether sends and receipts are written down; their offsets always are.
    """

    def __init__(self, broker: str, recorder: Recorder, *, messages: bool = True) -> None:
        self.broker = broker
        self.recorder = recorder
        self.messages = messages

    def connection(self) -> ConnectionWatch:
        """For a new connection."""
        return ConnectionWatch(self)

    def queue(self, topic: str, queue_id: int) -> str:
        """A queue as histories write it."""
        return f"{self.broker}/{topic}/{queue_id}"


class ConnectionWatch:
    """Both directions of one connection."""

    def __init__(self, watch: WireWatch) -> None:
        self._watch = watch
        self._requests = FrameDecoder()
        self._answers = FrameDecoder()
        self._sent: dict[int, tuple[str, str]] = {}
        """Request number -> message and topic."""
        self._pulls: dict[int, PullMessageRequestHeader] = {}
        self._asked: dict[int, tuple[str, str, int]] = {}
        """Request number -> group and queue whose offset was asked for, and when."""

    def to_broker(self, data: bytes) -> None:
        """Bytes on their way to the broker."""
        for command in self._requests.feed(data):
            if not command.is_response:
                self._request(command)

    def to_client(self, data: bytes) -> None:
        """Bytes on their way to the client."""
        for command in self._answers.feed(data):
            if command.is_response:
                self._answer(command)

    def _request(self, command: Command) -> None:
        watch = self._watch
        match command.code:
            case RequestCode.SEND_MESSAGE | RequestCode.SEND_MESSAGE_V2 if watch.messages:
                self._send(command)
            case RequestCode.PULL_MESSAGE | RequestCode.LITE_PULL_MESSAGE:
                pull = command.header(PullMessageRequestHeader)
                if pull.sys_flag & COMMITS and pull.commit_offset > 0:
                    queue = watch.queue(pull.topic, pull.queue_id)
                    watch.recorder.commit(pull.consumer_group, queue, pull.commit_offset)
                if watch.messages:
                    self._remember(self._pulls, command.opaque, pull)
            case RequestCode.UPDATE_CONSUMER_OFFSET:
                told = command.header(UpdateConsumerOffsetRequestHeader)
                queue = watch.queue(told.topic, told.queue_id)
                watch.recorder.commit(told.consumer_group, queue, told.commit_offset)
            case RequestCode.QUERY_CONSUMER_OFFSET:
                asked = command.header(QueryConsumerOffsetRequestHeader)
                queue = watch.queue(asked.topic, asked.queue_id)
                question = (asked.consumer_group, queue, watch.recorder.now_us)
                self._remember(self._asked, command.opaque, question)
            case _:
                pass

    def _send(self, command: Command) -> None:
        header: SendMessageRequestHeader | SendMessageRequestHeaderV2
        if command.code == RequestCode.SEND_MESSAGE:
            header = command.header(SendMessageRequestHeader)
        else:
            header = command.header(SendMessageRequestHeaderV2)
        properties = decode_properties(header.properties or "")
        message = properties.get("UNIQ_KEY")
        if header.batch or message is None or command.is_oneway:
            return
        self._watch.recorder.send(properties.get("KEYS", ""), message)
        self._remember(self._sent, command.opaque, (message, header.topic))

    def _answer(self, command: Command) -> None:
        watch, recorder = self._watch, self._watch.recorder
        if (sent := self._sent.pop(command.opaque, None)) is not None:
            if command.code == ResponseCode.SUCCESS:
                message, topic = sent
                stored = command.header(SendMessageResponseHeader)
                recorder.ack(message, watch.queue(topic, stored.queue_id), stored.queue_offset)
        elif (pull := self._pulls.pop(command.opaque, None)) is not None:
            if command.code == ResponseCode.SUCCESS:
                self._pulled(pull, command)
        elif (asked := self._asked.pop(command.opaque, None)) is not None:
            group, queue, at_us = asked
            if command.code == ResponseCode.SUCCESS:
                offset = command.header(OffsetResponseHeader).offset
                recorder.committed(group, queue, offset, at_us)

    def _pulled(self, pull: PullMessageRequestHeader, command: Command) -> None:
        watch = self._watch
        queue = watch.queue(pull.topic, pull.queue_id)
        for message in decode_records(command.body_view, broker_name=watch.broker):
            known_as = message.properties.get("UNIQ_KEY")
            if known_as is not None:
                watch.recorder.receive(pull.consumer_group, queue, message.queue_offset, known_as)

    @staticmethod
    def _remember(table: dict[int, T], number: int, value: T) -> None:
        table[number] = value
        if len(table) > MOST_OPEN:
            del table[next(iter(table))]
