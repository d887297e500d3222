"""The timer wheel in memory: only slots with waiting messages take space (T-111).

RocketMQ keeps the whole file in memory, 38 MB. Here a slot is an entry of a table, made when a
message comes for its time and dropped when the time is over, with a heap of times beside it: the
next deadline costs nothing to find, and an empty wheel takes nothing. What changed is written into
the file at each flush.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush

from pocketmq.broker.timers.layout import SLOT, SLOTS, Slot

_FIELDS = SLOT.struct
_CHUNK_SLOTS = 2048
EMPTY = Slot(-1, -1, 0)
FORGOTTEN = Slot(0, 0, 0)
"""In the file, as one that was never used."""


def encode_slot(unit: int, slot: Slot) -> tuple[int, bytes]:
    """Where a slot lies in the file, and its bytes."""
    # Time 0 marks an unused slot: RocketMQ compares a slot's time when it reads it.
    used = 0 if slot == FORGOTTEN else unit
    return unit % SLOTS * _FIELDS.size, _FIELDS.pack(used, *slot)


class TimerWheel:
    """Slot time -> what waits there. Times are milliseconds, multiples of the precision."""

    def __init__(self, precision_ms: int) -> None:
        self.precision_ms = precision_ms
        self._slots: dict[int, Slot] = {}
        self._heap: list[int] = []
        self._dirty: dict[int, Slot] = {}
        """Units of time whose slots the file does not have yet."""

    def __len__(self) -> int:
        """Slots in which something waits."""
        return len(self._slots)

    @property
    def waiting(self) -> int:
        """Messages less cancels in all slots (T-155)."""
        return sum(slot.waiting for slot in self._slots.values())

    def ahead(self, now_ms: int, bounds_s: Sequence[int]) -> list[tuple[int, int]]:
        """How many wait in each span from now on: (its end in s, messages less cancels)."""
        ends = [(now_ms + bound_s * 1000) // self.precision_ms for bound_s in bounds_s]
        counts, first = [0] * len(ends), now_ms // self.precision_ms
        for unit, slot in self._slots.items():
            at = bisect_right(ends, unit)
            if unit >= first and at < len(ends):
                counts[at] += slot.waiting
        return list(zip(bounds_s, counts, strict=True))

    def get(self, slot_ms: int) -> Slot:
        """The slot of a time; `EMPTY` when nothing waits there."""
        return self._slots.get(slot_ms // self.precision_ms, EMPTY)

    def add(self, slot_ms: int, position: int, change: int, *, last: int | None = None) -> None:
        """A record of this slot was logged, or several.

        Args:
            slot_ms: the slot's time.
            position: of the record in the timer log, or of the first one.
            change: 1 for a message, -1 for a cancel; the sum of several.
            last: position of the last one of several.
        """
        unit = slot_ms // self.precision_ms
        known = self._slots.get(unit)
        newest = position if last is None else last
        if known is None:
            heappush(self._heap, unit)
            slot = Slot(position, newest, change)
        else:
            slot = Slot(known.first, newest, known.waiting + change, known.magic)
        self._slots[unit] = self._dirty[unit] = slot

    def point_at(self, slot_ms: int, position: int) -> None:
        """Recovery found this record of the slot; the last one found is its newest (T-145).

        The file may have it in the page cache only, so the slot is written once more.
        """
        unit = slot_ms // self.precision_ms
        known = self._slots.get(unit)
        # The file lacks the slot: the process was killed before its flush.
        if known is None:
            self.add(slot_ms, position, 1)
        else:
            self._slots[unit] = self._dirty[unit] = known._replace(last=position)

    def next_ms(self) -> int | None:
        """The first slot in which something waits."""
        heap, slots = self._heap, self._slots
        # Delivered times are dropped when they reach the top.
        while heap and heap[0] not in slots:
            heappop(heap)
        return heap[0] * self.precision_ms if heap else None

    def done(self, slot_ms: int) -> None:
        """Everything in the slot is delivered. In the file it stays, as RocketMQ leaves it."""
        self._slots.pop(slot_ms // self.precision_ms, None)

    def forget_between(self, start_ms: int, end_ms: int) -> None:
        """Clear delivered slots in the file: the clock was set back, so their times come again."""
        for unit in range(start_ms // self.precision_ms, end_ms // self.precision_ms):
            # A slot in use holds newer messages: keep it.
            if unit not in self._slots:
                self._dirty[unit] = FORGOTTEN

    def clear(self) -> None:
        """Forget all, also what the file lacks."""
        self._slots, self._heap, self._dirty = {}, [], {}

    # -- the file -----------------------------------------------------------------------------

    @property
    def is_dirty(self) -> bool:
        """Whether the file lacks something."""
        return bool(self._dirty)

    def take_dirty(self) -> dict[int, Slot]:
        """Unit of time -> slot, of every slot that changed; they count as written."""
        dirty, self._dirty = self._dirty, {}
        return dirty

    def still_dirty(self, slots: dict[int, Slot]) -> None:
        """What `take_dirty` gave could not be written; it comes again unless it has changed."""
        # Slots that have changed meanwhile take precedence.
        self._dirty = slots | self._dirty

    def load(self, content: memoryview, ranges: Iterable[tuple[int, int]], from_ms: int) -> None:
        """Take over what the file holds from a time on.

        Args:
            content: of the whole file.
            ranges: (start, end) of its stretches that are not known to be empty.
            from_ms: slots before it are delivered.
        """
        size = _FIELDS.size
        lowest = from_ms // self.precision_ms
        step = _CHUNK_SLOTS * size
        empty = bytes(step)
        for start, end in ranges:
            first = start // size * size
            for at in range(first, end, step):
                chunk = bytes(content[at : min(at + step, len(content))])
                if chunk == empty[: len(chunk)]:  # one memcmp: most of the file is empty
                    continue
                for unit, first_position, last, count, magic in _FIELDS.iter_unpack(chunk):
                    # Earlier slots are delivered; time 0 marks an unused slot.
                    if unit >= lowest and unit > 0:
                        self._slots[unit] = Slot(first_position, last, count, magic)
        self._heap = list(self._slots)
        heapify(self._heap)

    def drop_behind(self, end: int) -> None:
        """Forget slots that lead to records beyond the log's end: damage (T-145)."""
        for unit, slot in list(self._slots.items()):
            if slot.last >= end:
                del self._slots[unit]
