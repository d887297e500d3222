"""Property strings of many records as columns: the whole map, or chosen names (S-6).

    name 0x01 value 0x02  name 0x01 value 0x02 ...

NumPy finds every separator of all strings at once; names and values are the slices between them.
The rules are those of `decode_properties`: an entry without a name, a value or the 0x01 between
them is none, and of a name that comes twice the later value counts. About 350 ns a record for maps
of four entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pocketmq.pipeline.fixed_fields import Bytes, Ints, gather
from pocketmq.pipeline.record_columns import binary, utf8

_NAME_END: Final = 1
_ENTRY_END: Final = 2
_DENSE: Final = 4_000_000
"""Cells of the table of (row, name) up to which repeats are counted rather than sorted for."""


@dataclass(slots=True)
class PropertyColumns:
    """Every entry of every string, in order: in which row it is, and where name and value lie."""

    data: Bytes
    rows: int
    """Strings, also those without an entry."""
    row: Ints
    name_at: Ints
    name_len: Ints
    value_at: Ints
    value_len: Ints

    def values_of(self, name: str) -> pa.Array:
        """One property of each row as Arrow `string`; null where it has none."""
        found = self.find(name)
        row = self.row[found]
        values = utf8(binary(self.data, self.value_at[found], self.value_len[found]))
        if len(found) == self.rows:
            return values
        index = np.zeros(self.rows, np.int64)
        missing = np.ones(self.rows, np.bool_)
        index[row] = np.arange(len(found))
        missing[row] = False
        return values.take(pa.array(index, mask=missing))

    def find(self, name: str) -> Ints:
        """Which entries are the value of this property: at most one of each row, in order."""
        wanted = name.encode()
        found = np.flatnonzero(self.name_len == len(wanted))
        if len(found):
            names = gather(self.data, self.name_at[found], np.dtype(f"V{len(wanted)}"))
            found = found[names == np.void(wanted)]
        row = self.row[found]
        if len(row) > 1:
            found = found[np.append(row[1:] != row[:-1], True)]
        return found

    def maps(self) -> pa.Array:
        """All properties of each row as Arrow `map<string, string>`."""
        names = utf8(binary(self.data, self.name_at, self.name_len))
        values = utf8(binary(self.data, self.value_at, self.value_len))
        row = self.row
        kept = _without_repeats(row, self.rows, names)
        if kept is not None:
            place, last = kept
            row, names, values = row[place], names.take(place), values.take(last)
        offsets = np.zeros(self.rows + 1, np.int32)
        np.cumsum(np.bincount(row, minlength=self.rows), out=offsets[1:])
        return pa.MapArray.from_arrays(pa.array(offsets), names, values)


def _without_repeats(row: Ints, rows: int, names: pa.Array) -> tuple[Ints, Ints] | None:
    """Like a dict: of each (row, name) the entry that came first, and the one that came last.

    None, and quickly, when no name comes twice in a row.
    """
    if len(row) == 0:
        return None
    encoded = names.dictionary_encode()
    kinds = len(encoded.dictionary)
    cell = row * kinds + encoded.indices.to_numpy()
    if rows * kinds <= _DENSE and np.bincount(cell).max() == 1:
        return None
    distinct, first = np.unique(cell, return_index=True)
    if len(distinct) == len(cell):
        return None
    last = len(cell) - 1 - np.unique(cell[::-1], return_index=True)[1]
    order = np.argsort(first)
    return first[order], last[order]


def read_properties(strings: pa.Array) -> PropertyColumns:
    """Split property strings, given as Arrow `binary` without nulls and without an offset."""
    _, offsets_buffer, data_buffer = strings.buffers()
    rows = len(strings)
    bounds = np.frombuffer(offsets_buffer, np.int32, rows + 1).astype(np.int64)
    data: Bytes = np.frombuffer(data_buffer or b"", np.uint8)[: int(bounds[-1])]
    separators = np.flatnonzero((data - np.uint8(1)) < 2)  # 0 wraps to 255
    kinds = data[separators]
    name_end, end = separators[0::2], separators[1::2]
    if _is_regular(data, bounds, kinds):
        start = np.concatenate([bounds[:1], end[:-1] + 1])[: len(end)]
        row = np.repeat(np.arange(rows), np.diff(np.searchsorted(end, bounds)))
    else:
        name_end, start, end, row = _irregular(separators, kinds, bounds)
    columns = [row, start, name_end - start, name_end + 1, end - name_end - 1]
    whole = (columns[2] > 0) & (columns[4] > 0)
    if not whole.all():
        columns = [column[whole] for column in columns]
    return PropertyColumns(data, rows, *columns)


def _is_regular(data: Bytes, bounds: Ints, kinds: npt.NDArray[Any]) -> bool:
    """Whether 0x01 and 0x02 take turns and every string ends in 0x02; it nearly always does."""
    if len(kinds) % 2 or (kinds[0::2] != _NAME_END).any() or (kinds[1::2] != _ENTRY_END).any():
        return False
    ends = bounds[1:][np.diff(bounds) > 0]
    return bool((data[ends - 1] == _ENTRY_END).all())


def _irregular(
    separators: Ints, kinds: npt.NDArray[Any], bounds: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """The same by searching: for each entry its first 0x01, its start, its end and its row."""
    entry_ends = separators[kinds == _ENTRY_END]
    starts = np.union1d(bounds[:-1], entry_ends + 1)
    name_end = separators[kinds == _NAME_END]
    entry = np.searchsorted(starts, name_end, "right") - 1
    if len(entry):
        is_first = np.append(True, entry[1:] != entry[:-1])
        name_end, entry = name_end[is_first], entry[is_first]
    row = np.searchsorted(bounds, name_end, "right") - 1
    stops = np.append(entry_ends, bounds[-1])
    end = np.minimum(stops[np.searchsorted(entry_ends, name_end)], bounds[row + 1])
    return name_end, starts[entry], end, row
