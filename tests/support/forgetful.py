"""A broker whose retention removes all that it can, when a test says so."""

from __future__ import annotations

from pocketmq.client import Admin, MessageQueue
from support.spark_cluster import SparkCluster

SHORT_LIVED = (
    *("--mapped-file-size-commit-log", str(64 * 1024), "--max-message-size", "4096"),
    *("--file-reserved-time-h", "0", "--delete-when", ";".join(map(str, range(24)))),
)
"""Arguments of a broker that deletes every file of its log but the last when it looks."""


def first_of(cluster: SparkCluster, queue: MessageQueue) -> int:
    """The first offset that a queue has."""

    async def ask() -> int:
        async with Admin(nameservers=cluster.nameservers) as admin:
            return await admin.min_offset(queue)

    return cluster.run(ask())


def retain(cluster: SparkCluster, topic: str, *, queue_id: int = 0) -> int:
    """Let retention do its work; the first offset that is left in a queue."""
    cluster.advance(3600)
    return first_of(cluster, MessageQueue(topic, "broker-a", queue_id))
