"""What happens in a run: from a seed to a list of events. Pure, so that a seed says it all."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, unique

DURATION_S = 300.0
QUIET_S = 45.0
"""At some places nothing happens for so long, so that the cluster can settle."""


@unique
class Mode(Enum):
    """How the group consumes."""

    CONCURRENT = "concurrent"
    ORDERLY = "orderly"
    BROADCAST = "broadcast"


@unique
class Kind(Enum):
    """What can happen; `who` and `other` are names of processes."""

    JOIN = "join"
    LEAVE = "leave"
    CRASH = "crash"
    """The process dies, its machine resets the connections."""
    VANISH = "vanish"
    """The machine dies: nobody is told."""
    BROKER_CRASH = "broker crash"
    """It comes back with its store after `lasts_s`."""
    BROKER_RESTART = "broker restart"
    """In order; away for `lasts_s`."""
    POWER_CUT = "power cut"
    """A broker's machine dies; what was not synced survives page by page, by chance."""
    NAMESERVER_CRASH = "nameserver crash"
    """It comes back after `lasts_s`, and knows nothing."""
    PARTITION = "partition"
    DELAY = "delay"
    """Every packet takes `amount` seconds more."""
    RESET = "reset"
    """The connections of a pair are cut."""
    LOSE_NOTIFICATIONS = "lose notifications"
    DOUBLE_NOTIFICATIONS = "double notifications"
    SLOW_LISTENER = "slow listener"
    """Each message takes `amount` seconds."""
    FAILING_LISTENER = "failing listener"
    """Each message fails."""
    CLOCK_JUMP = "clock jump"
    """The wall clock moves by `amount` seconds."""
    OFFSET_RESET = "offset reset"
    """An operator moves the group `amount` seconds back, or with 0 to the end."""
    RETENTION = "retention"
    """A broker begins to delete every log file but the last."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happens."""

    at_s: float
    kind: Kind
    who: str
    other: str = ""
    lasts_s: float = 0.0
    amount: float = 0.0

    def __str__(self) -> str:
        text = f"{self.at_s:8.3f} {self.kind.value} {self.who}"
        if self.other:
            text += f" - {self.other}"
        if self.lasts_s:
            text += f" for {self.lasts_s:.1f} s"
        return text + (f" ({self.amount:+.3f} s)" if self.amount else "")


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster and what happens to it."""

    seed: int
    profile: str
    mode: Mode
    queues: int
    """On each broker."""
    brokers: tuple[str, ...]
    first_consumers: tuple[str, ...]
    send_gap_s: float
    flaky_share: float
    """Messages whose first delivery fails."""
    poison_share: float
    """Messages whose every delivery fails; in orderly runs none, as one would stop its queue."""
    sync_flush: bool
    """Brokers acknowledge what the medium has: their power may be cut."""
    small_files: bool
    """Log files that fill up in a run: retention has something to delete."""
    events: tuple[Event, ...]
    duration_s: float = DURATION_S

    def __str__(self) -> str:
        head = (
            f"seed {self.seed}: profile {self.profile}, {self.mode.value}, "
            f"{len(self.brokers)} brokers x {self.queues} queues, "
            f"{'sync' if self.sync_flush else 'async'} flush, "
            f"consumers {' '.join(self.first_consumers)}"
        )
        return "\n".join([head, *map(str, self.events)])


NAMESERVER = "nameserver"
PRODUCER = "producer"
CONSUMERS = ("c1", "c2", "c3", "c4", "c5")
_LIVELY = {
    Kind.JOIN: 6,
    Kind.LEAVE: 3,
    Kind.CRASH: 3,
    Kind.VANISH: 1,
    Kind.BROKER_CRASH: 2,
    Kind.BROKER_RESTART: 1,
    Kind.POWER_CUT: 2,
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
}


def scenario(seed: int, *, duration_s: float = DURATION_S) -> Scenario:
    """The run that a seed stands for."""
    rng = random.Random(seed)
    first = CONSUMERS[: rng.randint(1, 3)]
    mode = rng.choices(list(Mode), [7, 2.5, 1])[0]
    made = Scenario(
        seed=seed,
        profile=rng.choice(["4.9", "5.x"]),
        mode=mode,
        queues=rng.choice([2, 3, 4]),
        brokers=("a", "b"),
        first_consumers=first,
        send_gap_s=rng.choice([0.5, 1.0, 2.0]),
        flaky_share=rng.choice([0.0, 0.05, 0.2]),
        poison_share=0.0 if mode is Mode.ORDERLY else rng.choice([0.0, 0.0, 0.02]),
        sync_flush=rng.random() < 0.25,
        small_files=rng.random() < 0.25,
        events=(),
        duration_s=duration_s,
    )
    return replace(made, events=tuple(_events(rng, made)))


def _events(rng: random.Random, made: Scenario) -> list[Event]:
    events: list[Event] = []
    present = set(made.first_consumers)
    weights = dict(_LIVELY)
    if not made.sync_flush:
        del weights[Kind.POWER_CUT]
    if not made.small_files:
        del weights[Kind.RETENTION]
    if made.mode is Mode.BROADCAST:
        del weights[Kind.OFFSET_RESET]  # its offsets are not the brokers'
    if made.mode is Mode.ORDERLY:
        weights[Kind.SLOW_LISTENER] *= 3  # a queue changes hands while its listener is at work
    at = rng.uniform(5.0, 25.0)
    while at < made.duration_s - 10.0:
        kind = rng.choices(list(weights), list(weights.values()))[0]
        event = _event(rng, kind, at, made.brokers, present)
        if event is not None:
            events.append(event)
        # Some events come close together, where races are; some far apart, where timers are.
        at += rng.choice(
            [rng.uniform(0.0, 1.0), rng.uniform(1.0, 15.0), rng.uniform(15.0, QUIET_S)]
        )
    return events


def _event(
    rng: random.Random, kind: Kind, at: float, brokers: Sequence[str], present: set[str]
) -> Event | None:
    absent = [name for name in CONSUMERS if name not in present]
    here = sorted(present)
    broker = rng.choice(list(brokers))
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
        case Kind.NAMESERVER_CRASH:
            return Event(at, kind, NAMESERVER, lasts_s=rng.choice([0.1, rng.uniform(1.0, 60.0)]))
        case Kind.RETENTION:
            return Event(at, kind, broker)
        case Kind.OFFSET_RESET:
            return Event(at, kind, "", amount=rng.choice([0.0, 5.0, 60.0, 600.0]))
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
