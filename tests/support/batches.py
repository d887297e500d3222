"""Batches for the store, made of single messages."""

from __future__ import annotations

from collections.abc import Sequence

from pocketmq.broker.store import QueueBatch, StoredMessage


def batch_of(messages: Sequence[StoredMessage]) -> QueueBatch:
    """The batch that holds these messages; the first says topic, queue and the rest."""
    first = messages[0]
    return QueueBatch(
        topic=first.topic,
        queue_id=first.queue_id,
        sys_flag=first.sys_flag,
        born_timestamp_ms=first.born_timestamp_ms,
        born_host=first.born_host,
        store_host=first.store_host,
        reconsume_times=first.reconsume_times,
        bodies=[message.body for message in messages],
        properties=[message.properties for message in messages],
        flags=[message.flag for message in messages],
        tags_codes=[message.tags_code for message in messages],
        uniq_keys=[(message.uniq_key or "").encode() for message in messages],
        keys=[message.keys for message in messages],
    )
