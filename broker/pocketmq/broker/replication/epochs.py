"""Epochs: which master's term wrote which part of the log (H-130 to H-136).

    epochFileCheckpoint      2                 entries
                             773307083         CRC of the lines below, 31 bits
                             7-7000            epoch 7 wrote [7000, 8000)
                             8-8000            epoch 8 wrote from 8000 on

Two logs agree as far as their epochs do: below the consistent point every byte is the same, and
what a replica has beyond it was never confirmed and is cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple
from zlib import crc32

NO_POINT: Final = -1


class Epoch(NamedTuple):
    """A master's term, and the log offset at which it began to write."""

    epoch: int
    start: int


class EpochsError(ValueError):
    """A text that is no epoch file; the message says why."""


class Epochs:
    """The epochs of one log, ascending in number and in start."""

    def __init__(self, entries: Iterable[Epoch] = ()) -> None:
        self._entries: list[Epoch] = list(entries)

    @property
    def entries(self) -> Sequence[Epoch]:
        """All of them, the oldest first."""
        return tuple(self._entries)

    @property
    def last(self) -> Epoch | None:
        """The newest one; None when no master of controller mode has written yet."""
        return self._entries[-1] if self._entries else None

    @property
    def last_number(self) -> int:
        """Number of the newest one; -1 for none."""
        return self._entries[-1].epoch if self._entries else -1

    def append(self, entry: Epoch) -> bool:
        """A new master's epoch; whether it was taken.

        An epoch that is already the last keeps its start. One with the last one's start replaces
        it: nothing was written in between (W-5).

        Raises:
            ValueError: its number or start is below the last one's.
        """
        last = self.last
        if last is not None:
            # The same master was elected again: its term keeps its start (F-32, W-5).
            if entry.epoch == last.epoch:
                return False
            # With an earlier start it would claim a part of an epoch that is already written.
            if entry.epoch < last.epoch or entry.start < last.start:
                raise ValueError(f"epoch {entry} cannot follow {last}")
            # Nothing was written in the older epoch, so it is dropped (W-5).
            if entry.start == last.start:
                self._entries.pop()
        self._entries.append(entry)
        return True

    def of(self, offset: int) -> Epoch | None:
        """The epoch that wrote `offset`; the first one also for what is older (W-5, H-121)."""
        found = self._entries[0] if self._entries else None
        for entry in self._entries:
            if entry.start > offset:
                break
            found = entry
        return found

    def end_of(self, entry: Epoch, log_end: int) -> int:
        """Offset behind the last byte of an epoch."""
        index = self._entries.index(entry) + 1
        return self._entries[index].start if index < len(self._entries) else log_end

    def cut_suffix(self, offset: int) -> bool:
        """The log was cut at `offset`: forget epochs that began there or later (H-134)."""
        before = len(self._entries)
        self._entries = [entry for entry in self._entries if entry.start < offset]
        return len(self._entries) < before

    def cut_prefix(self, min_offset: int) -> bool:
        """The log begins at `min_offset` now: forget epochs that end before (H-135)."""
        kept = [
            entry
            for entry, following in zip(self._entries, [*self._entries[1:], None], strict=True)
            if following is None or following.start > min_offset
        ]
        changed = len(kept) < len(self._entries)
        self._entries = kept
        return changed

    def consistent_point(self, log_end: int, theirs: Epochs, their_end: int) -> int:
        """Up to where this log and another are the same, by their epochs (H-136).

        Args:
            log_end: end of this log.
            theirs: the other's epochs.
            their_end: end of the other log.

        Returns:
            An offset, or -1 when no epoch is common: only a person can help then.
        """
        # Newest first: the first common epoch decides.
        for entry in reversed(self._entries):
            # Number and start are compared: two masters may have had the same number (F-8).
            if entry in theirs._entries:
                return min(self.end_of(entry, log_end), theirs.end_of(entry, their_end))
        return NO_POINT

    # -- the file ---------------------------------------------------------------------------------

    def text(self) -> str:
        """Content of `epochFileCheckpoint` (H-131)."""
        lines = "".join(f"{entry.epoch}-{entry.start}\n" for entry in self._entries)
        return f"{len(self._entries)}\n{crc32(lines.encode()) & 0x7FFFFFFF}\n{lines}"

    @classmethod
    def parse(cls, text: str) -> Epochs:
        """The epochs of a file's text; lines may end as on any platform.

        Raises:
            EpochsError: the text is damaged.
        """
        lines = text.splitlines(keepends=True)
        try:
            count, crc = int(lines[0]), int(lines[1])
            body = lines[2 : 2 + count]
            entries = [
                Epoch(int(number), int(start))
                for number, _, start in (line.strip().partition("-") for line in body)
            ]
        except (IndexError, ValueError) as exc:
            raise EpochsError(f"the epoch file cannot be read: {exc}") from exc
        if len(entries) != count:
            raise EpochsError(
                f"the epoch file must have {count} epochs, as its first line says, but has "
                f"{len(entries)}"
            )
        # In RocketMQ 0 means that there is no CRC.
        if crc != 0 and crc32("".join(body).encode()) & 0x7FFFFFFF != crc:
            raise EpochsError("the epoch file is damaged: its CRC does not match its epochs")
        if any(a.epoch >= b.epoch or a.start >= b.start for a, b in pairwise(entries)):
            raise EpochsError("the epochs do not rise")
        return cls(entries)
