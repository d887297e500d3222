"""ProcessQueue: what was pulled from one queue and is not yet done (C-50, C-51, C-53).

A map offset -> message in the order of offsets. Its smallest offset is what the group may commit:
everything before it is done, everything from it on may come again after a crash. So one slow
message holds up the progress of the whole queue (C-51):

    put 5 6 7       waiting 5 6 7
    remove 6        waiting 5   7        5 may be committed: 6 is done, but 5 is not
    remove 5        waiting     7        7
    remove 7        waiting              8, one after the largest offset ever seen

The `claim` tells whether the queue is still ours; it belongs to the rebalance and is only read
here. No I/O: times are the caller's monotonic seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from pocketmq.client.rebalance.claims import Claim
from pocketmq.protocol.messages.message import MessageExt, MessageQueue

MIB: Final = 1024 * 1024


class ProcessQueue:
    """The messages of one queue that this consumer is responsible for.

    Args:
        claim: That the queue is ours.
        now: Counts as its first consumption.
    """

    __slots__ = (
        "_messages",
        "_offset_max",
        "_offsets",
        "_ordered",
        "_started",
        "body_bytes",
        "claim",
        "consuming",
        "count",
        "last_consume_at",
        "queue",
    )

    def __init__(self, claim: Claim, now: float) -> None:
        self.claim = claim
        self.queue: MessageQueue = claim.queue
        self._messages: dict[int, MessageExt] = {}
        self._offsets: deque[int] = deque()
        """Keys of `_messages` in order, and some that were removed since."""
        self._ordered: dict[int, MessageExt] = {}
        """Taken by an orderly run and not yet committed (C-59)."""
        self._started: dict[int, float] = {}
        """Offset -> when its listener began."""
        self._offset_max = -1
        self.count = 0
        """Messages held, those of an orderly run included."""
        self.body_bytes = 0
        self.consuming = False
        """Whether an orderly run is under way or asked for."""
        self.last_consume_at = now

    def __contains__(self, offset: int) -> bool:
        return offset in self._messages or offset in self._ordered

    # -- concurrent -----------------------------------------------------------------------------

    def put(self, messages: Iterable[MessageExt]) -> bool:
        """Take pulled messages; whether an orderly run has to be started for them (C-50)."""
        waiting, offsets = self._messages, self._offsets
        last = offsets[-1] if offsets else -1
        count = body_bytes = 0
        for message in messages:
            offset = message.queue_offset
            # After a correction of the offset a message may be pulled twice; the listener sees it
            # once.
            if offset in waiting:
                continue
            waiting[offset] = message
            offsets.append(offset)
            if offset > last:
                last = offset
            else:  # pulled again after a correction: rare
                self._offsets = offsets = deque(sorted(set(offsets)))
            count += 1
            body_bytes += message.body_size
        self._offset_max = max(self._offset_max, last)
        self.count += count
        self.body_bytes += body_bytes
        # A run also takes messages that come while it is under way, so one is enough.
        if waiting and not self.consuming:
            self.consuming = True
            return True
        return False

    def remove(self, messages: Iterable[MessageExt]) -> int:
        """Messages are done; the offset that may be committed now (C-50).

        That is the first one still held, or one after the largest ever seen when nothing is left;
        -1 if there was nothing to begin with.
        """
        waiting = self._messages
        if not waiting:
            return -1
        started = self._started
        count = body_bytes = 0
        for message in messages:
            offset = message.queue_offset
            if waiting.pop(offset, None) is not None:
                count += 1
                body_bytes += message.body_size
                started.pop(offset, None)
        self.count -= count
        self.body_bytes -= body_bytes
        if waiting:
            return self._first_offset()
        self._offsets.clear()
        return self._offset_max + 1

    def remove_one(self, message: MessageExt) -> int:
        """A single message is done; the offset that may be committed, as `remove` says (C-51)."""
        waiting = self._messages
        offset = message.queue_offset
        if waiting.pop(offset, None) is not None:
            self.count -= 1
            self.body_bytes -= message.body_size
            self._started.pop(offset, None)
            if not waiting:
                self._offsets.clear()
                return self._offset_max + 1
        elif not waiting:
            return -1
        offsets = self._offsets
        first = offsets[0]
        while first not in waiting:
            offsets.popleft()
            first = offsets[0]
        return first

    def started(self, messages: Iterable[MessageExt], now: float) -> None:
        """The listener begins with them."""
        self.last_consume_at = now
        started = self._started
        for message in messages:
            started[message.queue_offset] = now

    def started_one(self, message: MessageExt, now: float) -> None:
        """`started` of a single message."""
        self.last_consume_at = now
        self._started[message.queue_offset] = now

    def expired_first(self, now: float, timeout_s: float) -> MessageExt | None:
        """The first message, if the listener has had it for longer than `timeout_s` (C-53)."""
        if not self._messages:
            return None
        offset = self._first_offset()
        # Only the first message holds up the commit.
        since = self._started.get(offset)
        if since is None or now - since <= timeout_s:
            return None
        return self._messages[offset]

    # -- orderly --------------------------------------------------------------------------------

    def take(self, count: int) -> list[MessageExt]:
        """Move up to `count` messages to the side, in order; none left ends the run (C-59)."""
        taken: list[MessageExt] = []
        while len(taken) < count and self._messages:
            offset = self._first_offset()
            self._offsets.popleft()
            message = self._messages.pop(offset)
            self._ordered[offset] = message
            taken.append(message)
        if not taken:
            self.consuming = False
        return taken

    def commit(self) -> int:
        """What was taken is done; the offset to commit, -1 if nothing was taken."""
        if not self._ordered:
            return -1
        # An orderly run takes in order, so everything before this one is done.
        last = max(self._ordered)
        self.count -= len(self._ordered)
        self.body_bytes -= sum(message.body_size for message in self._ordered.values())
        self._ordered.clear()
        return last + 1

    def put_back(self, messages: Sequence[MessageExt] | None = None) -> None:
        """Hand out what was taken again, before everything else; all of it by default."""
        back = list(self._ordered.values()) if messages is None else messages
        for message in back:
            if self._ordered.pop(message.queue_offset, None) is not None:
                self._messages[message.queue_offset] = message
        # These messages come before all that wait, to keep the order.
        self._offsets = deque(sorted(self._messages))

    # -- state ----------------------------------------------------------------------------------

    @property
    def has_cached(self) -> bool:
        """Whether messages wait for the listener or are with it."""
        return bool(self._messages)

    @property
    def first_offset(self) -> int | None:
        """Smallest offset held, whether waiting or taken."""
        if self._ordered:
            return min(self._ordered)
        return self._first_offset() if self._messages else None

    @property
    def span(self) -> int:
        """Largest minus smallest offset that waits; flow control looks at it (C-36)."""
        if not self._messages:
            return 0
        offsets = self._offsets
        # Removal leaves offsets in the deque, as taking one out of its middle would cost O(n). They
        # are dropped when they reach the end.
        while offsets[-1] not in self._messages:
            offsets.pop()
        return offsets[-1] - self._first_offset()

    @property
    def body_mib(self) -> int:
        """Bytes of bodies held in whole MiB."""
        return self.body_bytes // MIB

    def clear(self) -> None:
        """Forget every message."""
        self._messages.clear()
        self._offsets.clear()
        self._ordered.clear()
        self._started.clear()
        self.count = 0
        self.body_bytes = 0
        self._offset_max = -1

    def _first_offset(self) -> int:
        offsets, waiting = self._offsets, self._messages
        while offsets[0] not in waiting:
            offsets.popleft()
        return offsets[0]
