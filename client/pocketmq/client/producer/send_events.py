"""The events of sends: sent, and answered."""

from __future__ import annotations

from typing import Final

from pocketmq.client.producer.prepare import Prepared
from pocketmq.client.producer.send_result import STATUS_BY_CODE
from pocketmq.operation.events.messages import MessageSent, SendAnswered
from pocketmq.operation.events.sink import NO_EVENTS, EventSink, Place, sample_number
from pocketmq.protocol.command import Command
from pocketmq.protocol.headers.send import SendMessageResponseHeader
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.properties import decode_properties


class SendEvents:
    """Makes events of a producer's sends. Call it only while `sink.is_on`.

    Args:
        sink: Takes them.
        group: Of producers.
        client_id: Of the producer's client.
    """

    def __init__(self, sink: EventSink, group: str, client_id: str) -> None:
        self.sink = sink
        self._group = group
        self._client_id = client_id

    def sent(self, prepared: Prepared, queue: MessageQueue) -> None:
        """A try begins."""
        sink = self.sink
        keys = prepared.uniq_key.split(",")
        if not sink.wants(MessageSent, sample_number(keys[0])):
            place = Place(prepared.topic, queue.queue_id, queue.broker_name, self._group)
            sink.count(MessageSent, place, len(keys), len(prepared.body))
            return
        properties = decode_properties(prepared.properties)
        event = MessageSent(
            *sink.stamp(),
            topic=prepared.topic,
            broker=queue.broker_name,
            queue=queue.queue_id,
            unique_key=keys[0],
            client_id=self._client_id,
            group=self._group,
            size=len(prepared.body),
            keys=properties.get(names.KEYS),
            tags=properties.get(names.TAGS),
            count=len(keys),
            batched=keys[1:],
        )
        sink.emit(event)

    def answered(self, prepared: Prepared, queue: MessageQueue, response: Command) -> None:
        """A broker answered a try."""
        status = STATUS_BY_CODE.get(response.code)
        if status is None:
            self._tell(prepared, queue, f"refused ({response.code})", None)
            return
        header = response.header(SendMessageResponseHeader)
        if header.queue_id != queue.queue_id:
            queue = MessageQueue(queue.topic, queue.broker_name, header.queue_id)
        self._tell(prepared, queue, status.name, header.queue_offset)

    def failed(self, prepared: Prepared, queue: MessageQueue, error: BaseException) -> None:
        """A try got no answer."""
        self._tell(prepared, queue, type(error).__name__, None)

    def _tell(
        self, prepared: Prepared, queue: MessageQueue, status: str, offset: int | None
    ) -> None:
        sink = self.sink
        key = prepared.uniq_key.split(",")[0]
        if not sink.wants(SendAnswered, sample_number(key)):
            place = Place(prepared.topic, queue.queue_id, queue.broker_name, self._group)
            sink.count(SendAnswered, place)
            return
        event = SendAnswered(
            *sink.stamp(),
            topic=prepared.topic,
            broker=queue.broker_name,
            queue=queue.queue_id,
            unique_key=key,
            client_id=self._client_id,
            status=status,
            offset=offset,
        )
        sink.emit(event)


NO_SEND_EVENTS: Final = SendEvents(NO_EVENTS, "", "")
