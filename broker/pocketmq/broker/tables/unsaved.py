"""`Unsaved`: whether a table in memory has changes that its file lacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pocketmq.runtime.signals import Signal


class Unsaved:
    """A mark that a table's manager sets and who saves it takes away; true while it is set."""

    __slots__ = ("_is_set", "began")

    def __init__(self) -> None:
        self._is_set = False
        self.began: Signal[[]] = Signal()
        """The mark was set after a while in which it was not."""

    def __bool__(self) -> bool:
        return self._is_set

    def note(self) -> None:
        """The table has changed. Costs next to nothing when it had before."""
        if not self._is_set:
            self._is_set = True
            self.began.emit()

    def take(self) -> bool:
        """Whether there are changes; clears the mark, and the caller has to save them."""
        was_set, self._is_set = self._is_set, False
        return was_set

    @contextmanager
    def taken(self) -> Iterator[bool]:
        """As `take`, to save the table inside: the mark is set again if that ends with any error.

        A change while the table is being saved sets it, too: the next save has it.
        """
        was_set, is_saved = self.take(), False
        try:
            yield was_set
            is_saved = True
        finally:
            if was_set and not is_saved:
                self.note()
