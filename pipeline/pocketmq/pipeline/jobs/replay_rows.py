"""The messages of a replay: read in the order of their store times, and as they are sent again."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pocketmq.pipeline.jobs.queue_rows import NO_PLACE, PLACE, QueueRows, in_ms
from pocketmq.pipeline.progress.checkpoint import Mark
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageQueue

if TYPE_CHECKING:
    import pyarrow as pa

FROM: Final = "REPLAY_FROM"
BORN_MS: Final = "REPLAY_BORN_MS"
STORE_MS: Final = "REPLAY_STORE_MS"
COLUMNS: Final = (
    *("topic", "brokerName", "queueId", "queueOffset", "body", "flag"),
    *("bornTimestamp", "storeTimestamp", "properties"),
)

_KEPT: Final = frozenset({names.KEYS, names.TAGS, names.SHARDING_KEY, names.UNIQ_KEY})


class Row(NamedTuple):
    """One message of the source; compares by store time, queue and offset."""

    stored_ms: int
    queue: MessageQueue
    offset: int
    body: bytes
    flag: int
    properties: Mapping[str, str]
    born_ms: int
    mark: Mark
    """Tells it from another message at the offset; of its own store time, also if the clock was
    set back."""


def rows_in_order(queues: Sequence[QueueRows]) -> Iterator[Row]:
    """Rows of all queues by store time; those of a queue stay in its order."""
    return heapq.merge(*map(_rows, queues))


def _rows(queue: QueueRows) -> Iterator[Row]:
    latest = 0
    for batch in queue.batches:
        for row in _of_batch(batch, queue.queue):
            # A broker's clock may have been set back: the order of the queue counts.
            latest = max(latest, row.stored_ms)
            yield row._replace(stored_ms=latest)


def _of_batch(batch: pa.RecordBatch, queue: MessageQueue) -> Iterator[Row]:
    def values(name: str) -> list[Any]:
        found: list[Any] = in_ms(batch.column(name)).to_pylist()
        return found

    columns = ("storeTimestamp", "queueOffset", "body", "flag", "properties", "bornTimestamp")
    places = values(PLACE) if PLACE in batch.schema.names else [NO_PLACE] * len(batch)
    for (stored, offset, body, flag, pairs, born), place in zip(
        zip(*map(values, columns), strict=True), places, strict=True
    ):
        mark = Mark(stored, place)
        yield Row(stored, queue, offset, body or b"", flag, dict(pairs or ()), born, mark)


def key_of(row: Row) -> str:
    """What decides the queue: messages with the same one keep their order."""
    key = row.properties.get(names.SHARDING_KEY)
    if key:
        return key
    words = row.properties.get(names.KEYS, "").split(names.KEY_SEPARATOR)
    if words[0]:
        return words[0]
    return f"{row.queue.topic}/{row.queue.broker_name}/{row.queue.queue_id}"


def place_of(row: Row) -> str:
    """Where the message was; the value of REPLAY_FROM."""
    queue = row.queue
    return f"{queue.topic}/{queue.broker_name}/{queue.queue_id}/{row.offset}"


def properties_of(row: Row) -> dict[str, str]:
    """The properties that it is sent with."""
    kept = {
        name: text
        for name, text in row.properties.items()
        if name not in names.RESERVED or name in _KEPT
    }
    kept[FROM] = place_of(row)
    kept[BORN_MS], kept[STORE_MS] = str(row.born_ms), str(row.mark.store_ms)
    kept[names.WAIT] = "true"
    return kept
