"""Messages that wait until enough replicas have them (B-140, H-51, H-52). No I/O.

wait(end 4196, deadline 13.0)           two replicas are wanted: the master and one slave
acked([4096], now 10.2)            ->   nothing
acked([4196], now 10.3)            ->   OK
or expired(now 13.1)               ->   FLUSH_SLAVE_TIMEOUT (12)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pocketmq.broker.replication.rules import AckRules
from pocketmq.broker.store.stored_message import PutStatus

WhenAcked = Callable[[PutStatus], None]


class _Waiting(NamedTuple):
    end: int
    deadline: float
    wanted: int
    callback: WhenAcked


class AckWaiter:
    """Those that wait, in the order of the log.

    Args:
        rules: how many replicas are wanted, and for how long.
    """

    def __init__(self, rules: AckRules) -> None:
        self.rules = rules
        self._waiting: deque[_Waiting] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def next_deadline(self) -> float | None:
        """When `expired` is due; None while nobody waits."""
        return self._waiting[0].deadline if self._waiting else None

    def wait(self, end: int, acks: Sequence[int], now: float, callback: WhenAcked) -> None:
        """Call back when enough replicas have the log up to `end`; at once if they do.

        Args:
            end: behind the last record; never below an earlier one.
            acks: how far each connected slave is.
            now: monotonic seconds.
            callback: gets PUT_OK, FLUSH_SLAVE_TIMEOUT (12) or SLAVE_NOT_AVAILABLE (11).
        """
        rules = self.rules
        wanted = rules.in_sync_replicas
        if rules.refuse_without_slave:
            wanted = 2  # 4.9 asks for one slave, whichever
            # 4.9 refuses at once without any slave, or when the furthest one is 256 MiB behind
            # (B-140).
            furthest = max(acks, default=-1)
            if furthest < 0 or end - furthest >= rules.max_gap_bytes:
                callback(PutStatus.SLAVE_NOT_AVAILABLE)
                return
        if _replicas(acks, end) >= wanted:
            callback(PutStatus.PUT_OK)
            return
        self._waiting.append(_Waiting(end, now + rules.timeout_s, wanted, callback))

    def acked(self, acks: Sequence[int]) -> None:
        """A slave has more, or one has come or gone: call back those that need no more."""
        waiting = self._waiting
        # In the order of the log: later ones wait until those before them are done.
        while waiting and _replicas(acks, waiting[0].end) >= waiting[0].wanted:
            waiting.popleft().callback(PutStatus.PUT_OK)

    def expired(self, acks: Sequence[int], now: float) -> None:
        """Call back those whose time is over; who has its replicas by now is told so (W-7)."""
        # Acknowledgements come before deadlines, so that a put with enough replicas succeeds.
        # RocketMQ fails it (F-26).
        self.acked(acks)
        while self._waiting and self._waiting[0].deadline <= now:
            self._waiting.popleft().callback(PutStatus.FLUSH_SLAVE_TIMEOUT)
            # The next one may need fewer replicas, if `rules` has changed.
            self.acked(acks)

    def give_up(self) -> None:
        """This broker is no master any more: nobody may be told OK (I-17)."""
        # Emptied first: a callback may put another message, which must not fail here.
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            each.callback(PutStatus.FLUSH_SLAVE_TIMEOUT)


def _replicas(acks: Sequence[int], end: int) -> int:
    """The master, and every slave that has the log up to `end`."""
    return 1 + sum(ack >= end for ack in acks)
