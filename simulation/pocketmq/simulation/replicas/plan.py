"""What a seed of replicas draws: a cluster, and what happens to it. Pure.

As in `swarm.py`, each seed first draws which kinds of trouble it has at all, then how often.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from random import Random

REPLICAS = ("a1", "a2", "a3")
CONTROLLERS = ("n0", "n1", "n2")
NAMESERVER = "ns"
PRODUCER = "P"
CONSUMER = "c1"
TRANSACTION_CLIENTS = ("tx1", "tx2")

MASTER, B, C = "the master", "a slave", "the other slave"
"""Of a scripted history: who leads when its first trouble begins, and the others."""

TRANSACTION_SEEDS = (10, 8)
"""A seed that leaves the second when divided by the first has transactions."""

FIRST_TROUBLE_S = 12.0
DURATION_S = 75.0


class Trouble(Enum):
    """What can happen."""

    KILL = "replicas killed"
    KILL_MASTER = "masters killed"
    RESTART = "replicas restarted in order"
    VANISH = "replicas' machines lost"
    POWER_CUT = "power cuts"
    FREEZE = "replicas stopped"
    KILL_CONTROLLER = "controllers killed"
    KILL_LEADER = "leading controllers killed"
    CONTROLLER_POWER_CUT = "power cuts of controllers"
    FREEZE_CONTROLLER = "controllers stopped"
    CUT = "links cut"
    ONE_WAY = "links cut one way"
    ISOLATE = "machines cut off"
    RESET = "links reset"
    DELAY = "links delayed"
    SLOW_DISK = "slow disks"
    HUNG_DISK = "hung disks"
    CLOCK_JUMP = "clocks jumped"
    KILL_CONSUMER = "consumers killed"
    DESIGNATE = "masters designated"
    ALL_DOWN = "all replicas killed"
    PART_MASTER = "masters cut off from all but clients"
    PAUSE = "producers paused"
    WIPE = "disks wiped"


_OF_REPLICAS = frozenset(
    {
        Trouble.KILL,
        Trouble.RESTART,
        Trouble.VANISH,
        Trouble.POWER_CUT,
        Trouble.FREEZE,
        Trouble.SLOW_DISK,
        Trouble.HUNG_DISK,
        Trouble.CLOCK_JUMP,
    }
)
_OF_CONTROLLERS = frozenset(
    {
        Trouble.KILL_CONTROLLER,
        Trouble.CONTROLLER_POWER_CUT,
        Trouble.FREEZE_CONTROLLER,
    }
)
_OF_LINKS = frozenset({Trouble.CUT, Trouble.ONE_WAY, Trouble.RESET, Trouble.DELAY})
_RARE = (Trouble.PART_MASTER, Trouble.PAUSE)
"""Drawn by themselves, for some seeds."""
_SCRIPTED = frozenset({Trouble.WIPE})
"""Only in scripted histories: who loses a disk may lose what was acknowledged."""
_NEEDS_SYNC_FLUSH = frozenset({Trouble.POWER_CUT, Trouble.SLOW_DISK, Trouble.HUNG_DISK})


@dataclass(frozen=True, slots=True)
class Happening:
    """One of them, at one time."""

    at_s: float
    trouble: Trouble
    who: str = ""
    other: str = ""
    """The other end of a link."""
    lasts_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ReplicaPlan:
    """A run."""

    seed: int
    controllers: tuple[str, ...]
    all_ack: bool
    """Acknowledged means: everybody in sync has it. Otherwise the master alone is enough, as
    RocketMQ's default has it, and only what does not depend on it is checked."""
    min_in_sync: int
    sync_flush: bool
    close_grace_ms: int
    latency_s: tuple[float, float]
    drift: dict[str, float]
    """Seconds of a machine's clock in one second."""
    gap_s: float
    """Between two messages."""
    happenings: tuple[Happening, ...]
    ends_without: str = ""
    """`MASTER` or `B`: its machine is lost at the end, until the others go on without it."""
    ends_with_failing_disk: bool = False
    """Only the disk of that machine fails then: its process goes on."""
    transactions: bool = False
    """Two producers send in transactions, too."""

    def drift_of(self, name: str) -> float:
        """How fast a machine's clock runs."""
        return self.drift.get(name, 1.0)


def replica_plan(seed: int) -> ReplicaPlan:
    """The run of a seed."""
    draw = Random(f"replicas {seed}")
    controllers = CONTROLLERS if draw.random() < 0.7 else CONTROLLERS[:1]
    sync_flush = draw.random() < 0.4
    drifting = draw.random() < 0.3
    rare = Random(f"replicas rare {seed}")
    transactions = has_transactions(seed)
    return ReplicaPlan(
        seed,
        controllers,
        all_ack=draw.random() < 0.85 or transactions,
        min_in_sync=draw.choice([1, 1, 2]),
        sync_flush=sync_flush,
        close_grace_ms=draw.choice([0, 0, 2000]),
        latency_s=draw.choice([(0.0002, 0.002), (0.001, 0.02), (0.002, 0.08)]),
        drift={name: draw.uniform(0.97, 1.03) for name in (*REPLICAS, *CONTROLLERS) if drifting},
        gap_s=draw.choice([0.15, 0.3, 0.6]),
        happenings=tuple(
            sorted(
                [*_happenings(draw, controllers, sync_flush=sync_flush), *_rare_happenings(rare)],
                key=lambda each: each.at_s,
            )
        ),
        ends_without=rare.choice([MASTER, B, "", "", "", ""]),
        transactions=transactions,
    )


def has_transactions(seed: int) -> bool:
    """Whether a seed has them; the others have none, so that they run as they always did."""
    divisor, rest = TRANSACTION_SEEDS
    return seed % divisor == rest


def _rare_happenings(draw: Random) -> list[Happening]:
    if draw.random() > 0.25:
        return []
    chosen = [draw.choice(_RARE) for _ in range(draw.choice([1, 2, 3]))]
    return [
        Happening(draw.uniform(FIRST_TROUBLE_S, DURATION_S - 25.0), each,
                  lasts_s=draw.uniform(1.0, 20.0))
        for each in chosen
    ]  # fmt: skip


def _happenings(draw: Random, controllers: tuple[str, ...], *, sync_flush: bool) -> list[Happening]:
    usual = [each for each in Trouble if each not in _RARE and each not in _SCRIPTED]
    kinds = [each for each in usual if sync_flush or each not in _NEEDS_SYNC_FLUSH]
    chosen = draw.sample(kinds, draw.choice([1, 2, 2, 3, 3, 4]))
    every_s = draw.choice([3.0, 6.0, 12.0])
    longest_s = draw.choice([1.0, 5.0, 20.0])
    found: list[Happening] = []
    at_s = FIRST_TROUBLE_S
    while (at_s := at_s + draw.expovariate(1 / every_s)) < DURATION_S - 5.0:
        trouble = draw.choice(chosen)
        lasts_s = draw.uniform(0.02, longest_s)
        who, other = _whom(draw, trouble, controllers)
        found.append(Happening(at_s, trouble, who, other, lasts_s))
    return found


def _whom(draw: Random, trouble: Trouble, controllers: tuple[str, ...]) -> tuple[str, str]:
    if trouble in _OF_REPLICAS:
        return draw.choice(REPLICAS), ""
    if trouble in _OF_CONTROLLERS:
        return draw.choice(controllers), ""
    if trouble is Trouble.ISOLATE:
        return draw.choice((*REPLICAS, *REPLICAS, *controllers)), ""
    if trouble in _OF_LINKS:
        one, other = draw.sample((*REPLICAS, *controllers, PRODUCER, NAMESERVER), 2)
        return one, other
    return "", ""
