"""Draws the messages of a run; a message's key decides how its listener treats it. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from pocketmq.protocol.messages.message import Message

TAGS = "abc"
POISON, FLAKY, LONG = "!", "?", "~"
"""Suffixes of keys: every delivery fails, only the first fails, or the listener takes long."""
POISON_PERIOD = 0.6
"""Part of a run in which poison messages are sent, so that 16 retries fit into the rest."""
BATCH_SIZES = (2, 5, 16)


@dataclass(frozen=True, slots=True)
class Workload:
    """How a producer sends. Shares are probabilities per message or per turn."""

    gap_s: float
    """Average seconds between two turns."""
    flaky_share: float = 0.0
    """Share of messages whose first delivery fails."""
    poison_share: float = 0.0
    """Share of messages whose every delivery fails; 0 with ordered consumption, where one would
    block its queue."""
    long_share: float = 0.0
    """Share of messages whose listener takes `long_s`."""
    long_s: float = 0.0
    burst_share: float = 0.0
    """Share of turns with `burst_size` concurrent sends."""
    burst_size: int = 1
    batch_share: float = 0.0
    """Share of turns with a batch: several messages in one request."""
    delayed_share: float = 0.0
    """Share of messages or bursts that are delayed by one of `levels`."""
    levels: tuple[int, ...] = (1,)
    tagged: bool = False
    """Whether messages have tags by which groups may filter."""

    def __str__(self) -> str:
        return (
            f"a turn each {self.gap_s:g} s, bursts {self.burst_share:g} of {self.burst_size}, "
            f"batches {self.batch_share:g}, delayed {self.delayed_share:g}, flaky "
            f"{self.flaky_share:g}, poison {self.poison_share:g}, long {self.long_share:g} "
            f"of {self.long_s:g} s"
        )


@dataclass(frozen=True, slots=True)
class Turn:
    """Messages that are sent at once."""

    messages: list[Message]
    is_batch: bool = False


class Turns:
    """The messages of a run, in order.

    Args:
        workload: The shares and sizes.
        topic: Their topic.
        chance: Draws the messages.
    """

    def __init__(self, workload: Workload, topic: str, chance: random.Random) -> None:
        self.sent = 0
        self._workload = workload
        self._topic = topic
        self._chance = chance

    def next(self, *, poison: bool) -> Turn:
        """The next turn; without `poison` it has no message whose every delivery fails."""
        shape, chance = self._workload, self._chance
        draw = chance.random()
        if draw < shape.burst_share:
            level = self._level()
            return Turn([self._message(level, poison=poison) for _ in range(shape.burst_size)])
        if draw < shape.burst_share + shape.batch_share:
            size = chance.choice(BATCH_SIZES)
            return Turn([self._message(0, poison=poison) for _ in range(size)], is_batch=True)
        return Turn([self._message(self._level(), poison=poison)])

    def gap_s(self) -> float:
        """Seconds until the next turn."""
        return self._chance.uniform(0.5, 1.5) * self._workload.gap_s

    def _level(self) -> int:
        shape, chance = self._workload, self._chance
        if not shape.delayed_share or chance.random() >= shape.delayed_share:
            return 0
        return chance.choice(shape.levels)

    def _message(self, level: int, *, poison: bool) -> Message:
        shape, draw = self._workload, self._chance.random()
        fate = ""
        for ending, share in self._fates():
            if draw < share:
                fate = "" if ending == POISON and not poison else ending
                break
            draw -= share
        tag = self._chance.choice(TAGS) if shape.tagged else ""
        key = f"m{self.sent}{tag}{fate}"
        self.sent += 1
        return Message(self._topic, key.encode(), tags=tag or None, delay_level=level)

    def _fates(self) -> Iterator[tuple[str, float]]:
        shape = self._workload
        yield POISON, shape.poison_share
        yield FLAKY, shape.flaky_share
        yield LONG, shape.long_share


def is_wanted(key: str, tags: str) -> bool:
    """Whether a group with these tags gets a message with this key."""
    return not tags or key.rstrip(POISON + FLAKY + LONG)[-1] in tags
