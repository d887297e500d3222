"""The events of a store: messages stored, dispatched, and on the disk."""

from __future__ import annotations

from typing import Final

from pocketmq.broker.store.dispatch.stored_batches import PlacedBatch, StoredBatch
from pocketmq.broker.store.queues.consume_queue import ConsumeQueue
from pocketmq.broker.store.stored_message import PutStatus
from pocketmq.operation.events.messages import MessageDispatched, MessageStored, StoreFlushed
from pocketmq.operation.events.sink import NO_EVENTS, Counted, EventSink, Place, sample_number

_OK = PutStatus.PUT_OK

COUNTER_DIGITS: Final = 4
"""Of the counter at the end of a unique key (S-8)."""

MOST_KEPT: Final = 10_000
"""Queues whose counters are kept."""


class StoreEvents:
    """Makes events of what a store does. Call it only while `sink.is_on`.

    Args:
        sink: Takes them.
        broker: Name of the broker.
    """

    __slots__ = ("_broker", "_counters", "sink")

    def __init__(self, sink: EventSink, broker: str) -> None:
        self.sink = sink
        self._broker = broker
        self._counters: dict[tuple[str, int], tuple[Counted, Counted]] = {}
        """(topic, queue) -> stored, dispatched: this is done for each message."""

    def stored(self, batch: StoredBatch) -> None:
        """Messages were appended to the log; those that were refused are left out."""
        mask = self.sink.mask(MessageStored, len(batch.messages))
        # The last digits show which keys cannot be in the sample, without a hash.
        low = _zeros(mask)
        counters: dict[ConsumeQueue, Counted] = {}
        for message, queue, result in zip(batch.messages, batch.queues, batch.results, strict=True):
            if result.status is not _OK:
                continue
            key = message.uniq_key
            if key and not key.endswith(low):  # most of them, at many messages a second
                counted = counters.get(queue)
                if counted is None:
                    counted = self._counted(queue.topic, queue.queue_id)[0]
                    counters[queue] = counted
                counted.count += 1  # without a call: this is done for each message
                counted.messages += 1
                counted.size += result.size
                continue
            self._stored(
                queue,
                result.queue_offset,
                result.physical_offset,
                result.size,
                unique_key=key,
                user_keys=message.keys,
                attempt=message.reconsume_times,
                mask=mask,
            )

    def stored_batch(self, placed: PlacedBatch) -> None:
        """The messages of a batch request were appended to the log."""
        batch, result, queue = placed.batch, placed.result, placed.queue
        begins = result.physical_offsets
        ends = [*begins[1:], result.end]
        mask = self.sink.mask(MessageStored, len(begins))
        for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            self._stored(
                queue,
                result.queue_offset + number,
                begin,
                end - begin,
                unique_key=batch.uniq_keys[number].decode(),
                user_keys=batch.keys[number],
                attempt=0,
                mask=mask,
            )

    def _stored(
        self,
        queue: ConsumeQueue,
        offset: int,
        physical_offset: int,
        size: int,
        *,
        unique_key: str | None,
        user_keys: str | None,
        attempt: int,
        mask: int,
    ) -> None:
        sink = self.sink
        # The sample is of messages, not of events: all events of a message are shown, or none.
        if sample_number(unique_key, offset) & mask:
            self._counted(queue.topic, queue.queue_id)[0].add(1, size)
            return
        event = MessageStored(
            *sink.stamp(),
            topic=queue.topic,
            broker=self._broker,
            queue=queue.queue_id,
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
            self._counted(topic, queue_id)[1].add(count, 0)
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

    def _counted(self, topic: str, queue_id: int) -> tuple[Counted, Counted]:
        found = self._counters.get((topic, queue_id))
        if found is None:
            # Senders may use any number of topics; at the limit, drop all counters and start anew.
            if len(self._counters) >= MOST_KEPT:
                self._counters.clear()
            place = Place(topic, queue_id, self._broker)
            found = self._counters[topic, queue_id] = (
                self.sink.counter(MessageStored, place),
                self.sink.counter(MessageDispatched, place),
            )
        return found

    def flushed(self, before: int, end: int) -> None:
        """The log is on the disk up to `end`; it was up to `before`."""
        sink = self.sink
        event = StoreFlushed(
            *sink.stamp(), broker=self._broker, physical_from=before, physical_to=end
        )
        sink.emit(event)


def _zeros(mask: int) -> str:
    """With which digits the unique keys end that none of the mask's bits is in, at least."""
    digits = 0
    while digits < COUNTER_DIGITS and mask & 0xF == 0xF:
        mask >>= 4
        digits += 1
    return "0" * digits


NO_STORE_EVENTS: Final = StoreEvents(NO_EVENTS, "")
