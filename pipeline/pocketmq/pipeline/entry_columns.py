"""Record batches of what the entries of queues say about messages; the log is not read for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pocketmq.pipeline.arrow import TYPES, arrow_schema
from pocketmq.pipeline.arrow_arrays import numbers, repeated_text, texts
from pocketmq.pipeline.queue_entries import Entries
from pocketmq.pipeline.row_choice import within
from pocketmq.pipeline.row_filter import RowFilter
from pocketmq.pipeline.store_plan import QueuePart

ENTRY_COLUMNS: Final = frozenset(
    {"topic", "brokerName", "queueId", "queueOffset", "physicalOffset"}
)
FIRST_ROWS: Final = 256
MOST_ROWS: Final = 65_536


def entry_batches(
    part: QueuePart, entries: Entries, columns: dict[str, str], bounds: RowFilter
) -> Iterator[pa.RecordBatch]:
    """The rows of a part within the bounds, in the order of its entries.

    Args:
        part: Which queues the entries are from.
        entries: Of these queues; none of them is a light queue, whose entries have other numbers.
        columns: Some of `ENTRY_COLUMNS`.
        bounds: Of numbers only; topics and brokers were chosen when the read was planned.
    """
    ids = np.array([each.queue_id for each in part.slices], np.int32)
    names = texts([each.topic for each in part.slices])
    schema = arrow_schema(columns)
    low, size = 0, FIRST_ROWS
    while low < len(entries):
        some = entries[low : low + size]
        low, size = low + size, min(size * 16, MOST_ROWS)
        fields: dict[str, npt.NDArray[Any]] = {
            "queueId": ids[some.queue],
            "queueOffset": some.numbers,
            "physicalOffset": some.offsets,
        }
        keep = np.ones(len(some), np.bool_)
        for name, values in fields.items():
            within(keep, values, bounds.range(name))
        if not keep.all():
            some = some[keep]
            fields = {name: values[keep] for name, values in fields.items()}
        made = []
        for name, kind in columns.items():
            if name == "topic":
                made.append(names.take(numbers(some.queue)))
            elif name == "brokerName":
                made.append(repeated_text(part.broker_name, len(some)))
            else:
                made.append(numbers(fields[name], TYPES[kind]))
        yield pa.RecordBatch.from_arrays(made, schema=schema)
