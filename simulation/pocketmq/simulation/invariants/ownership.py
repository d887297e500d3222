"""Checks members of a group and owners of queues. Pure."""

from __future__ import annotations

import math
from collections import Counter

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.simulation.scenario import Mode

SETTLED_S = 21.0
NOTIFIED_S = 2.0
REQUEST_S = 3.0
"""Seconds after the end of network faults in which a request may still time out."""
LOCKS_S = 62.0
"""Seconds for which locks of a dead orderly consumer remain (60 s, B-50)."""
ROUTES_S = 62.0
"""Seconds until all clients know a change of routes: two periods of 30 s (B-3, P-3)."""


class OwnershipLedger:
    """Compares the members that brokers know with the queues that clients own.

    Args:
        mode: With ordered consumption, locks of dead consumers keep queues without owner for a
            while. With broadcasting every member owns every queue.
        violations: A line is appended for each violation.
    """

    def __init__(self, mode: Mode, violations: list[str] | None = None) -> None:
        self.violations = [] if violations is None else violations
        self.seen: Counter[str] = Counter()
        """How often a settled cluster was checked."""
        self.due_at = 0.0
        """Virtual seconds before which `check` finds nothing new, unless something is noted."""
        self._mode = mode
        self._views: dict[str, tuple[str, ...]] = {}
        """Broker -> members, sorted; twice if an old connection still counts as alive (B-28)."""
        self._view_changed_at: dict[str, float] = {}
        self._alive: frozenset[str] = frozenset()
        self._queues: frozenset[MessageQueue] = frozenset()
        self._known: dict[str, frozenset[MessageQueue]] = {}
        self._owned: dict[str, frozenset[MessageQueue]] = {}
        self._notified_at: dict[tuple[str, str], tuple[float, float]] = {}
        self._changed_at = 0.0
        self._trouble_until = 0.0
        self._routes_until = 0.0
        self._is_checked = False
        self._was_fast = False
        self._agreed: bool | None = None
        """Last result of `_agree`; None after a change."""
        self._agree_again_at = 0.0
        """Time at which it becomes true without further events."""
        self._arrived_at: float | None = None
        self._arrived_is_known = False

    # -- observations ---------------------------------------------------------------------------

    def view(self, broker: str, members: tuple[str, ...] | None, now: float) -> None:
        """Note the members that a broker knows; None when it is down."""
        if members is None:
            self._views.pop(broker, None)
        else:
            self._views[broker] = members
        self._view_changed_at[broker] = now
        self._changed(now)

    def alive(self, members: frozenset[str], now: float) -> None:
        """Note the clients that run."""
        self._alive = members
        for table in (self._owned, self._known):
            for name in table.keys() - members:
                del table[name]
        self._changed(now)

    def queues(self, queues: frozenset[MessageQueue], now: float) -> None:
        """Note the queues of all running brokers."""
        self._queues = queues
        self._routes_until = max(self._routes_until, now + ROUTES_S)
        self._changed(now)

    def known(self, client: str, queues: frozenset[MessageQueue], now: float) -> None:
        """Note the queues that a client knows from its route."""
        self._known[client] = queues
        self._changed(now)

    def owned(self, client: str, queues: frozenset[MessageQueue]) -> None:
        """Note the queues that a client owns."""
        self._owned[client] = queues
        self._is_checked = False
        self.due_at = 0.0
        if self._mode is Mode.ORDERLY:
            self._was_fast = False

    def notified(self, broker: str, client: str, sent_at: float, now: float) -> None:
        """Note that a notification arrived."""
        self._notified_at[broker, client] = (sent_at, now)
        self._was_fast = self._arrived_is_known = False
        self.due_at = 0.0

    def trouble(self, until: float) -> None:
        """Note that requests may fail until a time."""
        self._trouble_until = max(self._trouble_until, until + REQUEST_S)
        self.due_at = 0.0

    def routes_wrong(self, until: float) -> None:
        """Note that the nameserver does not know every broker until a time."""
        self._routes_until = max(self._routes_until, until + ROUTES_S)
        self._agreed = None
        self.due_at = 0.0

    def _changed(self, now: float) -> None:
        self._changed_at = now
        self._is_checked = self._was_fast = self._arrived_is_known = False
        self._agreed = None
        self.due_at = 0.0

    # -- the invariant --------------------------------------------------------------------------

    def check(self, now: float) -> None:
        """Each queue has exactly one owner, once members have not changed for long enough."""
        self.due_at = self._checked(now)

    def _checked(self, now: float) -> float:
        """Check what can be checked now; returns when to check again if nothing is noted."""
        if self._is_checked and self._was_fast:
            return math.inf
        if now < self._trouble_until:
            return self._trouble_until
        quiet_at = max(self._changed_at, self._trouble_until) + SETTLED_S
        settled_at = quiet_at + LOCKS_S if self._mode is Mode.ORDERLY else quiet_at
        if now > settled_at:
            return self._check_settled(now)
        if self._was_fast or self._mode is Mode.BROADCAST:
            return settled_at
        if self._mode is Mode.ORDERLY and now <= quiet_at:
            return quiet_at
        if not self._agree(now):
            return min(settled_at, self._agree_again_at)
        if self._mode is Mode.ORDERLY:
            self._was_fast = True
            self.seen["settled but for locks"] += 1
            self._look(now, f"{SETTLED_S:g} s after the last change", at_most=True)
            return settled_at
        arrived_at = self._notified_all_at()
        if arrived_at is None or arrived_at < self._trouble_until:
            return settled_at  # a request that it caused may have failed
        if now <= arrived_at + NOTIFIED_S:
            return min(settled_at, arrived_at + NOTIFIED_S)
        self._was_fast = True
        self.seen["notified"] += 1
        self._look(now, f"{NOTIFIED_S:g} s after the notification")
        return settled_at

    def _check_settled(self, now: float) -> float:
        if self._is_checked:
            return math.inf
        if not self._agree(now):
            return self._agree_again_at
        self._is_checked = True
        self.seen["settled"] += 1
        self._look(now, f"{SETTLED_S:g} s after the last change")
        return math.inf

    def _agree(self, now: float) -> bool:
        """Whether brokers know exactly the running clients, and these had time to learn queues."""
        if self._agreed is not None and now <= self._agree_again_at:
            return self._agreed
        alive = tuple(sorted(self._alive))
        routes_at = self._routes_until + SETTLED_S
        self._agree_again_at = math.inf
        if not alive or any(view != alive for view in self._views.values()):
            self._agreed = False
        elif now > routes_at:
            self._agreed = True
        else:
            self._agreed = all(self._known.get(each) == self._queues for each in self._alive)
            if not self._agreed:
                self._agree_again_at = routes_at
        return self._agreed

    def _notified_all_at(self) -> float | None:
        """When the last client was notified of the last change by all brokers; None if not yet."""
        if not self._arrived_is_known:
            self._arrived_at = self._find_arrival()
            self._arrived_is_known = True
        return self._arrived_at

    def _find_arrival(self) -> float | None:
        last = 0.0
        for broker in self._views:
            for client in self._alive:
                sent_at, arrived_at = self._notified_at.get((broker, client), (-1.0, -1.0))
                # A notification before a client knew all queues made it allocate too few.
                if sent_at < self._view_changed_at[broker] or arrived_at < self._changed_at:
                    return None
                last = max(last, arrived_at)
        return last

    def _look(self, now: float, when: str, *, at_most: bool = False) -> None:
        owners: dict[MessageQueue, list[str]] = {queue: [] for queue in self._queues}
        for client in sorted(self._alive):
            for queue in self._owned.get(client, ()):
                if queue in owners:
                    owners[queue].append(client)
        count = len(self._alive) if self._mode is Mode.BROADCAST else 1
        wrong = {
            str(queue): names
            for queue, names in sorted(owners.items())
            if len(names) > count or (len(names) < count and not at_most)
        }
        if wrong:
            each = "every member" if count > 1 else "at most one" if at_most else "exactly one"
            self.violations.append(f"{now:.3f} not {each} owner {when}: {wrong}")
