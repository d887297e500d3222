"""The journal as a file: `raft.journal` in the controller's folder (`raft/journal.py`)."""

from __future__ import annotations

from pathlib import Path

import structlog

from pocketmq.controller.errors import JournalError
from pocketmq.controller.outlet import Written
from pocketmq.controller.raft import journal
from pocketmq.controller.raft.messages import Stored, Write
from pocketmq.runtime.files.text_files import AppendFiles

NAME = "raft.journal"

log = structlog.get_logger()


class JournalFile:
    """One controller's journal. Its writes must follow each other.

    Args:
        folder: It is made when the journal is first loaded.
        group: Name of the group of controllers.
        own_id: Id of this one; a journal of another is refused.
        files: The seam to the file system.
    """

    def __init__(self, folder: Path, group: str, own_id: str, files: AppendFiles) -> None:
        self.path = folder.expanduser().absolute() / NAME
        self._group = group
        self._own_id = own_id
        self._files = files

    async def load(self) -> Stored:
        """What is stored; a new journal is begun when there is none.

        Raises:
            JournalError: it is damaged, or another controller's.
            DiskError: it cannot be read or begun.
        """
        text = await self._files.read_text(str(self.path))
        # The folder may be new, so its own name must survive a power cut, too.
        if text is None:
            self._files.make_directory(str(self.path.parent), lasting=True)
            await self._replace("")
            return Stored()
        try:
            stored, is_torn = journal.parse(text, self._group, self._own_id)
        except ValueError as exc:
            # An unreadable journal is refused: without its vote two leaders are possible.
            raise JournalError(self.path, str(exc)) from exc
        # The torn line was the last write, and nothing depends on it: rewrite the file without it.
        if is_torn:
            log.warning("journal.cut", path=str(self.path), reason="its last line was torn")
            whole = Write(0, stored.term, stored.vote, stored.entries, stored.snapshot)
            await self._replace(journal.line_of(whole))
        return stored

    async def write(self, write: Write) -> Written:
        """Return, with the proof, when the write survives a power cut.

        Raises:
            DiskError: it failed. What is stored is unknown then: the process has to stop.
        """
        line = journal.line_of(write)
        if write.snapshot is None:
            await self._files.append_text(str(self.path), line)
        else:
            # A snapshot replaces everything before it, so the whole file is replaced.
            await self._replace(line)
        return Written(write.number)

    async def _replace(self, lines: str) -> None:
        beside = f"{self.path}.tmp"
        # Written to another file and then renamed: a crash leaves either the old one or the new
        # one.
        await self._files.write_text(beside, journal.header(self._group, self._own_id) + lines)
        await self._files.rename(beside, str(self.path))
