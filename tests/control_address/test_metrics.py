"""`/metrics`: the names, kinds, labels and buckets that RocketMQ 5.3.3 itself shows.

`tests/golden/metrics.tsv` is what a RocketMQ showed; `tests/interop/record_metrics.py` records it.
"""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pocketmq.client import Message
from pocketmq.operation.metrics import ALL, NODE
from pocketmq.testing import Cluster, start_cluster
from support.eventually import PATIENCE_S
from support.golden import GOLDEN

OF_ITS_EXPORTER = {"target_info", "otel_scope_info"}
"""Names that OpenTelemetry adds to RocketMQ's own, as the label `otel_scope_name`."""

Shape = tuple[str, frozenset[str], str]
"""Kind, labels and the bounds of the buckets."""


def rocketmqs() -> dict[str, set[Shape]]:
    """Name of a sample -> its kinds, labels and bounds; it may have several sets of labels."""
    shapes: dict[str, set[Shape]] = {}
    for line in (GOLDEN / "metrics.tsv").read_text().splitlines():
        name, kind, labels, bounds = line.split("\t")
        if name not in OF_ITS_EXPORTER:
            own = frozenset(labels.split(",")) - {"otel_scope_name"}
            shapes.setdefault(name, set()).add((kind, own, bounds))
    return shapes


def sample_names(name: str, kind: str) -> list[str]:
    if kind == "histogram":
        return [f"{name}_bucket", f"{name}_count", f"{name}_sum"]
    return [f"{name}_total" if kind == "counter" else name]


@pytest.mark.parametrize("metric", ALL.values(), ids=lambda metric: metric.name)
def test_what_is_declared_is_rocketmqs(metric: object) -> None:
    declared = ALL[metric.name]  # type: ignore[attr-defined]
    known = rocketmqs()
    for name in sample_names(declared.name, declared.kind):
        bounds = ",".join([*(str(float(b)) for b in declared.bounds), "+Inf"])
        wanted = bounds if name.endswith("_bucket") else ""
        labels = frozenset({*NODE, *declared.labels})
        assert (declared.kind, labels, wanted) in known[name]


def test_the_page_says_which_of_rocketmqs_are_missing() -> None:
    page = Path("docs/metrics.md").read_text()
    section = page.partition("## Missing")[2]
    missing = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    shown = {name for m in ALL.values() for name in sample_names(m.name, m.kind)}
    families = {re.sub(r"_(bucket|count|sum)$", "", name) for name in rocketmqs().keys() - shown}
    assert missing == families


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with start_cluster(clock="manual") as started:
        yield started


def test_all_that_a_cluster_shows_has_rocketmqs_shape(cluster: Cluster) -> None:
    sync = cluster.sync
    topic = sync.create_topic("measured", queues=1)
    with sync.producer() as producer, sync.consumer("meters", topic) as consumer:
        for number in range(3):
            producer.send(Message(topic, b"%d" % number))
        producer.send(Message(topic, b"later", delay_ms=3_600_000))
        sync.advance(1)  # a consumer of 5.x begins to pull after half a second
        consumer.receive(limit_s=PATIENCE_S)
        consumer.receive(limit_s=PATIENCE_S)
        sync.advance(11)  # the offset is committed every 5 s, after the first 10
        with urllib.request.urlopen(f"{cluster.control_url}/metrics") as answer:
            text = answer.read().decode()
    known, found = rocketmqs(), {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[(sample.name, *sorted(sample.labels.items()))] = sample.value
            if sample.name != "pocketmq_role_up":
                labels = frozenset(sample.labels.keys() - {"le"})
                kinds = {(kind, own) for kind, own, _ in known[sample.name]}
                assert (family.type, labels) in kinds, sample
    node = {"cluster": "DefaultCluster", "node_type": "broker", "node_id": "broker-a"}
    about = node | {"topic": topic, "is_system": "false"}
    sent = about | {"message_type": "normal"}
    out = about | {"consumer_group": "meters"}

    def value(name: str, labels: dict[str, str]) -> float:
        return found[(name, *sorted(labels.items()))]

    assert value("pocketmq_role_up", {"role": "broker-a", "kind": "broker"}) == 1
    assert value("rocketmq_messages_in_total", sent) == 3
    assert value("rocketmq_throughput_in_total", sent) > 300
    assert value("rocketmq_message_size_bucket", sent | {"le": "1024.0"}) == 3
    assert value("rocketmq_message_size_bucket", sent | {"le": "+Inf"}) == 3
    assert value("rocketmq_messages_out_total", out) == 3
    assert value("rocketmq_throughput_out_total", out) == value(
        "rocketmq_throughput_in_total", sent
    )
    assert value("rocketmq_consumer_lag_messages", out | {"is_retry": "false"}) in (1, 2, 3)
    local = node | {"storage_type": "local", "storage_medium": "disk"}
    assert value("rocketmq_storage_dispatch_behind_bytes", local) == 0
    assert value("rocketmq_timing_messages", local | {"topic": topic}) == 1
    assert "# TYPE rocketmq_messages_in_total counter" in text


def test_a_proxy_that_runs_has_rocketmqs_metric() -> None:
    with start_cluster(proxy=True) as cluster:

        def samples() -> list[dict[str, str]]:
            with urllib.request.urlopen(f"{cluster.control_url}/metrics") as answer:
                families = text_string_to_metric_families(answer.read().decode())
            [*found] = (each for each in families if each.name == "rocketmq_proxy_up")
            assert all(each.type == "gauge" for each in found)
            return [sample.labels for each in found for sample in each.samples]

        assert samples() == [
            {
                "cluster": "DefaultCluster",
                "node_type": "proxy",
                "node_id": "proxy-1",
                "proxy_mode": "cluster",
            }
        ]
        cluster.sync.kill("proxy-1")
        assert samples() == []
