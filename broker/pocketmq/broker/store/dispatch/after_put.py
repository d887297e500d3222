"""What a put leaves to be done after its answer: index entries, and pages for the next puts.

A producer waits for all that comes before its answer. Two things need not: they are done when the
answers of a turn of the event loop are written, while producers make their next messages.

    turn 1    requests are read, records appended, queue entries written, answers written
    turn 2    index entries of 128 messages or more; the next 128 KiB of the log are mapped

A page of a mapping that was never touched is made, zeroed and mapped by the system when the first
byte is written into it: 1 to 13 us for each 4 KiB. Between few messages neither is done here.
`pages_ahead.py` has most pages made on a thread before that.
"""

from __future__ import annotations

import asyncio

import structlog

from pocketmq.broker.store.index.index_service import IndexService
from pocketmq.broker.store.log.commit_log import CommitLog
from pocketmq.broker.store.log.pages_ahead import PagesAhead
from pocketmq.runtime.errors import DiskError

log = structlog.get_logger()

ENOUGH_MESSAGES = 128
"""An index entry then costs little more than among 256."""
ENOUGH_BYTES = 16 * 1024


class AfterPut:
    """Looks after each put whether there is enough to do, and does it one turn later.

    Args:
        commit_log: gets pages.
        index: gets its entries; None when there is none.
        pages: what makes pages on a thread; None where the log is brought to the disk so often
            that nothing is read ahead.
    """

    def __init__(
        self, commit_log: CommitLog, index: IndexService | None, pages: PagesAhead | None
    ) -> None:
        self._log = commit_log
        self._files = commit_log.files
        self._index = index
        self._pages = pages
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_due = False
        self._ready_at = 0
        """The log's end when it got pages last."""

    def start(self) -> None:
        """Begin, on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._ready_at = self._files.max_offset
        if self._pages is not None:
            self._pages.start()

    def stop(self) -> None:
        """End; whoever closes the store writes what still waits."""
        self._loop = None
        if self._pages is not None:
            self._pages.stop()

    def look(self) -> None:
        """The log has grown."""
        if self._is_due or self._loop is None:
            return
        index = self._index
        if (index is not None and index.waiting >= ENOUGH_MESSAGES) or (
            self._files.max_offset - self._ready_at >= ENOUGH_BYTES
        ):
            self._is_due = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._is_due = False
        if self._loop is None:  # the store was closed in between
            return
        index = self._index
        if index is not None and index.waiting >= ENOUGH_MESSAGES:
            try:
                index.flush()
            except DiskError as exc:
                log.error("index.write_failed", error=str(exc))  # tried again after the next put
        if self._pages is not None:
            self._pages.look()
        self._log.make_ready()
        self._ready_at = self._files.max_offset
