"""Reads a store's consume queues, index and consumer offsets as record batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pocketmq.pipeline.columns.arrow import arrow_schema
from pocketmq.pipeline.columns.fixed_fields import INDEX_ENTRY, INDEX_HEADER, Ints
from pocketmq.pipeline.columns.record_columns import timestamps
from pocketmq.pipeline.errors import CorruptRecordError
from pocketmq.pipeline.stores.places import Place, read_at
from pocketmq.pipeline.stores.store_bounds import Slice
from pocketmq.pipeline.stores.store_files import Entries, FileRow, QueueFiles, log_files, queues_of
from pocketmq.pipeline.stores.store_index import SLOT_BYTES, slots_of
from pocketmq.pipeline.stores.store_plan import QueuePart
from pocketmq.pipeline.stores.store_roots import Root
from pocketmq.protocol.bodies.offsets import ConsumerOffsetTable
from pocketmq.protocol.body import decode_json
from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.store_layout import FILLER_SIZE

ROWS: Final = 65_536
"""Maximum rows of a batch."""


def _batch(columns: dict[str, str], values: dict[str, Any]) -> pa.RecordBatch:
    schema = arrow_schema(columns)
    made = []
    for field in schema:
        value = values[field.name]
        made.append(value if isinstance(value, pa.Array) else pa.array(value, field.type))
    return pa.RecordBatch.from_arrays(made, schema=schema)


def _same(value: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.string()), count)


# -- consume queues -----------------------------------------------------------------------------


def queue_batches(part: QueuePart, columns: dict[str, str]) -> Iterator[pa.RecordBatch]:
    """Yield entries of queues as stored; fillers are left out (S-33)."""
    for each in part.slices:
        files = QueueFiles(part.root, each.topic, each.queue_id)
        with files.row:
            for low in range(each.low, each.high, ROWS):
                found = files.entries(low, min(low + ROWS, each.high))
                numbers = np.arange(low, low + len(found))
                real = found["size"] != FILLER_SIZE
                if not real.all():
                    found, numbers = found[real], numbers[real]
                yield _queue_batch(part, each, found, numbers, columns)


def _queue_batch(
    part: QueuePart, each: Slice, found: Entries, numbers: Ints, columns: dict[str, str]
) -> pa.RecordBatch:
    """Only the columns that were asked for are made."""
    count = len(found)
    makers: dict[str, Callable[[], Any]] = {
        "brokerName": lambda: _same(part.broker_name, count),
        "topic": lambda: _same(each.topic, count),
        "queueId": lambda: np.full(count, each.queue_id, np.int32),
        "queueOffset": lambda: numbers,
        "physicalOffset": lambda: found["offset"].astype(np.int64),
        "size": lambda: found["size"].astype(np.int32),
        "tagsCode": lambda: found["tags"].astype(np.int64),
    }
    return _batch(columns, {name: makers[name]() for name in columns})


# -- index --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IndexPart:
    """One task: entries [low, high) of an index file."""

    root: Place
    path: Place
    broker_name: str
    slots: int
    low: int
    high: int


def plan_index(root: Root, *, slots: int | None, part_rows: int) -> list[IndexPart]:
    """Plan the parts for all index files of a store.

    Args:
        slots: Hash slots of a file; None for a quarter of its entries, as RocketMQ makes them.
        part_rows: Maximum entries of a part.

    Raises:
        CorruptRecordError: A file's length is that of no number of slots.
    """
    parts = []
    directory = root.path / "index"
    for name, length, is_folder in directory.entries():
        if is_folder or not name.isdigit() or length < INDEX_HEADER.itemsize:
            continue  # also one that a broker is creating
        path = directory / name
        found = slots_of(path, length) if slots is None else slots
        header = np.frombuffer(read_at(path, 0, INDEX_HEADER.itemsize), INDEX_HEADER)[0]
        first = INDEX_HEADER.itemsize + found * SLOT_BYTES
        fits = max(0, length - first) // INDEX_ENTRY.itemsize
        # A copy may be cut off, or its header may be ahead of its entries.
        end = min(int(header["next"]), fits)
        parts += [
            IndexPart(root.path, path, root.broker_name, found, low, min(low + part_rows, end))
            for low in range(1, end, part_rows)  # entry 0 is never used
        ]
    return parts


def index_batches(part: IndexPart, columns: dict[str, str]) -> Iterator[pa.RecordBatch]:
    """Yield entries of an index file, in the order in which they were written (S-47)."""
    path = part.path
    entries_at = INDEX_HEADER.itemsize + part.slots * SLOT_BYTES
    head = np.frombuffer(read_at(path, 0, INDEX_HEADER.itemsize), INDEX_HEADER)
    begin = int(head["begin"][0])
    for low in range(part.low, part.high, ROWS):
        count = min(ROWS, part.high - low)
        at = entries_at + low * INDEX_ENTRY.itemsize
        data = read_at(path, at, count * INDEX_ENTRY.itemsize)
        # Only whole entries: the file may end within one.
        found = np.frombuffer(data, INDEX_ENTRY, len(data) // INDEX_ENTRY.itemsize)
        count = len(found)
        yield _batch(
            columns,
            {
                "brokerName": _same(part.broker_name, count),
                "file": _same(path.name, count),
                "number": np.arange(low, low + count, dtype=np.int32),
                "keyHash": found["hash"].astype(np.int32),
                "physicalOffset": found["offset"].astype(np.int64),
                "storeTimestamp": timestamps(begin + found["seconds"].astype(np.int64) * 1000),
                "older": found["older"].astype(np.int32),
            },
        )


# -- consumers' offsets -------------------------------------------------------------------------


def offset_batches(
    root: Place, broker_name: str, columns: dict[str, str]
) -> Iterator[pa.RecordBatch]:
    """Yield committed offsets of all groups beside the bounds of their queues (B-31)."""
    folder = root / "config"
    queues = set(queues_of(root))
    # The table of offsets is small, so one batch holds all of it.
    rows: dict[str, list[Any]] = {name: [] for name in columns}
    with log_files(root) as log:
        for key, offsets in sorted(_offset_table(folder).items()):
            topic, _, group = key.partition("@")
            for queue_id, offset in sorted(offsets.items()):
                low = high = 0
                # Offsets of deleted queues remain, but such queues have no bounds.
                if (topic, queue_id) in queues:
                    low, high = _bounds(root, topic, queue_id, log)
                row = {
                    "brokerName": broker_name,
                    "consumerGroup": group,
                    "topic": topic,
                    "queueId": queue_id,
                    "consumerOffset": offset,
                    "minOffset": low,
                    "maxOffset": high,
                    "lag": max(0, high - offset),
                }
                for name in columns:
                    rows[name].append(row[name])
    yield _batch(columns, rows)


def _bounds(root: Place, topic: str, queue_id: int, log: FileRow) -> tuple[int, int]:
    files = QueueFiles(root, topic, queue_id)
    with files.row:
        high = files.written_end()
        return files.index_at(log.start, files.first, high), high


def _offset_table(folder: Place) -> dict[str, dict[int, int]]:
    """Load the offset table, from the backup file while a broker replaces the file."""
    for name in ("consumerOffset.json", "consumerOffset.json.bak"):
        candidate = folder / name
        try:
            data = candidate.read_bytes()
        except FileNotFoundError:
            continue
        if not data.strip():
            continue
        try:
            return decode_json(data, ConsumerOffsetTable).offset_table
        except BadRequestError as exc:
            raise CorruptRecordError(str(candidate), 0, str(exc)) from exc
    return {}
