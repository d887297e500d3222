"""Processes of a cluster whose members must prove who they are; strangers beside them."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from pocketmq.client import Admin, Message, Producer
from pocketmq.client.config import CA_FILE_VARIABLE, TLS_VARIABLE, network_of
from pocketmq.cluster.local import local_cluster
from pocketmq.cluster.process import ChildProcess
from pocketmq.cluster.spec import ClusterOptions, cluster_spec
from pocketmq.operation.membership.options import MEMBER_VARIABLE
from pocketmq.protocol.errors import BrokerError
from support.eventually import PATIENCE_MS, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


async def test_clients_need_no_secret_and_who_changes_a_nameserver_does(tmp_path: Path) -> None:
    async with local_cluster(tls=True, members_must_prove=True, data=tmp_path) as cluster:
        assert cluster.spec.tls is not None
        assert cluster.spec.member_secret is not None
        secret = cluster.spec.member_secret
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
        ca_file = cluster.spec.tls.certificate
        names = cluster.namesrv_addr

        async with (
            Producer(
                "p",
                nameservers=names,
                tls=True,
                tls_ca_file=ca_file,
                send_timeout_ms=PATIENCE_MS,
            ) as producer,
            Admin(
                nameservers=names, tls=True, tls_ca_file=ca_file, api_timeout_ms=PATIENCE_MS
            ) as stranger,
        ):
            await stranger.create_topic("orders", queues=1)
            await producer.send(Message("orders", b"needs no secret"))
            with pytest.raises(BrokerError, match="POCKETMQ_MEMBER_SECRET_FILE"):
                await stranger.put_kv("ORDER_TOPIC_CONFIG", "orders", "broker-a:1")

        env = {
            TLS_VARIABLE: "true",
            CA_FILE_VARIABLE: str(ca_file),
            MEMBER_VARIABLE: str(secret),
        }
        async with Admin(
            nameservers=names, network=network_of(env), api_timeout_ms=PATIENCE_MS
        ) as member:
            await member.put_kv("ORDER_TOPIC_CONFIG", "orders", "broker-a:1")
            assert await member.get_kv("ORDER_TOPIC_CONFIG", "orders") == "broker-a:1"

        # a broker of another cluster
        other = tmp_path / "other-secret"
        other.write_text("another secret, which is as long as it has to be")
        other.chmod(0o600)
        options = ClusterOptions(any_port=True, tls=True, members_must_prove=True)
        [spec] = cluster_spec(options, tmp_path).brokers
        command = spec.command(
            *("--name", "broker-x", "--data", str(tmp_path / "broker-x"), "--port", "0"),
            *("--member-secret-file", str(other), "--nameservers", names, "--exit-with-parent"),
        )
        stranger_broker = ChildProcess(
            "broker-x", "broker", command, log_path=tmp_path / "logs" / "broker-x.log"
        )
        try:
            await stranger_broker.start()
            await eventually(
                lambda: "give both the same member_secret_file" in stranger_broker.log_tail(100),
                "it says why it is refused",
            )
            nameserver_log = cluster["nameserver-1"].log_tail(100)
            assert '"event":"member.refused"' in nameserver_log
        finally:
            await stranger_broker.stop()
        async with Admin(
            nameservers=names, tls=True, tls_ca_file=ca_file, api_timeout_ms=PATIENCE_MS
        ) as admin:
            assert set(await admin.brokers()) == {"broker-a"}
