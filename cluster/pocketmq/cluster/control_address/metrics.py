"""Answers `/metrics` in Prometheus' text format, with RocketMQ 5's names and labels.

What RocketMQ's exporter calls `message_type` is not counted, so the first four lack that label.
`pocketmq_role_up` is PocketMQ's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import structlog
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from pocketmq.client import Admin
from pocketmq.cluster.steering.cluster_control import ClusterControl
from pocketmq.protocol.errors import BrokerError
from pocketmq.protocol.validation import SYSTEM_GROUP_PREFIX, is_system_topic
from pocketmq.runtime.errors import PocketMQError

log = structlog.get_logger()

MAX_GROUPS = 500
"""Maximum groups whose lag is reported; more would make the answer slow."""

NODE = ("cluster", "node_type", "node_id")
"""Labels of everything that a broker tells."""

STORED = (*NODE, "topic", "is_system")
HANDED_OUT = (*NODE, "topic", "consumer_group", "is_system")
LAG = (*NODE, "consumer_group", "topic", "is_retry", "is_system")


class ClusterMetrics(Collector):
    """The figures of one answer."""

    def __init__(self) -> None:
        self.up = GaugeMetricFamily(
            "pocketmq_role_up", "1 while a role runs", labels=["role", "kind"]
        )
        self._messages_in = CounterMetricFamily(
            "rocketmq_messages_in", "messages stored since the broker's start", labels=STORED
        )
        self._bytes_in = CounterMetricFamily(
            "rocketmq_throughput_in", "bytes of stored records", labels=STORED
        )
        self._messages_out = CounterMetricFamily(
            "rocketmq_messages_out",
            "messages handed out since the broker's start",
            labels=HANDED_OUT,
        )
        self._bytes_out = CounterMetricFamily(
            "rocketmq_throughput_out", "bytes of records handed out", labels=HANDED_OUT
        )
        self._lag = GaugeMetricFamily(
            "rocketmq_consumer_lag_messages",
            "messages that a group has not consumed",
            labels=LAG,
        )
        self._topics = GaugeMetricFamily(
            "rocketmq_topic_number", "topics of a broker, its own included", labels=NODE
        )
        self._groups = GaugeMetricFamily(
            "rocketmq_consumer_group_number", "groups of a broker, its own included", labels=NODE
        )
        self._behind = GaugeMetricFamily(
            "rocketmq_storage_dispatch_behind_bytes",
            "bytes that are stored and not dispatched",
            labels=NODE,
        )

    def collect(self) -> Iterable[Metric]:
        return (
            self.up, self._messages_in, self._bytes_in, self._messages_out, self._bytes_out,
            self._lag, self._topics, self._groups, self._behind,
        )  # fmt: skip

    async def ask_broker(self, admin: Admin, node: Sequence[str]) -> set[str]:
        """Add what one broker tells; its groups."""
        broker = node[-1]
        traffic = await admin.broker_traffic(broker)
        for row in traffic.stored:
            labels = (*node, row.topic, _text(is_system_topic(row.topic)))
            self._messages_in.add_metric(labels, row.messages)
            self._bytes_in.add_metric(labels, row.size_bytes)
        for row in traffic.handed_out:
            labels = (*node, row.topic, row.group, _text(_is_system(row.topic, row.group)))
            self._messages_out.add_metric(labels, row.messages)
            self._bytes_out.add_metric(labels, row.size_bytes)
        groups = await admin.groups(broker)
        info = await admin.broker_runtime_info(broker)
        self._topics.add_metric(node, len(await admin.topic_configs(broker)))
        self._groups.add_metric(node, len(groups))
        self._behind.add_metric(node, int(info.get("dispatchBehindBytes", "0")))
        return set(groups)

    async def ask_group(self, admin: Admin, group: str, clusters: dict[str, str]) -> None:
        """Add how far a group is behind, at each broker and in each topic."""
        try:
            progress = await admin.consume_stats(group)
        except BrokerError:
            return  # a group without any offset
        behind: dict[tuple[str, str], int] = {}
        for queue, each in progress.items():
            due = max(0, each.broker_offset - max(0, each.consumer_offset))
            key = (queue.broker_name, queue.topic)
            behind[key] = behind.get(key, 0) + due
        for (broker, topic), count in behind.items():
            system = _text(_is_system(topic, group))
            node = (clusters.get(broker, ""), "broker", broker)
            self._lag.add_metric((*node, group, topic, "false", system), count)


async def metrics_text(control: ClusterControl) -> bytes:
    """Ask every broker, and make the text; a broker that does not answer is left out."""
    metrics = ClusterMetrics()
    registry = CollectorRegistry()
    for name in control.roles.names:
        runs = control.roles.state(name) == "running"
        metrics.up.add_metric((name, control.roles.role(name)), runs)
    async with control.admin() as admin:
        clusters: dict[str, str] = {}
        groups: set[str] = set()
        try:
            for cluster, brokers in (await admin.cluster_info()).cluster_addr_table.items():
                clusters.update(dict.fromkeys(brokers, cluster))
            for broker in control.roles.running_brokers:
                node = (clusters.get(broker, ""), "broker", broker)
                groups |= await metrics.ask_broker(admin, node)
            for group in sorted(groups)[:MAX_GROUPS]:
                await metrics.ask_group(admin, group, clusters)
        except PocketMQError as exc:  # the roles' own figure is told all the same
            log.warning("metrics.not_complete", reason=str(exc))
    registry.register(metrics)
    return generate_latest(registry)


def _is_system(topic: str, group: str) -> bool:
    return is_system_topic(topic) or group.upper().startswith(SYSTEM_GROUP_PREFIX)


def _text(value: bool) -> str:
    return str(value).lower()
