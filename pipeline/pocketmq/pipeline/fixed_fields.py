"""The same bytes of many stored records at once. NumPy alone: whoever needs no more loads no Arrow.

a view of the buffer with stride 1, one item per byte position, each item as wide as the fields
-> index it with the positions -> a structured array of big-endian fields
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]

HEAD: Final = np.dtype(
    [
        ("size", ">i4"),
        ("magic", ">i4"),
        ("body_crc", ">i4"),
        ("queue_id", ">i4"),
        ("flag", ">i4"),
        ("queue_offset", ">i8"),
        ("physical_offset", ">i8"),
        ("sys_flag", ">i4"),
        ("born_timestamp", ">i8"),
        ("born_host", "V8"),
        ("store_timestamp", ">i8"),
        ("store_host", "V8"),
        ("reconsume_times", ">i4"),
        ("prepared", ">i8"),
        ("body_len", ">i4"),
    ]
)
"""The fixed fields with IPv4 hosts: 88 bytes."""


def gather(buffer: Bytes, positions: Ints, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The `dtype` that begins at each position; one copy, in C.

    Every position must leave room for a whole item.
    """
    if len(positions) == 0:
        return np.empty(0, dtype)
    width = dtype.itemsize
    windows = np.ndarray((len(buffer) - width + 1,), f"V{width}", buffer, strides=(1,))
    return windows[positions].view(dtype)
