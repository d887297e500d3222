"""A test's cluster whose members must prove who they are."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from typing import Any

import pytest

from pocketmq.client import Admin, Message, Producer, SendFailedError
from pocketmq.cluster.folder import MEMBER_FILE
from pocketmq.cluster.steering.errors import WrongClusterError
from pocketmq.cluster.steering.shape import Mode
from pocketmq.operation.membership.members import Members
from pocketmq.operation.membership.network import MemberNetwork
from pocketmq.operation.membership.options import MEMBER_VARIABLE
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.errors import BrokerError, ConnectError
from pocketmq.protocol.member_proof import Secret, Secrets
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.errors import ConfigError, PocketMQError
from pocketmq.testing.cluster import Cluster, start_cluster
from support.eventually import PATIENCE_MS, PATIENCE_S, eventually


def secured(cluster: Cluster) -> dict[str, Any]:
    """Options of a client that proves nothing."""
    return {
        "nameservers": cluster.nameservers,
        "tls": True,
        "tls_ca_file": cluster.ca_file,
    }


def say_a_value(cluster: Cluster) -> None:
    with cluster.sync.admin() as admin:
        admin.put_kv("ORDER_TOPIC_CONFIG", "orders", "broker-a:1")
        assert admin.get_kv("ORDER_TOPIC_CONFIG", "orders") == "broker-a:1"


def send(cluster: Cluster, body: bytes) -> None:
    with cluster.sync.producer(send_timeout_ms=PATIENCE_MS) as producer:
        producer.send(Message("orders", body))


def send_and_receive(cluster: Cluster, body: bytes, **options: Any) -> None:
    """By clients of the cluster's own."""
    with (
        cluster.sync.consumer("billing", "orders", **options) as consumer,
        cluster.sync.producer(send_timeout_ms=PATIENCE_MS, **options) as producer,
    ):
        producer.send(Message("orders", body))
        received = None
        while received != body:  # each is received once by the group
            received = consumer.receive(limit_s=PATIENCE_S).body


async def test_threads_prove_who_they_are_and_strangers_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with start_cluster(
        tls=True, members_must_prove=True, clock="manual", data=tmp_path / "data"
    ) as cluster:
        topic = await cluster.create_topic("orders")
        member: dict[str, Any] = {
            **secured(cluster),
            "member_secret_file": cluster.member_secret_file,
        }
        async with Producer("shop", send_timeout_ms=PATIENCE_MS, **member) as producer:
            await producer.send(Message(topic, b"of a member"))
        await asyncio.to_thread(say_a_value, cluster)

        async with Producer("shop", send_timeout_ms=PATIENCE_MS, **secured(cluster)) as producer:
            with pytest.raises(PocketMQError, match=f"{MEMBER_VARIABLE}.*strangers_read_routes"):
                await producer.send(Message(topic, b"of a stranger"))
        async with Admin(**secured(cluster), api_timeout_ms=PATIENCE_MS) as stranger:
            with pytest.raises(BrokerError, match=MEMBER_VARIABLE):
                await stranger.brokers()
            with pytest.raises(BrokerError, match=MEMBER_VARIABLE):
                await stranger.put_kv("ORDER_TOPIC_CONFIG", "orders", "elsewhere:1")
        monkeypatch.setenv(MEMBER_VARIABLE, str(cluster.member_secret_file))
        async with Admin(**secured(cluster), api_timeout_ms=PATIENCE_MS) as tool:
            await tool.put_kv("ORDER_TOPIC_CONFIG", "orders", "broker-a:2")
        monkeypatch.delenv(MEMBER_VARIABLE)

        # All of it again after a kill and a move of the time.
        await cluster.kill("nameserver-1")
        await cluster.restart("nameserver-1")
        await cluster.advance(minutes=2)
        await asyncio.to_thread(say_a_value, cluster)
        await asyncio.to_thread(send, cluster, b"later")


async def test_strangers_read_routes_where_nameservers_let_them(tmp_path: Path) -> None:
    with start_cluster(
        tls=True, members_must_prove=True, strangers_read_routes=True, data=tmp_path / "data"
    ) as cluster:
        topic = await cluster.create_topic("orders")
        async with Producer("shop", send_timeout_ms=PATIENCE_MS, **secured(cluster)) as producer:
            await producer.send(Message(topic, b"needs no secret"))
        async with Admin(**secured(cluster), api_timeout_ms=PATIENCE_MS) as stranger:
            assert set(await stranger.brokers()) == {"broker-a"}
            with pytest.raises(BrokerError, match=MEMBER_VARIABLE):
                await stranger.put_kv("ORDER_TOPIC_CONFIG", "orders", "elsewhere:1")


@pytest.mark.parametrize(
    "mode", ["in-process", pytest.param("processes", marks=pytest.mark.cluster)]
)
def test_all_locks_at_once_let_in_who_has_all_keys(tmp_path: Path, mode: Mode) -> None:
    shop, rules = ("shop", "secret"), [("shop", "Topic:*", "Pub,Sub"), ("shop", "Group:*", "Sub")]
    with start_cluster(
        users=dict([shop]),
        acl=rules,
        tls=True,
        members_must_prove=True,
        mode=mode,
        data=tmp_path / "data",
    ) as cluster:
        topic = cluster.sync.create_topic("orders")
        send_and_receive(cluster, b"right", credentials=shop)

        patience = {"send_timeout_ms": PATIENCE_MS}
        for credentials, why in (
            (("shop", "wrong"), "check signature failed"),
            (("nobody", "secret"), "nobody"),
        ):
            with (
                cluster.sync.producer("p", credentials=credentials, **patience) as producer,
                pytest.raises(SendFailedError, match=why),
            ):
                producer.send(Message(topic, b"wrong key"))
        # Its key is right, and it does not know the secret.
        stranger = {"credentials": shop, "member_secret_file": None, **patience}
        with (
            cluster.sync.producer("s", **stranger) as producer,
            pytest.raises(PocketMQError, match=MEMBER_VARIABLE),
        ):
            producer.send(Message(topic, b"of a stranger"))
        in_plaintext = {**stranger, "tls": False}
        with (
            pytest.raises(PocketMQError),
            cluster.sync.producer("t", **in_plaintext) as producer,
        ):
            producer.send(Message(topic, b"in plaintext"))

        with cluster.sync.admin() as admin:
            bounds = admin.topic_stats(topic)
        assert sum(each.max_offset for each in bounds.values()) == 1, "nobody else's was stored"
        send_and_receive(cluster, b"right again", credentials=shop)


async def test_running_threads_use_a_secret_that_was_changed(tmp_path: Path) -> None:
    with start_cluster(tls=True, members_must_prove=True, data=tmp_path / "data") as cluster:
        path, roles = cluster.member_secret_file, cluster.control.roles
        old, new = path.read_text().strip(), secrets.token_hex(32)

        def write(*lines: str) -> None:
            coming = path.with_name("coming")
            coming.touch(0o600)
            coming.write_text("\n".join(lines))
            coming.rename(path)

        async def takes(secret: str) -> set[bool]:
            """What the roles think of somebody who knows this one."""
            sockets = TcpNetwork(client_tls=roles.client_tls)
            network = MemberNetwork(sockets, Members(Secrets(Secret(secret.encode()))))
            found = set()
            for address in roles.addresses.values():
                try:
                    (await network.connect(address, Dispatcher())).close()
                    found.add(True)
                except ConnectError:
                    found.add(False)
            return found

        async def all_take_it() -> bool:
            return await takes(new) == {True}

        async def all_refuse_it() -> bool:
            return await takes(old) == {False}

        write(old, new)
        await eventually(all_take_it, "the new one is accepted")
        assert await takes(old) == {True}
        write(new, old)
        write(new)
        await eventually(all_refuse_it, "the old one is refused")
        await asyncio.to_thread(say_a_value, cluster)


@pytest.mark.cluster
def test_processes_prove_who_they_are(tmp_path: Path) -> None:
    with start_cluster(
        tls=True, members_must_prove=True, mode="processes", clock="manual", data=tmp_path / "data"
    ) as cluster:
        say_a_value(cluster)
        # Files are looked at in real time, and not 7,200 times in this move.
        cluster.sync.advance(hours=1)
        say_a_value(cluster)


def test_members_need_tls() -> None:
    with (
        pytest.raises(ConfigError, match="add tls=True"),
        start_cluster(members_must_prove=True),
    ):
        pass


def test_a_cluster_without_members_has_no_secret(tmp_path: Path) -> None:
    # Left by an earlier cluster with members in this folder; an admin that used it would not get
    # through without TLS.
    (tmp_path / MEMBER_FILE).write_text("stale\n")
    with start_cluster(data=tmp_path) as cluster:
        with pytest.raises(WrongClusterError, match="members_must_prove"):
            _ = cluster.member_secret_file
        say_a_value(cluster)
