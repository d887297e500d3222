"""Tables that live in `config/*.json`: written soon after a change, one write for many changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from pocketmq.broker.subject import Service
from pocketmq.runtime.clock import Clock, Timer
from pocketmq.runtime.errors import PocketMQError

log = structlog.get_logger()

AFTER_FAILURE_S = 10.0
"""A save that failed is made again after this, if no change makes one sooner."""


class SavedTable(Service):
    """Saves one table after it has changed, and calls back those that wait for the save.

    A change made while a save runs is in the next save, so a thousand new topics cost a handful of
    writes.

    Args:
        name: of the table, for logs and task names.
        save: writes the table as it is when called.
        clock: says when a save that failed is made again.
        load: reads it at the broker's start; None reads nothing.
    """

    def __init__(
        self,
        name: str,
        save: Callable[[], Awaitable[None]],
        clock: Clock,
        load: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.name = name
        self._save = save
        self._clock = clock
        self._load = load
        self.is_saved = True
        """Whether the file holds every change."""
        self._dirty = False
        self._again: Timer | None = None
        """Set while the last save is one that failed."""
        self._task: asyncio.Task[None] | None = None
        self._waiting: list[Callable[[], None]] = []

    async def load(self) -> None:
        if self._load is not None:
            await self._load()

    def changed(self, _name: str = "") -> None:
        """The table has changed; save it. Fits as a listener of `topic_changed` and its like."""
        self._dirty = True
        self.is_saved = False
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(
                self._run(), name=f"save {self.name}"
            )

    def when_saved(self, callback: Callable[[], None]) -> None:
        """Call back when every change made so far is in the file; at once if it is.

        A write that fails is logged and counts as done: a broker whose config directory is full
        still serves, as RocketMQ's does. It writes again later.
        """
        if self.is_saved:
            callback()
        else:
            self._waiting.append(callback)

    async def stop(self) -> None:
        """Return when everything is saved; after a failure try once more."""
        if self._task is not None:
            await self._task
        if self._again is not None:
            self.changed()
            assert self._task is not None
            await self._task
            self._forget_failure()

    async def _run(self) -> None:
        while self._dirty:
            self._dirty = False
            self._forget_failure()
            waiting, self._waiting = self._waiting, []
            try:
                await self._save()
            except PocketMQError as exc:
                log.error("table.save_failed", table=self.name, reason=str(exc))
                self._save_again_later()
            except Exception as exc:  # whatever it is, the change must not be lost
                log.error("table.save_failed", table=self.name, exc_info=exc)
                self._save_again_later()
            finally:
                if not self._dirty:
                    self._task = None
                    self.is_saved = True
                    # Waiters that came during the save, without a change since, are done too.
                    waiting += self._waiting
                    self._waiting = []
                for callback in waiting:
                    callback()

    def _save_again_later(self) -> None:
        at = self._clock.monotonic() + AFTER_FAILURE_S
        self._again = self._clock.call_at(at, self.changed)

    def _forget_failure(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
