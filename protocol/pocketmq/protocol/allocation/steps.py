"""Events and instructions of a rebalance round: what a planner is told, and what it answers.

An event is something that was found out, or the result of an instruction. An instruction is
something to do. `pocketmq.client.rebalance.planner` shows the order of one round.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeAlias

from pocketmq.protocol.messages.message import MessageQueue

# -- events ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TopicSeen:
    """A look at one topic: its readable queues, and the group's members as a broker knows them.

    None for what could not be found out. Broadcasting consumers see no members.
    """

    topic: str
    queues: Collection[MessageQueue] | None
    members: Collection[str] | None = None


@dataclass(frozen=True, slots=True)
class TopicAssigned:
    """A broker said which queues of a topic are ours to pull (K-20)."""

    topic: str
    queues: Collection[MessageQueue]
    why: str
    """In words, for `story()`."""


@dataclass(frozen=True, slots=True)
class QueueReleased:
    """A dropped queue was let go: nobody here consumes it any more."""

    queue: MessageQueue


@dataclass(frozen=True, slots=True)
class QueueHeld:
    """An orderly listener still runs: the queue stays, dropped, until the next round (C-30)."""

    queue: MessageQueue


@dataclass(frozen=True, slots=True)
class QueuesLocked:
    """Answer to `LockQueues`: those of them that are ours now."""

    topic: str
    granted: Collection[MessageQueue]


@dataclass(frozen=True, slots=True)
class StartFound:
    """The group goes on at `offset`."""

    queue: MessageQueue
    offset: int


@dataclass(frozen=True, slots=True)
class StartUnknown:
    """The broker could not be asked; the queue is left out of this round (C-25.3)."""

    queue: MessageQueue


@dataclass(frozen=True, slots=True)
class SubscriptionsAre:
    """The topics that count now; queues of all others are given up (C-26)."""

    topics: Collection[str]


Event: TypeAlias = (
    TopicSeen
    | TopicAssigned
    | QueueReleased
    | QueueHeld
    | QueuesLocked
    | StartFound
    | StartUnknown
    | SubscriptionsAre
)


# -- instructions ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DropQueue:
    """Stop consuming a queue: write its offset down, unlock it if need be, report (C-25.1)."""

    queue: MessageQueue
    reason: str


@dataclass(frozen=True, slots=True)
class DropForeignQueue:
    """Stop consuming a queue of a topic we left: no offset is written, nothing unlocked (C-26)."""

    queue: MessageQueue


@dataclass(frozen=True, slots=True)
class LockQueues:
    """Ask the brokers for these queues, and report which were granted."""

    topic: str
    queues: tuple[MessageQueue, ...]


@dataclass(frozen=True, slots=True)
class FindStartOffset:
    """Forget the offset in memory, find where the group goes on (C-33), and report."""

    queue: MessageQueue


@dataclass(frozen=True, slots=True)
class StartPulling:
    """The queue is ours: pull it from `offset` on."""

    queue: MessageQueue
    offset: int


@dataclass(frozen=True, slots=True)
class RebalanceSoon:
    """A lock was refused: look again before the period is over (C-25.3)."""


@dataclass(frozen=True, slots=True)
class AssignmentChanged:
    """Tell the brokers and the user (C-27)."""

    topic: str
    all_queues: tuple[MessageQueue, ...]
    mine: tuple[MessageQueue, ...]


Instruction: TypeAlias = (
    DropQueue
    | DropForeignQueue
    | LockQueues
    | FindStartOffset
    | StartPulling
    | RebalanceSoon
    | AssignmentChanged
)
