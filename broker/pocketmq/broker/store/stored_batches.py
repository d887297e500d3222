"""Messages that were appended to the log together, as they are handed to what is derived from it.

The log returns where each record lies; consume queues, index and events are written from the pair
of message and place, without reading the record back (queue_dispatch.py, store_events.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pocketmq.broker.store.consume_queue import ConsumeQueue
from pocketmq.broker.store.index_keys import unique_key_hashes
from pocketmq.broker.store.index_service import KeyColumns, hashes_of
from pocketmq.broker.store.stored_message import (
    BatchResult,
    PutResult,
    PutStatus,
    QueueBatch,
    StoredMessage,
)
from pocketmq.protocol.scalars import MessageSysFlag

_OK = PutStatus.PUT_OK
_TRANSACTION = MessageSysFlag.TRANSACTION_MASK
_ROLLBACK = MessageSysFlag.TRANSACTION_ROLLBACK


class StoredBatch(msgspec.Struct, gc=False):
    """Messages that were appended together; the three sequences belong together."""

    end: int
    """Log offset behind the last record."""
    messages: Sequence[StoredMessage]
    queues: Sequence[ConsumeQueue]
    results: Sequence[PutResult]

    @property
    def count(self) -> int:
        """How many they are, stored or not."""
        return len(self.messages)

    def add_keys_to(self, columns: KeyColumns) -> None:
        """Append what belongs into the index (S-22, S-46)."""
        messages, results = self.messages, self.results
        count, topic = len(messages), messages[0].topic
        uniq_keys = [message.uniq_key for message in messages]
        if (
            [message.topic for message in messages].count(topic) == count
            and [message.keys for message in messages].count(None) == count
            and [result.status for result in results].count(_OK) == count
            and _ROLLBACK not in [message.sys_flag & _TRANSACTION for message in messages]
            and None not in uniq_keys
        ):
            keys = [key.encode() for key in uniq_keys if key is not None]
            columns.hashes.extend(unique_key_hashes(topic, keys))
            columns.physical_offsets.extend([result.physical_offset for result in results])
            columns.times_ms.extend([result.store_timestamp_ms for result in results])
            return
        for message, result in zip(messages, results, strict=True):
            if result.status is not _OK or message.sys_flag & _TRANSACTION == _ROLLBACK:
                continue
            hashes = hashes_of(message.topic, message.uniq_key, message.keys)
            columns.add(hashes, result.physical_offset, result.store_timestamp_ms)


class PlacedBatch(msgspec.Struct, gc=False):
    """The messages of one batch request, which were appended together."""

    batch: QueueBatch
    queue: ConsumeQueue
    result: BatchResult
    """PUT_OK."""

    @property
    def end(self) -> int:
        """Log offset behind the last record."""
        return self.result.end

    @property
    def count(self) -> int:
        """How many they are."""
        return len(self.result.physical_offsets)

    def add_keys_to(self, columns: KeyColumns) -> None:
        """Append what belongs into the index (S-46)."""
        batch, places = self.batch, self.result.physical_offsets
        topic, stored_ms = batch.topic, self.result.store_timestamp_ms
        if batch.is_uniform or not any(batch.keys):
            columns.hashes.extend(unique_key_hashes(topic, batch.uniq_keys))
            columns.physical_offsets.extend(places)
            columns.times_ms.extend([stored_ms] * len(places))
            return
        for key, user_keys, at in zip(batch.uniq_keys, batch.keys, places, strict=True):
            columns.add(hashes_of(topic, key.decode(), user_keys), at, stored_ms)
