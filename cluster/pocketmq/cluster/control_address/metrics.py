"""Answers `/metrics` in Prometheus' text format, with RocketMQ 5's names where it has one."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from pocketmq.cluster.steering.cluster_control import ClusterControl
from pocketmq.protocol.errors import BrokerError
from pocketmq.runtime.errors import PocketMQError

MAX_GROUPS = 500
"""Maximum groups whose lag is reported; more would make the answer slow."""


async def metrics_text(control: ClusterControl) -> bytes:
    """Ask every broker, and make the text."""
    registry = CollectorRegistry()
    up = Gauge("pocketmq_role_up", "1 while a role runs", ["role", "kind"], registry=registry)
    messages_in = Gauge(
        "rocketmq_messages_in_total",
        "messages stored since the broker's start",
        ["cluster", "node_type", "node_id"],
        registry=registry,
    )
    messages_out = Gauge(
        "rocketmq_messages_out_total",
        "messages handed out since the broker's start",
        ["cluster", "node_type", "node_id"],
        registry=registry,
    )
    lag = Gauge(
        "rocketmq_consumer_lag_messages",
        "messages that a group has not consumed",
        ["cluster", "consumer_group", "topic"],
        registry=registry,
    )
    for name in control.roles.names:
        runs = control.roles.state(name) == "running"
        up.labels(name, control.roles.role(name)).set(runs)
    async with control.admin() as admin:
        clusters = {}
        try:
            for cluster, brokers in (await admin.cluster_info()).cluster_addr_table.items():
                clusters.update(dict.fromkeys(brokers, cluster))
        except PocketMQError:
            return generate_latest(registry)  # no nameserver answers: the roles above say so
        groups: set[str] = set()
        for broker in control.roles.running_brokers:
            cluster = clusters.get(broker, "")
            info = await admin.broker_runtime_info(broker)
            labels = (cluster, "broker", broker)
            messages_in.labels(*labels).set(int(info.get("msgPutTotalTodayNow", "0")))
            messages_out.labels(*labels).set(int(info.get("msgGetTotalTodayNow", "0")))
            groups.update(await admin.groups(broker))
        for group in sorted(groups)[:MAX_GROUPS]:
            behind: dict[tuple[str, str], int] = {}
            try:
                progress = await admin.consume_stats(group)
            except BrokerError:
                continue  # a group without any offset
            for queue, each in progress.items():
                key = (clusters.get(queue.broker_name, ""), queue.topic)
                due = max(0, each.broker_offset - max(0, each.consumer_offset))
                behind[key] = behind.get(key, 0) + due
            for (cluster, topic), count in behind.items():
                lag.labels(cluster, group, topic).set(count)
    return generate_latest(registry)
