"""Where records begin that lie one behind the other in several stretches of one buffer.

Each record tells only where the next one begins. So NumPy takes a step in all stretches at once:

    stretch 0   | r | r   | r |        step 0: the first record of each
    stretch 1   | r   | r | r | r |    step 1: the second of each ...

With a hundred replies of 32 messages that is 32 steps for 3,200 records.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pocketmq.pipeline.columns.fixed_fields import Bytes, Ints, gather
from pocketmq.protocol.store_layout import FIXED_SIZE

_SIZE: Final = np.dtype(">i4")


class Places(NamedTuple):
    """Records of stretches: those of the first, then those of the second, and so on."""

    positions: Ints
    sizes: Ints
    """As each record says; -1 for one that does not fit, which ends its stretch."""
    stretch: npt.NDArray[np.int32]
    """Which one each lies in."""


def places_in(buffer: Bytes, begins: Ints, ends: Ints) -> Places:
    """Find the records between each begin and its end.

    Bytes behind the last complete head of a stretch are ignored.
    """
    stretch = np.arange(len(begins), dtype=np.int32)
    at, limit = begins, ends - FIXED_SIZE
    steps: list[tuple[Ints, Ints, npt.NDArray[np.int32]]] = []
    is_even = True
    while True:
        inside = at <= limit
        if not inside.all():
            # If all stretches end in the same step, the records need no sorting.
            is_even = is_even and not inside.any()
            at, limit, stretch = at[inside], limit[inside], stretch[inside]
        if len(at) == 0:
            break
        sizes = gather(buffer, at, _SIZE).astype(np.int64)
        following = at + sizes
        good = (sizes >= FIXED_SIZE) & (following <= limit + FIXED_SIZE)
        if not good.all():
            # Kept as a record, so that the caller can report what does not fit.
            sizes[~good] = -1
            # A position past the limit makes the next step leave this stretch out.
            following = np.where(good, following, limit + 1)
        steps.append((at, sizes, stretch))
        at = following
    return _in_order(steps, is_even=is_even)


def _in_order(steps: list[tuple[Ints, Ints, npt.NDArray[np.int32]]], *, is_even: bool) -> Places:
    if not steps:
        return Places(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32))
    if is_even:  # the same number of records in each
        return Places(*(np.stack(each, axis=1).reshape(-1) for each in zip(*steps, strict=True)))
    positions, sizes, stretch = (np.concatenate(each) for each in zip(*steps, strict=True))
    # A stable sort keeps the order of the steps within a stretch.
    order = np.argsort(stretch, kind="stable")
    return Places(positions[order], sizes[order], stretch[order])
