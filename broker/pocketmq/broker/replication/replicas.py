"""Waiting until enough replicas have a message (B-140 to B-143): around `ack_waiter.AckWaiter`."""

from __future__ import annotations

import math
from collections.abc import Callable

from pocketmq.broker.replication.ack_waiter import AckWaiter, WhenAcked
from pocketmq.broker.replication.ha_service import HaService
from pocketmq.broker.replication.rules import AckRules
from pocketmq.broker.role import RoleState
from pocketmq.broker.role_names import BrokerRole
from pocketmq.broker.store import PutStatus
from pocketmq.runtime.clock import Clock, Timer


class Replicas:
    """Those that wait for slaves.

    Args:
        ha: knows what the slaves have.
        role: only a SYNC_MASTER waits.
        rules: for how many, and how long.
        clock: says when the time is over.
        acks: how far slaves are, where that is not each connection by itself.
        slave_rejects_sends: a slave says SYSTEM_BUSY (2) to producers; else its store refuses.
    """

    def __init__(
        self,
        ha: HaService,
        role: RoleState,
        rules: AckRules,
        clock: Clock,
        *,
        slave_rejects_sends: bool = True,
        acks: Callable[[], list[int]] | None = None,
    ) -> None:
        self._acks = acks or ha.acks
        self.slave_rejects_sends = slave_rejects_sends
        self.role = role
        self._ha = ha
        self._clock = clock
        self._waiter = AckWaiter(rules)
        self._waits = rules.in_sync_replicas > 1 or rules.refuse_without_slave
        self._timer: Timer | None = None
        ha.acks_moved.connect(self._moved)

    @property
    def must_wait(self) -> bool:
        """Whether `when_replicated` may call back later, or with something else than PUT_OK."""
        # Only a SYNC_MASTER waits, and only if more than its own copy is wanted (B-141, B-143).
        return self._waits and self.role.role is BrokerRole.SYNC_MASTER

    @property
    def may_be_replaced(self) -> bool:
        """Whether another master may have been elected, so that nothing may be acknowledged (W-2).

        It looks at the clock, for no timer has run yet in a process that was stopped for long.
        """
        lease = self.role.lease
        return lease.ends_at != math.inf and lease.has_ended(self._clock.monotonic())

    def when_replicated(self, end: int, callback: WhenAcked) -> None:
        """Call back when enough replicas have the log up to `end`; at once if they do.

        Args:
            end: behind the last record.
            callback: gets PUT_OK, FLUSH_SLAVE_TIMEOUT (12) or SLAVE_NOT_AVAILABLE (11). In all
                three cases the message is stored here.
        """
        if not self.must_wait:
            callback(PutStatus.PUT_OK)
            return
        self._waiter.wait(end, self._acks(), self._clock.monotonic(), callback)
        self._arm()

    def give_up(self) -> None:
        """Tell all that wait that their message is not known to be replicated (I-17)."""
        self._waiter.give_up()

    def _moved(self) -> None:
        # Reports come by the thousand; they matter only while somebody waits.
        if len(self._waiter):
            self._waiter.acked(self._acks())

    def _arm(self) -> None:
        """Keep one timer; it is not cancelled when nobody waits, for the next send comes soon."""
        deadline = self._waiter.next_deadline
        # The timer is for the earliest deadline; `_expire` sets the next one.
        if self._timer is None and deadline is not None:
            self._timer = self._clock.call_at(deadline, self._expire)

    def _expire(self) -> None:
        self._timer = None
        self._waiter.expired(self._acks(), self._clock.monotonic())
        self._arm()
