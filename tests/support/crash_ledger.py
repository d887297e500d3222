"""What producers and consumers of a crash loop were told, and whether a restarted broker keeps it.

Pure: the loop (crash_loop.py) writes down what happens, and hands over what the broker serves
after a restart. A `Verdict` names the first contradiction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from support.store_life import Verdict, body_of

FIRST_SAVE_MS = 10_000
"""A broker saves consumer offsets first after this (B-31)."""

SAVE_PERIOD_MS = 5_000
"""From one save to the next: `flush_consumer_offset_interval_ms` (B-31)."""


class Place(NamedTuple):
    """Where a message is stored."""

    topic: str
    queue: int
    offset: int


class Commit(NamedTuple):
    """A consumer's progress that the broker has taken note of."""

    by_ms: int
    """The broker's clock had not passed this when it did."""
    offset: int


@dataclass
class Ledger:
    """One store's life, over all its crashes."""

    senders: dict[int, int] = field(default_factory=dict)
    """Number of each message ever sent -> who sent it; each sender waits for its answers."""
    acknowledged: dict[Place, int] = field(default_factory=dict)
    """What may never be lost: place -> number."""
    delayed: set[int] = field(default_factory=set)
    """Numbers of acknowledged delayed messages: due later, at least once."""
    commits: dict[int, list[Commit]] = field(default_factory=dict)
    """Queue of the consumed topic -> what was committed since the last restart, in order."""
    kept: dict[int, int] = field(default_factory=dict)
    """Queue -> the offset that the last restart found; a file never goes back."""
    ends: dict[int, int] = field(default_factory=dict)
    """Queue -> one behind an acknowledged message: how far a consumer may have come."""

    def send(self, sender: int) -> int:
        """A new message's number."""
        number = len(self.senders)
        self.senders[number] = sender
        return number

    def acknowledge(self, place: Place, number: int) -> None:
        """The broker has answered SEND_OK."""
        previous = self.acknowledged.setdefault(place, number)
        if previous != number:
            raise Verdict(f"{_told(place)} was given to message {previous} and to {number}")

    def commit(self, queue: int, by_ms: int, offset: int) -> None:
        """The broker has taken note of a consumer offset."""
        self.commits.setdefault(queue, []).append(Commit(by_ms, offset))

    def can_commit(self, place: Place) -> None:
        """A consumer of this message's queue may have come past it."""
        self.ends[place.queue] = max(self.ends.get(place.queue, 0), place.offset + 1)

    def progress(self, queue: int) -> int:
        """What was committed last."""
        commits = self.commits.get(queue)
        return commits[-1].offset if commits else self.kept.get(queue, 0)

    @property
    def topics(self) -> set[str]:
        """Those with an acknowledged message: they must exist."""
        return {place.topic for place in self.acknowledged}

    # -- judging ------------------------------------------------------------------------------

    def judge(self, served: Mapping[Place, bytes]) -> None:
        """Compare with all that the broker serves of `topics`.

        Raises:
            Verdict: an acknowledged message is gone or elsewhere, one is there twice, a body is
                wrong, a queue has a hole, or a sender's messages are out of order.
        """
        numbers = {place: self._number(place, body) for place, body in served.items()}
        for place, number in self.acknowledged.items():
            if numbers.get(place) != number:
                found = [_told(other) for other, here in numbers.items() if here == number]
                raise Verdict(
                    f"message {number} was acknowledged at {_told(place)}; there is"
                    f" {numbers.get(place)}, and it is at {found or 'no place'}"
                )
        first_seen: dict[int, Place] = {}
        last: dict[tuple[str, int, int], int] = {}
        ends: dict[tuple[str, int], int] = {}
        for place in sorted(numbers):
            number = numbers[place]
            if number in first_seen:
                raise Verdict(
                    f"message {number} is there twice:"
                    f" {_told(first_seen[number])} and {_told(place)}"
                )
            first_seen[number] = place
            queue = (place.topic, place.queue)
            if place.offset != ends.get(queue, 0):
                raise Verdict(f"a hole in {queue}: {place.offset} follows {ends.get(queue, 0) - 1}")
            ends[queue] = place.offset + 1
            row = (*queue, self.senders[number])
            if number < last.get(row, -1):
                raise Verdict(f"message {number} is behind {last[row]} of the same sender")
            last[row] = number

    def judge_delayed(self, bodies: Iterable[bytes]) -> None:
        """Compare with all delayed messages that were delivered, when all are due.

        Raises:
            Verdict: an acknowledged one was not, or a body is wrong.
        """
        delivered = {self._number(Place("delayed", 0, 0), body) for body in bodies}
        if missing := self.delayed - delivered:
            raise Verdict(f"delayed messages {sorted(missing)[:5]} were never delivered")

    def judge_offset(self, queue: int, found: int | None, *, started_ms: int, now_ms: int) -> None:
        """Look at a consumer offset after a restart, and begin anew from it.

        Args:
            queue: of the consumed topic.
            found: what the broker says; None for nothing.
            started_ms: where its clock stood at the start before the crash.
            now_ms: how far its clock had come for certain when it crashed.

        Raises:
            Verdict: it moved back by more than one interval, or is one that nobody committed.
        """
        least = self.kept.get(queue, 0)
        commits = self.commits.pop(queue, [])
        most = max([least, *(commit.offset for commit in commits)])
        if now_ms >= started_ms + FIRST_SAVE_MS:
            # A save ended in the last interval: what was noted before that interval is in it.
            in_time = [c.offset for c in commits if c.by_ms <= now_ms - SAVE_PERIOD_MS]
            least = max([least, *in_time])
        offset = found or 0
        if not least <= offset <= most:
            raise Verdict(f"the offset of queue {queue} is {offset}, not within {least}..{most}")
        self.kept[queue] = offset

    def _number(self, place: Place, body: bytes) -> int:
        text = body.split(b".", 1)[0]
        number = int(text) if text.isdigit() else -1
        if number not in self.senders or body != body_of(number):
            raise Verdict(f"{_told(place)} holds {body!r}, which nobody sent")
        return number


def _told(place: Place) -> str:
    return f"{place.topic}/{place.queue}/{place.offset}"
