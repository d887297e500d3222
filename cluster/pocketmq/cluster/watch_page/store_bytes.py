"""Files of a broker's store, byte by byte, each field with its name and meaning. Only reads.

The broker may be writing meanwhile: what is read is what is there at this moment, and may end in a
record that is not complete yet.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from pocketmq.broker.store.flush.checkpoint import CHECKPOINT
from pocketmq.protocol.hosts import host_text
from pocketmq.protocol.layout import Layout
from pocketmq.protocol.messages.validation import is_folder_name
from pocketmq.protocol.store_layout import INDEX_HEADER, MAGIC_V2, QUEUE_ENTRY, RECORD
from pocketmq.runtime.errors import CallerError

MAX_RECORD_BYTES: Final = 8 * 1024 * 1024
MAX_SHOWN_BYTES: Final = 512
"""Of one field; a body may be large."""
QUEUE_ENTRY_BYTES: Final = QUEUE_ENTRY.struct.size

_BORN_V6, _STORE_V6 = 1 << 4, 1 << 5
_HEAD = RECORD.picking("TOTALSIZE", "MAGICCODE", "SYSFLAG")


class Field(msgspec.Struct):
    """One field, as it stands in a file."""

    name: str
    at: int
    """Byte in the file, or in the log for a record."""
    size: int
    hex: str
    """Its first `MAX_SHOWN_BYTES` bytes."""
    value: str
    meaning: str


class StoreBytes(msgspec.Struct):
    """A record of the commit log, and where the other files point to it."""

    record: list[Field]
    queue_entry: list[Field]
    index: list[Field]
    """The header of the newest index file."""
    checkpoint: list[Field]


def store_bytes(root: Path, offset: int) -> StoreBytes:
    """The record at a log offset, its consume queue entry, index header and checkpoint.

    Raises:
        CallerError: There is no record at this offset, or none with a topic.
    """
    record = list(_record(root, offset))
    values = {field.name: field.value for field in record}
    if "TOPIC" not in values:
        raise CallerError(
            f"the record at offset {offset} is not complete yet: its topic is missing"
        )
    # Read from the log, where anything may stand, and to be a folder's name below.
    if not is_folder_name(values["TOPIC"]):
        raise CallerError(
            f"the topic of the record at offset {offset} cannot be the name of a folder, but each "
            "topic of a store has a folder with its name"
        )
    # The record says where its queue entry is.
    queue = root / "consumequeue" / values["TOPIC"] / values["QUEUEID"]
    entry_at = int(values["QUEUEOFFSET"]) * QUEUE_ENTRY_BYTES
    index = sorted((root / "index").glob("[0-9]*"))
    return StoreBytes(
        record,
        list(_at(queue, QUEUE_ENTRY, entry_at)),
        list(_fields(INDEX_HEADER, _read(index[-1], 0, 40), 0)) if index else [],
        list(_fields(CHECKPOINT, _read(root / "checkpoint", 0, CHECKPOINT.struct.size), 0)),
    )


def _record(root: Path, offset: int) -> Iterator[Field]:
    head = _file_part(root / "commitlog", offset, _HEAD.size)
    # The log ends here, or is not yet this long.
    if len(head) < _HEAD.size:
        raise CallerError(f"the log has no record at offset {offset}")
    size, magic, flags = _HEAD.unpack(head)
    # At an offset within a record any bytes are read as its size.
    if not _HEAD.size <= size <= MAX_RECORD_BYTES:
        raise CallerError(
            f"no record begins at offset {offset}: the 4 bytes there would mean a record of "
            f"{size} bytes"
        )
    data = _file_part(root / "commitlog", offset, size)
    # Version 2 has two bytes for the topic's length.
    codes = {"topic length": "H"} if magic == MAGIC_V2 else {}
    for name, flag in (("BORNHOST", _BORN_V6), ("STOREHOST", _STORE_V6)):
        if flags & flag:
            codes[name] = "20s"
    yield from _fields(RECORD, data, offset, codes)


def _at(folder: Path, layout: Layout, at: int) -> Iterator[Field]:
    return _fields(layout, _file_part(folder, at, layout.struct.size), at)


def _fields(
    layout: Layout, data: bytes, begin: int, codes: dict[str, str] | None = None
) -> Iterator[Field]:
    """The fields of some bytes, as far as these go."""
    at, length = 0, 0
    for field in layout.fields:
        code = (codes or {}).get(field.name, field.code)
        # The length of a field without a code is in the field before it.
        size = struct.calcsize(">" + code) if code else length
        raw = data[at : at + size]
        # The record is incomplete, and only its first fields are shown.
        if len(raw) < size:
            return
        if code and not code.endswith("s"):
            (number,) = struct.unpack(">" + code, raw)
            length, value = max(number, 0), str(number)
            if field.name == "MAGICCODE":  # as everybody knows it
                value = f"0x{number & 0xFFFFFFFF:08X}"
        elif code:
            value = host_text(raw) if "HOST" in field.name else raw.hex()
        else:
            value = raw[:MAX_SHOWN_BYTES].decode("utf-8", "replace")
        shown = raw[:MAX_SHOWN_BYTES].hex(" ")
        yield Field(field.name, begin + at, size, shown, value, field.meaning)
        at += size


def _file_part(folder: Path, offset: int, size: int) -> bytes:
    """Bytes of a run of files, each called after the offset of its first byte."""
    try:
        names = sorted(each.name for each in folder.iterdir() if _is_number(each.name))
    except OSError:
        return b""
    before = [name for name in names if int(name) <= offset]
    return _read(folder / before[-1], offset - int(before[-1]), size) if before else b""


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit()


def _read(path: Path, at: int, size: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(at)
            return file.read(size)
    except (OSError, ValueError):  # ValueError: so far no file system counts
        return b""
