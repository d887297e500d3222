"""Waits of tests and of the control address: until nothing is missing, or a limit of real time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from pocketmq.cluster.steering.errors import NotReachedError
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import PocketMQError
from pocketmq.runtime.manual_time.clock_members import Deadline

LOOK_S = 0.005
"""Real seconds between two checks of an awaited condition."""

ANSWER_S = 1.0
"""Real seconds that the last question may take beyond the limit."""

WAIT_LIMIT_S = 30.0
"""Real seconds that a wait takes at most by default."""

BRINGS_MESSAGES: Final[Mapping[str, str]] = {
    "PullMessageService.execute_later": "asks its broker for messages again",
    "ConcurrentConsumeService._submit_later": "hands messages to its listener again",
    "OrderlyConsumeService._submit_later": "hands messages to its listener again",
}
"""Begin of a client's timer's name -> what it does. What brokers deliver, `pending.py` says; all
other timers look after something, and nobody waits for them."""

Missing = Callable[[], Awaitable[str]]
"""Says what is missing; empty when nothing is."""


async def until_nothing_is_missing(
    what: str, missing: Missing, limit_s: float, clock: Clock, hint: Missing
) -> None:
    """Ask again and again what is missing.

    Args:
        what: What is waited for, as the error names it.
        missing: Asked each time.
        limit_s: Maximum real seconds.
        clock: On real time.
        hint: Asked at the end for further reasons, such as that a clock stands still.

    Raises:
        NotReachedError: Something was still missing at the limit.
    """
    ends_at = clock.monotonic() + limit_s
    found = "nobody answered"
    try:
        async with asyncio.timeout(limit_s + ANSWER_S):  # a frozen role does not answer at all
            while True:
                # At least once, even with a limit of 0.
                try:
                    found = await missing()
                except PocketMQError as exc:  # a role may be starting, or killed by the test
                    found = str(exc)
                if not found:
                    return
                if clock.monotonic() > ends_at:
                    break
                await clock.sleep(LOOK_S)
    except TimeoutError:
        pass  # what was found last is what was missing
    raise NotReachedError(what, limit_s, found + await hint())


def standing_clock(now_ms: int, due: Sequence[Deadline]) -> str:
    """The end of a sentence about a wait that failed beside a clock that nobody moved. Pure.

    Args:
        now_ms: Where the clock stands, in epoch ms.
        due: The earliest timer of each role and client. Only one that brings messages is named.
    """
    brings = (
        f" ({each.name} {does} in {(each.at_ms - now_ms) / 1000:g} s)"
        for each in due
        for timer, does in BRINGS_MESSAGES.items()
        if each.what.startswith(timer)
    )
    said = "; the cluster's clock is manual and stood still meanwhile"
    return f"{said}{next(brings, '')}: move it with advance"
