"""What strategies do to a whole fleet of groups while consumers come and go.

    rebalance(Fleet(groups=1_000, queues=1_000, consumers=20), ["averagely", "consistent-hash"])

Every consumer's share is asked of the strategy that the client runs, as each member asks it for
itself (`pocketmq.protocol.allocation`). Each step changes some consumers of each group: in every
other step some leave, in the others as many new ones join.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from typing import Final

from pocketmq.protocol.allocation.by_name import strategy_named
from pocketmq.protocol.allocation.consistent_hash import (
    AllocateMessageQueueConsistentHash,
    md5_hash,
)
from pocketmq.protocol.allocation.strategy import (
    AllocateMessageQueueStrategy,
    sorted_client_ids,
    sorted_queues,
)
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.errors import CallerError

SEED: Final = 7
_GROUPS_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class Fleet:
    """The groups, each with a topic of its own.

    Args:
        groups: How many groups.
        queues: Of each group's topic.
        consumers: Of each group at the start.
        brokers: Over which the queues of a topic are spread.
        steps: How often consumers leave or join.
        churn: Share of a group's consumers that leave or join in a step; at least one.
        seed: Decides who leaves.
    """

    groups: int
    queues: int
    consumers: int
    brokers: int = 10
    steps: int = 4
    churn: float = 0.1
    seed: int = SEED

    def check(self) -> None:
        """Raise `CallerError` for numbers that make no fleet."""
        least = {
            "groups": self.groups,
            "queues": self.queues,
            "consumers": self.consumers,
            "brokers": self.brokers,
        }
        for name, number in least.items():
            if number < 1:
                raise CallerError(f"{number} {name} are too few; a fleet needs 1 or more")
        if not 0 <= self.churn <= 1:
            raise CallerError(f"churn is {self.churn}, but must be between 0 and 1")


@dataclass(slots=True)
class FleetStep:
    """One strategy after one step, over all groups."""

    strategy: str
    step: int
    what: str
    groups: int = 0
    queues: int = 0
    consumers: int = 0
    moved: int = 0
    """Queues that have another consumer than before the step."""
    must_move: int = 0
    """Queues whose consumer has left: no strategy can keep those where they are."""
    least: int = 0
    """Queues of the consumer with the fewest in any group."""
    most: int = 0
    idle: int = 0
    """Consumers without a queue."""
    unowned: int = 0
    """Queues that nobody consumes: must be 0."""
    doubled: int = 0
    """Queues that several consume: must be 0."""

    def take(self, other: FleetStep) -> None:
        """Add another group's."""
        # The first group sets the minimum; the initial 0 would always be the least.
        self.least = min(self.least, other.least) if self.groups else other.least
        self.most = max(self.most, other.most)
        for name in ("groups", "queues", "consumers", "moved", "must_move"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("idle", "unowned", "doubled"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


def rebalance(
    fleet: Fleet,
    strategies: Sequence[str],
    *,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[FleetStep]:
    """All steps of all strategies.

    Args:
        fleet: The groups.
        strategies: Names as on the command line, or `module:Class`.
        workers: Processes that share the groups.
        progress: Told how many groups are done, of how many.

    Raises:
        CallerError: The fleet is none, or there is no such strategy.
    """
    fleet.check()
    # Before processes start, so that a wrong name is reported once.
    for name in strategies:
        strategy_named(name)
    sums: dict[tuple[str, int], FleetStep] = {}
    done = 0
    spans = [
        (fleet, tuple(strategies), first, min(fleet.groups, first + _GROUPS_AT_ONCE))
        for first in range(0, fleet.groups, _GROUPS_AT_ONCE)
    ]
    for found in _shared(spans, workers):
        for each in found:
            known = sums.setdefault(
                (each.strategy, each.step), FleetStep(each.strategy, each.step, each.what)
            )
            known.take(each)
        done += _GROUPS_AT_ONCE
        if progress is not None:
            progress(min(done, fleet.groups), fleet.groups)
    return [
        sums[name] for name in sorted(sums, key=lambda name: (strategies.index(name[0]), name[1]))
    ]


_Span = tuple[Fleet, tuple[str, ...], int, int]


def _shared(spans: Sequence[_Span], workers: int) -> Iterator[list[FleetStep]]:
    if workers <= 1:
        yield from map(_of_groups, spans)
        return
    # Spawned and not forked: a fork would copy locks that other threads of this process hold.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_of_groups, spans)


def _of_groups(span: _Span) -> list[FleetStep]:
    fleet, strategies, first, end = span
    return [
        step
        for number in range(first, end)
        for name in strategies
        for step in _of_group(fleet, number, name)
    ]


def _strategy(name: str) -> AllocateMessageQueueStrategy:
    """The client's; members of a consistent hash ring share the hashes, which are the same."""
    made = strategy_named(name)
    # Subclasses may use another hash.
    if type(made) is AllocateMessageQueueConsistentHash:
        return AllocateMessageQueueConsistentHash(hash_function=cache(md5_hash))
    return made


def memberships(fleet: Fleet, number: int) -> Iterator[tuple[str, list[str]]]:
    """What happens in each step of a group, and its consumers afterwards."""
    # Seeded with the group's number, so that every process gets the same result.
    chance = random.Random(f"{fleet.seed}-{number}")
    ids = [f"10.{number % 250}.0.{at}@{at}" for at in range(fleet.consumers)]
    yield "start", sorted_client_ids(ids)
    count = max(1, round(fleet.churn * fleet.consumers))
    newest = fleet.consumers
    for step in range(fleet.steps):
        if step % 2 == 0 and len(ids) > count:
            for _ in range(count):
                # Any member may leave, first or last in order: strategies react differently to
                # that.
                ids.pop(chance.randrange(len(ids)))
            yield f"{count} of each group leave", sorted_client_ids(ids)
        else:
            ids += [f"10.{number % 250}.1.{at}@{at}" for at in range(newest, newest + count)]
            newest += count
            yield f"{count} join each group", sorted_client_ids(ids)


def _of_group(fleet: Fleet, number: int, name: str) -> Iterator[FleetStep]:
    topic, strategy = f"topic-{number}", _strategy(name)
    queues = sorted_queues(
        MessageQueue(topic, f"broker-{at % fleet.brokers}", at // fleet.brokers)
        for at in range(fleet.queues)
    )
    before: dict[MessageQueue, str] = {}
    for step, (what, members) in enumerate(memberships(fleet, number)):
        owners: dict[MessageQueue, str] = {}
        sizes = []
        given = 0
        for member in members:
            # Each member allocates for itself, as real clients do.
            mine = strategy.allocate(f"group-{number}", member, queues, members) or ()
            owners.update(dict.fromkeys(mine, member))
            sizes.append(len(mine))
            given += len(mine)
        present = set(members)
        yield FleetStep(
            name,
            step,
            what,
            groups=1,
            queues=len(queues),
            consumers=len(members),
            moved=sum(owners.get(queue) != owner for queue, owner in before.items()),
            must_move=sum(owner not in present for owner in before.values()),
            least=min(sizes),
            most=max(sizes),
            idle=sizes.count(0),
            unowned=len(queues) - len(owners),
            # Allocations beyond one for each owned queue.
            doubled=given - len(owners),
        )
        before = owners
