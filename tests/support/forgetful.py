"""Brokers whose retention removes all that it can, when a test says so.

With manual clocks an hour passes (`SHORT_LIVED`, `retain`); with real ones the time that files are
kept is 0 for a moment, as an operator may set it (`forgetful`, `forget`).
"""

from __future__ import annotations

from pocketmq.client import Admin, MessageQueue
from pocketmq.protocol.headers.topics import DeleteExpiredCommitLogRequestHeader
from support.eventually import PATIENCE_MS, PATIENCE_S, eventually
from support.spark_cluster import SparkCluster

SHORT_LIVED = (
    *("--mapped-file-size-commit-log", str(64 * 1024), "--max-message-size", "4096"),
    *("--file-reserved-time-h", "0", "--delete-when", ";".join(map(str, range(24)))),
)
"""Arguments of a broker that deletes every file of its log but the last when it looks."""


def first_of(cluster: SparkCluster, queue: MessageQueue) -> int:
    """The first offset that a queue has."""

    async def ask() -> int:
        async with Admin(nameservers=cluster.nameservers, api_timeout_ms=PATIENCE_MS) as admin:
            return await admin.min_offset(queue)

    return cluster.run(ask())


def retain(cluster: SparkCluster, topic: str, *, queue_id: int = 0) -> int:
    """Let retention do its work; the first offset that is left in a queue."""
    cluster.advance(3600)
    return first_of(cluster, MessageQueue(topic, "broker-a", queue_id))


def forgetful(file_bytes: int) -> tuple[str, ...]:
    """Arguments of a broker with a real clock that removes nothing but in `forget`.

    Args:
        file_bytes: Of a file of its log. What is removed are whole files, and never the last one.
    """
    return (
        *("--mapped-file-size-commit-log", str(file_bytes)),
        *("--max-message-size", str(file_bytes // 4)),
        *("--no-clean-file-forcibly-enable", "--clean-resource-interval-ms", "100"),
        # a file stays until the entries of its messages are on the disk
        *("--flush-interval-consume-queue-ms", "100"),
        *("--flush-consume-queue-thorough-interval-ms", "100"),
        *("--flush-commit-log-thorough-interval-ms", "100"),
    )


def forget(cluster: SparkCluster, topic: str) -> dict[MessageQueue, int]:
    """Remove every file of the brokers' logs but the last; the first offset left in each queue."""

    async def remove() -> dict[MessageQueue, int]:
        async with Admin(nameservers=cluster.nameservers, api_timeout_ms=PATIENCE_MS) as admin:
            for name, addresses in (await admin.brokers()).items():
                await _remove_files(cluster, admin, name, addresses[0])
            queues = await admin.subscribe_queues(topic)
            return {queue: await admin.min_offset(queue) for queue in queues}

    return cluster.run(remove())


async def _remove_files(cluster: SparkCluster, admin: Admin, broker: str, address: str) -> None:
    options = await admin.broker_config(broker)
    kept_h, file_bytes = options["fileReservedTime"], int(options["mappedFileSizeCommitLog"])

    async def is_done() -> bool:
        request = DeleteExpiredCommitLogRequestHeader()
        # a round at once, whatever the hour
        await cluster.supervisor.remoting.call(address, request, timeout_s=PATIENCE_S)
        info = await admin.broker_runtime_info(broker)
        low, high = int(info["commitLogMinOffset"]), int(info["commitLogMaxOffset"])
        return high - low <= file_bytes

    await admin.update_broker_config(broker, {"fileReservedTime": "0"})
    try:
        await eventually(is_done, f"{broker} has one file of its log", limit_s=110)
    finally:
        await admin.update_broker_config(broker, {"fileReservedTime": kept_h})
