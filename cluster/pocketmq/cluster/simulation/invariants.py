"""What must hold after every step. Pure: fed with observations, it answers with violations.

Two ledgers: `ProgressLedger` follows messages and committed offsets, `OwnershipLedger` follows who
is a member and who owns which queue. `now` is virtual seconds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from pocketmq.protocol.message import MessageQueue

MAX_RECONSUME_TIMES = 16
ORDER_GRACE_S = 30.0
"""A broker forgets its locks when it restarts; a client believes in its own for so long (C-52)."""


class InvariantError(AssertionError):
    """An invariant does not hold."""


@dataclass(slots=True)
class Done:
    """Which offsets of a queue have been through a listener."""

    first_left: int = 0
    """All below are done."""
    beyond: set[int] = field(default_factory=set)

    def add(self, offset: int) -> None:
        """A listener has ended with it."""
        if offset < self.first_left:
            return
        self.beyond.add(offset)
        while self.first_left in self.beyond:
            self.beyond.discard(self.first_left)
            self.first_left += 1


@dataclass(slots=True)
class _Commit:
    offset: int
    writer: str
    epoch: int


class ProgressLedger:
    """Messages from the producer's acknowledgement to the listener, and committed offsets.

    Args:
        orderly: One consumer at a time, in order.
    """

    def __init__(self, *, orderly: bool) -> None:
        self.orderly = orderly
        self.violations: list[str] = []
        self.acked: dict[str, None] = {}
        """Keys of messages whose send was acknowledged."""
        self.consumed: Counter[str] = Counter()
        """Key -> successful deliveries."""
        self.deliveries = 0
        self.falls = 0
        """Committed offsets that fell outside of one ownership."""
        self.redelivered = 0
        self.failures: dict[str, Counter[int]] = defaultdict(Counter)
        """Key -> reconsume times -> failed deliveries."""
        self.copies: dict[str, dict[int, set[tuple[MessageQueue, int]]]] = defaultdict(
            lambda: defaultdict(set)
        )
        """Key -> reconsume times -> stored copies that were delivered."""
        self._done: dict[MessageQueue, Done] = defaultdict(Done)
        self._running: dict[MessageQueue, dict[str, int]] = defaultdict(dict)
        self._committed: dict[tuple[str, MessageQueue], _Commit] = {}
        self._restarted_at: dict[str, float] = {}

    # -- messages -------------------------------------------------------------------------------

    def started(
        self, client: str, queue: MessageQueue, offset: int, key: str, times: int, now: float
    ) -> None:
        """A listener begins with a message."""
        self.deliveries += 1
        done = self._done[queue]
        if offset < done.first_left or offset in done.beyond:
            self.redelivered += 1
        self.copies[key][times].add((queue, offset))
        if times > MAX_RECONSUME_TIMES and not self.orderly:
            self._violated(f"{key} is delivered for the {times + 1}th time to {client}", now)
        if not self.orderly:
            return
        grace = now - self._restarted_at.get(queue.broker_name, -1e9) <= ORDER_GRACE_S
        running = self._running[queue]
        if running and not grace:
            self._violated(f"{queue} has two consumers: {client} joins {list(running)}", now)
        if offset > done.first_left and not grace:
            self._violated(
                f"{queue} is out of order: {client} gets {offset} before {done.first_left}", now
            )
        running[client] = offset

    def ended(self, client: str, queue: MessageQueue, offset: int, key: str, times: int, *,
              ok: bool) -> None:  # fmt: skip
        """The listener has answered."""
        self._running[queue].pop(client, None)
        if ok:
            self.consumed[key] += 1
        else:
            self.failures[key][times] += 1
        if ok or not self.orderly:
            self._done[queue].add(offset)

    def abandoned(self, client: str, queue: MessageQueue) -> None:
        """The listener was cancelled or died; it has not consumed the message."""
        self._running[queue].pop(client, None)

    def client_gone(self, client: str) -> None:
        """Its process is dead, and with it its listeners."""
        for running in self._running.values():
            running.pop(client, None)

    def missing(self, dead_letters: Collection[str]) -> list[str]:
        """Acknowledged messages that were neither consumed nor became dead letters."""
        return [key for key in self.acked if not self.consumed[key] and key not in dead_letters]

    def check_copies(self, *, exactly: bool) -> None:
        """Each failed delivery makes one copy; two, where an answer to a send-back was lost."""
        for key, by_times in self.copies.items():
            for times, stored in by_times.items():
                failures = self.failures[key][times - 1]
                most = failures if exactly else 2 * failures
                if times and len(stored) > most:
                    self._violated(
                        f"{key} has {len(stored)} copies at {times} retries after {failures} "
                        "failed deliveries",
                        0.0,
                    )

    # -- offsets --------------------------------------------------------------------------------

    def committed(
        self, group: str, queue: MessageQueue, offset: int, writer: str, epoch: int, now: float
    ) -> None:
        """A broker took a commit; `epoch` counts the writer's ownerships of the queue."""
        if offset > self._done[queue].first_left:
            self._violated(
                f"{queue}: {writer} committed {offset}, but {self._done[queue].first_left} is not "
                "consumed",
                now,
            )
        before = self._committed.get((group, queue))
        if before is not None and offset < before.offset:
            self.falls += 1
            if before.writer == writer and before.epoch == epoch and epoch:
                self._violated(
                    f"{queue}: {writer} committed {offset} after {before.offset} in one ownership",
                    now,
                )
        self._committed[(group, queue)] = _Commit(offset, writer, epoch)

    def broker_restarted(self, broker: str, offsets: Mapping[tuple[str, MessageQueue], int],
                         now: float) -> None:  # fmt: skip
        """It came back with the offsets that it had saved."""
        self._restarted_at[broker] = now
        for key in [key for key in self._committed if key[1].broker_name == broker]:
            before = self._committed.pop(key)
            self.falls += offsets.get(key, 0) < before.offset
        for key, offset in offsets.items():
            self._committed[key] = _Commit(offset, "", 0)

    def _violated(self, text: str, now: float) -> None:
        self.violations.append(f"{now:.3f} {text}")


SETTLED_S = 21.0
NOTIFIED_S = 2.0
TROUBLE_S = 35.0
"""After trouble in the network or a broker's return, requests may still run into timeouts."""
LOCKS_S = 62.0
"""The locks of an orderly consumer that died live on for 60 s (B-50)."""


class OwnershipLedger:
    """Members as the brokers know them, and queues as their owners see it.

    Args:
        orderly: Locks of the dead keep queues ownerless for a while.
    """

    def __init__(self, *, orderly: bool) -> None:
        self.violations: list[str] = []
        self.checks = 0
        """How often a settled cluster was looked at."""
        self.fast_checks = 0
        """Of these, how often 2 s after a notification."""
        self._orderly = orderly
        self._views: dict[str, tuple[str, ...]] = {}
        """Sorted; a client whose old connection is not known to be dead is there twice (B-28)."""
        self._view_changed_at: dict[str, float] = {}
        self._alive: frozenset[str] = frozenset()
        self._queues: frozenset[MessageQueue] = frozenset()
        self._known: dict[str, frozenset[MessageQueue]] = {}
        self._owned: dict[str, frozenset[MessageQueue]] = {}
        self._notified_at: dict[tuple[str, str], tuple[float, float]] = {}
        self._changed_at = 0.0
        self._trouble_until = 0.0
        self._is_checked = False
        self._was_fast = False

    # -- observations ---------------------------------------------------------------------------

    def view(self, broker: str, members: tuple[str, ...] | None, now: float) -> None:
        """Whom a broker knows; None when it is down."""
        if members is None:
            self._views.pop(broker, None)
        else:
            self._views[broker] = members
        self._view_changed_at[broker] = now
        self._changed(now)

    def alive(self, members: frozenset[str], now: float) -> None:
        """Clients that really run."""
        self._alive = members
        for name in self._owned.keys() - members:
            del self._owned[name]
        self._changed(now)

    def queues(self, queues: frozenset[MessageQueue], now: float) -> None:
        """The queues of all brokers that are up."""
        self._queues = queues
        self._changed(now)

    def known(self, client: str, queues: frozenset[MessageQueue], now: float) -> None:
        """The queues that a client knows from its route."""
        self._known[client] = queues
        self._changed(now)

    def owned(self, client: str, queues: frozenset[MessageQueue]) -> None:
        """The queues that a client consumes."""
        self._owned[client] = queues
        self._is_checked = False

    def notified(self, broker: str, client: str, sent_at: float, now: float) -> None:
        """A notification has arrived."""
        self._notified_at[(broker, client)] = (sent_at, now)
        self._was_fast = False

    def trouble(self, until: float) -> None:
        """Something is wrong that makes requests fail until then."""
        self._trouble_until = max(self._trouble_until, until)

    def _changed(self, now: float) -> None:
        self._changed_at = now
        self._is_checked = self._was_fast = False

    # -- the invariant --------------------------------------------------------------------------

    def check(self, now: float) -> None:
        """Exactly one owner, once the members have not changed for long enough."""
        if self._is_checked and self._was_fast:
            return
        if now < self._trouble_until:
            return
        settled_s = LOCKS_S + SETTLED_S if self._orderly else SETTLED_S
        if now > self._changed_at + settled_s:
            if not self._is_checked and self._agree():
                self._is_checked = True
                self.checks += 1
                self._look(now, f"{settled_s:g} s after the last change")
        elif not self._orderly and not self._was_fast and self._agree():
            arrived_at = self._notified_all_at()
            if arrived_at is None or arrived_at < self._trouble_until:
                return  # what it made the client ask for may have failed
            if now > arrived_at + NOTIFIED_S:
                self._was_fast = True
                self.fast_checks += 1
                self._look(now, f"{NOTIFIED_S:g} s after the notification")

    def _agree(self) -> bool:
        """Every broker knows exactly those that run, and they know every queue."""
        alive = tuple(sorted(self._alive))
        return (
            bool(alive)
            and all(view == alive for view in self._views.values())
            and all(self._known.get(client) == self._queues for client in self._alive)
        )

    def _notified_all_at(self) -> float | None:
        """When the last client heard of the last change, if all have; from every broker."""
        last = 0.0
        for broker in self._views:
            for client in self._alive:
                sent_at, arrived_at = self._notified_at.get((broker, client), (-1.0, -1.0))
                # What came before a client knew its queues, say, made it look at too few of them.
                if sent_at < self._view_changed_at[broker] or arrived_at < self._changed_at:
                    return None
                last = max(last, arrived_at)
        return last

    def _look(self, now: float, when: str) -> None:
        owners: dict[MessageQueue, list[str]] = {queue: [] for queue in self._queues}
        for client in sorted(self._alive):
            for queue in self._owned.get(client, ()):
                if queue in owners:
                    owners[queue].append(client)
        wrong = {str(queue): names for queue, names in sorted(owners.items()) if len(names) != 1}
        if wrong:
            self.violations.append(f"{now:.3f} not exactly one owner {when}: {wrong}")
