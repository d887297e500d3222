"""`DeliveredSlots`: notes which slots are delivered, once their messages are safe (T-116)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pocketmq.broker.store import MessageStore, PutStatus
from pocketmq.broker.timers.files import TimerFiles

WhenKept: TypeAlias = Callable[[int, Callable[[PutStatus], None]], None]


class DeliveredSlots:
    """Keeps `read_ms` of the checkpoint: every slot before it is delivered.

    A slot that is noted too late is delivered again after a restart; one that is noted before its
    messages are on the disk is lost in a power cut.

    Args:
        store: delivered to.
        files: the checkpoint is theirs.
        when_kept: (log end, callback): when the log is as safe as it gets; flushed by default.
    """

    def __init__(
        self, store: MessageStore, files: TimerFiles, when_kept: WhenKept | None = None
    ) -> None:
        self._store = store
        self._when_kept = when_kept or store.when_flushed
        self._files = files
        self._to_note_ms: int | None = None
        """What is delivered and not yet noted."""

    @property
    def until_ms(self) -> int:
        """Every slot before it is delivered, noted or not."""
        return max(self._files.checkpoint.read_ms, self._to_note_ms or 0)

    @property
    def all_noted(self) -> bool:
        """Whether nothing waits for a flush."""
        return self._to_note_ms is None

    def finished(self, read_ms: int) -> None:
        """All before `read_ms` is delivered: note it when it is as safe as the mode promises."""
        self._to_note_ms = read_ms
        self._when_kept(
            self._store.commit_log.max_offset, lambda status: self._flushed(read_ms, status)
        )

    async def flush(self) -> None:
        """Ask for another flush if the last one failed, or has not come to its end."""
        read_ms = self._to_note_ms
        if read_ms is not None:
            status = await self._store.flush()
            # Flushed here, but replicas may still lack the copies: `when_kept` reports when they
            # have them.
            if status is PutStatus.PUT_OK:
                self._when_kept(
                    self._store.commit_log.max_offset,
                    lambda status: self._flushed(read_ms, status),
                )

    def forget(self) -> None:
        """Note nothing of an earlier time as master: what was delivered may have been cut off."""
        self._to_note_ms = None

    def begin_at(self, read_ms: int) -> None:
        """Begin anew at a time: there are no slots yet, or the clock was set back."""
        self._to_note_ms = None  # it would pass over what comes now
        self._note(read_ms)

    def _flushed(self, read_ms: int, status: PutStatus) -> None:
        # It belongs to an older round, or to a time before the clock was set back: ignore it.
        if status is not PutStatus.PUT_OK or self._to_note_ms is None or read_ms > self._to_note_ms:
            return
        if read_ms == self._to_note_ms:
            self._to_note_ms = None
        # Never move the note back here; only `begin_at` does that.
        if read_ms > self._files.checkpoint.read_ms:
            self._note(read_ms)

    def _note(self, read_ms: int) -> None:
        self._files.write_checkpoint(self._files.checkpoint._replace(read_ms=read_ms))
