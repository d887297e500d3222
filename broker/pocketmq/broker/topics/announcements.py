"""Topic changes not yet registered with the name servers, and callbacks that wait for it."""

from __future__ import annotations

from collections.abc import Callable


class Announcements:
    """Collects changes from the first start on; `registration/` takes and tells them.

    Args:
        wanted: whether there is a name server to tell.
    """

    def __init__(self, *, wanted: bool) -> None:
        self._wanted = wanted
        self._changed: dict[str, None] = {}
        self._waiting: list[Callable[[], None]] = []

    def note(self, topic: str) -> None:
        """The topic was made or changed."""
        if self._wanted:
            self._changed[topic] = None

    def when_told(self, callback: Callable[[], None]) -> None:
        """Call back when the name servers know of every change so far; at once if they do."""
        if self._changed or self._waiting:
            self._waiting.append(callback)
        else:
            callback()

    def take(self) -> tuple[list[str], list[Callable[[], None]]]:
        """The topics to register, and the callbacks to call afterwards, even if that failed."""
        changed, self._changed = list(self._changed), {}
        waiting, self._waiting = self._waiting, []
        return changed, waiting
