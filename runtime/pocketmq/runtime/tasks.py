"""Owned, named tasks: nobody's task is lost, and the first failure is told to the owner."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

import structlog

T = TypeVar("T")

log = structlog.get_logger()


class TaskOwner:
    """Keeps tasks alive, reports the first that fails, cancels what is left at `stop`.

    Unlike `asyncio.TaskGroup` it does not wait at the end of a block and does not cancel the
    siblings by itself: a role decides in `on_failure` how to stop in order.

    Args:
        name: Prefix of the task names.
        on_failure: Called once, with the first failed task's name and error.
    """

    def __init__(
        self, name: str, *, on_failure: Callable[[str, BaseException], None] | None = None
    ) -> None:
        self.name = name
        self.failure: BaseException | None = None
        """What the first failed task raised."""
        self._on_failure = on_failure
        self._tasks: dict[asyncio.Task[Any], None] = {}
        """In the order of their start, so that a stop is the same each time."""
        self._stopping = False

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, coroutine: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Run `coroutine` as a task of this owner, called `<owner>.<name>`."""
        if self._stopping:
            coroutine.close()
            raise RuntimeError(f"{self.name} is stopping, so it cannot start task {name}")
        task = asyncio.get_running_loop().create_task(coroutine, name=f"{self.name}.{name}")
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    async def stop(self) -> None:
        """Cancel every task that still runs and wait until all have ended."""
        self._stopping = True
        current = asyncio.current_task()
        # A task of this group that calls `stop` must not wait for itself.
        tasks = [task for task in self._tasks if task is not current]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        log.error("task.failed", task=task.get_name(), exc_info=error)
        if self.failure is None:
            self.failure = error
            if self._on_failure is not None:
                self._on_failure(task.get_name(), error)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.stop()
