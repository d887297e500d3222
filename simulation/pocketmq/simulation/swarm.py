"""Draws a scenario from a seed: the kinds of faults, their frequency, and the workload.

A run with all kinds of faults at once rarely finds errors that need many faults of one kind. So
each seed first draws which kinds occur, how often and how long ("swarm testing"). Pure, so that a
seed alone decides the scenario.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pocketmq.simulation.delay_bursts import has_delay_bursts, with_delay_bursts
from pocketmq.simulation.scenario import (
    CONSUMERS,
    DURATION_S,
    LOG,
    NAMESERVER,
    OF_DISKS,
    PRODUCER,
    Event,
    Group,
    Kind,
    Mode,
    Scenario,
)
from pocketmq.simulation.services.disks import has_service_disks, with_service_disks
from pocketmq.simulation.services.plan import has_services, with_services
from pocketmq.simulation.workload import TAGS, Workload

QUIET_S = 45.0
"""Seconds of pauses without events, in which the cluster can settle."""
GROUPS = ("G", "H", "I")
_LIVELY = {
    Kind.JOIN: 6,
    Kind.LEAVE: 3,
    Kind.CRASH: 3,
    Kind.VANISH: 1,
    Kind.BROKER_CRASH: 2,
    Kind.BROKER_RESTART: 1,
    Kind.POWER_CUT: 2,
    Kind.SLOW_DISK: 1,
    Kind.HUNG_DISK: 1,
    Kind.FAILING_DISK: 1,
    Kind.NAMESERVER_CRASH: 1,
    Kind.PARTITION: 2,
    Kind.DELAY: 2,
    Kind.RESET: 3,
    Kind.LOSE_NOTIFICATIONS: 2,
    Kind.DOUBLE_NOTIFICATIONS: 1,
    Kind.SLOW_LISTENER: 2,
    Kind.FAILING_LISTENER: 1,
    Kind.CLOCK_JUMP: 1,
    Kind.OFFSET_RESET: 1,
    Kind.RETENTION: 2,
    Kind.GROWTH: 1,
}


@dataclass(frozen=True, slots=True)
class _Swarm:
    """Kinds, frequency and duration of a seed's faults."""

    weights: dict[Kind, float]
    pace: float
    """Factor of the time between two events."""
    heaviness: float
    """Factor of the duration of events."""


def scenario(seed: int, *, duration_s: float = DURATION_S) -> Scenario:
    """The scenario of a seed."""
    rng = random.Random(seed)
    first = CONSUMERS[: rng.randint(1, 3)]
    mode = rng.choices(list(Mode), [7, 2.5, 1])[0]
    workload = _workload(rng, mode)
    made = Scenario(
        seed=seed,
        profile=rng.choice(["4.9", "5.x"]),
        mode=mode,
        queues=rng.choice([1, 2, 3, 4]),
        brokers=rng.choice([("a",), ("a", "b"), ("a", "b"), ("a", "b")]),
        first_consumers=first,
        groups=_groups(rng, tagged=workload.tagged),
        workload=workload,
        latency_s=rng.choice([(0.0002, 0.0003), (0.0002, 0.003), (0.0002, 0.003)]),
        sync_flush=rng.random() < 0.4,
        small_files=rng.random() < 0.25,
        events=(),
        duration_s=duration_s,
    )
    made = replace(made, events=tuple(_events(rng, made)))
    if has_services(seed):
        return with_services(made)
    if has_delay_bursts(seed):
        return with_delay_bursts(made)
    return with_service_disks(made) if has_service_disks(seed) else made


def _workload(rng: random.Random, mode: Mode) -> Workload:
    bursts = rng.random() < 0.3
    return Workload(
        gap_s=rng.choice([2.0, 4.0, 8.0] if bursts else [0.5, 1.0, 2.0, 4.0]),
        flaky_share=rng.choice([0.0, 0.05, 0.2]),
        poison_share=0.0 if mode is Mode.ORDERLY else rng.choice([0.0, 0.0, 0.02]),
        long_share=rng.choice([0.0, 0.0, 0.02]),
        # No order is guaranteed to a listener that takes longer than its queue's lock, 60 s (B-50).
        long_s=rng.choice([2.0, 25.0] if mode is Mode.ORDERLY else [2.0, 25.0, 70.0]),
        burst_share=rng.choice([0.02, 0.1]) if bursts else 0.0,
        burst_size=rng.choice([2, 8, 32, 33, 64]),
        batch_share=rng.choice([0.0, 0.0, 0.3]),
        delayed_share=rng.choice([0.0, 0.0, 0.1, 0.9]),
        levels=rng.choice([(1,), (1, 2), tuple(range(1, 19))]),
        tagged=rng.random() < 0.3,
    )


def _groups(rng: random.Random, *, tagged: bool) -> tuple[Group, ...]:
    count = rng.choices([1, 2, 3], [6, 2, 1])[0]
    tags = ["", "a", "ab", TAGS] if tagged else [""]
    return tuple(Group(name, rng.choice(tags)) for name in GROUPS[:count])


def _swarm(rng: random.Random, made: Scenario) -> _Swarm:
    weights = dict(_LIVELY)
    if not made.sync_flush:
        for kind in OF_DISKS:
            del weights[kind]
    if not made.small_files:
        del weights[Kind.RETENTION]
    if made.mode is Mode.BROADCAST:
        del weights[Kind.OFFSET_RESET]  # brokers do not have the offsets of broadcasting members
    density = rng.choice([0.15, 0.4, 0.9])
    chosen = {
        kind: weight * rng.choice([0.3, 1.0, 3.0])
        for kind, weight in weights.items()
        if rng.random() < density
    }
    if made.mode is Mode.ORDERLY and Kind.SLOW_LISTENER in chosen:
        chosen[Kind.SLOW_LISTENER] *= 3  # so that queues change owners while a listener runs
    return _Swarm(chosen, rng.choice([0.5, 1.0, 2.0]), rng.choice([0.3, 1.0, 1.0, 2.0]))


def _events(rng: random.Random, made: Scenario) -> list[Event]:
    events: list[Event] = []
    present = set(made.first_consumers)
    swarm = _swarm(rng, made)
    kinds, weights = list(swarm.weights), list(swarm.weights.values())
    at = rng.uniform(5.0, 25.0)
    while kinds and at < made.duration_s - 10.0:
        kind = rng.choices(kinds, weights)[0]
        event = _event(rng, kind, at, made, present)
        if event is not None:
            events.append(replace(event, lasts_s=event.lasts_s * swarm.heaviness))
        # Some events are close together, to find races; some far apart, so that timers fire.
        at += swarm.pace * rng.choice(
            [rng.uniform(0.0, 1.0), rng.uniform(1.0, 15.0), rng.uniform(15.0, QUIET_S)]
        )
    return events


def _event(
    rng: random.Random, kind: Kind, at: float, made: Scenario, present: set[str]
) -> Event | None:
    absent = [name for name in CONSUMERS if name not in present]
    here = sorted(present)
    brokers: Sequence[str] = made.brokers
    broker = rng.choice(brokers)
    match kind:
        case Kind.JOIN:
            if not absent:
                return None
            name = rng.choice(absent)
            present.add(name)
            return Event(at, kind, name)
        case Kind.LEAVE | Kind.CRASH | Kind.VANISH:
            if len(here) < 2:
                return None
            name = rng.choice(here)
            present.discard(name)
            return Event(at, kind, name)
        case Kind.BROKER_CRASH | Kind.BROKER_RESTART | Kind.POWER_CUT:
            return Event(at, kind, broker, lasts_s=rng.choice([0.1, 2.0, rng.uniform(1.0, 40.0)]))
        case Kind.SLOW_DISK:
            amount = rng.choice([0.05, 0.5, 2.0])
            part = rng.choice(["", LOG])
            return Event(at, kind, broker, part, lasts_s=rng.uniform(5.0, 60.0), amount=amount)
        case Kind.HUNG_DISK:
            part, lasts_s = rng.choice(["", LOG]), rng.choice([1.0, 8.0, rng.uniform(1.0, 30.0)])
            return Event(at, kind, broker, part, lasts_s=lasts_s)
        case Kind.FAILING_DISK:
            lasts_s = rng.choice([0.5, rng.uniform(1.0, 20.0)])
            return Event(at, kind, broker, lasts_s=lasts_s, amount=rng.choice([0.1, 1.0]))
        case Kind.NAMESERVER_CRASH:
            return Event(at, kind, NAMESERVER, lasts_s=rng.choice([0.1, rng.uniform(1.0, 60.0)]))
        case Kind.RETENTION:
            return Event(at, kind, broker)
        case Kind.OFFSET_RESET:
            amount = rng.choice([0.0, 5.0, 60.0, 600.0])
            return Event(at, kind, "", rng.choice(made.groups).name, amount=amount)
        case Kind.GROWTH:
            return Event(at, kind, "", amount=rng.choice([1.0, 3.0]))
        case Kind.CLOCK_JUMP:
            amount = rng.choice([-3600.0, -5.0, 2.0, 60.0])
            return Event(at, kind, rng.choice([*here, *brokers]), amount=amount)
        case Kind.PARTITION | Kind.DELAY | Kind.RESET:
            return _between(rng, kind, at, rng.choice([*here, PRODUCER]), broker)
        case _:
            return _at_consumer(rng, kind, at, rng.choice(here))


def _between(rng: random.Random, kind: Kind, at: float, client: str, broker: str) -> Event:
    if kind is Kind.PARTITION:
        return Event(at, kind, client, broker, lasts_s=rng.uniform(1.0, 40.0))
    if kind is Kind.DELAY:
        return Event(
            at, kind, client, broker, lasts_s=rng.uniform(1.0, 20.0), amount=rng.uniform(0.05, 1.5)
        )
    return Event(at, kind, client, broker)


def _at_consumer(rng: random.Random, kind: Kind, at: float, name: str) -> Event:
    if kind is Kind.SLOW_LISTENER:
        return Event(
            at, kind, name, lasts_s=rng.uniform(5.0, 60.0), amount=rng.choice([0.2, 1.0, 5.0])
        )
    if kind is Kind.FAILING_LISTENER:
        return Event(at, kind, name, lasts_s=rng.uniform(1.0, 10.0))
    return Event(at, kind, name, lasts_s=rng.uniform(1.0, 30.0))
