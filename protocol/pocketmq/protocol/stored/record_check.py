"""Whether a sound record stands at a place of the log: for recovery, dispatch and verification."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple
from zlib import crc32

from pocketmq.protocol.compression import DEFAULT_MAX_BODY_BYTES
from pocketmq.protocol.errors import RecordError
from pocketmq.protocol.messages.message import Buffer, MessageExt
from pocketmq.protocol.store_layout import BLANK, MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from pocketmq.protocol.stored.record import decode_some

_SIZE_AND_MAGIC: Final = BLANK.struct


class RecordKind(IntEnum):
    """What stands at a position of the commit log."""

    RECORD = 0
    """A whole, sound record."""
    BLANK = 1
    """The filler at a file's end; go on with the next file."""
    END = 2
    """Nothing was ever written here: zeros, or the end of the bytes."""
    TORN = 3
    """A record begins, and the bytes stop before it does: cut the log here."""
    CORRUPT = 4
    """Bytes that contradict themselves: no record, or a record with a wrong CRC."""


class Checked(NamedTuple):
    """What `check_record` found. `size` is 0 unless kind is RECORD or BLANK."""

    kind: RecordKind
    size: int = 0
    reason: str = ""
    """Why it is TORN or CORRUPT."""
    message: MessageExt | None = None
    """The record, when kind is RECORD: a view into the checked buffer."""

    @property
    def physical_offset(self) -> int:
        """The commit log offset that the record claims; -1 when it is no record."""
        return -1 if self.message is None else self.message.commit_log_offset

    @property
    def queue_offset(self) -> int:
        """The record's offset in its queue, -1 when it is no record."""
        return -1 if self.message is None else self.message.queue_offset

    @property
    def store_timestamp_ms(self) -> int:
        """When it was stored, -1 when it is no record."""
        return -1 if self.message is None else self.message.store_timestamp_ms


_END: Final = Checked(RecordKind.END)


def check_record(
    buffer: Buffer, at: int, end: int | None = None, *, check_crc: bool = True
) -> Checked:
    """What stands at byte `at`, for recovery, dispatch and verification. Never raises on bad bytes.

    Args:
        buffer: a memoryview of the mapped file; slices of it are taken, so copies otherwise.
        at: where to look.
        end: where the written bytes, or the file, end; None for the buffer's end.
        check_crc: also compute the body's CRC: about 0.3 us per KiB.
    """
    if end is None:
        end = len(buffer)
    left = end - at
    if left < 8:
        # Too short even for a blank: the writer leaves at least 8 bytes (S-14).
        if left <= 0 or not any(buffer[at:end]):
            return _END
        return Checked(RecordKind.TORN, reason=f"{left} bytes at the end")
    size, magic = _SIZE_AND_MAGIC.unpack_from(buffer, at)
    if magic == MAGIC_BLANK:
        if 8 <= size <= left:
            return Checked(RecordKind.BLANK, size)
        return Checked(RecordKind.CORRUPT, reason=f"a blank of {size} bytes where {left} are left")
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        # Zeros were never written: this is the end, not damage.
        if magic == 0 and size == 0:
            return _END
        return Checked(RecordKind.CORRUPT, reason=f"MAGICCODE {magic & 0xFFFFFFFF:#010x}")
    # The record's end is missing: it was still being written (S-14).
    if size > left:
        return Checked(RecordKind.TORN, reason=f"a record of {size} bytes where {left} are left")
    try:
        (message,) = decode_some(buffer, at, end, "", DEFAULT_MAX_BODY_BYTES, 1)
    except RecordError as exc:
        return Checked(RecordKind.CORRUPT, reason=exc.reason)
    if buffer[at + size - 1] == 0 and message.properties_size:
        # No CRC covers the properties, but they end in 0x02 or in text: a zero there is a tail that
        # a crash left unwritten.
        return Checked(RecordKind.CORRUPT, reason="the properties end in zeros")
    # The CRC covers the body only (S-5).
    if check_crc and message.body_size:
        found = crc32(message.raw_body) & 0x7FFFFFFF
        if found != message.body_crc:
            return Checked(
                RecordKind.CORRUPT, reason=f"BODYCRC {message.body_crc}, the body has {found}"
            )
    return Checked(RecordKind.RECORD, size, "", message)
