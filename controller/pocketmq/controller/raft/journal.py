"""The text of a controller's journal: term, vote, snapshot and log, one line for each write.

    pocketmq-controller 1 DefaultControllerGroup n0
    5c7a90e1 {"term":3,"vote":"n0","entries":[],"snapshot":null}
    90ffe9a4 {"term":3,"vote":"n0","entries":[[1,3,""]],"snapshot":null}

The first word is the CRC32 of the rest of the line. A line is appended and synced before anything
that depends on it leaves the process; with a snapshot the whole file is written anew, beside the
old one. So a power cut can tear the last line only, and that one is ignored. Any other line that
does not fit its CRC was damaged later, and the journal is refused: a controller that forgets a vote
may help to elect two leaders.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Sequence

import msgspec

from pocketmq.controller.raft.messages import Entry, Snapshot, Stored, Write

_MAGIC = "pocketmq-controller 1"
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


class _Line(msgspec.Struct):
    term: int
    vote: str
    entries: list[Entry]
    snapshot: Snapshot | None = None


def header(group: str, own_id: str) -> str:
    """The first line."""
    return f"{_MAGIC} {group} {own_id}\n"


def line_of(write: Write) -> str:
    """The line of a write."""
    text = msgspec.json.encode(
        _Line(write.term, write.vote, write.entries, write.snapshot)
    ).decode()
    if not text.isascii():
        # In JSON it can only stand in strings. A torn character would make the whole file no text,
        # where a torn line is one that is ignored.
        text = _NOT_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text)
    return f"{zlib.crc32(text.encode()):08x} {text}\n"


def merged(writes: Sequence[Write]) -> Write:
    """Several writes in a row as one, so that they share a sync."""
    first, *rest = writes
    entries, snapshot = list(first.entries), first.snapshot
    for write in rest:
        # A snapshot replaces everything before it; the entries with it are the whole rest.
        if write.snapshot is not None:
            entries, snapshot = list(write.entries), write.snapshot
        elif write.entries:
            # Entries replace those with the same indices, and all after them.
            start = write.entries[0].index
            entries = [entry for entry in entries if entry.index < start] + write.entries
    last = writes[-1]
    return Write(last.number, last.term, last.vote, entries, snapshot)


def parse(text: str, group: str, own_id: str) -> tuple[Stored, bool]:
    """What a journal says, and whether its last line is torn.

    Raises:
        ValueError: it is damaged, or another controller's; says what to do.
    """
    first, _, rest = text.partition("\n")
    if f"{first}\n" != header(group, own_id):
        raise ValueError(
            f"the journal begins with {first[:100]!r}, but must begin with "
            f"{header(group, own_id)[:-1]!r}: the journal belongs to another controller, or the "
            "ids have changed; give each controller its own folder"
        )
    lines = rest.split("\n")
    # Without a newline at the end, the last write was cut off.
    is_torn = lines.pop() != ""
    stored = Stored()
    for number, line in enumerate(lines, 2):
        parsed = _parse_line(line)
        if parsed is None:
            # Torn as well: the end of a write may be on the disk without its middle.
            if number == len(lines) + 1 and not is_torn:
                return stored, True
            raise ValueError(
                f"line {number} is damaged; empty this controller's folder while a majority of "
                "the controllers runs, so that the other controllers fill it again"
            )
        stored = _after(stored, parsed, number)
    return stored, is_torn


def _parse_line(line: str) -> _Line | None:
    crc, _, text = line.partition(" ")
    content = text.encode()
    if crc != f"{zlib.crc32(content):08x}":
        return None
    try:
        return msgspec.json.decode(content, type=_Line)
    except msgspec.MsgspecError:
        return None


def _after(stored: Stored, line: _Line, number: int) -> Stored:
    if line.snapshot is not None:
        return Stored(line.term, line.vote, line.snapshot, line.entries)
    entries = stored.entries
    if line.entries:
        keep = line.entries[0].index - stored.snapshot.index - 1
        if not 0 <= keep <= len(entries):
            raise ValueError(
                f"line {number} begins with entry {line.entries[0].index}, but the lines before "
                f"it end at entry {stored.snapshot.index + len(entries)}: lines are missing"
            )
        entries = entries[:keep] + line.entries  # quadratic only in rewrites of the tail
    return Stored(line.term, line.vote, stored.snapshot, entries)
