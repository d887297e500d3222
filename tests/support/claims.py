"""Claims and process queues by themselves, without a rebalance that takes them."""

from __future__ import annotations

from pocketmq.client import MessageQueue
from pocketmq.client.pulling.process_queue import ProcessQueue
from pocketmq.client.rebalance.claims import Claim, Claims

QUEUE = MessageQueue("T", "a", 0)


def claimed(*, locked: bool = False, dropped: bool = False) -> Claim:
    """A claim to `QUEUE`, taken at 0 s."""
    claims = Claims()
    claim = claims.take(QUEUE, 0.0, locked=locked)
    if dropped:
        claims.drop(QUEUE)
    return claim


def buffer(*, locked: bool = False, dropped: bool = False) -> ProcessQueue:
    """An empty process queue of `QUEUE`."""
    return ProcessQueue(claimed(locked=locked, dropped=dropped), 0.0)
