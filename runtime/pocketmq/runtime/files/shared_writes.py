"""Writes of a file after changes: those that come during a write share the next one.

writes = SharedWrites("kv_file", lambda: storage.save(table.snapshot()))
table.put(...)
writes.save(on_saved)    # on_saved(None) once this change is on the disk, or on_saved(error)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from pocketmq.runtime.errors import DiskError

log = structlog.get_logger()


class SharedWrites:
    """Keeps at most one write under way.

    Args:
        name: Of what is written, for log lines and the task.
        write: Writes everything as it is when it is called.
    """

    def __init__(self, name: str, write: Callable[[], Awaitable[None]]) -> None:
        self._name = name
        self._write = write
        self._waiting: list[Callable[[DiskError | None], None]] = []
        self._task: asyncio.Task[None] | None = None

    def save(self, on_saved: Callable[[DiskError | None], None]) -> None:
        """Write what there is when the write begins, then call `on_saved`."""
        self._waiting.append(on_saved)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(
                self._run(), name=f"{self._name}.save"
            )

    async def stop(self) -> None:
        """Return when everything asked for so far is written."""
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        while self._waiting:
            # Reset before the write, which may miss a change that comes while it runs.
            waiting, self._waiting = self._waiting, []
            error: DiskError | None = None
            try:
                await self._write()
            except DiskError as exc:
                log.error("file.write_failed", what=self._name, reason=str(exc))
                error = exc
            for on_saved in waiting:
                on_saved(error)
