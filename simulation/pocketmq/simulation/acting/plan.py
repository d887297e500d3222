"""What a seed of an acting master draws: what happens to a master and its slave. Pure.

First come troubles by chance; at last, with nothing else in trouble, the master goes away for long,
so that its slave has to act, and comes back.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from random import Random

MASTER, SLAVE = "m", "s"
NAMESERVER = "ns"
PRODUCER = "P"
READER, ORDERLY = "c1", "c2"
"""Two consumers, each of a group of its own."""
LATER = "c3"
"""An orderly consumer that begins while the slave acts: it needs locks of it."""

SYNC_SEEDS = (10, 7)
"""A seed that leaves the second when divided by the first has a SYNC_MASTER; the others run as they
always did."""

FIRST_TROUBLE_S = 15.0
TROUBLE_ENDS_S = 75.0


class Trouble(Enum):
    """What can happen."""

    KILL_MASTER = "masters killed"
    RESTART_MASTER = "masters restarted in order"
    VANISH_MASTER = "masters' machines lost"
    FREEZE_MASTER = "masters stopped"
    KILL_SLAVE = "slaves killed"
    FREEZE_SLAVE = "slaves stopped"
    CUT = "links cut"
    RESET = "links reset"
    DELAY = "links delayed"


@dataclass(frozen=True, slots=True)
class Happening:
    """One of them, at one time."""

    at_s: float
    trouble: Trouble
    link: tuple[str, str]
    """Of links."""
    lasts_s: float


@dataclass(frozen=True, slots=True)
class ActingPlan:
    """A run."""

    seed: int
    latency_s: tuple[float, float]
    gap_s: float
    """Between two messages."""
    delay_share: float
    """Of messages that are delayed by 1 to 10 s."""
    vanishes: bool
    """At last the master's machine is lost, and not only its process killed."""
    happenings: tuple[Happening, ...]
    is_sync: bool = False
    """The master answers when its slave has the message, too (`SYNC_MASTER`, two in sync)."""


def acting_plan(seed: int) -> ActingPlan:
    """The run of a seed."""
    draw = Random(f"acting {seed}")
    return ActingPlan(
        seed,
        latency_s=draw.choice([(0.0002, 0.002), (0.001, 0.02), (0.002, 0.08)]),
        gap_s=draw.choice([0.2, 0.4]),
        delay_share=draw.choice([0.0, 0.2]),
        vanishes=draw.random() < 0.5,
        happenings=tuple(_happenings(draw)),
        is_sync=seed % SYNC_SEEDS[0] == SYNC_SEEDS[1],
    )


def _happenings(draw: Random) -> list[Happening]:
    chosen = draw.sample(list(Trouble), draw.choice([1, 2, 2, 3]))
    every_s, longest_s = draw.choice([8.0, 16.0]), draw.choice([3.0, 12.0, 30.0])
    found: list[Happening] = []
    at_s = FIRST_TROUBLE_S
    while (at_s := at_s + draw.expovariate(1 / every_s)) < TROUBLE_ENDS_S:
        trouble = draw.choice(chosen)
        one, other = draw.sample((MASTER, SLAVE, NAMESERVER, PRODUCER, READER, ORDERLY), 2)
        found.append(Happening(at_s, trouble, (one, other), draw.uniform(0.05, longest_s)))
    return found
