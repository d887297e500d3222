"""The heads of records that entries of queues lead to, where every one is as its entry says.

That is so nearly always, and then only the fields that a query needs are kept. Where it is not so,
`record_heads` finds out which record is broken, has hosts of IPv6, or is that of another queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pocketmq.pipeline.columns.fixed_fields import HEAD, Bytes, Ints, gather
from pocketmq.pipeline.columns.record_heads import RecordHeads
from pocketmq.pipeline.stores.queue_entries import Entries
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.protocol.store_layout import FIXED_SIZE, MAGIC_V1, MAGIC_V2

BLOCK: Final = 4096
"""Heads gathered at a time: the lines of the log that they are in stay in the cache."""
_LINES: Final = (0, 64, HEAD.itemsize - 1)
_NONE: Final = np.empty(0, np.int64)
_UNSIGNED: Final = np.dtype(">u4")


def sound_heads(
    buffer: Bytes,
    positions: Ints,
    entries: Entries,
    ids: npt.NDArray[np.int32],
    names: Sequence[str],
) -> RecordHeads | None:
    """The heads of the records at `positions`; None if one of them is not as expected.

    Args:
        buffer: It has all of these records, if their sizes are right.
        positions: Where they begin.
        entries: Those of these records; each is long enough for a record.
        ids: The queue id of each slice of the part that the entries are from.
        names: The fields of `HEAD` that `head` is to have.
    """
    count = len(positions)
    kept = np.empty(count, np.dtype([(name, HEAD[name]) for name in names]))
    sys_flags = np.empty(count, np.int32)
    for low in range(0, count, BLOCK):
        some = slice(low, low + BLOCK)
        places = positions[some]
        # Each head lies in two or three lines of 64 bytes. To touch these first, in loops that do
        # nothing else, has the processor fetch many at once: with it, heads take 0.7 of the time.
        for distance in _LINES:
            np.take(buffer, places + distance, mode="clip")
        head = gather(buffer, places, HEAD)
        # After any unexpected value the caller takes the slower way, which finds out what is wrong.
        if not _is_right(head, entries[some], ids):
            return None
        sys_flags[some] = head["sys_flag"]
        for name in names:
            kept[name][some] = head[name]
    # IPv6 hosts shift the fields after them.
    if (sys_flags & MessageSysFlag.HOSTS_V6_MASK).any():
        return None
    return RecordHeads(buffer, np.arange(count), positions, entries.sizes, kept, sys_flags, _NONE)


def _is_right(head: npt.NDArray[Any], entries: Entries, ids: npt.NDArray[np.int32]) -> bool:
    right: npt.NDArray[np.bool_] = head["size"] == entries.sizes
    right &= head["physical_offset"] == entries.offsets
    right &= head["queue_offset"] == entries.numbers
    # For a single queue a plain number is compared.
    right &= head["queue_id"] == (ids[entries.queue] if len(ids) > 1 else ids[0])
    usual = head["magic"] == MAGIC_V1
    # Nearly all records are V1.
    right &= usual if usual.all() else usual | (head["magic"] == MAGIC_V2)
    # A negative length is a large one without its sign.
    right &= head["body_len"].view(_UNSIGNED) <= entries.sizes - FIXED_SIZE
    return bool(right.all())
