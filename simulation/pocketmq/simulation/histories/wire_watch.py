"""Records a history from the bytes of RocketMQ's protocol, for clients in any language.

A message is identified by its UNIQ_KEY, which every client of RocketMQ sets; its key is the KEYS
property. A second send of the same message is another try. Messages in a pull's answer count as
received by the group. Batches and oneway sends are not recorded, because no answer has each
message's place; nor are messages without a UNIQ_KEY.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

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
from pocketmq.protocol.messages.properties import decode_properties
from pocketmq.protocol.stored.record import decode_records
from pocketmq.simulation.histories.recorder import Recorder

T = TypeVar("T")

COMMITS = 1
"""Bit of a pull's `sys_flag`: its `commit_offset` is valid (E-41)."""

MOST_OPEN = 100_000
"""Unanswered requests remembered per connection; older ones (oneway, lost) are dropped."""


class WireWatch:
    """Records the requests to one broker, over all its connections.

    Args:
        broker: The broker's name, with which a queue's name begins.
        recorder: Writes the lines.
        messages: Whether to record sends and receipts; commits are always recorded.
    """

    def __init__(self, broker: str, recorder: Recorder, *, messages: bool = True) -> None:
        self.broker = broker
        self.recorder = recorder
        self.messages = messages

    def connection(self) -> ConnectionWatch:
        """Make the watch of a new connection."""
        return ConnectionWatch(self)

    def queue(self, topic: str, queue_id: int) -> str:
        """A queue's name in histories."""
        return f"{self.broker}/{topic}/{queue_id}"


class ConnectionWatch:
    """Reads both directions of one connection."""

    def __init__(self, watch: WireWatch) -> None:
        self._watch = watch
        self._requests = FrameDecoder()
        self._answers = FrameDecoder()
        self._sent: OrderedDict[int, tuple[str, str]] = OrderedDict()
        """Opaque of a send -> message and topic."""
        self._pulls: OrderedDict[int, PullMessageRequestHeader] = OrderedDict()
        self._asked: OrderedDict[int, tuple[str, str, int]] = OrderedDict()
        """Opaque of an offset query -> group, queue, and when it was sent."""

    def to_broker(self, data: bytes) -> None:
        """Read bytes that go to the broker."""
        for command in self._requests.feed(data):
            if not command.is_response:
                self._request(command)

    def to_client(self, data: bytes) -> None:
        """Read bytes that go to the client."""
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
    def _remember(table: OrderedDict[int, T], number: int, value: T) -> None:
        table[number] = value
        if len(table) > MOST_OPEN:
            table.popitem(last=False)
