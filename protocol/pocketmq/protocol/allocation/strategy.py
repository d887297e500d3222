"""The interface of a strategy, and the checks and the order that all share (A-1, A-2, A-70).

A strategy sees one topic at a time (A-4): every queue of the topic and every client id of the
group, both sorted. It answers which of the queues belong to one client. Nobody coordinates: each
member runs the same function on the same lists and keeps its own share, so a strategy must be
deterministic and the same on all members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, runtime_checkable

import structlog

from pocketmq.protocol.java import utf16_key
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.errors import CallerError

log = structlog.get_logger()


class AllocationError(CallerError):
    """A strategy cannot answer; the rebalance keeps the assignment it had (C-24, A-2)."""

    def __init__(self, strategy: str, reason: str) -> None:
        self.strategy = strategy
        self.reason = reason
        super().__init__(f"{strategy}: {reason}; the queues stay where they are")


# behaviour 39
@runtime_checkable
class AllocateMessageQueueStrategy(Protocol):
    """Which queues of a topic belong to one member (A-70)."""

    @property
    def name(self) -> str:
        """RocketMQ's name for it: `AVG`, `AVG_BY_CIRCLE`, ..."""
        ...

    def allocate(
        self,
        consumer_group: str,
        current_cid: str,
        mq_all: Sequence[MessageQueue],
        cid_all: Sequence[str],
    ) -> Sequence[MessageQueue] | None:
        """The queues of `current_cid`; None and an empty list both mean none.

        Args:
            consumer_group: For log lines; no built-in strategy depends on it.
            current_cid: The member that asks.
            mq_all: Every queue of one topic, in the order of A-1.
            cid_all: Every client id of the group, in the order of A-1; may hold duplicates (B-28).

        Raises:
            AllocationError: it cannot say; the caller keeps what it has.
        """
        ...


Explanation = Callable[[str, Sequence[MessageQueue], Sequence[str]], str]
"""`explain` of a strategy that can also say how it came to its answer: own client id, queues and
client ids -> one line of arithmetic, for `RebalancePlanner.story`."""


def is_member(
    strategy: str,
    consumer_group: str,
    current_cid: str,
    mq_all: Sequence[MessageQueue],
    cid_all: Sequence[str],
) -> bool:
    """The check that every strategy but CONFIG begins with (A-2).

    False when the asking client is not in the list: it then gives up all queues of the topic.

    Raises:
        AllocationError: an argument is empty.
    """
    if not current_cid:
        raise AllocationError(strategy, "the own client id is empty")
    if not mq_all:
        raise AllocationError(strategy, "the topic has no queues")
    if not cid_all:
        raise AllocationError(strategy, "the group has no members")
    if current_cid not in cid_all:
        log.info(
            "allocation.not_a_member",
            strategy=strategy,
            group=consumer_group,
            client_id=current_cid,
            members=len(cid_all),
        )
        return False
    return True


def explain(
    strategy: AllocateMessageQueueStrategy,
    current_cid: str,
    mq_all: Sequence[MessageQueue],
    cid_all: Sequence[str],
) -> str:
    """The arithmetic behind a strategy's answer in one line; only its name if it cannot explain."""
    own: Explanation | None = getattr(strategy, "explain", None)  # each rebalance comes here
    return strategy.name if own is None else f"{strategy.name}: {own(current_cid, mq_all, cid_all)}"


# behaviour 9
def sorted_queues(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """Queues by topic, broker name and queue id, as every member of a group sorts them (A-1).

    Strings compare by UTF-16 unit as in Java. O(n) when they come sorted, as routes do.
    """
    listed = list(queues)
    if all(queue.broker_name.isascii() and queue.topic.isascii() for queue in listed):
        listed.sort(key=lambda queue: (queue.topic, queue.broker_name, queue.queue_id))
    else:
        listed.sort(key=lambda q: (utf16_key(q.topic), utf16_key(q.broker_name), q.queue_id))
    return listed


def sorted_client_ids(client_ids: Iterable[str]) -> list[str]:
    """Client ids in plain text order, *not* by address: `10.0.0.10@1` < `10.0.0.2@1` (A-1, T-8)."""
    listed = list(client_ids)
    if all(client_id.isascii() for client_id in listed):
        listed.sort()
    else:
        listed.sort(key=utf16_key)
    return listed
