"""Index entries of many messages, written one turn of the event loop after their put.

A producer waits for all that comes before its answer, and does not need to wait for these: they are
written when the answers of a turn are, while producers make their next messages.

    turn 1    requests are read, records appended, queue entries written, answers written
    turn 2    index entries of 128 messages or more

Fewer wait on: together they cost less, and whoever asks the index writes what waits first.
"""

from __future__ import annotations

import asyncio

import structlog

from pocketmq.broker.store.index.index_service import IndexService
from pocketmq.runtime.errors import DiskError

log = structlog.get_logger()

ENOUGH_MESSAGES = 128
"""An index entry then costs little more than among 256."""


class AfterPut:
    """Looks after each put whether enough entries wait, and writes them one turn later.

    Args:
        index: gets its entries.
    """

    def __init__(self, index: IndexService) -> None:
        self._index = index
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_due = False

    def start(self) -> None:
        """Begin, on the running loop."""
        self._loop = asyncio.get_running_loop()

    def stop(self) -> None:
        """End; whoever closes the store writes what still waits."""
        self._loop = None

    def look(self) -> None:
        """The log has grown."""
        if self._index.waiting >= ENOUGH_MESSAGES and not self._is_due and self._loop is not None:
            self._is_due = True
            # In the next turn, because the put's producers wait for this one to end.
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._is_due = False
        # Between the turns the store may have been closed, or a query have written the entries.
        if self._loop is None or self._index.waiting < ENOUGH_MESSAGES:
            return
        try:
            self._index.flush()
        except DiskError as exc:
            # Nothing is lost: entries stay in memory, and after a crash recovery reads their
            # records.
            log.error("index.write_failed", error=str(exc))  # tried again after the next put
