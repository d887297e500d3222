"""What a run is: a cluster, its workload, and a list of events. Pure; swarm.py draws it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique

from pocketmq.cluster.simulation.workload import Workload

DURATION_S = 300.0
NAMESERVER = "nameserver"
LOG = "log"
"""In the place of a peer: only the commit log's disk is slow or hung."""
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
    SLOW_DISK = "slow disk"
    """A broker's syncs take up to `amount` seconds."""
    HUNG_DISK = "hung disk"
    """None of a broker's syncs ends within `lasts_s`."""
    FAILING_DISK = "failing disk"
    """Each of a broker's syncs fails with a probability of `amount`."""
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
    """An operator moves the group `other` by `amount` seconds back, or with 0 to the end."""
    GROWTH = "growth"
    """An operator gives the topic `amount` queues more on each broker."""
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
class Group:
    """A consumer group."""

    name: str
    tags: str = ""
    """Each letter is a tag that it subscribes to; empty for all messages."""

    @property
    def expression(self) -> str:
        """As a subscription."""
        return " || ".join(self.tags) or "*"


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
    groups: tuple[Group, ...]
    workload: Workload
    latency_s: tuple[float, float]
    """Shortest and longest way of an undisturbed packet."""
    sync_flush: bool
    """Brokers acknowledge what the medium has: their power may be cut."""
    small_files: bool
    """Log files that fill up in a run: retention has something to delete."""
    events: tuple[Event, ...]
    duration_s: float = DURATION_S

    def group_of(self, consumer: str) -> Group:
        """The group that a consumer belongs to."""
        return self.groups[(int(consumer[1:]) - 1) % len(self.groups)]

    @property
    def last_consumers(self) -> tuple[str, ...]:
        """They are there at the end, so that nothing is left over."""
        return CONSUMERS[: max(2, len(self.groups))]

    def __str__(self) -> str:
        groups = ", ".join(f"{group.name} ({group.expression})" for group in self.groups)
        head = (
            f"seed {self.seed}: profile {self.profile}, {self.mode.value}, "
            f"{len(self.brokers)} brokers x {self.queues} queues, "
            f"{'sync' if self.sync_flush else 'async'} flush, "
            f"groups {groups}, consumers {' '.join(self.first_consumers)}, {self.workload}"
        )
        return "\n".join([head, *map(str, self.events)])
