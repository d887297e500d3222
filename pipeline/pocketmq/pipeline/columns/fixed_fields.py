"""Reads the fixed fields of many stored records at once, with NumPy alone: it does not load Arrow.

a view of the buffer with a stride of 1 byte: an item at each byte, as wide as all fields
-> indexed with the records' positions -> a structured array of big-endian fields
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pocketmq.protocol import store_layout

Ints: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]

HEAD: Final = np.dtype(
    store_layout.RECORD.columns(
        {
            "TOTALSIZE": "size",
            "MAGICCODE": "magic",
            "BODYCRC": "body_crc",
            "QUEUEID": "queue_id",
            "FLAG": "flag",
            "QUEUEOFFSET": "queue_offset",
            "PHYSICALOFFSET": "physical_offset",
            "SYSFLAG": "sys_flag",
            "BORNTIMESTAMP": "born_timestamp",
            "BORNHOST": "born_host",
            "STORETIMESTAMP": "store_timestamp",
            "STOREHOST": "store_host",
            "RECONSUMETIMES": "reconsume_times",
            "PREPAREDTRANSACTIONOFFSET": "prepared",
            "body length": "body_len",
        }
    )
)
"""The fixed fields with IPv4 hosts: 88 bytes."""

QUEUE_ENTRY: Final = np.dtype(
    store_layout.QUEUE_ENTRY.columns(
        {"physical offset": "offset", "size": "size", "tags code": "tags"}
    )
)
"""An entry of a consume queue: 20 bytes (S-30)."""
INDEX_HEADER: Final = np.dtype(
    store_layout.INDEX_HEADER.columns(
        {
            "beginTimestamp": "begin",
            "endTimestamp": "end",
            "beginPhyOffset": "begin_offset",
            "endPhyOffset": "end_offset",
            "hashSlotCount": "slots",
            "indexCount": "next",
        }
    )
)
INDEX_ENTRY: Final = np.dtype(
    store_layout.INDEX_ENTRY.columns(
        {"key hash": "hash", "physical offset": "offset", "seconds": "seconds", "older": "older"}
    )
)
"""An entry of an index file: 20 bytes."""


def gather(buffer: Bytes, positions: Ints, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The `dtype` that begins at each position; one copy, in C.

    An item must fit between each position and the end of the buffer.
    """
    # The buffer may be shorter than an item, which would give a negative number of windows.
    if len(positions) == 0:
        return np.empty(0, dtype)
    width = dtype.itemsize
    # The windows overlap and copy nothing; only those at `positions` are read.
    windows = np.ndarray((len(buffer) - width + 1,), f"V{width}", buffer, strides=(1,))
    return windows[positions].view(dtype)
