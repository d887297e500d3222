"""A test's cluster that speaks TLS and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.client import Admin, Message, Producer, PullConsumer
from pocketmq.cluster.steering.errors import WrongClusterError
from pocketmq.runtime.errors import PocketMQError
from pocketmq.testing.cluster import start_cluster
from support.eventually import PATIENCE_MS, PATIENCE_S


@pytest.mark.parametrize(
    "mode", ["in-process", pytest.param("processes", marks=pytest.mark.cluster)]
)
async def test_only_clients_with_tls_get_in(mode: str, tmp_path: Path) -> None:
    with start_cluster(tls=True, mode=mode, data=tmp_path / "data") as cluster:  # type: ignore[arg-type]
        await cluster.create_topic("orders")
        secured = {"nameservers": cluster.nameservers, "tls": True, "tls_ca_file": cluster.ca_file}
        async with Producer("shop", send_timeout_ms=PATIENCE_MS, **secured) as producer:  # type: ignore[arg-type]
            sent = await producer.send(Message("orders", b"paid"))
        async with PullConsumer("billing", **secured) as consumer:  # type: ignore[arg-type]
            pulled = await consumer.pull(sent.queue, "*", sent.queue_offset, 1)
            assert [each.body for each in pulled.messages] == [b"paid"]
        async with Admin(nameservers=cluster.nameservers, api_timeout_ms=PATIENCE_MS) as plain:
            with pytest.raises(PocketMQError):
                await plain.route("orders")


def test_plain_code_gets_tls_with_the_cluster(tmp_path: Path) -> None:
    with start_cluster(tls=True, clock="manual") as cluster:
        topic = cluster.sync.create_topic("orders")
        with (
            cluster.sync.consumer("billing", topic) as consumer,
            cluster.sync.producer("shop") as producer,
        ):
            producer.send(Message(topic, b"paid"))
            cluster.sync.group("billing").assigned(limit_s=PATIENCE_S)
            cluster.sync.advance(1)
            assert consumer.receive(limit_s=PATIENCE_S).body == b"paid"
            cluster.sync.advance(minutes=10)
            rule = cluster.sync.faults.add("fail", code="SEND_MESSAGE_V2", with_code="SYSTEM_BUSY")
            assert rule in cluster.sync.faults.rules


def test_a_cluster_in_plaintext_has_no_ca_file() -> None:
    with start_cluster() as cluster, pytest.raises(WrongClusterError, match="tls=True"):
        _ = cluster.ca_file


async def test_a_cluster_in_plaintext_takes_clients_with_tls_too() -> None:
    # Y-1: permissive
    with start_cluster() as cluster:
        await cluster.create_topic("orders")
        async with Producer(
            "shop", nameservers=cluster.nameservers, tls=True, send_timeout_ms=PATIENCE_MS
        ) as producer:
            assert (await producer.send(Message("orders", b"paid"))).queue_offset == 0
