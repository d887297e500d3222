"""A run's description: a cluster, its workload, and a list of events. Pure; swarm.py draws it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique

from pocketmq.simulation.workload import Workload

DURATION_S = 300.0
NAMESERVER = "nameserver"
LOG = "log"
"""Instead of a peer's name: only the commit log's disk is slow or hung."""
PRODUCER = "producer"
CONSUMERS = ("c1", "c2", "c3", "c4", "c5")


@unique
class Mode(Enum):
    """How the group consumes."""

    CONCURRENT = "concurrent"
    ORDERLY = "orderly"
    BROADCAST = "broadcast"


@unique
class Kind(Enum):
    """Kinds of events; `who` and `other` are names of processes."""

    JOIN = "join"
    LEAVE = "leave"
    CRASH = "crash"
    """The process dies, and its connections are reset."""
    VANISH = "vanish"
    """The machine dies, so peers do not notice."""
    BROKER_CRASH = "broker crash"
    """The process dies; it is started again on its store after `lasts_s`."""
    BROKER_RESTART = "broker restart"
    """The broker stops orderly, and is started again after `lasts_s`."""
    POWER_CUT = "power cut"
    """A broker's machine dies; each unsynced page survives or not, by chance."""
    SLOW_DISK = "slow disk"
    """A broker's syncs take up to `amount` seconds."""
    HUNG_DISK = "hung disk"
    """None of a broker's syncs ends within `lasts_s`."""
    FAILING_DISK = "failing disk"
    """Each of a broker's syncs fails with a probability of `amount`."""
    NAMESERVER_CRASH = "nameserver crash"
    """It is started again after `lasts_s`, with empty tables."""
    PARTITION = "partition"
    DELAY = "delay"
    """Every packet takes `amount` seconds longer."""
    RESET = "reset"
    """The connections of a pair are reset."""
    LOSE_NOTIFICATIONS = "lose notifications"
    DOUBLE_NOTIFICATIONS = "double notifications"
    SLOW_LISTENER = "slow listener"
    """Each message takes `amount` seconds."""
    FAILING_LISTENER = "failing listener"
    """Each message fails."""
    CLOCK_JUMP = "clock jump"
    """The wall clock moves by `amount` seconds."""
    OFFSET_RESET = "offset reset"
    """An operator resets the group `other` by `amount` seconds, or with 0 to the end."""
    GROWTH = "growth"
    """An operator adds `amount` queues to the topic on each broker."""
    CLIENT_CRASH = "client crash"
    """A client of a service dies, and comes back after `lasts_s`."""
    RETENTION = "retention"
    """A broker begins to delete all log files except the last."""


OF_DISKS = (Kind.POWER_CUT, Kind.SLOW_DISK, Kind.HUNG_DISK, Kind.FAILING_DISK)
"""Only what is acknowledged once the medium has it can be held to that."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a run."""

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
class Group:
    """A consumer group."""

    name: str
    tags: str = ""
    """Tags that it subscribes to, a letter each; empty for all messages."""

    @property
    def expression(self) -> str:
        """The tags as a subscription's expression."""
        return " || ".join(self.tags) or "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePlan:
    """What there is beside the push groups, and what its clients are like (services/plan.py)."""

    transactions: bool = False
    pops: bool = False
    timers: bool = False
    requests: bool = False
    gap_s: float = 2.0
    """Between two sends of a client, on average."""
    invisible_s: float = 10.0
    """For how long a popped message is hidden."""
    buffer_merge: bool = False
    """Whether brokers keep check points and acks in memory first (K-100)."""
    checks_every_s: float | None = None
    """How often brokers look for undecided transactions; None for the profile's default."""

    pop_threshold: int | None = None
    """The push consumer pops alone, and keeps so many messages of a queue at most; None for the
    default, which no seed sends enough messages to reach, beside two other members."""

    roll_window_slots: int = 172_800
    """Timers further ahead, in seconds, are put into the wheel again on the way. By default that is
    further than any run lasts."""

    def __str__(self) -> str:
        names = ("transactions", "pops", "timers", "requests")
        return " ".join(name for name in names if getattr(self, name))


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster and its events."""

    seed: int
    profile: str
    mode: Mode
    queues: int
    """Queues of the topic on each broker."""
    brokers: tuple[str, ...]
    first_consumers: tuple[str, ...]
    groups: tuple[Group, ...]
    workload: Workload
    latency_s: tuple[float, float]
    """Shortest and longest latency without faults."""
    sync_flush: bool
    """Whether brokers use SYNC_FLUSH, with which power cuts may happen."""
    small_files: bool
    """Whether log files are so small that a run fills several, which retention can delete."""
    events: tuple[Event, ...]
    duration_s: float = DURATION_S
    services: ServicePlan | None = None

    def group_of(self, consumer: str) -> Group:
        """The group that a consumer belongs to."""
        return self.groups[(int(consumer[1:]) - 1) % len(self.groups)]

    @property
    def last_consumers(self) -> tuple[str, ...]:
        """The consumers of the final phase, which consume what is left."""
        return CONSUMERS[: max(2, len(self.groups))]

    def __str__(self) -> str:
        groups = ", ".join(f"{group.name} ({group.expression})" for group in self.groups)
        head = (
            f"seed {self.seed}: profile {self.profile}, {self.mode.value}, "
            f"{len(self.brokers)} brokers x {self.queues} queues, "
            f"{'sync' if self.sync_flush else 'async'} flush, "
            f"groups {groups}, consumers {' '.join(self.first_consumers)}, {self.workload}"
            + (f", {self.services}" if self.services is not None else "")
        )
        return "\n".join([head, *map(str, self.events)])
