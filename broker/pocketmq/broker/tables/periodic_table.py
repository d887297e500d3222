"""Tables in `config/` that change with every message or commit: written periodically."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from pocketmq.broker.subject import Service
from pocketmq.broker.tables.table_file import TableFile
from pocketmq.broker.tables.unsaved import Unsaved
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.periodic import AT_REST, PeriodicService

log = structlog.get_logger()

FIRST_SAVE_S = 10.0
"""Written for the first time after this (B-31, B-94)."""


class PeriodicTable(Service):
    """Saves a table every `period_s` while it changes, and at the stop.

    Args:
        file: what is written.
        unsaved: the mark that the table's manager sets.
        clock: says when.
        period_s: between two saves; a function is asked each time.
        first_s: until the first; None: one period.
        first: brings what the table depends on to the disk; False postpones the save. A table must
            not refer to data that a power cut can still take.
    """

    def __init__(
        self,
        file: TableFile[Any],
        unsaved: Unsaved,
        clock: Clock,
        period_s: float | Callable[[], float],
        *,
        first_s: float | None = FIRST_SAVE_S,
        first: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self._file = file
        self._unsaved = unsaved
        self._first = first
        self._service = PeriodicService(
            f"save {file.name}", clock, period_s, self.save, initial_delay_s=first_s
        )
        unsaved.began.connect(self._service.resume)

    async def load(self) -> None:
        await self._file.load()

    async def start(self) -> None:
        self._service.start()

    async def stop(self) -> None:
        await self._service.stop(final_run=True)

    async def save(self) -> float | None:
        """Write the table if it has changed; after a failure the next period tries again.

        Returns:
            AT_REST when every change is in the file, None when another period has to come.
        """
        try:
            with self._unsaved.taken() as has_changed:
                if has_changed and (self._first is None or await self._first()):
                    await self._file.save()
                elif has_changed:
                    self._unsaved.note()
        except DiskError as exc:
            log.error("table.save_failed", table=self._file.name, reason=str(exc))
        return None if self._unsaved else AT_REST
