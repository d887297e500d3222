"""The events of a store: messages stored, dispatched, and on the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pocketmq.broker.store.stored_message import PutStatus
from pocketmq.protocol.events.messages import MessageDispatched, MessageStored, StoreFlushed
from pocketmq.protocol.events.sink import NO_EVENTS, EventSink, Place, sample_number

if TYPE_CHECKING:
    from pocketmq.broker.store.queue_dispatch import PlacedBatch, StoredBatch

_OK = PutStatus.PUT_OK


class StoreEvents:
    """Makes events of what a store does. Call it only while `sink.is_on`.

    Args:
        sink: Takes them.
        broker: Name of the broker.
    """

    __slots__ = ("_broker", "sink")

    def __init__(self, sink: EventSink, broker: str) -> None:
        self.sink = sink
        self._broker = broker

    def stored(self, batch: StoredBatch) -> None:
        """Messages were appended to the log; those that were refused are left out."""
        for message, queue, result in zip(batch.messages, batch.queues, batch.results, strict=True):
            if result.status is _OK:
                self._stored(
                    queue.topic,
                    queue.queue_id,
                    result.queue_offset,
                    (result.physical_offset, result.size),
                    (message.uniq_key, message.keys),
                    message.reconsume_times,
                )

    def stored_batch(self, placed: PlacedBatch) -> None:
        """The messages of a batch request were appended to the log."""
        batch, result, queue = placed.batch, placed.result, placed.queue
        begins = result.physical_offsets
        ends = [*begins[1:], result.end]
        for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            self._stored(
                queue.topic,
                queue.queue_id,
                result.queue_offset + number,
                (begin, end - begin),
                (batch.uniq_keys[number], batch.keys[number]),
                0,
            )

    def _stored(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        place: tuple[int, int],
        keys: tuple[str | None, str | None],
        attempt: int,
    ) -> None:
        sink = self.sink
        (physical_offset, size), (unique_key, user_keys) = place, keys
        if not sink.wants(MessageStored, sample_number(unique_key, offset)):
            sink.count(MessageStored, Place(topic, queue_id, self._broker), 1, size)
            return
        event = MessageStored(
            *sink.stamp(),
            topic=topic,
            broker=self._broker,
            queue=queue_id,
            offset=offset,
            physical_offset=physical_offset,
            size=size,
            unique_key=unique_key,
            keys=user_keys or None,
            attempt=attempt,
        )
        sink.emit(event)

    def dispatched(
        self, topic: str, queue_id: int, offset: int, count: int, physical_end: int
    ) -> None:
        """Neighbouring messages of a queue are in their consume queue."""
        sink = self.sink
        if not sink.wants(MessageDispatched):
            sink.count(MessageDispatched, Place(topic, queue_id, self._broker), count)
            return
        event = MessageDispatched(
            *sink.stamp(),
            topic=topic,
            broker=self._broker,
            queue=queue_id,
            offset=offset,
            count=count,
            physical_end=physical_end,
        )
        sink.emit(event)

    def flushed(self, before: int, end: int) -> None:
        """The log is on the disk up to `end`; it was up to `before`."""
        sink = self.sink
        event = StoreFlushed(
            *sink.stamp(), broker=self._broker, physical_from=before, physical_to=end
        )
        sink.emit(event)


NO_STORE_EVENTS: Final = StoreEvents(NO_EVENTS, "")
