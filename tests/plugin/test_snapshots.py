"""Snapshots: saved, opened by the store's own tools, brought back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pocketmq.client import Message
from pocketmq.cluster.cli.main import main
from pocketmq.cluster.steering.snapshots import SnapshotError, copy_sparse
from pocketmq.testing import Cluster, WrongClusterError, start_cluster
from support.eventually import PATIENCE_S


def topics(cluster: Cluster) -> set[str]:
    async def ask() -> set[str]:
        async with cluster.control.admin() as admin:
            return {name for name in await admin.topics() if name.startswith("orders")}

    return cluster.thread.result(ask())


def test_a_snapshot_has_the_nameservers_kv(pocketmq_cluster: Cluster, tmp_path: Path) -> None:
    cluster = pocketmq_cluster

    async def put() -> None:
        async with cluster.control.admin() as admin:
            await admin.put_kv("rooms", "east", "broker-a")

    async def got() -> str | None:
        async with cluster.control.admin() as admin:
            return await admin.get_kv("rooms", "east")

    cluster.thread.result(put())
    cluster.sync.save_snapshot(tmp_path / "saved")
    kept = json.loads((tmp_path / "saved" / "nameserver-1" / "kvConfig.json").read_text())
    assert kept == {"configTable": {"rooms": {"east": "broker-a"}}}, "RocketMQ's file"
    cluster.sync.reset()
    assert cluster.thread.result(got()) is None
    cluster.sync.load_snapshot(tmp_path / "saved")
    assert cluster.thread.result(got()) == "broker-a"


@pytest.mark.parametrize(
    "mode", ["in-process", pytest.param("processes", marks=pytest.mark.cluster)]
)
def test_a_snapshot_is_a_plain_store_and_comes_back(
    mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "saved"
    with start_cluster(mode=mode, clock="manual") as cluster:  # type: ignore[arg-type]
        sync = cluster.sync
        topic = sync.create_topic("orders", queues=1)
        with sync.producer() as producer:
            producer.send(Message(topic, b"before"))
            with sync.consumer("billing", topic) as consumer:
                sync.group("billing").assigned(limit_s=PATIENCE_S)
                sync.advance(1)  # the first pull goes out 500 ms later (C-25)
                assert consumer.receive(limit_s=PATIENCE_S).body == b"before"
            sync.advance(7)
            before_ms = sync.time_ms
            sync.save_snapshot(saved)
            assert sync.time_ms == before_ms
            producer.send(Message(topic, b"after"))
            sync.create_topic("orders-2")
        assert main(["store", "verify", str(saved / "broker-a")]) == 0
        capsys.readouterr()

        sync.reset()
        assert topics(cluster) == set()
        sync.load_snapshot(saved)
        assert topics(cluster) == {"orders"}
        assert sync.time_ms == before_ms
        with sync.producer() as producer, sync.consumer("billing", topic) as consumer:
            producer.send(Message(topic, b"again"))
            sync.group("billing").assigned(limit_s=PATIENCE_S)
            sync.advance(1)
            assert consumer.receive(limit_s=PATIENCE_S).body == b"again"
        with pytest.raises(SnapshotError, match="is not empty"):
            sync.save_snapshot(saved)
        with pytest.raises(SnapshotError, match="holds no snapshot"):
            sync.load_snapshot(tmp_path)
        sync.freeze("broker-a")
        with pytest.raises(WrongClusterError, match="thaw it first"):
            sync.reset()
        sync.thaw("broker-a")
    with (
        start_cluster(brokers=2) as other,
        pytest.raises(
            SnapshotError, match="this cluster has the roles nameserver-1, broker-a, broker-b"
        ),
    ):
        other.sync.load_snapshot(saved)


def test_a_copy_keeps_length_and_content_and_skips_zeros(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    with source.open("wb") as file:
        file.truncate(64 * 1024 * 1024)
        file.seek(40 * 1024 * 1024)
        file.write(b"here")
    copy_sparse(source, target)
    assert target.read_bytes() == source.read_bytes()
    assert target.stat().st_blocks * 512 <= 2 * 1024 * 1024


def test_the_shared_cluster_is_not_reset(pocketmq: Cluster) -> None:
    with pytest.raises(WrongClusterError, match="pocketmq_cluster"):
        pocketmq.sync.reset()
