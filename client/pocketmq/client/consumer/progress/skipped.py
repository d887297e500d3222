"""Tells the author of a test that a new group began behind messages of the test itself.

A group without offsets begins at the end of each queue. Its consumer asks for the end some
moments after `start` has returned; a message that was sent meanwhile lies before that end, and the
group never gets it. In a cluster for tests (`pocketmq.testing`) a consumer therefore looks whether
messages were stored since its start. RocketMQ's clients do not ask that, so no others do.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from pocketmq.client.api import ClientApi
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.errors import PocketMQError

log = structlog.get_logger()

_watched: set[str] = set()
"""Addresses of name servers of clusters for tests."""


def watch(nameservers: Sequence[str]) -> None:
    """Consumers of these name servers look, from now on."""
    _watched.update(nameservers)


def unwatch(nameservers: Sequence[str]) -> None:
    """The cluster has ended."""
    _watched.difference_update(nameservers)


def is_watched(nameservers: Sequence[str]) -> bool:
    """Whether a client of these name servers looks."""
    return not _watched.isdisjoint(nameservers)


async def warn_of_skipped(
    api: ClientApi, address: str, queue: MessageQueue, began_at: int, since_ms: int
) -> None:
    """Warn if a queue's messages since a moment lie before the offset at which a group begins.

    Args:
        api: To ask the broker.
        address: Of the queue's master.
        queue: Which one.
        began_at: The group's first offset.
        since_ms: When its consumer was started, in epoch ms.
    """
    if began_at == 0:
        return
    try:
        first = await api.search_offset(address, queue, since_ms)
    except PocketMQError:
        return  # nothing depends on it
    if 0 <= first < began_at:
        log.warning(
            "consumer.missed_messages",
            queue=f"{queue.topic} {queue.broker_name}/{queue.queue_id}",
            missed=began_at - first,
            advice="they were sent after the consumer's start and before it had its queues: wait "
            "for cluster.group(...).assigned() before you send, or let the consumer begin with "
            "consume_from_where=ConsumeFromWhere.FIRST_OFFSET",
        )
