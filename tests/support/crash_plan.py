"""When a crash loop kills its broker: chosen by a seed, so that a failing round can be had again.

What is chosen is the same each time; what the machine makes of a delay is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

LONGEST_LOAD_S = 0.6
LONGEST_WAIT_S = 4.0
"""For a fault that does not come; most come at once."""

PLACES = (
    ("the log is flushed", "sync:commitlog", 12),
    ("a log file is made ahead of time", "create_file:commitlog", 6),
    ("the log rolls", "resize_file:commitlog", 4),
    ("a log file is mapped", "map_file:commitlog", 8),
    ("the log is reserved", "reserve:commitlog", 8),
    ("a queue is dispatched to", "reserve:consumequeue", 12),
    ("a queue file is made", "create_file:consumequeue", 12),
    ("a queue is flushed", "sync:consumequeue", 6),
    ("an index file is made", "create_file:index", 2),
    ("the checkpoint is flushed", "sync:checkpoint", 4),
    ("topics.json is written", "write_text:topics.json", 3),
    ("topics.json is renamed", "rename:topics.json", 5),
    ("consumerOffset.json is written", "write_text:consumerOffset", 6),
    ("consumerOffset.json is renamed", "rename:consumerOffset", 10),
    ("delayOffset.json is renamed", "rename:delayOffset", 6),
    ("a directory is flushed", "sync_directory", 12),
)
"""Moments of the disk: what happens then, which calls, and how many of them at most go by first."""

RECOVERY_CALLS = 70
"""About as many calls of the disk a start makes."""


@dataclass(frozen=True)
class Killing:
    """How one process ends."""

    what: str
    """For the report."""
    after_s: float
    """Killed so many seconds after the start of its load, at the latest; a start that is killed has
    lasted so many times as long as the one before it."""
    fault: str = ""
    """Killed by this fault of its disk (POCKETMQ_DISK_FAULT), if it comes sooner."""
    stop_first: bool = False
    """Asked to stop first, and killed in the middle of that."""


@dataclass(frozen=True)
class Plan:
    """One round: starts that are cut short, then one that succeeds, load, and the end."""

    starts: tuple[Killing, ...]
    end: Killing


def plan_round(seed: int, life: int, number: int) -> Plan:
    """The round with this number in this life of a store."""
    chance = Random(f"{seed}/{life}/{number}")
    starts = []
    while chance.random() < 0.3 and len(starts) < 3:
        fault = f"kill@{chance.randint(1, RECOVERY_CALLS)}" if chance.random() < 0.6 else ""
        starts.append(Killing("it starts", chance.uniform(0.1, 1.1), fault))
    after_s = chance.uniform(0, LONGEST_LOAD_S)
    kind = chance.random()
    if kind < 0.5:
        what, calls, most = chance.choice(PLACES)
        fault = f"kill@{chance.randint(1, most)}:{calls}"
        return Plan(tuple(starts), Killing(what, LONGEST_WAIT_S, fault))
    if kind < 0.65:
        return Plan(tuple(starts), Killing("it stops", after_s, stop_first=True))
    return Plan(tuple(starts), Killing("it is under load", after_s))
