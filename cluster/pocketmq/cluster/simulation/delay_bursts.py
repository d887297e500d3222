"""Seeds in which many delayed messages become due at once, on disks in trouble. Pure.

A broker delivers delayed messages in batches. What happens at a batch's edge (as many are due as it
holds, and the next is not) meets a disk that is slow just then too seldom in other seeds.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from pocketmq.cluster.simulation.scenario import LOG, Event, Kind, Scenario
from pocketmq.cluster.simulation.workload import Workload

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
    events = [*others, *_events(rng, made)]
    return replace(
        made,
        sync_flush=True,
        groups=(replace(made.groups[0], tags=""),),
        workload=workload,
        duration_s=DURATION_S,
        events=tuple(sorted(events, key=lambda event: event.at_s)),
    )


def _events(rng: random.Random, made: Scenario) -> list[Event]:
    drawn = [kind for kind in _TROUBLE if rng.random() < 0.4]
    events: list[Event] = []
    at = rng.uniform(5.0, 20.0)
    while drawn and at < DURATION_S - 10.0:
        events.append(_event(rng, rng.choice(drawn), at, rng.choice(made.brokers)))
        at += rng.choice([rng.uniform(0.0, 2.0), rng.uniform(2.0, 15.0), rng.uniform(15.0, 40.0)])
    return events


def _event(rng: random.Random, kind: Kind, at: float, broker: str) -> Event:
    part, lasts_s = rng.choice(["", LOG]), rng.choice([0.5, 8.0, rng.uniform(1.0, 30.0)])
    match kind:
        case Kind.SLOW_DISK:
            amount = rng.choice([0.05, 0.5, 2.0])
            return Event(at, kind, broker, part, lasts_s=3 * lasts_s, amount=amount)
        case Kind.HUNG_DISK:
            return Event(at, kind, broker, part, lasts_s=lasts_s)
        case Kind.FAILING_DISK:
            return Event(at, kind, broker, lasts_s=lasts_s, amount=rng.choice([0.1, 1.0]))
        case Kind.CLOCK_JUMP:
            return Event(at, kind, broker, amount=rng.choice([-5.0, 2.0, 60.0]))
        case _:
            return Event(at, kind, broker, lasts_s=lasts_s)
