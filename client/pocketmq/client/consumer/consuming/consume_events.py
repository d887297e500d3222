"""The events of consumption: a listener has returned, or an iterator went on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pocketmq.operation.events.messages import Consumed, MessageConsumed
from pocketmq.operation.events.sink import NO_EVENTS, EventSink, Place, sample_number
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt, MessageQueue


class ConsumeEvents:
    """Makes events of what a consumer consumed. Call it only while `sink.is_on`.

    Args:
        sink: Takes them.
        group: Of consumers.
        client_id: Of the consumer's client.
    """

    def __init__(self, sink: EventSink, group: str, client_id: str) -> None:
        self.sink = sink
        self._group = group
        self._client_id = client_id

    def consumed(
        self, messages: Sequence[MessageExt], queue: MessageQueue, status: Consumed
    ) -> None:
        """Messages of a queue were given to the listener, which said `status` of them."""
        sink = self.sink
        for message in messages:
            unique_key = message.properties.get(names.UNIQ_KEY)
            offset = message.queue_offset
            if not sink.wants(MessageConsumed, sample_number(unique_key, offset)):
                place = Place(message.topic, message.queue_id, queue.broker_name, self._group)
                sink.count(MessageConsumed, place)
                continue
            event = MessageConsumed(
                *sink.stamp(),
                topic=message.topic,
                broker=queue.broker_name,
                queue=message.queue_id,
                offset=offset,
                group=self._group,
                client_id=self._client_id,
                status=status,
                unique_key=unique_key,
                attempt=message.reconsume_times,
                physical_offset=message.commit_log_offset,
            )
            sink.emit(event)


NO_CONSUME_EVENTS: Final = ConsumeEvents(NO_EVENTS, "", "")
