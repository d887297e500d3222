"""Ordered pop: the unacknowledged messages of a queue block it (K-110 to K-116).

Nothing of a queue is handed out while a message before it waits for its ack. Progress is made by
acks alone: no check point is stored; a message that is not acknowledged in time is read again.
The table is `config/consumerOrderInfo.json`.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from math import inf

import msgspec

from pocketmq.broker.pop.deadlines import Deadlines
from pocketmq.broker.tables.unsaved import Unsaved
from pocketmq.protocol.body import BodyStruct
from pocketmq.protocol.messages.receipts import order_count_info
from pocketmq.protocol.scalars import Int64
from pocketmq.runtime.signals import Signal

IDLE_MS = 24 * 3600 * 1000
"""Entries of queues from which nothing was handed out for so long are removed."""


class OrderInfo(
    msgspec.Struct,
    kw_only=True,
    omit_defaults=True,
    rename={
        "attempt_id": "a",
        "acknowledged": "cm",
        "invisible_ms": "i",
        "handed_out_ms": "l",
        "offsets": "o",
        "counts": "oc",
        "visible_at": "ot",
        "pop_time_ms": "popTime",
    },
):
    """The messages of one queue that were handed out last. Fields stand in the order written."""

    attempt_id: str | None = None
    """Attempt id of the request that got them; a repeat of it may get them again (K-112)."""
    acknowledged: Int64 = msgspec.field(default_factory=lambda: 0)
    """Bit i: `offsets[i]` is acknowledged."""
    invisible_ms: Int64 | None = None
    handed_out_ms: Int64 = msgspec.field(default_factory=lambda: 0)
    offsets: list[Int64] | None = None
    """Queue offsets: the first absolute, the others counted from it."""
    counts: dict[int, int] | None = None
    """Queue offset -> how often it was handed out before, of those that were."""
    visible_at: dict[int, int] | None = None
    """Queue offset -> when it is seen again, of those whose time was changed."""
    pop_time_ms: Int64 = msgspec.field(default_factory=lambda: 0)

    def absolute(self) -> list[int]:
        """The queue offsets."""
        if not self.offsets:
            return []
        first, *distances = self.offsets
        return [first, *(first + distance for distance in distances)]

    def open_offsets(self) -> Iterator[int]:
        """Queue offsets without an ack, in order."""
        for index, offset in enumerate(self.absolute()):
            if not self.acknowledged >> index & 1:
                yield offset

    def visible_ms(self, offset: int) -> int:
        """When a message is seen again unless it is acknowledged."""
        changed = None if self.visible_at is None else self.visible_at.get(offset)
        return self.pop_time_ms + (self.invisible_ms or 0) if changed is None else changed

    def blocks_until_ms(self, now_ms: int) -> int | None:
        """Until when nothing more is handed out; None when it may be at once.

        As long as any open message is invisible, the queue is blocked; the moment returned is the
        first at which that may change.
        """
        times = [at for offset in self.open_offsets() if (at := self.visible_ms(offset)) > now_ms]
        return min(times, default=None)

    def next_offset(self) -> int:
        """What the group may commit: the first offset without an ack, or behind the last."""
        return next(self.open_offsets(), self.absolute()[-1] + 1)


class OrderTable(BodyStruct, kw_only=True, omit_defaults=False):
    """`topic@group` -> queue id -> what is out; `consumerOrderInfo.json`."""

    table: dict[str, dict[int, OrderInfo]] = msgspec.field(default_factory=dict)


STALE = -2
"""Nothing to commit: the ack is of an earlier hand-out (K-113)."""
ILLEGAL = -1
"""The message is none of those handed out."""


class ConsumerOrders:
    """The unacknowledged messages of each queue that a group consumes in order."""

    def __init__(self) -> None:
        self.unsaved = Unsaved()
        self.changed: Signal[[]] = Signal()
        """Another queue is blocked, or one until another time."""
        self._to_look_at: OrderedDict[tuple[str, str, int], None] = OrderedDict()
        """Queues that changed or came due, and that `take_freed` has not looked at since."""
        self._blocked: Deadlines[tuple[str, str, int]] = Deadlines()
        """Queues that were not free when last looked at, and when they may be."""
        self._to_clean: deque[tuple[str, str]] = deque()
        """What `clean` has yet to look at."""
        self._table: dict[tuple[str, str], dict[int, OrderInfo]] = {}

    def __bool__(self) -> bool:
        return bool(self._table)

    def handed_out(
        self,
        key: tuple[str, str, int],
        offsets: Sequence[int],
        *,
        attempt_id: str | None,
        pop_time_ms: int,
        invisible_ms: int,
    ) -> list[str]:
        """Messages were handed out; entries for `orderCountInfo` (K-111).

        Args:
            key: topic, group, queue id.
            offsets: of the messages, in order.
            attempt_id: of the request.
            pop_time_ms: of the answer.
            invisible_ms: asked for.
        """
        topic, group, queue_id = key
        queues = self._table.setdefault((topic, group), {})
        before = queues.get(queue_id)
        first = offsets[0]
        info = OrderInfo(
            attempt_id=attempt_id,
            invisible_ms=invisible_ms,
            handed_out_ms=pop_time_ms,
            offsets=[first, *(offset - first for offset in offsets[1:])],
            pop_time_ms=pop_time_ms,
        )
        if before is not None:
            counts = before.counts or {}
            # The same attempt again, whose answer may have been lost: do not count it twice
            # (K-111).
            if before.attempt_id is not None and before.attempt_id == attempt_id:
                info.counts = counts
            else:
                # Count only messages that were handed out before.
                known = set(before.absolute())
                info.counts = {o: counts.get(o, 0) + 1 for o in offsets if o in known}
        # The latest pop replaces the queue's previous record (K-111).
        queues[queue_id] = info
        self._changed(key)
        counted = info.counts or {}
        # RocketMQ adds a count for the whole queue only if all its messages have one (K-37).
        smallest = min(counted.values(), default=0) if len(counted) == len(offsets) else 0
        return list(order_count_info((0, queue_id), sorted(counted.items()), smallest))

    def is_blocked(self, key: tuple[str, str, int], attempt_id: str | None, now_ms: int) -> bool:
        """Whether nothing of the queue may be handed out now (K-112)."""
        info = self._get(key)
        if info is None or not info.offsets:
            return False
        if info.attempt_id is not None and info.attempt_id == attempt_id:
            return False
        return info.blocks_until_ms(now_ms) is not None

    def free_at_ms(self, key: tuple[str, str, int], now_ms: int) -> int | None:
        """When a blocked queue may be free; None when it is."""
        info = self._get(key)
        return None if info is None else info.blocks_until_ms(now_ms)

    def acknowledge(self, key: tuple[str, str, int], offset: int, pop_time_ms: int) -> int:
        """Acknowledge a message; returns the offset to commit, or `STALE`, or `ILLEGAL` (K-113)."""
        info = self._get(key)
        # Nothing is recorded for the queue: move behind the acknowledged message (K-113).
        if info is None:
            return offset + 1
        offsets = info.absolute()
        if not offsets:
            return ILLEGAL
        # An ack of an earlier pop: the messages were handed out again since.
        if info.pop_time_ms != pop_time_ms:
            return STALE
        if offset not in offsets:
            return ILLEGAL
        # Bits stand for positions in the list, not for offsets.
        info.acknowledged |= 1 << offsets.index(offset)
        self._changed(key)
        return info.next_offset()

    def make_visible_at(
        self, key: tuple[str, str, int], offset: int, pop_time_ms: int, visible_ms: int
    ) -> None:
        """A message's invisible time was changed (K-56)."""
        info = self._get(key)
        if info is None or info.pop_time_ms != pop_time_ms:
            return
        info.visible_at = {**(info.visible_at or {}), offset: visible_ms}
        self._changed(key)

    def clear(self, key: tuple[str, str, int]) -> None:
        """Forget the queue's unacknowledged messages: its offset was reset."""
        topic, group, queue_id = key
        if self._table.get((topic, group), {}).pop(queue_id, None) is not None:
            self._changed(key)

    def forget_topic(self, topic: str) -> None:
        """The topic was deleted: one that is made again is not blocked by what was out of it."""
        self._forget([name for name in self._table if name[0] == topic])

    def forget_group(self, group: str) -> None:
        """The group was deleted with its offsets."""
        self._forget([name for name in self._table if name[1] == group])

    def _forget(self, names: Sequence[tuple[str, str]]) -> None:
        for topic, group in names:
            for queue_id in self._table.pop((topic, group)):
                self._changed((topic, group, queue_id))

    def _get(self, key: tuple[str, str, int]) -> OrderInfo | None:
        topic, group, queue_id = key
        return self._table.get((topic, group), {}).get(queue_id)

    def take_freed(self, now_ms: int, most: float = inf) -> list[tuple[str, str, int]]:
        """(topic, group, queue id) of queues that were blocked and are free now; each once.

        Args:
            now_ms: the time.
            most: queues to look at; while `is_looking` after it, the next call goes on behind them.
        """
        freed = []
        # Look at queues whose time has come and at queues that have changed.
        self._to_look_at.update(dict.fromkeys(self._blocked.take_due(now_ms)))
        for _ in range(int(min(len(self._to_look_at), most))):
            key, _none = self._to_look_at.popitem(last=False)
            free_at_ms = self.free_at_ms(key, now_ms)
            if free_at_ms is None:
                self._blocked.drop(key)
                freed.append(key)
            else:
                self._blocked.set(key, free_at_ms)
        return freed

    @property
    def is_looking(self) -> bool:
        """Whether `take_freed` has not come to the end."""
        return bool(self._to_look_at)

    def next_free_ms(self) -> int | None:
        """When the first blocked queue may be free, after `take_freed`."""
        return self._blocked.first_ms()

    def _changed(self, key: tuple[str, str, int]) -> None:
        self.unsaved.note()
        # Queue it for the next look, so that an ack need not go through all queues.
        self._to_look_at[key] = None
        self.changed.emit()

    # -- storing --------------------------------------------------------------------------------

    def load(self, stored: OrderTable) -> None:
        """Take over what the file holds."""
        for name, queues in stored.table.items():
            topic, separator, group = name.partition("@")
            # Skip names without a separator; the file may have been edited.
            if separator:
                self._table[topic, group] = dict(queues)
                for queue_id in queues:
                    self._to_look_at[topic, group, queue_id] = None

    def clean(
        self,
        queues_of: Callable[[str], int | None],
        has_group: Callable[[str], bool],
        now_ms: int,
        most: float = inf,
    ) -> None:
        """Forget deleted topics, groups and queues, and queues that are no longer consumed (K-110).

        Args:
            queues_of: read queues of a topic; None when it is gone.
            has_group: whether a group exists.
            now_ms: the time.
            most: queues to look at, or a few more; the next call goes on behind them.
        """
        # Go on where the last call stopped: thousands of queues are cleaned over many saves.
        if not self._to_clean:
            self._to_clean.extend(self._table)
        looked_at = 0
        while self._to_clean and looked_at < most:
            topic, group = self._to_clean.popleft()
            queues = self._table.get((topic, group), {})
            looked_at += 1 + len(queues)
            count = queues_of(topic)
            keep = {
                queue_id: info
                for queue_id, info in queues.items()
                # Forget queues beyond the topic's number, queues of deleted groups, and idle ones
                # (K-110).
                if count is not None
                and queue_id < count
                and has_group(group)
                and now_ms - info.handed_out_ms <= IDLE_MS
            }
            if keep:
                self._table[topic, group] = keep
            else:
                self._table.pop((topic, group), None)

    def wrapper(self) -> OrderTable:
        """The table as it is stored."""
        return OrderTable(
            table={f"{topic}@{group}": queues for (topic, group), queues in self._table.items()}
        )
