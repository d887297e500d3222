"""Seeds in which many delayed messages become due at once, on disks in trouble. Pure.

A broker delivers delayed messages in batches. What happens at a batch's edge (as many are due as it
holds, and the next is not) meets a disk that is slow just then too seldom in other seeds.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from pocketmq.simulation.disk_events import disk_events
from pocketmq.simulation.scenario import Kind, Scenario
from pocketmq.simulation.workload import Workload

BURST_SEEDS: Final = (11, 8)
"""A seed that leaves the second when divided by the first has these bursts, unless it has services;
the others have none, so that they run as they always did."""
DURATION_S: Final = 120.0
SIZES: Final = (2, 31, 32, 33, 64)
"""Around powers of two, which batches often have."""

_TROUBLE: Final = (
    Kind.SLOW_DISK,
    Kind.HUNG_DISK,
    Kind.FAILING_DISK,
    Kind.POWER_CUT,
    Kind.BROKER_CRASH,
    Kind.BROKER_RESTART,
    Kind.CLOCK_JUMP,
)


def has_delay_bursts(seed: int) -> bool:
    """Whether a seed has these bursts, if it has no services."""
    divisor, rest = BURST_SEEDS
    return seed % divisor == rest


def with_delay_bursts(made: Scenario) -> Scenario:
    """The same cluster under SYNC_FLUSH for two minutes, with bursts of delayed messages.

    Half of these seeds keep what else happens to them in that time.
    """
    rng = random.Random(f"delay bursts {made.seed}")
    workload = Workload(
        gap_s=rng.choice([2.0, 4.0]),
        flaky_share=rng.choice([0.0, 0.05]),
        burst_share=rng.choice([0.1, 0.3]),
        burst_size=rng.choice(SIZES),
        delayed_share=rng.choice([0.5, 0.9, 1.0]),
        levels=rng.choice([(1,), (1, 2), (1, 2, 3, 4)]),
    )
    alone = rng.random() < 0.5
    others = [] if alone else [e for e in made.events if e.at_s < DURATION_S - 10.0]
    events = [*others, *disk_events(rng, _TROUBLE, made.brokers, DURATION_S - 10.0)]
    return replace(
        made,
        sync_flush=True,
        groups=(replace(made.groups[0], tags=""),),
        workload=workload,
        duration_s=DURATION_S,
        events=tuple(sorted(events, key=lambda event: event.at_s)),
    )
