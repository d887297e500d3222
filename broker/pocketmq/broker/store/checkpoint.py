"""How much of the store is known to survive a power cut (S-54).

    checkpoint, 4096 bytes, big endian
     0  physicMsgTimestamp   i64  store time of the last message flushed to the log
     8  logicsMsgTimestamp   i64  ... whose queue entries are flushed
    16  indexMsgTimestamp    i64  ... whose index entries are flushed
    24  masterFlushedOffset  i64  used by replication
    32  confirmPhyOffset     i64  log, queues and index below it are flushed
    40  PocketMQ's own: queue entries below confirmPhyOffset i64, boot id 16 bytes,
        CRC32 u32 of the 64 bytes before it

RocketMQ reads and writes the first 40 bytes and leaves the rest alone. When it has had the store
in between, our CRC no longer fits, and recovery goes by RocketMQ's own rule (S-63).
"""

from __future__ import annotations

import os
import struct
from zlib import crc32

from pocketmq.broker.store.disk import Disk

SIZE = 4096
_FIELDS = struct.Struct(">qqqqqq16s")
_CRC = struct.Struct(">I")


class StoreCheckpoint:
    """The five numbers, and on which boot of this machine they were written."""

    def __init__(self, disk: Disk, root: str) -> None:
        self.path = os.path.join(root, "checkpoint")
        self.physic_msg_timestamp = 0
        self.logics_msg_timestamp = 0
        self.index_msg_timestamp = 0
        self.master_flushed_offset = 0
        self.confirm_phy_offset = 0
        self.confirmed_entries = 0
        """Sum of the queues' max offsets at the confirmed offset, by which a missing one shows."""
        self.boot_id = bytes(16)
        """Boot of the machine under which it was written (`Disk.boot_id`)."""
        self.is_ours = False
        """Whether PocketMQ was the last to write it; only then its offset is a promise."""
        self._disk = disk
        self._view: memoryview | None = None

    def load(self) -> None:
        """Read what an earlier process left; all zero when there is nothing readable."""
        content = self._disk.read_file(self.path)
        if content is None or len(content) < 40:
            return
        content = content.ljust(SIZE, b"\0")
        (
            self.physic_msg_timestamp,
            self.logics_msg_timestamp,
            self.index_msg_timestamp,
            self.master_flushed_offset,
            self.confirm_phy_offset,
            self.confirmed_entries,
            self.boot_id,
        ) = _FIELDS.unpack_from(content)
        (expected,) = _CRC.unpack_from(content, _FIELDS.size)
        self.is_ours = expected == crc32(content[: _FIELDS.size])

    def write(self) -> None:
        """Put the numbers into the file; `sync` makes them last."""
        if self._view is None:
            if self._disk.file_size(self.path) != SIZE:
                self._disk.remove_file(self.path)
                self._disk.create_file(self.path, SIZE)
            file = self._disk.open_file(self.path)
            try:
                file.reserve(0, SIZE)
            finally:
                file.close()
            self._view = self._disk.map_file(self.path, SIZE)
        fields = _FIELDS.pack(
            self.physic_msg_timestamp,
            self.logics_msg_timestamp,
            self.index_msg_timestamp,
            self.master_flushed_offset,
            self.confirm_phy_offset,
            self.confirmed_entries,
            self.boot_id,
        )
        # One assignment inside one disk sector: a power cut leaves the old or the new.
        self._view[: _FIELDS.size + _CRC.size] = fields + _CRC.pack(crc32(fields))
        self.is_ours = True

    def sync(self) -> None:
        """Bring it to the disk; may run on a worker."""
        file = self._disk.open_file(self.path)
        try:
            file.sync()
        finally:
            file.close()

    def close(self) -> None:
        """Let the mapping go."""
        self._view = None
