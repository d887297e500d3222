"""Waiting for a condition, in tests that have real processes or sockets."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

from pocketmq.protocol.errors import RequestTimeoutError
from pocketmq.runtime.clock import SystemClock

LOOK_S = 0.01
PATIENCE_S = float(os.environ.get("TEST_PATIENCE_S", "90"))
"""Real seconds; less where tests are expected to fail (tests/mutants)."""
PATIENCE_MS = round(PATIENCE_S * 1000)
"""For requests to processes that a loaded machine may let wait; their usual limit is 3 s."""


async def eventually(
    condition: Callable[[], Any], what: str, *, limit_s: float = PATIENCE_S
) -> Any:
    """The first true value of `condition`, which may be a function or a coroutine function.

    A condition that asks another process may get no answer in time on a loaded machine: it is asked
    again.

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
        try:
            found = condition()
            value = await found if inspect.isawaitable(found) else found
        except RequestTimeoutError as exc:
            seen: object = exc
        else:
            if value:
                return value
            seen = value
        if clock.monotonic() > ends_at:
            raise AssertionError(f"waited {limit_s:g} s in vain until {what}; it is {seen!r}")
        await clock.sleep(LOOK_S)
