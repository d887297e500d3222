"""How much of the store is known to survive a power cut (S-54).

RocketMQ reads and writes the first 40 bytes, from 5.5 on 48, and leaves the rest alone. When
RocketMQ has used the store in between, the CRC no longer fits, and recovery follows RocketMQ's own
rule (S-63).

`confirmPhyOffset` is RocketMQ's: how far a replicated log is confirmed (H-143). It says nothing of
this disk. Two older layouts are still read. Until 2026-11-29 `logicsPhysicalOffset` was not there,
so that RocketMQ 5.5 took our count of entries for an offset of the log. Until 2026-11-22 our
progress stood where `confirmPhyOffset` is, and the CRC behind 64 bytes.
"""

from __future__ import annotations

import os
import struct
from zlib import crc32

from pocketmq.broker.store.disk.disk import Disk
from pocketmq.protocol.layout import Field, Layout

SIZE = 4096
CHECKPOINT = Layout(
    Field("physicMsgTimestamp", "q", "time of the last message with a flushed record, ms"),
    Field("logicsMsgTimestamp", "q", "time of the last message with a flushed queue entry, ms"),
    Field("indexMsgTimestamp", "q", "time of the last message with a flushed index entry, ms"),
    Field("masterFlushedOffset", "q", "log offset up to which the master has flushed"),
    Field("confirmPhyOffset", "q", "log offset up to which all in-sync replicas have the log"),
    Field(
        "logicsPhysicalOffset", "q", "5.5: log offset where recovery starts; if 0, the times decide"
    ),
    Field("durable entries", "q", "PocketMQ: number of queue entries below the durable offset"),
    Field(
        "boot id", "16s", "PocketMQ: id of the machine's boot; a restart of the machine changes it"
    ),
    Field(
        "durable offset", "q", "PocketMQ: log offset up to which log, queues and index are flushed"
    ),
)
"""The first 80 of the file's 4096 bytes; `CHECKPOINT_CRC` follows."""
CHECKPOINT_CRC = Layout(Field("CRC", "I", "PocketMQ: CRC32 of the first 80 bytes of the file"))
_FIELDS = CHECKPOINT.struct
_CRC = CHECKPOINT_CRC.struct
_OURS_AT = 40
"""Where our own fields began before `logicsPhysicalOffset` was known."""
_OLD_OURS = struct.Struct(">q16sq")
_OLD_SIZE = _OURS_AT + _OLD_OURS.size
_OLDEST_SIZE = 64
"""Of the fields before the durable offset got its own: it stood where confirmPhyOffset is."""


class StoreCheckpoint:
    """RocketMQ's five numbers, and how far PocketMQ's own flushing is."""

    def __init__(self, disk: Disk, root: str) -> None:
        self.path = os.path.join(root, "checkpoint")
        self.physic_msg_timestamp = 0
        self.logics_msg_timestamp = 0
        self.index_msg_timestamp = 0
        self.master_flushed_offset = 0
        self.confirm_phy_offset = 0
        """All in-sync replicas have the log below it (H-143); of no meaning without replicas."""
        self.durable_offset = 0
        """Log, queues and index below it are on this disk."""
        self.durable_entries = 0
        """Sum of the queues' max offsets at the durable offset, by which a missing one shows."""
        self.boot_id = bytes(16)
        """Boot of the machine under which it was written (`Disk.boot_id`)."""
        self.is_ours = False
        """Whether PocketMQ was the last to write it; only then its offset can be relied on."""
        self._disk = disk
        self._view: memoryview | None = None

    def load(self) -> None:
        """Read what an earlier process left; all zero when there is nothing readable."""
        content = self._disk.read_file(self.path)
        # RocketMQ's own file has 40 bytes of numbers; a shorter one is incomplete.
        if content is None or len(content) < 40:
            return
        content = content.ljust(SIZE, b"\0")
        (
            self.physic_msg_timestamp,
            self.logics_msg_timestamp,
            self.index_msg_timestamp,
            self.master_flushed_offset,
            self.confirm_phy_offset,
            _,
            self.durable_entries,
            self.boot_id,
            self.durable_offset,
        ) = _FIELDS.unpack_from(content)
        # RocketMQ leaves our fields unchanged: then the CRC no longer fits, and they do not count.
        self.is_ours = _has_crc(content, _FIELDS.size)
        if not self.is_ours:
            # RocketMQ's times remain, by which recovery finds the file to begin with (S-63).
            self.durable_offset = 0
            self._load_older(content)

    def _load_older(self, content: bytes) -> None:
        """Our own fields, where an earlier version of PocketMQ wrote them."""
        has_durable_offset = _has_crc(content, _OLD_SIZE)
        if not has_durable_offset and not _has_crc(content, _OLDEST_SIZE):
            return
        self.is_ours = True
        self.durable_entries, self.boot_id, offset = _OLD_OURS.unpack_from(content, _OURS_AT)
        # The oldest layout had our offset in the place of RocketMQ's confirm offset.
        self.durable_offset = offset if has_durable_offset else self.confirm_phy_offset

    def write(self) -> None:
        """Write the numbers into the file; `sync` makes them durable."""
        if self._view is None:
            # Make a file of another length anew, because the mapping needs its full length.
            if self._disk.file_size(self.path) != SIZE:
                self._disk.remove_file(self.path)
                self._disk.create_file(self.path, SIZE)
            file = self._disk.open_file(self.path)
            try:
                # Allocate the blocks first: a full disk must cause an error here, not a SIGBUS
                # below.
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
            # 0 makes RocketMQ 5.5 use the times; it would skip records before another offset
            # (S-63).
            0,  # of the queues we promise nothing to RocketMQ but the times
            self.durable_entries,
            self.boot_id,
            self.durable_offset,
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


def _has_crc(content: bytes, size: int) -> bool:
    (expected,) = _CRC.unpack_from(content, size)
    return bool(expected == crc32(content[:size]))
