"""Draws what happens to brokers and their disks, for seeds that are about disks. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence

from pocketmq.simulation.scenario import LOG, Event, Kind


def disk_events(
    rng: random.Random, kinds: Sequence[Kind], brokers: Sequence[str], until_s: float
) -> list[Event]:
    """Events of some of the kinds.

    Args:
        rng: Draws them.
        kinds: Of disks and brokers; each occurs in two seeds of five.
        brokers: To whom they happen.
        until_s: When the last one may begin.
    """
    drawn = [kind for kind in kinds if rng.random() < 0.4]
    events: list[Event] = []
    at = rng.uniform(5.0, 20.0)
    while drawn and at < until_s:
        events.append(_event(rng, rng.choice(drawn), at, rng.choice(brokers)))
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
