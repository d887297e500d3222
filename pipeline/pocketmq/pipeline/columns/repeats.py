"""Finds messages that the sink sent twice, by a property that it sets on each (at-least-once).

    SPARK_ROW = <write>:<batch>:<task>:<row>:<digest>

`write` is one write of one query, `row` counts within the task, `digest` is of what the row says. A
task that Spark runs again sends the same rows with the same values to the same queues, so whoever
reads a queue can drop the second. If it gets other rows, or the same in another order, the digests
differ: then a row may come twice, but none is dropped that is no repeat. Values without a digest,
as the sink wrote them before there was one, are never repeats.
"""

from __future__ import annotations

import array
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

import numpy as np
import numpy.typing as npt

from pocketmq.pipeline.columns.property_columns import read_properties
from pocketmq.pipeline.columns.record_columns import RecordColumns

ROW_PROPERTY: Final = "SPARK_ROW"
_DIGEST_BYTES: Final = 8


def row_prefix(write: str, batch: int, task: int) -> str:
    """What the values of one task begin with; the row's number and its digest follow."""
    return f"{write}:{batch}:{task}:"


def digest_of(topic: str, body: bytes, flag: int, properties: Mapping[str, str]) -> str:
    """16 hex digits of what a row says: about 1.5 us, and 1 us per KiB of the body."""
    # Sorted: Spark may pass a map's entries in another order the second time.
    entries = sorted(properties.items())
    said = blake2b(repr((topic, flag, entries)).encode(), digest_size=_DIGEST_BYTES)
    said.update(body)
    return said.hexdigest()


class SeenRows:
    """The rows of tasks that were read already: eight bytes for each."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], array.array[int]] = {}
        """Task and block of its rows -> for each the digest that came first, or 0."""
        self._others: set[tuple[str, int, int]] = set()
        """Further digests of the same row of the same task."""
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
        task, _, said = value.rpartition(":")
        task, _, row = task.rpartition(":")
        # Anybody may set this property: a value that the sink cannot have set is never a repeat.
        if task.count(":") != _COLONS or not row.isdecimal() or len(row) > _MOST_DIGITS:
            return True
        try:
            digest = int(said, 16) or 1  # 0 stands for none
        except ValueError:
            return True
        if digest >> (8 * _DIGEST_BYTES):
            return True
        number = int(row)
        block, place = divmod(number, _BLOCK_ROWS)
        seen = self._seen.get((task, block))
        if seen is None:
            # Allocated block by block, so that a task's rows may come in any order in little
            # memory.
            seen = self._seen[task, block] = array.array("Q", bytes(8 * _BLOCK_ROWS))
        if seen[place] == digest:
            return False
        # First row with this number, as for most rows.
        if seen[place] == 0:
            seen[place] = digest
            return True
        # The task ran again with other rows: each digest counts by itself.
        other = (task, number, digest)
        if other in self._others:
            return False
        self._others.add(other)
        return True


_BLOCK_ROWS: Final = 1024
_COLONS: Final = 2
"""In what stands before a row's number."""
_MOST_DIGITS: Final = 9
"""Digits of a row's number; a longer one was not set by the sink."""
