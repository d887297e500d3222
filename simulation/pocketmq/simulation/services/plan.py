"""Which services a seed has, and what happens to their clients. Pure; drawn from the seed."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from pocketmq.simulation.scenario import OF_DISKS, Event, Kind, Scenario, ServicePlan
from pocketmq.simulation.workload import Workload

SERVICE_SEEDS: Final = (7, 3)
"""A seed that leaves the second when divided by the first has services; the others have none, so
that they run as they always did."""
LONE_POP_SEEDS: Final = (70, 10)
"""Of these, seeds in which a push consumer pops alone and is soon full."""
ROLLING_TIMER_SEEDS: Final = (70, 45)
"""Of these, seeds in which most timers roll, some of them several times."""
DURATION_S: Final = 60.0

TRANSACTION_CLIENTS: Final = ("tx1", "tx2")
POP_CLIENTS: Final = ("pop1", "pop2", "pop3")
TIMER_CLIENTS: Final = ("timer",)
REQUEST_CLIENTS: Final = ("asker", "answerer")

_NETWORK = (Kind.PARTITION, Kind.DELAY, Kind.RESET)
_BROKER = (Kind.BROKER_CRASH, Kind.BROKER_RESTART)
_HARD = frozenset({Kind.BROKER_CRASH, *OF_DISKS})


_KINDS = (*OF_DISKS, *_BROKER, Kind.NAMESERVER_CRASH)
"""What is left of the seed's own trouble: that of brokers and the nameserver."""


def has_services(seed: int) -> bool:
    """Whether a seed has any."""
    divisor, rest = SERVICE_SEEDS
    return seed % divisor == rest


def with_services(made: Scenario) -> Scenario:
    """The same cluster for a minute, with services and what happens to their clients.

    The push group sends little, so that a run is short.

    Nothing is taken from its log, and no broker's wall clock jumps: how long a message is hidden
    or waits is counted in a broker's wall time.
    """
    rng = random.Random(f"services {made.seed}")
    chosen = rng.sample(["transactions", "pops", "timers", "requests"], rng.choice([1, 1, 1, 2]))
    plan = ServicePlan(
        transactions="transactions" in chosen,
        pops="pops" in chosen,
        timers="timers" in chosen,
        requests="requests" in chosen,
        gap_s=rng.choice([1.5, 3.0]),
        invisible_s=rng.choice([5.0, 10.0, 20.0]),
        buffer_merge=rng.random() < 0.5,
    )
    if made.seed % LONE_POP_SEEDS[0] == LONE_POP_SEEDS[1]:
        plan = ServicePlan(
            pops=True,
            gap_s=1.5,
            invisible_s=5.0,
            buffer_merge=plan.buffer_merge,
            pop_threshold=rng.choice([2, 4, 8]),
        )
    if made.seed % ROLLING_TIMER_SEEDS[0] == ROLLING_TIMER_SEEDS[1]:
        # A window of 2 s, the least, has legs of 1 s, in which a recall may not overtake.
        window = rng.choice([5, 12, 20])
        plan = ServicePlan(timers=True, gap_s=plan.gap_s, roll_window_slots=window)
    events = [
        event for event in made.events if event.at_s < DURATION_S - 10.0 and event.kind in _KINDS
    ]
    calm = rng.random() < 0.3  # without kills: there "exactly once" is checked
    if calm:
        events = [event for event in events if event.kind not in _HARD]
    extra = [] if rng.random() < 0.2 else _events(rng, made, clients(plan), calm=calm)
    if made.seed % ROLLING_TIMER_SEEDS[0] == ROLLING_TIMER_SEEDS[1]:
        # Both a timer and its recall are late then, and the timer, which comes first, is due.
        late = (*OF_DISKS, Kind.BROKER_RESTART)
        events = [event for event in events if event.kind not in late]
        extra = [event for event in extra if event.kind not in late]
    return replace(
        made,
        profile="5.x",
        small_files=False,
        duration_s=DURATION_S,
        first_consumers=made.first_consumers[:1],
        groups=made.groups[:1],
        workload=Workload(gap_s=10.0),
        services=plan,
        events=tuple(sorted([*events, *extra], key=lambda event: event.at_s)),
    )


def clients(plan: ServicePlan) -> tuple[str, ...]:
    """Names of the services' processes."""
    return (
        *(TRANSACTION_CLIENTS if plan.transactions else ()),
        *(pop_clients(plan) if plan.pops else ()),
        *(TIMER_CLIENTS if plan.timers else ()),
        *(REQUEST_CLIENTS if plan.requests else ()),
    )


def pop_clients(plan: ServicePlan) -> tuple[str, ...]:
    """Names of the members of the group that pops; the last one has a listener."""
    return POP_CLIENTS if plan.pop_threshold is None else POP_CLIENTS[2:]


def is_fair(made: Scenario) -> bool:
    """Whether every request to a broker arrives and is answered: nothing disturbs services."""
    names = set(clients(made.services)) if made.services is not None else set()
    return not any(
        event.kind in _HARD
        or event.kind is Kind.BROKER_RESTART
        or (event.kind in (*_NETWORK, Kind.CLIENT_CRASH) and event.who in names)
        for event in made.events
    )


def _events(
    rng: random.Random, made: Scenario, names: tuple[str, ...], *, calm: bool
) -> list[Event]:
    kinds = [Kind.CLIENT_CRASH, *_NETWORK, Kind.BROKER_RESTART, *([] if calm else _BROKER)]
    drawn = [kind for kind in kinds if rng.random() < 0.4]
    events: list[Event] = []
    at = rng.uniform(2.0, 15.0)
    while drawn and at < DURATION_S - 10.0:
        kind, who, broker = rng.choice(drawn), rng.choice(names), rng.choice(made.brokers)
        lasts_s = rng.choice([0.5, rng.uniform(1.0, 20.0)])
        if kind in _BROKER:
            events.append(Event(at, kind, broker, lasts_s=lasts_s))
        elif kind is Kind.CLIENT_CRASH:
            events.append(Event(at, kind, who, lasts_s=lasts_s))
        else:
            amount = rng.uniform(0.05, 1.5) if kind is Kind.DELAY else 0.0
            events.append(Event(at, kind, who, broker, lasts_s=lasts_s, amount=amount))
        at += rng.choice([rng.uniform(0.0, 2.0), rng.uniform(2.0, 15.0)])
    return events
