"""What can go wrong between Spark and a cluster or a store, sorted by who must act.

    PocketMQError                     (pocketmq.runtime.errors draws the rest of the tree)
    ├── CallerError
    │   ├── OptionError               an option of a read or write has a wrong name or value
    │   └── ColumnsError              columns to write that the sink does not take
    ├── PeerError
    │   ├── DataLossError             offsets that were to be read do not exist any more
    │   └── JobError                  Spark has ended a query
    └── DiskError
        └── CorruptRecordError        a place in a store's file is no sound record

Spark shows the last line of a worker's traceback, so each message is one line that stands alone.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

from pocketmq.runtime.errors import CallerError, DiskError, PeerError


class OptionError(CallerError):
    """An option has a name that does not exist or a value that cannot be used.

    Args:
        source: `pocketmq` or `pocketmq-store`.
        option: Its name, as the user wrote it.
        problem: What is wrong.
        near: Names or values that were perhaps meant.
    """

    def __init__(self, source: str, option: str, problem: str, *, near: Iterable[str] = ()) -> None:
        self.source = source
        self.option = option
        self.problem = problem
        self.near = tuple(near)
        meant = f"; did you mean {' or '.join(map(repr, self.near))}?" if self.near else ""
        super().__init__(f"{source}: option {option!r}: {problem}{meant}")


class ColumnsError(CallerError):
    """A data frame's columns do not fit: a name, or its type."""


class DataLossError(PeerError):
    """Offsets that were to be read are gone: retention, or a topic made anew.

    Args:
        queue: Which queue, in words.
        wanted: First offset that was to be read.
        found: Where the queue begins, or ends, instead.
    """

    def __init__(self, queue: str, wanted: int, found: int) -> None:
        self.queue = queue
        self.wanted = wanted
        self.found = found
        what = (
            f"offsets {wanted} to {found - 1} ({found - wanted} messages) are not stored any more; "
            f"the queue now begins at {found}"
            if found > wanted
            else f"offset {wanted} does not exist; the queue now ends at {found}"
        )
        super().__init__(
            f"{queue}: {what}; set failOnDataLoss=false to go on without them, or start elsewhere"
        )


class JobError(PeerError):
    """Spark has ended a query; the message says why in one line, the cause is Spark's exception."""


class CorruptRecordError(DiskError):
    """No sound record where a store says that one is."""

    def __init__(self, path: Path | str, position: int, reason: str) -> None:
        self.position = position
        """Byte in the file."""
        self.why = reason
        super().__init__(
            path,
            f"no sound record at byte {position}: {reason}",
            advice="set mode=PERMISSIVE to skip and count such records",
        )


def near(word: str, known: Iterable[str]) -> list[str]:
    """Up to three of the known words that look like this one, whatever their case."""
    by_lower = {each.lower(): each for each in known}
    return [by_lower[match] for match in difflib.get_close_matches(word.lower(), by_lower, n=3)]
