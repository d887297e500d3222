"""Queues that were read and that their topics do not have any more: where they are now.

A topic has got fewer queues, or was deleted on a broker, or the broker is away. Streams
(`stream_plan`), exports and replays ask here.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from pocketmq.pipeline.options.offsets import Offsets
from pocketmq.pipeline.progress.checkpoint import Checkpoint
from pocketmq.pipeline.progress.losses import Loss
from pocketmq.pipeline.progress.resume import left
from pocketmq.pipeline.topics.cluster_client import ClusterClient
from pocketmq.pipeline.workers.worker_log import log
from pocketmq.protocol.messages.message import MessageQueue


class Missing(NamedTuple):
    """Where queues are; each is in one of these."""

    away: list[MessageQueue]
    """Their brokers are registered with no name server."""
    deleted: list[MessageQueue]
    """Their brokers run without the topic."""
    ends: Offsets
    """Their brokers have the topic and do not give them out: one behind their last offset, 0 where
    nothing is stored."""


async def look_for(client: ClusterClient, queues: Collection[MessageQueue]) -> Missing:
    """Find out where these queues are, none of which can be read.

    Raises:
        NameServersAwayError: No name server answers.
    """
    # No name server is asked when no queue is missing.
    if not queues:
        return Missing([], [], {})
    running = await client.brokers()
    with_topic = set()
    for topic in sorted({queue.topic for queue in queues}):
        # The present route: a cached one may be from before the queue went missing.
        route = await client.route_now(topic)
        for data in route.broker_datas if route is not None else ():
            with_topic.add((topic, data.broker_name))
    away, deleted, held = [], [], []
    for queue in sorted(queues):
        # Checked first: nobody knows what a broker that is away still has.
        if queue.broker_name not in running:
            away.append(queue)
        elif (queue.topic, queue.broker_name) not in with_topic:
            deleted.append(queue)
        else:
            held.append(queue)
    return Missing(away, deleted, await client.ends(held))


async def missing_losses(
    client: ClusterClient, stand: Checkpoint, queues: Collection[MessageQueue]
) -> list[Loss]:
    """What an export or a replay loses of queues that cannot be read any more.

    Queues whose brokers are away stay where they are, which is logged.

    Args:
        client: Asks.
        stand: What was read before.
        queues: Those of it that the topics do not have now.
    """
    missing = await look_for(client, queues)
    # Only logged: a broker that comes back has lost nothing.
    tell_away({queue.broker_name for queue in missing.away})
    losses = [left(queue, stand) for queue in missing.deleted]
    losses += [left(queue, stand, end) for queue, end in missing.ends.items()]
    return [loss for loss in losses if loss is not None]


def tell_away(brokers: Collection[str]) -> None:
    """Log which brokers are away."""
    for name in sorted(brokers):
        log.warning("broker.missed", broker=name, reason="its queues stay where they are")
