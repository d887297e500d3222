"""Answers `/metrics` in Prometheus' text format, with the names and labels of RocketMQ 5.3.3.

`operation/metrics.py` declares them, brokers tell the figures. `pocketmq_role_up` is our own, and
`rocketmq_proxy_up` all that a proxy of RocketMQ tells of itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from pocketmq.cluster.steering.cluster_control import ClusterControl
from pocketmq.operation.metrics import ALL, NODE, Metric
from pocketmq.protocol.bodies.stats import MetricsReport
from pocketmq.runtime.errors import PocketMQError

log = structlog.get_logger()

PROXY_UP: Final = "rocketmq_proxy_up"
PROXY_CLUSTER: Final = "DefaultCluster"
"""RocketMQ's default of `proxyClusterName`, which is of proxies, and of no broker."""

_FAMILIES = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


class ClusterMetrics(Collector):
    """The figures of one answer."""

    def __init__(self) -> None:
        self.up = GaugeMetricFamily(
            "pocketmq_role_up", "1 while a role runs", labels=["role", "kind"]
        )
        self._families: dict[str, Family] = {}

    def collect(self) -> Iterable[Family]:
        return (self.up, *self._families.values())

    def add_proxy(self, name: str) -> None:
        """Add a proxy that runs: RocketMQ's `ProxyMetricsManager` has this one metric."""
        node = (PROXY_CLUSTER, "proxy", name)
        labels = dict(zip(NODE, node, strict=True)) | {"proxy_mode": "cluster"}
        family = self._families.setdefault(
            PROXY_UP, GaugeMetricFamily(PROXY_UP, "1 while a gRPC proxy runs")
        )
        family.add_sample(PROXY_UP, labels, 1)

    def add(self, node: Sequence[str], report: MetricsReport) -> None:
        """Add what one broker tells; a metric that only a newer broker knows is left out."""
        for number in report.numbers:
            metric = ALL.get(number.name)
            if metric is not None:
                # Prometheus' counters end in `_total`; the library adds this only to samples of its
                # own.
                suffix = "_total" if metric.kind == "counter" else ""
                labels = _labels(metric, node, number.labels)
                family = self._family(metric)
                family.add_sample(f"{metric.name}{suffix}", labels, number.value)
        for each in report.distributions:
            metric = ALL.get(each.name)
            if metric is None:
                continue
            labels, family = _labels(metric, node, each.labels), self._family(metric)
            # Prometheus' buckets count all values up to a bound, brokers' only those between two
            # bounds.
            counts = list(accumulate(each.counts))
            bounds = (*(str(float(bound)) for bound in metric.bounds), "+Inf")
            for bound, count in zip(bounds, counts, strict=True):
                family.add_sample(f"{metric.name}_bucket", {**labels, "le": bound}, count)
            family.add_sample(f"{metric.name}_count", labels, counts[-1])
            family.add_sample(f"{metric.name}_sum", labels, each.total)

    def _family(self, metric: Metric) -> Family:
        family = self._families.get(metric.name)
        if family is None:
            family = _FAMILIES[metric.kind](metric.name, metric.help)
            self._families[metric.name] = family
        return family


async def metrics_text(control: ClusterControl) -> bytes:
    """Ask every broker, and make the text; a broker that does not answer is left out."""
    metrics = ClusterMetrics()
    # Not the process's global registry, as each answer has only its own metrics.
    registry = CollectorRegistry()
    for name in control.roles.names:
        runs = control.roles.state(name) == "running"
        metrics.up.add_metric((name, control.roles.role(name)), runs)
        if runs and control.roles.role(name) == "proxy":
            metrics.add_proxy(name)
    async with control.admin() as admin:
        clusters: dict[str, str] = {}
        try:
            for cluster, brokers in (await admin.cluster_info()).cluster_addr_table.items():
                clusters.update(dict.fromkeys(brokers, cluster))
        except PocketMQError as exc:  # the roles' own figure is told all the same
            log.warning("metrics.not_complete", reason=str(exc))
        for broker in control.roles.running_brokers:
            try:
                report = await admin.broker_metrics(broker)
            except PocketMQError as exc:
                log.warning("metrics.not_complete", broker=broker, reason=str(exc))
            else:
                metrics.add((clusters.get(broker, ""), "broker", broker), report)
    registry.register(metrics)
    return generate_latest(registry)


def _labels(metric: Metric, node: Sequence[str], values: Sequence[str]) -> dict[str, str]:
    """Labels of one series; an empty one is the same as none (Prometheus), and left out."""
    own = zip(metric.labels, values, strict=True)
    return dict(zip(NODE, node, strict=True)) | {name: value for name, value in own if value}
