"""Asking again: how often, and how long to wait in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeVar

from pocketmq.runtime.clock import Clock

T = TypeVar("T")

Errors = type[Exception] | tuple[type[Exception], ...]


class Patience(NamedTuple):
    """The budget that the options `retries` and `retryIntervalMs` give."""

    retries: int = 5
    """How often a question that nobody answered is repeated."""
    wait_s: float = 0.5
    """Before the first repetition; before each next one it is so much longer."""

    @property
    def all_s(self) -> float:
        """The sum of all waits."""
        return self.wait_s * self.retries * (self.retries + 1) / 2

    async def wait(self, clock: Clock, attempt: int) -> None:
        """The wait after an attempt, counted from 0."""
        await clock.sleep(self.wait_s * (attempt + 1))

    async def ask(
        self,
        clock: Clock,
        question: Callable[[], Awaitable[T]],
        when: Errors,
        on_repeat: Callable[[], None] | None = None,
    ) -> T:
        """The answer; the question is repeated after these errors, until the budget is used up."""
        for attempt in range(self.retries):
            try:
                return await question()
            # Other errors are answers, which would be the same again.
            except when:
                if on_repeat is not None:
                    on_repeat()
                await self.wait(clock, attempt)
        # Errors of the last attempt go to the caller.
        return await question()


DEFAULT: Final = Patience()
