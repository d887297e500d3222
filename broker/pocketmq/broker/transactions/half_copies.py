"""Which half messages lie once more further behind in their queue (X-34).

A half message that is open is stored again in each round, at the end of its queue; the noted
progress is then behind the old copies. Who becomes master, or starts after a kill, may know older
progress, and meets copies of earlier rounds:

    queue     0 a   1 b   2 a'  3 b'  4 a"  5 b"        noted: 0
    to look at                        4 a"  5 b"        the others lie there once more

To store each of them again would double them with each new master.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from pocketmq.broker.transactions.half_messages import read_half
from pocketmq.broker.transactions.offset_set import OffsetSet
from pocketmq.protocol.messages.message import MessageExt

MOST_KNOWN: Final = 500_000
"""Transactions that are told from each other in one queue; about 200 bytes each, while it is read.
Copies of others are looked at one by one."""

_DIGEST_BYTES = 16


class HalfCopies:
    """The part of a half queue from the noted progress to what was then its end.

    Args:
        begin: the progress.
        end: the queue's.
    """

    def __init__(self, begin: int, end: int) -> None:
        self.begin = begin
        self.end = end
        self._last: dict[bytes, int] = {}
        self._older = OffsetSet()

    def read(self, half: MessageExt) -> None:
        """Take the next half message of the queue."""
        # Copies are recognised by key; messages without one are checked one by one.
        name = _transaction_of(half)
        if name is None:
            return
        before = self._last.get(name)
        # The copy before this one no longer counts.
        if before is not None:
            self._older.add((before,))
        elif len(self._last) >= MOST_KNOWN:
            return
        self._last[name] = half.queue_offset

    def all_read(self) -> None:
        """No more comes; which transactions there are need not be known any longer."""
        self._last.clear()

    def is_older(self, offset: int) -> bool:
        """Whether the half message there lies once more further behind."""
        return offset in self._older

    def passed(self, begin: int) -> None:
        """A round has gone on to there."""
        self.begin = begin
        # All known copies have been passed, so none will be met again.
        if begin >= self.end:
            self._older = OffsetSet()

    def serves(self, begin: int, end: int) -> bool:
        """Whether it says all of a queue with this progress and end; else it is read anew.

        What a round of this process stored behind `end` are last copies, as long as the progress
        has not gone back and the log was not cut.
        """
        return self.begin <= begin and self.end <= end


def _transaction_of(half: MessageExt) -> bytes | None:
    """What all copies of a half message have in common, and no others; None without a key.

    Without a unique key two half messages may be equal in everything, and still be two.
    """
    read = read_half(half)
    if not read.key:
        return None
    birth = f"{half.born_timestamp_ms}\0{read.traits.topic}\0{read.traits.queue}\0{read.key}"
    digest = blake2b(birth.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES)
    digest.update(half.packed_born_host)
    return digest.digest()
