"""`epochFileCheckpoint` of a store: its epochs, kept on the disk (H-131)."""

from __future__ import annotations

from pathlib import Path

from pocketmq.broker.replication.epochs import Epoch, Epochs
from pocketmq.broker.store import Disk
from pocketmq.runtime.files.durable_file import DurableFile

FILE_NAME = "epochFileCheckpoint"


class EpochFile:
    """The epochs, and the file that holds them; replaced as a whole and synced (W-4).

    Args:
        root: directory of the store.
        disk: the seam to the file system.
    """

    def __init__(self, root: str, disk: Disk) -> None:
        self.table = Epochs()
        self._file = DurableFile(Path(root) / FILE_NAME, disk, has_folder=True)
        self._is_saved = True

    async def load(self) -> None:
        """Read it, or its `.bak`.

        Raises:
            DamagedFileError: it is there, and cannot be read.
        """
        loaded = await self._file.load(Epochs.parse)
        if loaded is not None:
            self.table = loaded.value

    def recovered(self, log_end: int) -> None:
        """After a start: forget epochs that begin behind the log's end (H-134).

        The file is synced with each epoch, and the log may be later: a power cut took all that was
        written in them. The next change writes the file.
        """
        # `+ 1` keeps an epoch that begins at the very end: its master has written nothing yet.
        if self.table.cut_suffix(log_end + 1):
            self._is_saved = False

    async def append(self, entry: Epoch, log_min: int = 0) -> None:
        """A new master's epoch; on the disk when this returns, and in the table then.

        Args:
            entry: the term, and where in the log it begins.
            log_min: where the log begins: epochs that end before it go now (H-135, W-14).

        Raises:
            ValueError: it does not follow the last one.
            DiskError: it could not be written; the table is as before.
        """
        # Change a copy, which replaces the table only when it is on the disk.
        table = Epochs(self.table.entries)
        if table.append(entry):
            table.cut_prefix(log_min)
            await self._file.replace(table.text())
            # Only after the write: if a crash lost the epoch, its frames would count as the earlier
            # epoch's (F-8).
            self.table, self._is_saved = table, True
        else:
            await self._save()

    async def cut_suffix(self, offset: int) -> None:
        """The log was cut at `offset`.

        Raises:
            DiskError: it could not be written; the table is cut, as the log is. The next change
                writes it.
        """
        # The log is cut already, so the table follows even if the write fails.
        if self.table.cut_suffix(offset):
            self._is_saved = False
        await self._save()

    async def _save(self) -> None:
        if not self._is_saved:
            await self._file.replace(self.table.text())
            self._is_saved = True
