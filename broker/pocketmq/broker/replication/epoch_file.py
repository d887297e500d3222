"""`epochFileCheckpoint` of a store: its epochs, kept on the disk (H-131)."""

from __future__ import annotations

from pathlib import Path

from pocketmq.broker.replication.epochs import Epoch, Epochs
from pocketmq.broker.store import Disk
from pocketmq.runtime.durable_file import DurableFile

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

    async def load(self) -> None:
        """Read it, or its `.bak`.

        Raises:
            DamagedFileError: it is there, and cannot be read.
        """
        loaded = await self._file.load(Epochs.parse)
        if loaded is not None:
            self.table = loaded.value

    async def append(self, entry: Epoch) -> None:
        """A new master's epoch; on the disk when this returns.

        Raises:
            ValueError: it does not follow the last one.
            DiskError: it could not be written.
        """
        if self.table.append(entry):
            await self._save()

    async def cut_suffix(self, offset: int) -> None:
        """The log was cut at `offset`."""
        if self.table.cut_suffix(offset):
            await self._save()

    async def cut_prefix(self, min_offset: int) -> None:
        """The log begins at `min_offset` now."""
        if self.table.cut_prefix(min_offset):
            await self._save()

    async def _save(self) -> None:
        await self._file.replace(self.table.text())
