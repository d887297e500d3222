"""`Unsaved`: whether a table in memory has changes that its file lacks."""

from __future__ import annotations

from pocketmq.runtime.signals import Signal


class Unsaved:
    """A mark that a table's manager sets and a `PeriodicTable` takes away; true while it is set."""

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
