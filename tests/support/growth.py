"""Whether a step costs more when many went before it."""

from __future__ import annotations

import time
from collections.abc import Callable

RUNS, STEPS = 10, 1_000
STEPS_MEASURED = RUNS * STEPS


def least_s(step: Callable[[], object], *, runs: int = RUNS, steps: int = STEPS) -> float:
    """Processor time of so many steps, the least of some runs: what else runs only adds to one."""
    times: list[float] = []
    for _ in range(runs):
        began_s = time.process_time()
        for _ in range(steps):
            step()
        times.append(time.process_time() - began_s)
    return min(times)
