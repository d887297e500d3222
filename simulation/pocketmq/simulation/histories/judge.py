"""Searches a history for anomalies, like Jepsen's test of Kafka.

    judge = Judge()
    for line in lines:                    # of all processes, ordered by time
        judge.take(line)
    judgement = judge.judgement()

Pure. Each kind of anomaly is defined in docs/histories.md by an example that a test runs. The
tables have a few items per message and no object per line: a million lines take seconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

Word = str | int

EXAMPLES: Final = 20
"""Examples that are kept of each kind; all anomalies are counted."""


class Anomaly(StrEnum):
    """A kind of violation."""

    LOST = "lost"
    UNOBSERVED = "unobserved"
    DUPLICATED = "duplicated"
    REORDERED = "reordered"
    REGRESSED = "regressed"
    CONFLICT = "conflict"
    PHANTOM = "phantom"


@dataclass
class Judgement:
    """The result of checking a history."""

    operations: int = 0
    """Number of its lines."""
    counts: Counter[Anomaly] = field(default_factory=Counter)
    examples: dict[Anomaly, list[str]] = field(default_factory=dict)
    sent: int = 0
    acknowledged: int = 0
    in_doubt: int = 0
    """Messages neither acknowledged nor refused; each may be stored or not."""
    received: int = 0
    redelivered: int = 0
    """Deliveries of one stored message to one group beyond the first: allowed, at least once."""
    commits: int = 0
    rewound: int = 0
    """Offsets that a member's commit set back: a queue had two owners for a moment. As in RocketMQ
    the broker keeps the last commit; messages are consumed again, none is lost."""

    @property
    def is_clean(self) -> bool:
        """Whether there is no anomaly."""
        return not self.counts

    def __str__(self) -> str:
        figures = (
            f"{self.operations} operations: {self.sent} messages sent, {self.acknowledged}"
            f" acknowledged, {self.in_doubt} in doubt, {self.received} received"
            f" ({self.redelivered} again), {self.commits} commits ({self.rewound} back by a member)"
        )
        found = [f"{kind}: {number}" for kind, number in sorted(self.counts.items())]
        shown = [
            f"  {example}" for kind in sorted(self.examples) for example in self.examples[kind]
        ]
        return "\n".join([figures, *(found or ["no anomaly"]), *shown])


class HistoryError(ValueError):
    """A line is not one of a history."""


class Judge:
    """Checks a history: call `take` for each line, then `judgement` once."""

    def __init__(self) -> None:
        self._found = Judgement()
        self._tries: dict[str, int] = {}
        """Message -> number of tries to send it."""
        self._key: dict[str, str] = {}
        self._failed: set[str] = set()
        self._acked: dict[str, tuple[str, int]] = {}
        """Message -> queue and offset of its first acknowledgement."""
        self._places: dict[str, list[tuple[str, int]]] = {}
        """Message -> the places where it was seen, if more than one."""
        self._first_place: dict[str, tuple[str, int]] = {}
        self._stored: dict[str, dict[int, str]] = {}
        """Queue -> offset -> message."""
        self._highest: dict[str, dict[str, int]] = {}
        """Key -> queue -> its highest acknowledged offset."""
        self._highest_at_send: dict[str, dict[str, int]] = {}
        """Message -> the same for its key, at the time of the first try to send it."""
        self._got: dict[tuple[str, str], dict[int, str]] = {}
        """(group, queue) -> offsets and messages received, in the order of first receipt."""
        self._orderly: set[str] = set()
        self._noted: dict[tuple[str, str], list[tuple[int, int]]] = {}
        """(group, queue) -> times at which the broker returned an offset, and the highest one."""
        self._told: dict[tuple[str, str], int] = {}
        """(group, queue) -> the highest offset that a member committed."""
        self._told_back: dict[tuple[str, str], set[int]] = {}
        """(group, queue) -> offsets that members committed after a higher one."""
        self._anew: dict[tuple[str, str], int] = {}
        """(group, queue) -> when it was reset or its broker killed; older queries are ignored."""
        self._takers: dict[Word, Callable[..., None]] = {
            "send": self._send,
            "ack": self._ack,
            "fail": self._fail,
            "receive": self._receive,
            "commit": self._commit,
            "committed": self._committed,
            "reset": self._reset,
            "killed": self._killed,
            "orderly": self._is_orderly,
        }

    def take(self, line: Sequence[Word]) -> None:
        """Take one line; lines must be ordered by time.

        Raises:
            HistoryError: It is of no known kind, or its items do not fit its kind.
        """
        try:
            self._takers[line[0]](*line[1:])
        except (KeyError, TypeError, IndexError) as exc:
            raise HistoryError(f"this is not a line of a history: {line!r}") from exc
        self._found.operations += 1

    # -- lines ----------------------------------------------------------------------------------

    def _send(self, _at: int, key: str, message: str) -> None:
        tries = self._tries.get(message, 0)
        self._tries[message] = tries + 1
        if not tries:
            self._key[message] = key
            if highest := self._highest.get(key):
                self._highest_at_send[message] = highest.copy()

    def _ack(self, _at: int, message: str, queue: str, offset: int) -> None:
        self._see(message, queue, offset)
        if message in self._acked:
            return
        self._acked[message] = (queue, offset)
        before = self._highest_at_send.pop(message, None)
        if before is not None and offset < before.get(queue, -1):
            self._tell(
                Anomaly.REORDERED,
                f"{message} is at {queue}:{offset}, before {before[queue]}, which was"
                " acknowledged when it was sent",
            )
        highest = self._highest.setdefault(self._key.get(message, ""), {})
        if offset > highest.get(queue, -1):
            highest[queue] = offset

    def _fail(self, _at: int, message: str) -> None:
        self._failed.add(message)

    def _receive(self, _at: int, group: str, queue: str, offset: int, message: str) -> None:
        self._found.received += 1
        self._see(message, queue, offset)
        got = self._got.get((group, queue))
        if got is None:
            got = self._got[group, queue] = {}
        if offset in got:
            self._found.redelivered += 1
        else:
            got[offset] = message

    def _commit(self, _at: int, group: str, queue: str, offset: int) -> None:
        self._found.commits += 1
        highest = self._told.setdefault((group, queue), offset)
        if offset > highest:
            self._told[group, queue] = offset
        elif offset < highest:
            self._told_back.setdefault((group, queue), set()).add(offset)

    def _committed(self, at: int, group: str, queue: str, offset: int, asked_us: int) -> None:
        noted = self._noted.setdefault((group, queue), [])
        if asked_us < self._anew.get((group, queue), -1):
            return
        # Answers on two connections may overtake each other, so only answers received before the
        # query was sent are compared.
        before = bisect_right(noted, asked_us, key=_first) - 1
        if before >= 0 and offset < noted[before][1]:
            if offset in self._told_back.get((group, queue), ()):
                self._found.rewound += 1
            else:
                self._tell(
                    Anomaly.REGRESSED,
                    f"{group} goes on at {queue}:{offset}, after {noted[before][1]}",
                )
            noted.clear()  # count it only once
        noted.append((at, max(offset, noted[-1][1]) if noted else offset))

    def _reset(self, at: int, group: str, queue: str, _offset: int) -> None:
        self._noted[group, queue] = []
        self._anew[group, queue] = at

    def _killed(self, at: int, broker: str, saved_until_us: int) -> None:
        for (group, queue), noted in self._noted.items():
            if queue.split("/", 1)[0] == broker:
                # Commits since then may be lost, earlier ones may not.
                kept = bisect_right(noted, saved_until_us, key=_first)
                noted[:] = [(at, noted[kept - 1][1])] if kept else []
                self._anew[group, queue] = at

    def _is_orderly(self, _at: int, group: str) -> None:
        self._orderly.add(group)

    def _see(self, message: str, queue: str, offset: int) -> None:
        """Note that a message was seen at a place."""
        place = (queue, offset)
        first = self._first_place.setdefault(message, place)
        if first != place:
            places = self._places.setdefault(message, [first])
            if place not in places:
                places.append(place)
        there = self._stored.get(queue)
        if there is None:
            there = self._stored[queue] = {}
        other = there.setdefault(offset, message)
        if other != message:
            self._tell(Anomaly.CONFLICT, f"{queue}:{offset} is {other}, and it is {message}")

    # -- checks ---------------------------------------------------------------------------------

    def judgement(self) -> Judgement:
        """The result; call it once, after the last line."""
        found = self._found
        found.sent = len(self._tries)
        found.acknowledged = len(self._acked)
        found.in_doubt = found.sent - len(self._acked.keys() | self._failed)
        self._look_for_lost()
        self._look_for_duplicates()
        self._look_for_phantoms()
        self._look_for_disorder()
        return found

    def _look_for_lost(self) -> None:
        groups: dict[str, list[str]] = {}
        """Topic -> groups that received any of its messages."""
        highest: dict[tuple[str, str], int] = {}
        for (group, queue), got in self._got.items():
            highest[group, queue] = max(got)
            of_topic = groups.setdefault(_topic(queue), [])
            if group not in of_topic:
                of_topic.append(group)
        topics = {queue: _topic(queue) for queue, _ in self._acked.values()}
        for message, (queue, offset) in self._acked.items():
            for group in groups.get(topics[queue], ("nobody",)):
                got = self._got.get((group, queue), {})
                if got.get(offset) == message:
                    continue
                told = f"{message}, acknowledged at {queue}:{offset}, never came to {group}"
                if highest.get((group, queue), -1) > offset:
                    self._tell(Anomaly.LOST, f"{told}, which got later ones")
                else:
                    self._tell(Anomaly.UNOBSERVED, f"{told}, nor did any later one")

    def _look_for_duplicates(self) -> None:
        for message, places in self._places.items():
            if len(places) > self._tries.get(message, 1):
                where = " and ".join(f"{queue}:{offset}" for queue, offset in sorted(places))
                self._tell(
                    Anomaly.DUPLICATED,
                    f"{message}, sent {self._tries.get(message, 0)} times, is at {where}",
                )

    def _look_for_phantoms(self) -> None:
        for message in self._first_place:
            if message not in self._tries:
                self._tell(Anomaly.PHANTOM, f"{message} is there, and nobody sent it")
        for message in sorted(self._failed & self._first_place.keys()):
            self._tell(Anomaly.PHANTOM, f"{message} is there, and its sender was told it is not")

    def _look_for_disorder(self) -> None:
        for (group, queue), got in self._got.items():
            if group not in self._orderly:
                continue
            highest = -1
            for offset in got:
                if offset < highest:
                    self._tell(
                        Anomaly.REORDERED,
                        f"{group} got {queue}:{offset} first after {highest}",
                    )
                else:
                    highest = offset

    def _tell(self, kind: Anomaly, example: str) -> None:
        self._found.counts[kind] += 1
        examples = self._found.examples.setdefault(kind, [])
        if len(examples) < EXAMPLES:
            examples.append(f"{kind}: {example}")


def _first(pair: tuple[int, int]) -> int:
    return pair[0]


def _topic(queue: str) -> str:
    """The topic in a queue's name: `orders` in `broker-a/orders/3`."""
    parts = queue.split("/")
    if len(parts) != 3:
        raise HistoryError(f"{queue!r} is not broker/topic/number")
    return parts[1]
