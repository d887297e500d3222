"""Processes of a cluster whose members must prove who they are; strangers beside them."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

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


async def test_who_knows_the_secret_is_answered_and_strangers_are_refused(tmp_path: Path) -> None:
    async with local_cluster(tls=True, members_must_prove=True, data=tmp_path) as cluster:
        assert cluster.spec.tls is not None
        assert cluster.spec.member_secret is not None
        secret = cluster.spec.member_secret
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
        ca_file = cluster.spec.tls.certificate
        names = cluster.namesrv_addr
        stranger: dict[str, Any] = {
            "nameservers": names,
            "tls": True,
            "tls_ca_file": ca_file,
        }
        member: dict[str, Any] = {**stranger, "member_secret_file": secret}

        async with (
            Producer("p", send_timeout_ms=PATIENCE_MS, **member) as producer,
            Admin(**member, api_timeout_ms=PATIENCE_MS) as tool,
        ):
            await tool.create_topic("orders", queues=1)
            await producer.send(Message("orders", b"of a member"))
            await tool.put_kv("ORDER_TOPIC_CONFIG", "orders", "broker-a:1")

        async with Admin(**stranger, api_timeout_ms=PATIENCE_MS) as admin:
            with pytest.raises(BrokerError, match=MEMBER_VARIABLE):
                await admin.brokers()
            with pytest.raises(BrokerError, match=MEMBER_VARIABLE):
                await admin.put_kv("ORDER_TOPIC_CONFIG", "orders", "elsewhere:1")

        env = {
            TLS_VARIABLE: "true",
            CA_FILE_VARIABLE: str(ca_file),
            MEMBER_VARIABLE: str(secret),
        }
        async with Admin(
            nameservers=names, network=network_of(env), api_timeout_ms=PATIENCE_MS
        ) as told_by_variables:
            assert await told_by_variables.get_kv("ORDER_TOPIC_CONFIG", "orders") == "broker-a:1"

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
        async with Admin(**member, api_timeout_ms=PATIENCE_MS) as tool:
            assert set(await tool.brokers()) == {"broker-a"}


async def test_clients_need_no_secret_where_strangers_read_routes(tmp_path: Path) -> None:
    async with local_cluster(
        tls=True, members_must_prove=True, strangers_read_routes=True, data=tmp_path
    ) as cluster:
        assert cluster.spec.tls is not None
        stranger: dict[str, Any] = {
            "nameservers": cluster.namesrv_addr,
            "tls": True,
            "tls_ca_file": cluster.spec.tls.certificate,
        }
        async with (
            Producer("p", send_timeout_ms=PATIENCE_MS, **stranger) as producer,
            Admin(**stranger, api_timeout_ms=PATIENCE_MS) as admin,
        ):
            await admin.create_topic("orders", queues=1)
            await producer.send(Message("orders", b"needs no secret"))
            with pytest.raises(BrokerError, match=MEMBER_VARIABLE):
                await admin.put_kv("ORDER_TOPIC_CONFIG", "orders", "broker-a:1")
