"""How far a group has come in each queue, in memory (C-43, C-65, C-67). Pure.

An *offset* here is the next one to consume: 17 means that 0 to 16 are done. It is the smallest
offset that is not consumed, so a message that takes long holds it back:

    pulled 10 11 12 13, consumed 11, then 10, then 13      advance(10)  advance(12)  advance(12)

A crash then repeats 12 and 13 and loses nothing. Offsets go to the broker later: with each pull,
and every 5 s (offset_store.py). An offset never falls by what a listener reports (`increase_only`);
only a reset by an operator, or an offset that the broker calls illegal, sets a smaller one, and
`freeze` keeps listeners that still run from moving it back up.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, IntEnum
from typing import Final

from pocketmq.protocol.messages.message import MessageQueue


class ReadOffsetType(Enum):
    """Where to read an offset from."""

    READ_FROM_MEMORY = "memory"
    READ_FROM_STORE = "store"
    """Broker or file; a hit also fills the memory."""
    MEMORY_FIRST_THEN_STORE = "memory, then store"


class Offset(IntEnum):
    """Negative results of a read, which are not offsets."""

    NOT_FOUND = -1
    """Nothing is stored for the group and queue."""
    FAILED = -2
    """The store could not be asked."""


_NOT_FOUND: Final = int(Offset.NOT_FOUND)


class OffsetTable:
    """Queue -> next offset to consume. Pure."""

    def __init__(self) -> None:
        self.offsets: dict[MessageQueue, int] = {}
        self._frozen: set[MessageQueue] = set()

    def get(self, queue: MessageQueue) -> int:
        """The offset, or `Offset.NOT_FOUND`."""
        return self.offsets.get(queue, Offset.NOT_FOUND)

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool) -> None:
        """Take progress; `increase_only` keeps the larger value (C-67)."""
        if self._frozen and queue in self._frozen:
            return
        offsets = self.offsets
        if not increase_only or offsets.get(queue, _NOT_FOUND) < offset:
            offsets[queue] = offset

    def advance(self, queue: MessageQueue, offset: int) -> None:
        """Take the progress of one message more; a smaller offset changes nothing (C-67)."""
        offsets = self.offsets
        if offsets.get(queue, _NOT_FOUND) < offset and queue not in self._frozen:
            offsets[queue] = offset

    def freeze(self, queue: MessageQueue, offset: int) -> None:
        """Set an offset that late acknowledgements cannot change any more (C-43)."""
        self.offsets[queue] = offset
        self._frozen.add(queue)

    def remove(self, queue: MessageQueue) -> None:
        """Forget a queue; a frozen one thaws."""
        self.offsets.pop(queue, None)
        self._frozen.discard(queue)

    def keep_only(self, queues: Iterable[MessageQueue]) -> None:
        """Forget every other queue (C-65)."""
        for queue in self.offsets.keys() - set(queues):
            self.remove(queue)
