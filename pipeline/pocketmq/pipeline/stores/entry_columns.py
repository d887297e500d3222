"""Record batches of what the entries of queues say about messages; the log is not read for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pocketmq.pipeline.columns.arrow import TYPES, arrow_schema
from pocketmq.pipeline.columns.arrow_arrays import numbers, repeated_text, texts
from pocketmq.pipeline.columns.row_choice import within
from pocketmq.pipeline.options.row_filter import RowFilter
from pocketmq.pipeline.stores.queue_entries import Entries
from pocketmq.pipeline.stores.store_plan import QueuePart

ENTRY_COLUMNS: Final = frozenset(
    {"topic", "brokerName", "queueId", "queueOffset", "physicalOffset"}
)


def entry_batch(
    part: QueuePart, entries: Entries, columns: dict[str, str], bounds: RowFilter
) -> pa.RecordBatch:
    """The rows of some entries of a part that are within the bounds, in their order.

    Args:
        part: Which queues the entries are from.
        entries: Of these queues; none of them is a light queue, whose entries have other numbers.
        columns: Some of `ENTRY_COLUMNS`.
        bounds: Of numbers only; topics and brokers were chosen when the read was planned.
    """
    ids = np.array([each.queue_id for each in part.slices], np.int32)
    fields: dict[str, Callable[[Entries], npt.NDArray[Any]]] = {
        "queueId": lambda some: ids[some.queue],
        "queueOffset": lambda some: some.numbers,
        "physicalOffset": lambda some: some.offsets,
    }
    if bounds.numbers:
        keep = np.ones(len(entries), np.bool_)
        for name, within_these in bounds.numbers.items():
            within(keep, fields[name](entries), within_these)
        # Nearly always all entries are wanted, and then no copy is made.
        if not keep.all():
            entries = entries[keep]
    made = []
    for name, kind in columns.items():
        if name == "topic":
            # One text for each queue, repeated for each of its entries.
            names = texts([each.topic for each in part.slices])
            made.append(names.take(numbers(entries.queue)))
        elif name == "brokerName":
            made.append(repeated_text(part.broker_name, len(entries)))
        else:
            made.append(numbers(fields[name](entries), TYPES[kind]))
    return pa.RecordBatch.from_arrays(made, schema=arrow_schema(columns))
