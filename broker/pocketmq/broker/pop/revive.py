"""Decides which popped messages are delivered again: one planner per queue of the revive topic.

Check points are read in the order in which they became due, and acks behind them. A check point is
settled when it is due and no ack of it can still arrive: an ack waits in the timers like the check
point, a second longer (K-70, K-82, K-83). The committed offset of the revive queue is that of the
last settled record (K-81), so a restart reads all others again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeAlias

from pocketmq.broker.pop.records import Ack, CheckPoint, MergeKey

GRACE_MS = 2000
"""An ack has this long after the messages' time to arrive."""

_Messages: TypeAlias = tuple[int, ...]
"""Of a check point: their number and, where it names them, their distances."""


class RevivePlanner:
    """Check points of one revive queue that are not settled.

    Args:
        committed: offset of the last settled record, -1 for none.
        own_broker: broker name of records that do not contain one (K-74).
    """

    def __init__(self, committed: int, own_broker: str) -> None:
        self.next_offset = committed + 1
        """Next record to read."""
        self.committed = committed
        """Every record up to this one is settled."""
        self._own_broker = own_broker
        self._open: OrderedDict[int, CheckPoint] = OrderedDict()
        """By their own offset, in the order of reading. In a plain dict each settled one would
        make the first of the others harder to find."""
        self._by_key: dict[MergeKey, dict[_Messages, int]] = {}
        """Nearly always one. Who changes the time of a message with an altered receipt in the
        millisecond of its pop makes another of the same name."""

    def __len__(self) -> int:
        """Check points that are not settled."""
        return len(self._open)

    def check_point(self, offset: int, point: CheckPoint) -> None:
        """A check point was read."""
        self.next_offset = offset + 1
        # Old brokers left out the broker's name; acks name this broker (K-74).
        point.broker_name = point.broker_name or self._own_broker
        same_key = self._by_key.setdefault(point.key, {})
        earlier = same_key.get(_messages(point))
        if earlier is not None:
            # Stored twice, after a kill: the acks of the first count for both.
            point.bit_map |= self._open.pop(earlier).bit_map
        self._open[offset] = point
        same_key[_messages(point)] = offset

    def ack(self, offset: int, ack: Ack) -> None:
        """An ack was read; it is ignored when its check point is settled already (K-82)."""
        self.next_offset = offset + 1
        for at in self._by_key.get(ack.key(self._own_broker), {}).values():
            self._open[at].acknowledge_all(ack.acknowledged)

    def skip(self, offset: int) -> None:
        """A record that is neither was read."""
        self.next_offset = offset + 1

    def due(self, now_ms: int) -> tuple[int, CheckPoint] | None:
        """The first check point, when it can be settled: its offset and itself.

        Args:
            now_ms: up to when every record that is due has been read.
        """
        for offset, point in self._open.items():
            # Leave time for acks to arrive after the check point is due (K-83).
            if now_ms - point.revive_time_ms > GRACE_MS:
                return offset, point
            return None
        return None

    def due_at_ms(self) -> int | None:
        """When the first check point can be settled."""
        for point in self._open.values():
            return point.revive_time_ms + GRACE_MS + 1
        return None

    def settled(self, offset: int) -> int:
        """The first check point is settled; returns the offset to commit."""
        point = self._open.pop(offset)
        same_key = self._by_key[point.key]
        del same_key[_messages(point)]
        if not same_key:
            del self._by_key[point.key]
        # Acks before the next open check point are settled with it; without one, all that was read.
        self.committed = offset if self._open else max(offset, self.next_offset - 1)
        return self.committed


def _messages(point: CheckPoint) -> _Messages:
    return (point.count, *(point.distances or ()))
