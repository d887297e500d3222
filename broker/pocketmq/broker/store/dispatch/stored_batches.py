"""Messages that were appended to the log together, as they are handed to what is derived from it.

The log returns where each record lies; consume queues, index and events are written from the pair
of message and place, without reading the record back (queue_dispatch.py, store_events.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import msgspec

from pocketmq.broker.store.index.index_keys import tag_hash, unique_key_hashes
from pocketmq.broker.store.index.index_service import KeyColumns, hashes_of
from pocketmq.broker.store.queues.consume_queue import ConsumeQueue
from pocketmq.broker.store.stored_message import (
    BatchResult,
    PutResult,
    PutStatus,
    QueueBatch,
    StoredMessage,
)
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.properties import stored_name, stored_value
from pocketmq.protocol.scalars import MessageSysFlag

_OK = PutStatus.PUT_OK
_TRANSACTION = MessageSysFlag.TRANSACTION_MASK
_ROLLBACK = MessageSysFlag.TRANSACTION_ROLLBACK
_TAGS = stored_name(names.TAGS)


def tag_of(properties: bytes) -> str | None:
    """TAGS among the properties as they are stored; None or empty: no tag."""
    return stored_value(b"\x02" + properties, _TAGS)


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

    def add_keys_to(self, columns: KeyColumns, *, tags: bool) -> None:
        """Append what belongs into the index (S-22, S-46)."""
        messages, results = self.messages, self.results
        count, topic = len(messages), messages[0].topic
        uniq_keys = [message.uniq_key for message in messages]
        # In the usual batch (one topic, only unique keys, nothing refused) all keys are hashed
        # together, in a sixth of the time.
        if (
            [message.topic for message in messages].count(topic) == count
            and [message.keys for message in messages].count(None) == count
            and [result.status for result in results].count(_OK) == count
            and _ROLLBACK not in [message.sys_flag & _TRANSACTION for message in messages]
            and None not in uniq_keys
        ):
            keys = [key.encode() for key in uniq_keys if key is not None]
            own_tags = [tag_of(message.properties) for message in messages] if tags else []
            _add_unique_keys(
                columns,
                topic,
                keys,
                own_tags,
                [result.physical_offset for result in results],
                [result.store_timestamp_ms for result in results],
            )
            return
        for message, result in zip(messages, results, strict=True):
            # Refused messages have no place, and rolled back ones must not be found (S-22).
            if result.status is not _OK or message.sys_flag & _TRANSACTION == _ROLLBACK:
                continue
            tag = tag_of(message.properties) if tags else None
            hashes = hashes_of(message.topic, message.uniq_key, message.keys, tag)
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

    def add_keys_to(self, columns: KeyColumns, *, tags: bool) -> None:
        """Append what belongs into the index (S-46)."""
        batch, places = self.batch, self.result.physical_offsets
        topic, stored_ms = batch.topic, self.result.store_timestamp_ms
        own_tags: list[str | None] = [None] * len(places)
        # The messages of a uniform batch have the same tag.
        if tags and batch.is_uniform:
            own_tags = [tag_of(batch.properties[0])] * len(places)
        elif tags:
            own_tags = list(map(tag_of, batch.properties))
        if batch.is_uniform or not any(batch.keys):
            times_ms = [stored_ms] * len(places)
            _add_unique_keys(columns, topic, batch.uniq_keys, own_tags, places, times_ms)
            return
        for key, user_keys, tag, at in zip(
            batch.uniq_keys, batch.keys, own_tags, places, strict=True
        ):
            columns.add(hashes_of(topic, key.decode(), user_keys, tag), at, stored_ms)


def _add_unique_keys(
    columns: KeyColumns,
    topic: str,
    uniq_keys: list[bytes],
    tags: Sequence[str | None],
    physical_offsets: list[int],
    times_ms: list[int],
) -> None:
    """Append messages of one topic without KEYS, all lists by message.

    Args:
        columns: get the entries.
        topic: of the messages.
        uniq_keys: UTF-8; each has one.
        tags: of the messages, None or empty for those without one; none at all without any.
        physical_offsets: of the messages.
        times_ms: their store times.
    """
    hashes = unique_key_hashes(topic, uniq_keys)
    if not any(tags):
        columns.hashes.extend(hashes)
        columns.physical_offsets.extend(physical_offsets)
        columns.times_ms.extend(times_ms)
    elif all(tags):
        # Keep a message's key and tag together, because index entries ascend by log offset.
        of_tags = [tag_hash(topic, tag) for tag in tags if tag]
        twice = chain.from_iterable
        columns.hashes.extend(twice(zip(hashes, of_tags, strict=True)))
        columns.physical_offsets.extend(twice(zip(physical_offsets, physical_offsets, strict=True)))
        columns.times_ms.extend(twice(zip(times_ms, times_ms, strict=True)))
    else:
        for hashed, tag, at, ms in zip(hashes, tags, physical_offsets, times_ms, strict=True):
            columns.add([hashed, tag_hash(topic, tag)] if tag else [hashed], at, ms)
