"""A recording of events: JSON, one object a line. Pure.

    {"pocketmq_recording":1,"cluster":"orders","began_ms":...,"roles":[...],"events":[...]}
    {"event":"role-started","at_ms":...,"by":"cluster","seq":1,"real_us":...,"role":"broker-a"}
    ...

The first line is the `RecordingHeader`; the events are in causal order. Beside `FILE` lies
`FILE.index.json` with counts by time (`frames.py`). What reads is `RecordingReader`: it takes the
bytes as they come, opens what can be opened, and says in words what could not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from pocketmq.operation.events.event import Event
from pocketmq.operation.events.vocabulary import VOCABULARY, AnyEvent
from pocketmq.runtime.words import counted

RECORDING_VERSION: Final = 1

MOST_LINE_BYTES: Final = 1024 * 1024
"""A longer line is no event of ours."""

MOST_BYTES: Final = 256 * 1024 * 1024
"""So much of a recording is opened."""

MOST_PROBLEMS: Final = 20
"""Told one by one; further ones are counted."""


class EventKind(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event as the header of a recording declares it."""

    name: str
    fields: list[str]
    """Beside those that all have: event, at_ms, by, seq, real_us."""
    rule: str | None = None


class RecordingHeader(msgspec.Struct, frozen=True):
    """The first line."""

    pocketmq_recording: int
    """`RECORDING_VERSION`."""
    cluster: str
    """What it is a recording of: the name of a cluster, or `seed 17`."""
    began_ms: int
    """Protocol time."""
    roles: list[str] = []
    """Those that were there at the beginning."""
    events: list[EventKind] = []


def header_of(cluster: str, began_ms: int, roles: Sequence[str]) -> RecordingHeader:
    """The header of a new recording."""
    kinds = [EventKind(each.name(), list(each.field_names()), each.RULE) for each in VOCABULARY]
    return RecordingHeader(RECORDING_VERSION, cluster, began_ms, list(roles), kinds)


def encode_line(line: RecordingHeader | Event) -> bytes:
    """One line, with its end."""
    return msgspec.json.encode(line) + b"\n"


def encode_recording(header: RecordingHeader, events: Iterable[Event]) -> bytes:
    """A whole recording."""
    return b"".join([encode_line(header), *map(encode_line, events)])


class Line(msgspec.Struct, frozen=True):
    """An event, and where it stands."""

    event: AnyEvent
    offset: int
    """Byte at which its line begins."""
    size: int
    """Bytes of its line, its end included."""


class RecordingReader:
    """Reads a recording from its first byte, piece by piece.

    What it cannot read it passes over; `problems` says in words what and where, a line each.

    Args:
        most_bytes: What comes behind so many bytes is not opened.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.header: RecordingHeader | None = None
        """None until the first line has come, and when it was no header."""
        self._most_bytes = most_bytes
        self._problems: list[str] = []
        self._unnamed = 0
        self._rest = b""
        self._at = 0
        """Byte at which `_rest` begins."""
        self._number = 0
        self._skipping = False
        self._is_over = False
        self._decoder = msgspec.json.Decoder(AnyEvent)

    @property
    def problems(self) -> list[str]:
        """What could not be opened."""
        if self._unnamed:
            return [
                *self._problems,
                f"and {counted(self._unnamed, 'more line')} that cannot be read",
            ]
        return list(self._problems)

    @property
    def is_over(self) -> bool:
        """Whether nothing that is fed from now on is opened."""
        return self._is_over

    def feed(self, data: bytes) -> list[Line]:
        """The events that are complete now."""
        if self._is_over:
            return []
        # The limit counts from the file's first byte, however the file is cut into pieces.
        room = self._most_bytes - self._at - len(self._rest)
        is_last = len(data) > room
        # A line may come in pieces; its beginning waits in `_rest`.
        *lines, self._rest = (self._rest + data[: max(0, room)]).split(b"\n")
        found: list[Line] = []
        for raw in lines:
            if not self._take(raw, found):
                # The first line is no header, so the rest is not read.
                return found
        if len(self._rest) > MOST_LINE_BYTES:
            if not self._skipping:
                self._problem(f"line {self._number + 1} is longer than {MOST_LINE_BYTES} bytes")
            # The rest of the line is passed over as it comes, so that a file without line ends
            # fills no memory.
            self._skipping = True
            self._at += len(self._rest)
            self._rest = b""
        # Keep what was read so far: a part of a recording is better than none.
        if is_last:
            self._is_over = True
            self._problem(f"the recording is longer than {self._most_bytes} bytes; opened so far")
        return found

    def finish(self) -> None:
        """There is no more; says so in `problems` if that is in the middle of a line."""
        if self._is_over:
            # The reason is among the problems already.
            return
        self._is_over = True
        if self._number == 0 and not self._rest:
            self._problem("the recording is empty")
        elif self._rest or self._skipping:
            self._problem(f"it is cut in the middle of line {self._number + 1}; opened up to there")

    def _take(self, raw: bytes, found: list[Line]) -> bool:
        """Open a line; whether it is worth while to go on."""
        offset, size = self._at, len(raw) + 1
        self._at += size
        self._number += 1
        # This is the end of a line that was too long, which is among the problems already.
        if self._skipping:
            self._skipping = False
            return True
        if self._number == 1:
            return self._take_header(raw)
        try:
            found.append(Line(self._decoder.decode(raw), offset, size))
        # Skip an event of a newer release: the rest can still be replayed.
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            self._problem(f"line {self._number} is no event that this version knows: {exc}")
        return True

    def _take_header(self, raw: bytes) -> bool:
        try:
            header = msgspec.json.decode(raw, type=RecordingHeader)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._is_over = True
            self._problem("this is no recording of PocketMQ: its first line is no header")
            return False
        self.header = header
        # Read on: most events of another version are the same.
        if header.pocketmq_recording != RECORDING_VERSION:
            self._problem(
                f"it has version {header.pocketmq_recording}, and this is version "
                f"{RECORDING_VERSION}: what has changed is left out"
            )
        return True

    def _problem(self, text: str) -> None:
        if len(self._problems) < MOST_PROBLEMS:
            self._problems.append(text)
        else:
            # A file of another kind has a problem in each line.
            self._unnamed += 1
