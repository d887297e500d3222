"""`SharedTimeout`: a time-out entered thousands of times in a row, with one timer for all."""

from __future__ import annotations

import asyncio
from types import TracebackType


class SharedTimeout:
    """As `asyncio.timeout`, for the blocks of one task that follow each other.

    Args:
        limit_s: Real seconds that a block may take.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._ends_at = 0.0
        self._task: asyncio.Task[object] | None = None
        """Inside a block."""
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        self._is_over = False
        self._task = asyncio.current_task()
        self._ends_at = loop.time() + self._limit_s
        # An earlier block's timer may still be armed; `_look` moves it on.
        if self._timer is None:
            self._timer = loop.call_at(self._ends_at, self._look, loop)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        task, self._task = self._task, None
        # If somebody else has cancelled the task, too, that cancellation goes on.
        if self._is_over and task is not None and task.uncancel() == 0:
            raise TimeoutError(f"nothing within {self._limit_s:g} s") from exc

    def close(self) -> None:
        """Forget the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self._task is None:
            return
        # The timer is an earlier block's; the present block has time left.
        if loop.time() < self._ends_at:
            self._timer = loop.call_at(self._ends_at, self._look, loop)
            return
        self._is_over = True
        self._task.cancel()
