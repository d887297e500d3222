"""Has the system make the log's next pages on a thread, before the event loop writes into them.

Whoever touches a part of a mapped file that is not in memory waits until the system has brought it
there, and with it all that it reads ahead: up to `read_ahead_kb`, which is 8 MiB on some machines.
For the end of a log that means to make so many pages of zeros, 2 to 20 ms in which nobody else is
served. So a thread touches a few of these pages some MiB before they are needed:

    |  written  |      4 MiB at least, in memory      |  the next 4 MiB: asked for now  |
                ^ the loop writes here                                  the thread reads here

Nothing depends on it: a page that is not there yet is made when it is written.
"""

from __future__ import annotations

from typing import Final

import structlog

from pocketmq.broker.store.config import MIB
from pocketmq.broker.store.disk.disk import Disk
from pocketmq.broker.store.disk.disk_worker import DiskWorker
from pocketmq.broker.store.disk.mapped_file import MappedFile
from pocketmq.broker.store.disk.mapped_files import MappedFiles

log = structlog.get_logger()

AHEAD_BYTES: Final = 4 * MIB
"""With less than this in memory more is asked for."""


class PagesAhead:
    """Keeps the pages behind the log's end in memory.

    Args:
        disk: reads ahead, and has the thread.
        files: of the log.
    """

    def __init__(self, disk: Disk, files: MappedFiles) -> None:
        self._disk = disk
        self._files = files
        self._worker: DiskWorker | None = None
        self._is_busy = False
        self._file: MappedFile | None = None
        self._asked = 0
        """Position in that file up to which pages were asked for."""

    def start(self) -> None:
        """Begin, on the running loop."""
        self._worker = self._disk.start_worker("log pages")

    def stop(self) -> None:
        """Return when the thread has ended."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()

    def look(self) -> None:
        """The log has grown: ask for more where little is left."""
        last = self._files.last
        if last is not self._file:
            self._file, self._asked = last, 0
        worker = self._worker
        if last is None or worker is None or self._is_busy:
            return
        start = max(self._asked, last.wrote)
        end = min(last.size, last.wrote + 2 * AHEAD_BYTES)
        if start - last.wrote >= AHEAD_BYTES or start >= end:
            return
        self._asked, self._is_busy = end, True
        view = last.writable_view()
        worker.submit(lambda: self._disk.read_ahead(view, start, end), self._done)

    def _done(self, failure: Exception | None) -> None:
        self._is_busy = False
        if failure is not None:
            log.error("log.pages_not_made", exc_info=failure)
