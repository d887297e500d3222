"""What a piece of work costs, where a test asks only that it is not thousands of times too much.

No absolute time decides: the bound is a multiple of a reference piece of work that is timed in the
same process and at the same time, so that a slower machine has a wider one.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import msgspec

SLOWEST_UNITS = 40
"""What one piece of bad input may cost: about 110 ms where a unit takes 2.7. The longest turn of a
full nameserver takes 25 units, as the least of five tries; the tests take the least of up to 26.
What grows with the square of its input costs hundreds."""

DEPTH = 200_000
"""Levels of nesting that cost nothing to send."""

_TRIES = 5


def unit_s() -> float:
    """Processor seconds of the reference now: as turns do, it makes, writes and reads a table."""

    def work() -> None:
        table = {f"topic-{nth}": [nth, str(nth)] for nth in range(5000)}
        msgspec.json.decode(msgspec.json.encode(table))

    return cost_s(work)


def slowest_s() -> float:
    """The most that one piece of bad input may cost now, in processor seconds."""
    return SLOWEST_UNITS * unit_s()


def least_and_bound_s(
    took_s: float, again_s: Callable[[], float], tries: int
) -> tuple[float, float]:
    """The least that a piece of work took, and its bound, in processor seconds.

    Others use this processor and its caches too, for seconds at a time: what seems too slow is done
    again (`again_s` does it and says how long it took), the reference in between.
    """
    bound_s = slowest_s()
    for _ in range(tries):
        if took_s < bound_s:
            break
        took_s = min(took_s, again_s())
        bound_s = min(bound_s, slowest_s())
    return took_s, bound_s


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
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
