"""What a piece of work costs, where a test asks only that it is not thousands of times too much."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

SLOWEST_S = 0.1
"""What one piece of bad input may cost; 5 ms when nothing else runs."""

DEPTH = 200_000
"""Levels of nesting that cost nothing to send."""

_TRIES = 5


def cost_s(work: Callable[[], None]) -> float:
    """Processor seconds of this thread for `work`, the least of a few tries.

    What makes it slow on its own, it does every time; what only happens meanwhile (a collection
    of a whole test run's objects, another thread) does not count.
    """
    least = float("inf")
    with _uncollected():
        for _ in range(_TRIES):
            began = time.thread_time()
            work()
            least = min(least, time.thread_time() - began)
    return least


async def loop_cost_s(work: Callable[[], Awaitable[object]]) -> float:
    """As `cost_s`, of all that this thread's loop does until `work` has ended."""
    least = float("inf")
    with _uncollected():
        for _ in range(_TRIES):
            began = time.thread_time()
            await work()
            least = min(least, time.thread_time() - began)
    return least


def peak_bytes(work: Callable[[], object]) -> int:
    """The most that `work` had allocated at once; what a collection sets free or off stays out."""
    with _uncollected():
        tracemalloc.start()
        try:
            work()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


@contextmanager
def _uncollected() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
