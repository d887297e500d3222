"""Waiting for a condition, in tests that have real processes or sockets."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

from pocketmq.runtime.clock import SystemClock

LOOK_S = 0.01
PATIENCE_S = float(os.environ.get("TEST_PATIENCE_S", "45"))
"""Real seconds; less where tests are expected to fail (tests/mutants)."""


async def eventually(
    condition: Callable[[], Any], what: str, *, limit_s: float = PATIENCE_S
) -> Any:
    """The first true value of `condition`, which may be a function or a coroutine function.

    Args:
        condition: Asked again and again.
        what: Completes "waited in vain until ...".
        limit_s: Real seconds; far above what a loaded machine needs.

    Raises:
        AssertionError: The condition stayed false.
    """
    clock = SystemClock()
    ends_at = clock.monotonic() + limit_s
    while True:
        found = condition()
        value = await found if inspect.isawaitable(found) else found
        if value:
            return value
        if clock.monotonic() > ends_at:
            raise AssertionError(f"waited {limit_s:g} s in vain until {what}; it is {value!r}")
        await clock.sleep(LOOK_S)
