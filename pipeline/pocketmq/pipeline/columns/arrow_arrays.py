"""Makes Arrow arrays of buffers, as `pyarrow.array` would.

`pyarrow.array`, `scalar` and `repeat` import pandas, where it is installed, to see whether they
were given a series: a quarter of a processor second of each Python worker that Spark starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

MOST_BYTES: Final = 2**31 - 1
"""Of all values of an array of `string` or `binary`, whose offsets have 32 bits."""


def numbers(
    values: npt.NDArray[Any],
    kind: pa.DataType | None = None,
    *,
    missing: npt.NDArray[np.bool_] | None = None,
) -> pa.Array:
    """An array of numbers of the machine's byte order; it keeps `values` unless they have gaps.

    Args:
        values: The numbers.
        kind: An Arrow type of the same width, by default that of the numbers.
        missing: Where this is true, the row is null.
    """
    # Arrow takes no strided arrays, and a field of a structured array is one.
    whole = np.ascontiguousarray(values)
    valid = None
    if missing is not None:
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    kind = kind or pa.from_numpy_dtype(whole.dtype)
    return pa.Array.from_buffers(kind, len(whole), [valid, pa.py_buffer(whole)])


def pooled(size: int) -> npt.NDArray[np.uint8]:
    """Bytes of Arrow's pool, which hands out again what others have let go.

    Fresh memory costs a page fault for each 4 KiB, often more than what is done with it.
    """
    if size == 0:
        return np.empty(0, np.uint8)
    return np.frombuffer(pa.allocate_buffer(size), np.uint8)


def texts(values: Sequence[str | None]) -> pa.Array:
    """A few strings, or nulls, as `string`."""
    data = [b"" if value is None else value.encode() for value in values]
    # Arrow's validity bitmap: a set bit means that the value is there.
    missing = np.array([value is None for value in values], np.bool_)
    valid = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return _of_bytes(pa.string(), data, valid)


def binaries(values: Sequence[bytes]) -> pa.Array:
    """A few values as `binary`.

    Raises:
        pa.ArrowCapacityError: They have more than `MOST_BYTES`.
    """
    return _of_bytes(pa.binary(), values, None)


def _of_bytes(kind: pa.DataType, data: Sequence[bytes], valid: pa.Buffer | None) -> pa.Array:
    ends = np.cumsum([0, *(len(each) for each in data)], dtype=np.int64)
    # Summed in 64 bits: 32 bits would overflow before the check.
    _check_fits(int(ends[-1]))
    ends = ends.astype(np.int32)
    buffers = [valid, pa.py_buffer(ends), pa.py_buffer(b"".join(data))]
    return pa.Array.from_buffers(kind, len(data), buffers)


def _check_fits(size: int) -> None:
    """Refuse what would make the offsets negative, and rows of other rows' bytes."""
    if size > MOST_BYTES:
        raise pa.ArrowCapacityError(
            f"{size:,} bytes do not fit into one Arrow array, which holds at most {MOST_BYTES:,} "
            "bytes"
        )


def repeated_text(value: str | None, count: int) -> pa.Array:
    """The same string, or null, in each row."""
    if value is None:
        return pa.nulls(count, pa.string())
    data = value.encode()
    _check_fits(len(data) * count)
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(len(data))
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data * count)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def repeated_number(value: int, count: int) -> pa.Array:
    """The same `int32` in each row."""
    return numbers(np.full(count, value, np.int32))


def empty(kind: pa.DataType) -> pa.Array:
    """An array of no rows."""
    return pa.nulls(0, kind)
