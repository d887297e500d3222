"""The shares of all members of a group at once, without a running group.

A member computes its own share only. `preview` computes all of them: to look at a strategy, and to
count how many queues change hands when the group changes (`moved`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pocketmq.protocol.allocation.strategy import (
    AllocateMessageQueueStrategy,
    explain,
    sorted_client_ids,
    sorted_queues,
)
from pocketmq.protocol.messages.message import MessageQueue

StrategyOf = Callable[[str], AllocateMessageQueueStrategy]
"""The strategy of a client id: all the same, but with CONFIG each has a list of its own."""


@dataclass(frozen=True, slots=True)
class Share:
    """One member's queues."""

    client_id: str
    queues: tuple[MessageQueue, ...]
    explanation: str
    """The strategy's arithmetic in one line."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """Every member's share of one topic."""

    queues: tuple[MessageQueue, ...]
    """All of the topic, in the order of A-1."""
    shares: tuple[Share, ...]
    """In the order of A-1."""

    def owners(self) -> dict[MessageQueue, tuple[str, ...]]:
        """Who has each queue: one member, or none, or with CONFIG several."""
        found: dict[MessageQueue, list[str]] = {queue: [] for queue in self.queues}
        for share in self.shares:
            for queue in share.queues:
                found.setdefault(queue, []).append(share.client_id)
        return {queue: tuple(members) for queue, members in found.items()}


def preview(
    strategy_of: StrategyOf, queues: Iterable[MessageQueue], client_ids: Iterable[str]
) -> Allocation:
    """Ask the strategy for every member, as each would ask it for itself.

    Args:
        strategy_of: See `StrategyOf`.
        queues: All of one topic, in any order.
        client_ids: All of the group, in any order.

    Raises:
        AllocationError: the strategy cannot say.
    """
    mq_all, cid_all = sorted_queues(queues), sorted_client_ids(client_ids)
    shares = []
    for client_id in cid_all:
        strategy = strategy_of(client_id)
        mine = strategy.allocate("", client_id, mq_all, cid_all) or ()
        words = explain(strategy, client_id, mq_all, cid_all)
        shares.append(Share(client_id, tuple(mine), words))
    return Allocation(tuple(mq_all), tuple(shares))


def moved(before: Allocation, after: Allocation) -> int:
    """How many queues have another owner afterwards, or one where they had none."""
    was, becomes = before.owners(), after.owners()
    return sum(was.get(queue) != becomes.get(queue) for queue in was.keys() | becomes.keys())
