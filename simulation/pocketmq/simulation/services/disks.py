"""Seeds with services under SYNC_FLUSH, on disks in trouble. Pure.

What brokers note of transactions, pops and timers depends on the log. Whether it waits for the log
shows when a log's sync takes longer than the time to the next save, which other seeds seldom have.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from pocketmq.simulation.disk_events import disk_events
from pocketmq.simulation.scenario import Kind, Scenario, ServicePlan
from pocketmq.simulation.services.plan import DURATION_S
from pocketmq.simulation.workload import Workload

SERVICE_DISK_SEEDS: Final = (15, 13)
"""A seed that leaves the second when divided by the first is one of these, unless it has other
services or bursts of delayed messages."""

_TROUBLE: Final = (
    Kind.SLOW_DISK,
    Kind.SLOW_DISK,
    Kind.HUNG_DISK,
    Kind.HUNG_DISK,
    Kind.FAILING_DISK,
    Kind.POWER_CUT,
    Kind.BROKER_CRASH,
    Kind.BROKER_RESTART,
)


def has_service_disks(seed: int) -> bool:
    """Whether a seed is one of these, if it is nothing else."""
    divisor, rest = SERVICE_DISK_SEEDS
    return seed % divisor == rest


def with_service_disks(made: Scenario) -> Scenario:
    """The same cluster under SYNC_FLUSH for a minute, with one or two services and nothing else."""
    rng = random.Random(f"service disks {made.seed}")
    chosen = rng.sample(["transactions", "pops", "timers"], rng.choice([1, 1, 2]))
    plan = ServicePlan(
        transactions="transactions" in chosen,
        pops="pops" in chosen,
        timers="timers" in chosen,
        gap_s=rng.choice([1.0, 2.0]),
        invisible_s=rng.choice([5.0, 10.0]),
        buffer_merge=rng.random() < 0.5,
        checks_every_s=rng.choice([2.0, 5.0]),
    )
    return replace(
        made,
        profile="5.x",
        sync_flush=True,
        small_files=False,
        duration_s=DURATION_S,
        first_consumers=made.first_consumers[:1],
        groups=made.groups[:1],
        workload=Workload(gap_s=10.0),
        services=plan,
        events=tuple(disk_events(rng, _TROUBLE, made.brokers, DURATION_S - 10.0)),
    )
