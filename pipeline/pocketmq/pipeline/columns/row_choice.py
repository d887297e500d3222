"""Selects the records that a query needs, before their bodies are decoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from pocketmq.pipeline.columns.arrow_arrays import texts
from pocketmq.pipeline.columns.property_columns import read_properties
from pocketmq.pipeline.columns.record_columns import RecordColumns
from pocketmq.pipeline.columns.record_heads import RecordHeads
from pocketmq.pipeline.options.row_filter import Range, RowFilter
from pocketmq.protocol.messages.properties import KEYS, TAGS, UNIQ_KEY

_NUMBERS = {
    "queueId": "queue_id",
    "queueOffset": "queue_offset",
    "physicalOffset": "physical_offset",
}
_PROPERTIES = {"tags": TAGS, "keys": KEYS, "uniqKey": UNIQ_KEY}
_TIMES = {"storeTimestamp": "store_timestamp", "bornTimestamp": "born_timestamp"}

_Records = TypeVar("_Records", bound=RecordHeads)


def wanted(records: RecordColumns, bounds: RowFilter) -> RecordColumns:
    """The records within the filter's bounds."""
    # Fixed fields first, as they cost the least; each step leaves fewer for the next.
    records = heads_wanted(records, bounds)
    if "topic" in bounds.texts:
        keep = of_topics(records, sorted(bounds.texts["topic"]))
        records = records if keep.all() else records.take(keep)
    for column, name in _PROPERTIES.items():
        values = bounds.texts.get(column)
        if values is not None and len(records):
            found = read_properties(records.properties()).values_of(name)
            import pyarrow.compute as pc

            # A null matches no value, so messages without the property are dropped.
            same = pc.is_in(found, texts(sorted(values)))
            records = records.take(same.to_numpy(zero_copy_only=False))
    return records


def heads_wanted(records: _Records, bounds: RowFilter) -> _Records:
    """The records within the bounds that their fixed fields are tested for."""
    keep = np.ones(len(records), np.bool_)
    for column, within_these in bounds.numbers.items():
        within(keep, records.head[_NUMBERS[column]], within_these)
    for column, within_these in bounds.times_ms.items():
        within(keep, records.head[_TIMES[column]], within_these)
    return records if keep.all() else records.take(keep)


def fields_of(bounds: RowFilter) -> frozenset[str]:
    """The fixed fields that `heads_wanted` tests."""
    return frozenset(
        (*(_NUMBERS[each] for each in bounds.numbers), *(_TIMES[each] for each in bounds.times_ms))
    )


def of_topics(records: RecordColumns, topics: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Which records have one of these topics."""
    found = np.zeros(len(records), np.bool_)
    for topic in topics:
        found |= records.topic_is(topic.encode())
    return found


def within(keep: npt.NDArray[np.bool_], values: npt.NDArray[Any], bounds: Range) -> None:
    """Clear those of `keep` whose values are out of bounds."""
    if bounds.low is not None:
        keep &= values >= bounds.low
    if bounds.high is not None:
        keep &= values <= bounds.high
