"""A broker's timer log, wheel and checkpoint, as far as they are on the medium. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from pocketmq.simulation.invariants.medium import NAME_DIGITS, Medium

RECORD = Struct(">iqiqiqiiq")
SLOT = Struct(">qqqii")
CHECKPOINT = Struct(">qqq")
SLOTS = 7 * 86_400 * 2
SECOND_MS = 1000
LOG_FOLDER, WHEEL = "timerlog", "timerwheel"


class Logged(NamedTuple):
    """A record of the timer log."""

    position: int
    previous: int
    """Position of the record before it in its slot; -1 for the first."""
    slot_ms: int
    start: int
    """Where its message begins in the commit log."""

    @property
    def end(self) -> int:
        """Position behind it."""
        return self.position + RECORD.size


class TimerCheckpoint(NamedTuple):
    """What `config/timercheck` says."""

    read_ms: int
    """All slots before it are delivered."""
    log_end: int
    """The timer log was flushed to here."""
    queue_offset: int
    """All messages of the wheel topic before it were taken in."""


def checkpoint_of(content: bytes) -> TimerCheckpoint:
    """Read a checkpoint."""
    return TimerCheckpoint._make(CHECKPOINT.unpack_from(content))


def records_of(start: int, content: bytes | bytearray, position: int) -> Iterator[Logged]:
    """Records of a file of the timer log, also those behind one that is missing.

    Args:
        start: Position of the file's begin.
        content: Of the file.
        position: Of the first record that is wanted.
    """
    end = start + len(content.rstrip(b"\0"))
    while position < end:
        record = _record_at(start, content, position)
        if record is not None:
            yield record
        position += RECORD.size


def _record_at(start: int, content: bytes | bytearray, position: int) -> Logged | None:
    at = position - start
    if at + RECORD.size > len(content):
        return None
    size, previous, _, logged_ms, delay_ms, commit_start, *_ = RECORD.unpack_from(content, at)
    if size != RECORD.size:
        return None
    return Logged(position, previous, logged_ms + delay_ms, commit_start)


class TimerMedium:
    """The timer files that survive a power cut, read as a restart reads them.

    Args:
        medium: Of the broker.
    """

    def __init__(self, medium: Medium) -> None:
        self._medium = medium
        self._folder = medium.path(LOG_FOLDER)
        self._last: dict[int, Logged | None] = {}
        """Begin of a file -> the last record before which none is missing."""
        self._of_message: dict[int, Logged] = {}
        """Where a message begins in the commit log -> its newest record."""

    def start_of(self, path: str) -> int | None:
        """Where a file of the timer log begins; None if it is another file."""
        folder, _, name = path.rpartition("/")
        return int(name) if folder == self._folder and len(name) == NAME_DIGITS else None

    def kept(self, start: int, content: bytes | bytearray) -> None:
        """A file of the log is on the medium."""
        last = self._last.get(start)
        for each in records_of(start, content, start if last is None else last.end):
            self._of_message[each.start] = each
            if each.position == (start if last is None else last.end):
                last = each
        self._last[start] = last

    def read_anew(self) -> None:
        """A process has recovered the log, and may have cut it."""
        self._last.clear()
        for start in self._medium.starts(self._folder):
            place = self._medium.file_of(self._folder, start)
            if place is not None:
                self.kept(*place)

    def new_in(self, start: int, content: bytes) -> list[Logged]:
        """Records of a file that are not on the medium yet."""
        last = self._last.get(start)
        return list(records_of(start, content, start if last is None else last.end))

    def recovered(self, log_end: int) -> tuple[int, Logged | None, bool]:
        """What a restart reads of the log.

        Args:
            log_end: The checkpoint's end of the log.

        Returns:
            Begin of the first file that it reads as a whole, the last record that it finds, and
            whether it finds everything before `log_end`.
        """
        files = sorted(self._last)
        read = [each for each in files if each <= log_end][-1:] + [
            each for each in files if each > log_end
        ]
        last = None
        for each in read:
            if (newest := self._last[each]) is None:
                break
            last = newest
        is_whole = last is not None and last.end >= log_end
        return (read[0] if read else log_end), last, is_whole or not log_end

    def logged(self, message: int) -> Logged | None:
        """The record of a message that begins at a place of the commit log."""
        found = self._of_message.get(message)
        return None if found is None or self._record(found.position) != found else found

    def leads_to(self, wanted: Logged) -> bool:
        """Whether the wheel leads to a record."""
        position = self._last_of(wanted.slot_ms)
        while position > wanted.position:
            record = self._record(position)
            if record is None or record.slot_ms != wanted.slot_ms:
                return False
            position = record.previous
        return position == wanted.position

    def _record(self, position: int) -> Logged | None:
        place = self._medium.file_of(self._folder, position)
        return None if place is None else _record_at(*place, position)

    def _last_of(self, slot_ms: int) -> int:
        wheel = self._medium.read(self._medium.path(WHEEL))
        unit = slot_ms // SECOND_MS
        if not wheel:
            return -1
        time, _, last, *_ = SLOT.unpack_from(wheel, unit % SLOTS * SLOT.size)
        return int(last) if time == unit else -1
