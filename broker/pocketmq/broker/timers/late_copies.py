"""`LateCopies`: messages that were over when they were taken in are safe before others are logged.

A restart takes the wheel topic in behind the last message of the timer log, or behind the offset in
the checkpoint. So a message that was delivered at once, and never logged, needs its copy on the
disk before either passes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pocketmq.broker.store import MessageStore, PutStatus
from pocketmq.broker.timers.delivered import WhenKept


class LateCopies:
    """Knows which late messages are delivered, and whether their copies are safe.

    Args:
        store: delivered to.
        when_kept: (log end, callback): when the log is as safe as it gets; flushed by default.
        go_on: called when copies that were waited for have become safe.
    """

    def __init__(
        self, store: MessageStore, when_kept: WhenKept | None, go_on: Callable[[], None]
    ) -> None:
        self.offsets: set[int] = set()
        """Late messages, by their offset in the wheel topic, that are delivered and not passed."""
        self.are_safe = True
        """Whether all copies are."""
        self._store = store
        self._when_kept = when_kept or store.when_flushed
        self._go_on = go_on
        self._round = 0
        """Counts changes of `offsets`: what is told of those before means nothing."""

    def forget(self) -> None:
        """What was delivered is passed."""
        self.offsets, self.are_safe = set(), True
        self._round += 1

    def delivered(self, offsets: Iterable[int]) -> bool:
        """Copies of late messages were stored; whether they are safe already."""
        self.offsets.update(offsets)
        # `take_in` stops until the copies are safe; a kill before that delivers them again.
        self.are_safe = False
        self._round += 1
        self._wait()
        return self.are_safe

    async def flush(self) -> bool:
        """Ask for another flush if the last one failed, or has not come to its end.

        Returns:
            Whether the copies have become safe.
        """
        if self.are_safe:
            return False
        # Flushed, but a replica may still lack them: `when_kept` reports when it has them.
        if await self._store.flush() is PutStatus.PUT_OK and not self.are_safe:
            self._wait()
        return self.are_safe

    def _wait(self) -> None:
        asked_in, is_asked = self._round, True

        def kept(status: PutStatus) -> None:
            # An earlier round's report concerns older messages only.
            if status is PutStatus.PUT_OK and asked_in == self._round and not self.are_safe:
                self.are_safe = True
                # If `when_kept` calls back at once, the caller itself goes on.
                if not is_asked:
                    self._go_on()

        self._when_kept(self._store.commit_log.max_offset, kept)
        is_asked = False
