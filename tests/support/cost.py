"""What a piece of work costs, where a test asks only that it is not thousands of times too much."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

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
    gc.disable()
    try:
        for _ in range(_TRIES):
            began = time.thread_time()
            work()
            least = min(least, time.thread_time() - began)
    finally:
        gc.enable()
    return least
