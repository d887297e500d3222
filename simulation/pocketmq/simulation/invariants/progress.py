"""Checks messages from the producer's acknowledgement to the listener, and offsets. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.validation import is_retry
from pocketmq.simulation.scenario import Mode
from pocketmq.simulation.workload import is_wanted

MAX_RECONSUME_TIMES = 16
ORDER_GRACE_S = 30.0
"""Seconds for which a client relies on a lock that a restarted broker has forgotten (C-52)."""
COPIES_IN_DOUBT = 4
"""Maximum copies of one failure when answers are lost: a send-back and three sends (C-55)."""
LOOKUP_S = 6.0
"""Maximum seconds from asking for the offset to owning the queue: two requests of 3 s."""


@dataclass(slots=True)
class Done:
    """Offsets of a queue that a listener has finished, or that cannot be delivered any more."""

    first_left: int = 0
    """All offsets below it are done."""
    beyond: set[int] = field(default_factory=set)

    def __contains__(self, offset: int) -> bool:
        return offset < self.first_left or offset in self.beyond

    def add(self, offset: int) -> None:
        """Note that a listener has finished an offset."""
        if offset < self.first_left:
            return
        self.beyond.add(offset)
        self._close_up()

    def skip_to(self, offset: int) -> None:
        """Note that no offset below will be delivered any more."""
        self.first_left = max(self.first_left, offset)
        self.beyond = {each for each in self.beyond if each >= self.first_left}
        self._close_up()

    def _close_up(self) -> None:
        while self.first_left in self.beyond:
            self.beyond.discard(self.first_left)
            self.first_left += 1


@dataclass(slots=True)
class _Commit:
    offset: int
    writer: str
    epoch: int
    at: float


@dataclass(slots=True)
class _Turn:
    """The last message that an owner of a queue with ordered consumption got."""

    epoch: int
    offset: int
    ok: bool = False


class ProgressLedger:
    """The progress of a group; with broadcasting there is one ledger per member.

    Args:
        mode: Ordered: one consumer at a time, in order. Broadcasting: failures count as consumed.
        acked: Key -> queue and offset, for every acknowledged send.
        violations: A line is appended for each violation.
        tags: Tags that the group subscribes to; empty for all.
        key_at: Returns the key of the message at an offset of a queue; None if it is unreadable.
    """

    def __init__(
        self,
        mode: Mode,
        acked: Mapping[str, tuple[MessageQueue, int]] | None = None,
        violations: list[str] | None = None,
        *,
        tags: str = "",
        key_at: Callable[[MessageQueue, int], str | None] = lambda queue, offset: None,
    ) -> None:
        self.violations = [] if violations is None else violations
        self.seen: Counter[str] = Counter()
        """How often each case occurred that an invariant is about."""
        self.acked = {} if acked is None else acked
        self.consumed: Counter[str] = Counter()
        """Key -> number of successful deliveries."""
        self.failures: dict[str, Counter[int]] = defaultdict(Counter)
        """Key -> reconsume times -> number of failed deliveries."""
        self.copies: dict[str, dict[int, set[tuple[MessageQueue, int]]]] = defaultdict(
            lambda: defaultdict(set)
        )
        """Key -> reconsume times -> stored copies that were delivered."""
        self._tags = tags
        self._key_at = key_at
        self._orderly = mode is Mode.ORDERLY
        self._broadcast = mode is Mode.BROADCAST
        self._done: dict[MessageQueue, Done] = defaultdict(Done)
        self._excused: set[str] = set()
        self._expired_to: dict[MessageQueue, int] = {}
        self._stored_times: dict[tuple[MessageQueue, int], int] = {}
        """Reconsume times in the stored copy; a client that cannot send it back counts on."""
        self._skipped_to: dict[MessageQueue, int] = {}
        self._moved_to: dict[MessageQueue, set[int]] = defaultdict(set)
        self._running: dict[MessageQueue, dict[str, int]] = defaultdict(dict)
        self._turns: dict[tuple[str, MessageQueue], _Turn] = {}
        self._taken_at: dict[int, float] = {}
        self._committed: dict[tuple[str, MessageQueue], _Commit] = {}
        self._restarted_at: dict[str, float] = {}
        self._met: dict[MessageQueue, set[tuple[str, int]]] = defaultdict(set)
        """(client, ownership) that had listeners at once within the grace after a restart, as long
        as one of them runs."""

    # -- messages -------------------------------------------------------------------------------

    def started(
        self,
        client: str,
        queue: MessageQueue,
        offset: int,
        key: str,
        times: int,
        epoch: int,
        now: float,
    ) -> None:
        """Note that a listener begins with a message; `epoch` numbers its client's ownerships."""
        self.seen["deliveries"] += 1
        self.seen["retries"] += times > 0
        self.seen["last retries"] += times == MAX_RECONSUME_TIMES
        done = self._done[queue]
        self.seen["redelivered"] += offset in done
        stored_times = times
        if is_retry(queue.topic):  # other redeliveries are of messages that could not be sent back
            stored_times = min(times, self._stored_times.get((queue, offset), times))
            self._stored_times[queue, offset] = stored_times
            self.copies[key][stored_times].add((queue, offset))
        if stored_times > MAX_RECONSUME_TIMES and not self._orderly:
            self._violated(f"{key} is delivered for the {times + 1}th time to {client}", now)
        if self._orderly:
            self._started_in_order(client, queue, offset, epoch, now)

    def _started_in_order(
        self, client: str, queue: MessageQueue, offset: int, epoch: int, now: float
    ) -> None:
        grace = now - self._restarted_at.get(queue.broker_name, -1e9) <= ORDER_GRACE_S
        running, first_left = self._running[queue], self._first_left(queue, offset)
        self.seen["orderly deliveries"] += not grace
        there = {(client, epoch)}
        there.update((each, self._turns[each, queue].epoch) for each in running)
        if running and grace:
            self._met[queue] |= there
        elif running and not there <= self._met[queue]:
            self._violated(f"{queue} has two consumers: {client} joins {list(running)}", now)
        if offset > first_left and not grace:
            self._violated(
                f"{queue} is out of order: {client} gets {offset} before {first_left}", now
            )
        last = self._turns.get((client, queue))
        if (
            last is not None
            and last.epoch == epoch
            and not self._follows(queue, last.offset + last.ok, offset)
        ):
            self._violated(
                f"{queue} is out of order: {client} gets {offset} after {last.offset}, which it "
                f"had {'consumed' if last.ok else 'failed'}",
                now,
            )
        self._turns[client, queue] = _Turn(epoch, offset)
        running[client] = offset

    def _follows(self, queue: MessageQueue, expected: int, offset: int) -> bool:
        """Whether the group subscribes to no message between two offsets."""
        return offset == expected or (
            expected < offset
            and all(
                (key := self._key_at(queue, each)) is not None and not is_wanted(key, self._tags)
                for each in range(max(expected, self._expired_to.get(queue, 0)), offset)
            )
        )

    def ended(
        self, client: str, queue: MessageQueue, offset: int, key: str, times: int, *, ok: bool
    ) -> None:
        """Note the result of a listener."""
        self._running[queue].pop(client, None)
        if not self._running[queue]:
            self._met[queue].clear()
        if ok or self._broadcast:
            self.consumed[key] += 1
        if not ok:
            self.failures[key][times] += 1
            stored_times = self._stored_times.get((queue, offset), 0)
            if stored_times != times:  # only the client counts failures that it could not send back
                self.failures[key][stored_times] += 1
            self.seen["failed deliveries"] += 1
        turn = self._turns.get((client, queue))
        if turn is not None:
            turn.ok = ok
        if ok or not self._orderly:
            self._done[queue].add(offset)

    def abandoned(self, client: str, queue: MessageQueue) -> None:
        """Note that a listener was cancelled and has not consumed its message."""
        self._running[queue].pop(client, None)

    def let_go(self, client: str, queue: MessageQueue) -> None:
        """Note that a client unlocked a queue whose listener still runs (5.x, C-30)."""
        self.seen["queues given up by force"] += self._running[queue].pop(client, None) is not None

    def client_gone(self, client: str) -> None:
        """Note that a client's process is dead, and its listeners with it."""
        for running in self._running.values():
            running.pop(client, None)

    def missing(self, dead_letters: Collection[str]) -> list[str]:
        """Acknowledged messages that were neither consumed nor became dead letters."""
        return [
            key
            for key, (queue, offset) in self.acked.items()
            if not self.consumed[key]
            and is_wanted(key, self._tags)
            and key not in dead_letters
            and key not in self._excused
            and offset >= self._skipped_to.get(queue, 0)
        ]

    def check_copies(self, *, exactly: bool) -> None:
        """Check that each failed delivery made one copy, or several if an answer was lost.

        Args:
            exactly: Whether no answer to a send-back was lost.
        """
        most = 1 if exactly else COPIES_IN_DOUBT
        for key, by_times in self.copies.items():
            for times, stored in by_times.items():
                failed = self.failures[key][times - 1]
                if times and len(stored) > most * failed:
                    self._violated(
                        f"{key} has {len(stored)} copies at {times} retries after {failed} failed "
                        "deliveries",
                        0.0,
                    )

    def check_dead_letters(
        self, keys: Iterable[str], *, exactly: bool, when_equal: bool = False
    ) -> None:
        """Check that each failed last retry made one dead letter.

        Args:
            keys: The key of each message in the dead letter topic.
            exactly: Whether no answer to a send-back was lost.
            when_equal: Whether a copy that the client itself sends, as its send-back has failed,
                is a dead letter one retry sooner (B-86, 4.9).
        """
        most = 1 if exactly else COPIES_IN_DOUBT
        for key, count in Counter(keys).items():
            failed = self.failures[key][MAX_RECONSUME_TIMES]
            if when_equal and not exactly:
                failed += self.failures[key][MAX_RECONSUME_TIMES - 1]
            self.seen["dead letters"] += count
            self.seen["dead letters that must be one"] += exactly and failed == 1
            if count > most * failed:
                self._violated(
                    f"{key} is in the dead letter topic {count} times after {failed} failures at "
                    f"{MAX_RECONSUME_TIMES} retries",
                    0.0,
                )

    def _first_left(self, queue: MessageQueue, upto: int) -> int:
        """The first unconsumed offset with a message that the group subscribes to."""
        done = self._done[queue]
        if self._tags and not is_retry(queue.topic):
            while done.first_left < upto:
                key = self._key_at(queue, done.first_left)
                if key is None or is_wanted(key, self._tags):
                    break
                self.seen["unwanted messages passed over"] += 1
                done.add(done.first_left)
        return done.first_left

    # -- resets and retention -------------------------------------------------------------------

    def reset(self, queue: MessageQueue, offset: int) -> None:
        """Note a reset: commits may now go to that offset and skip unconsumed messages."""
        self.seen["resets"] += 1
        if offset > self._done[queue].first_left:
            self.seen["resets over messages"] += 1
            self._skipped_to[queue] = max(offset, self._skipped_to.get(queue, 0))
            for each in range(self._done[queue].first_left, offset):
                if each not in self._done[queue] and (key := self._key_at(queue, each)):
                    self._excused.add(key)  # a delayed message, whose offset was unknown
            self._done[queue].skip_to(offset)
        self._moved_to[queue].add(offset)

    def expired(self, queue: MessageQueue, min_offset: int) -> None:
        """Note that retention deleted messages below an offset."""
        self.seen["queues cut by retention"] += 1
        self.seen["unconsumed messages expired"] += max(
            0, min_offset - self._done[queue].first_left
        )
        self._expired_to[queue] = min_offset
        self._done[queue].skip_to(min_offset)

    def excuse(self, keys: Iterable[str]) -> None:
        """Note that retention deleted a copy of each of these messages."""
        self._excused.update(keys)

    # -- offsets --------------------------------------------------------------------------------

    def taken(self, epoch: int, now: float) -> None:
        """Note that a client owns a queue from now on, in the ownership with this number."""
        self._taken_at[epoch] = now

    def committed(
        self, group: str, queue: MessageQueue, offset: int, writer: str, epoch: int, now: float
    ) -> None:
        """Note that a broker took a commit, or that a broadcasting member wrote its file."""
        self.seen["commits"] += 1
        first_left = self._first_left(queue, offset)
        if offset > first_left:
            self._violated(
                f"{queue}: {writer} committed {offset}, but {first_left} is not consumed", now
            )
        before = self._committed.get((group, queue))
        if before is not None and offset < before.offset:
            self._fell(queue, offset, writer, epoch, before, now)
        self._committed[group, queue] = _Commit(offset, writer, epoch, now)

    def _fell(
        self,
        queue: MessageQueue,
        offset: int,
        writer: str,
        epoch: int,
        before: _Commit,
        now: float,
    ) -> None:
        self.seen["offsets fallen"] += 1
        if offset in self._moved_to[queue] or not epoch:
            return
        self.seen["late commits of former owners"] += 1
        if (before.writer, before.epoch) == (writer, epoch):
            self._violated(
                f"{queue}: {writer} committed {offset} after {before.offset} in one ownership", now
            )
        elif before.at < self._taken_at[epoch] - LOOKUP_S:
            self._violated(
                f"{queue}: {writer} committed {offset}, but took the queue when {before.offset} "
                "was committed",
                now,
            )

    def broker_restarted(
        self,
        broker: str,
        offsets: Mapping[tuple[str, MessageQueue], int],
        ends: Mapping[MessageQueue, int],
        now: float,
        *,
        crashed: bool,
    ) -> None:
        """Note that a broker restarted.

        Args:
            broker: Name of the broker.
            offsets: Its saved offsets.
            ends: The ends of its queues.
            now: Time in virtual seconds.
            crashed: Whether it could not save its offsets.
        """
        self._restarted_at[broker] = now
        self.seen["broker starts"] += 1
        lost = [key for key in self._committed if key[1].broker_name == broker]
        for key in () if self._broadcast else lost:
            before = self._committed.pop(key)
            if offsets.get(key, 0) < before.offset:
                self.seen["offsets fallen"] += 1
                self.seen["offsets fallen with a broker"] += 1
                if not crashed:
                    self._violated(
                        f"{key[1]}: {before.offset} was committed, and after a restart in order "
                        f"it is {offsets.get(key, 0)}",
                        now,
                    )
        for key, offset in offsets.items():
            self._committed[key] = _Commit(offset, "", 0, now)
        for queue, done in self._done.items():
            end = ends.get(queue, 0)
            if queue.broker_name != broker or end >= done.first_left:
                continue
            if done.first_left <= self._expired_to.get(queue, 0):
                # All its messages had expired: a queue without files begins at 0 again.
                done.first_left = self._expired_to[queue] = end
                continue
            self._violated(
                f"{queue}: delivered up to {done.first_left}, and after a restart it ends at {end}",
                now,
            )

    def _violated(self, text: str, now: float) -> None:
        self.violations.append(f"{now:.3f} {text}")
