"""Finds messages that the sink sent twice, by a property that it sets on each (at-least-once).

    SPARK_ROW = <write>:<batch>:<task>:<row>

`write` identifies one write of one query, `row` counts within the task. A task that Spark runs
again sends the same rows with the same values to the same queues, so the reader of a queue can drop
the second.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from pocketmq.pipeline.property_columns import read_properties
from pocketmq.pipeline.record_columns import RecordColumns

ROW_PROPERTY: Final = "SPARK_ROW"


def row_prefix(write: str, batch: int, task: int) -> str:
    """The prefix of all values of one task; the row's number follows it."""
    return f"{write}:{batch}:{task}:"


class SeenRows:
    """Remembers which rows of which tasks were read: a byte per row."""

    def __init__(self) -> None:
        self._seen: dict[str, bytearray] = {}
        self.dropped = 0

    def first_time(self, records: RecordColumns) -> npt.NDArray[np.bool_]:
        """Which records are new; remembers them. Those without the property always count as new."""
        new = np.ones(len(records), np.bool_)
        values = read_properties(records.properties()).values_of(ROW_PROPERTY)
        for index, value in enumerate(values.to_pylist()):
            if value is not None and not self._is_new(value):
                new[index] = False
        self.dropped += int((~new).sum())
        return new

    def _is_new(self, value: str) -> bool:
        task, _, row = value.rpartition(":")
        if not row.isdecimal() or len(row) > _MOST_DIGITS:
            return True
        number = int(row)
        seen = self._seen.setdefault(task, bytearray())
        if number >= len(seen):
            seen.extend(bytes(number + 1 - len(seen)))
        if seen[number]:
            return False
        seen[number] = 1
        return True


_MOST_DIGITS: Final = 9
"""Digits of a row's number; a longer one was not set by the sink."""
