"""A cluster for tests whose brokers take signed requests only: `start_cluster(users=, acl=)`."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pocketmq.client import Admin, Message
from pocketmq.client.producer.send_tries import SendFailedError
from pocketmq.cluster.local import local_cluster
from pocketmq.cluster.steering.access import ClusterAccess
from pocketmq.operation.control.requests import (
    GetClockRequestHeader,
    GetEventsRequestHeader,
    MoveClockRequestHeader,
    RoleStatusRequestHeader,
)
from pocketmq.operation.faults.requests import GetFaultsRequestHeader, SetFaultsRequestHeader
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import BrokerError
from pocketmq.protocol.signing import Credentials
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.runtime.errors import ConfigError
from pocketmq.testing import Cluster, start_cluster
from support.eventually import PATIENCE_MS, PATIENCE_S
from support.nested_pytest import pytest_command

ROOT = Path(__file__).resolve().parents[2]
SHOP = ("shop", "s3cret")
USERS = {"shop": "s3cret", "office": "0ther"}
RULES = [
    ("shop", "Topic:orders", "Pub"),
    ("office", "Topic:orders", "Sub"),
    ("office", "Group:*", "Sub"),
]


@pytest.fixture(
    scope="module",
    params=["in-process", pytest.param("processes", marks=pytest.mark.cluster)],
)
def secured(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with start_cluster(users=USERS, acl=RULES, mode=request.param) as cluster:
        cluster.sync.create_topic("orders")
        yield cluster


def test_users_do_what_their_rules_allow(secured: Cluster) -> None:
    with secured.sync.producer(credentials=SHOP) as producer:
        producer.send(Message("orders", b"hello"))
    with secured.sync.consumer("billing", "orders", credentials=("office", "0ther")) as consumer:
        assert consumer.receive(limit_s=PATIENCE_S).body == b"hello"


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (("shop", "wrong"), "check signature failed"),
        (("office", "0ther"), "no matched policies"),
        (None, "username cannot be null"),
    ],
)
def test_a_service_with_a_wrong_key_is_refused(secured: Cluster, key: Any, reason: str) -> None:
    with (
        pytest.raises((BrokerError, SendFailedError)) as refused,
        secured.sync.producer(credentials=key) as producer,
    ):
        producer.send(Message("orders", b"hello"))

    assert reason in str(refused.value)


def test_the_test_on_the_page_proves_what_it_says() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    [block] = [each for each in blocks if "def test_a_wrong_key_is_refused" in each]
    names: dict[str, Any] = {}
    exec(compile(block, "docs/security.md", "exec"), names)

    names["test_a_wrong_key_is_refused"]()


def test_the_cluster_is_steered_and_watched_as_before(secured: Cluster) -> None:
    secured.faults.add("fail", code="SEND_MESSAGE", with_code="SYSTEM_BUSY", nth=1)
    secured.faults.clear()
    secured.sync.create_topic("more")
    assert secured.state("broker-a") == "running"
    assert secured.super_user is not None
    assert secured.super_user.secret_key not in repr(secured.super_user)


def test_users_are_there_again_after_a_reset() -> None:
    with start_cluster(users=USERS) as cluster:
        cluster.sync.reset()
        with cluster.sync.producer(credentials=SHOP) as producer:
            producer.send(Message("orders", b"without rules all is allowed that is signed"))
        wrong = cluster.sync.producer(credentials=("shop", "x"))
        with pytest.raises((BrokerError, SendFailedError)), wrong as producer:
            producer.send(Message("orders", b"x"))


def test_time_moves_in_a_secured_cluster() -> None:
    with start_cluster(users=USERS, clock="manual") as cluster:
        before = cluster.sync.time_ms
        cluster.sync.advance(seconds=60)
        assert cluster.sync.time_ms - before == 60_000


@pytest.mark.parametrize(
    "options",
    [
        {"users": {"shop": ""}},
        {"users": {"pocketmq": "x"}},
        {"users": {"shop": "x"}, "acl": [("other", "*", "All")]},
        {"acl": [("shop", "Topic:a")]},
    ],
)
def test_users_and_rules_that_make_no_sense_are_refused(options: Any) -> None:
    with pytest.raises(ConfigError), start_cluster(**options):
        pass


def test_the_key_of_a_data_folder_is_its_brokers_key_at_each_start(tmp_path: Path) -> None:
    keys = []
    for _ in range(2):
        with start_cluster(users=USERS, super_users={"admin": "x"}, data=tmp_path) as cluster:
            keys.append(cluster.super_user)
            cluster.sync.create_topic("orders")
            with cluster.sync.producer(credentials=("admin", "x")) as producer:
                producer.send(Message("orders", b"hello"))
    assert keys[0] == keys[1]
    assert (tmp_path / "super-user.json").stat().st_mode & 0o777 == 0o600
    (tmp_path / "super-user.json").write_text("{}")
    with pytest.raises(ConfigError, match="holds no key"), start_cluster(users={}, data=tmp_path):
        pass
    (tmp_path / "super-user.json").unlink()  # brokers know the old key: a new one locks all out
    with pytest.raises(ConfigError, match="is missing"), start_cluster(users={}, data=tmp_path):
        pass
    assert not (tmp_path / "super-user.json").exists()


FILE = """
acl = [["shop", "Topic:orders", "Pub"]]

[users]
shop = "s3cret"

[super_users]
admin = "0ther"
"""

NESTED = """
import pytest
from pocketmq.client import Message, SendFailedError

def test_rules(pocketmq_cluster):
    sync = pocketmq_cluster.sync
    sync.create_topic("orders")
    sync.create_topic("bills")
    with sync.producer(credentials=("shop", "s3cret")) as producer:
        producer.send(Message("orders", b"right"))
        with pytest.raises(SendFailedError, match="no matched policies"):
            producer.send(Message("bills", b"wrong"))
    with sync.producer(credentials=("admin", "0ther")) as producer:
        producer.send(Message("bills", b"right"))

def test_the_shared_one(pocketmq):
    assert pocketmq.super_user.access_key == "pocketmq"
"""


def test_fixtures_have_the_users_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "users.toml").write_text(FILE)
    (tmp_path / "test_nested.py").write_text(NESTED)
    (tmp_path / "pytest.ini").write_text("[pytest]\npocketmq_users = users.toml\n")
    ran = subprocess.run(pytest_command(tmp_path), cwd=tmp_path, capture_output=True, text=True)
    assert "2 passed" in ran.stdout, ran.stdout


@pytest.mark.cluster
async def test_a_cluster_of_processes_has_the_users_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "users.toml").write_text(FILE)
    async with local_cluster(users=tmp_path / "users.toml", tls=True) as cluster:
        ca_file = cluster.spec.tls.certificate if cluster.spec.tls else None
        clients: dict[str, Any] = {"nameservers": cluster.namesrv_addr, "tls_ca_file": ca_file}
        async with Admin(
            **clients, tls=True, credentials=("admin", "0ther"), api_timeout_ms=PATIENCE_MS
        ) as admin:
            found = await admin.users()
            names = {each.username: each.user_type for each in found["broker-a"]}
            assert names == {"admin": "Super", "shop": "Normal", "pocketmq": "Super"}
            assert [each.subject for each in (await admin.rules())["broker-a"]] == ["User:shop"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[users", "users.toml"),
        ("[user]\nshop = 'x'", "unknown field `user`"),
        ("[users]\nshop = 'x'\n[super_users]\nshop = 'x'", "'shop' is normal and super"),
        ("acl = [['shop', '*']]", "users.toml"),
        ("acl = [['shop', '*', 'All']]", "'shop' is no user"),
    ],
)
def test_a_file_of_users_that_makes_no_sense_is_refused(
    tmp_path: Path, content: str, said: str
) -> None:
    path = tmp_path / "users.toml"
    path.write_text(content)
    with pytest.raises(ConfigError, match=re.escape(said)):
        ClusterAccess.read(path)
    with pytest.raises(ConfigError, match="No such file"):
        ClusterAccess.read(tmp_path / "none.toml")


AT_EVERY_ROLE = [
    GetClockRequestHeader(),
    RoleStatusRequestHeader(),
    GetEventsRequestHeader(),
    SetFaultsRequestHeader(),
    GetFaultsRequestHeader(),
]


def own_requests(cluster: Cluster, who: Credentials | None) -> dict[str, set[int]]:
    """The codes of answers to requests of PocketMQ's own, of each role."""

    async def ask() -> dict[str, set[int]]:
        remoting = RemotingClient(cluster.control.roles.network, credentials=who)
        now_ms = cluster.control.roles.time_ms()
        try:
            return {
                name: {
                    (await remoting.call(address, header, timeout_s=PATIENCE_S)).code
                    for header in (*AT_EVERY_ROLE, MoveClockRequestHeader(time_ms=now_ms + 1))
                }
                for name, address in cluster.control.roles.addresses.items()
            }
        finally:
            await remoting.close()

    return cluster.thread.result(ask())


@pytest.mark.parametrize(
    "mode", ["in-process", pytest.param("processes", marks=pytest.mark.cluster)]
)
def test_own_requests_need_a_super_user_at_every_role(mode: Any) -> None:
    with start_cluster(
        users=dict([SHOP]), super_users={"admin": "x"}, clock="manual", mode=mode
    ) as cluster:
        assert set(cluster.control.roles.addresses) == {"nameserver-1", "broker-a"}
        before = cluster.sync.time_ms
        wrong = Credentials("pocketmq", "wrong")
        for who in (None, Credentials(*SHOP), wrong, Credentials("admin", "wrong")):
            answered = own_requests(cluster, who)
            assert all(codes == {ResponseCode.NO_PERMISSION} for codes in answered.values()), who
        assert cluster.sync.time_ms == before
        for who in (cluster.super_user, Credentials("admin", "x")):
            answered = own_requests(cluster, who)
            assert not [name for name, codes in answered.items() if 16 in codes], who
        # Steering goes on, through and after a restart.
        cluster.sync.kill("nameserver-1")
        cluster.sync.restart("nameserver-1")
        cluster.faults.add("fail", code="SEND_MESSAGE", with_code="SYSTEM_BUSY", nth=1)
        cluster.faults.clear()
        cluster.sync.advance(seconds=1)  # from where those requests have moved the clocks
        at_ms = cluster.sync.time_ms
        cluster.sync.advance(seconds=60)
        assert cluster.sync.time_ms - at_ms == 60_000


@pytest.mark.cluster
async def test_own_requests_need_a_super_user_at_controllers(tmp_path: Path) -> None:
    (tmp_path / "users.toml").write_text(FILE)
    async with local_cluster(
        controllers=3, replicas=2, users=tmp_path / "users.toml", clock="manual"
    ) as cluster:
        await cluster.advance(seconds=5)
        for who, is_let_in in (
            (None, False),
            (Credentials(*SHOP), False),
            (Credentials("admin", "wrong"), False),
            (Credentials("admin", "0ther"), True),
        ):
            remoting = RemotingClient(cluster.network, credentials=who)
            for process in cluster.processes:
                for header in AT_EVERY_ROLE:
                    reply = await remoting.call(process.address, header, timeout_s=PATIENCE_S)
                    refused = reply.code == ResponseCode.NO_PERMISSION
                    assert refused != is_let_in, (process.name, who, header)
            await remoting.close()
        [status] = [
            await cluster.control(each.name).status()
            for each in cluster.of_role("controller")
            if (await cluster.control(each.name).status())["raftRole"] == "leader"
        ]
        assert status["serves"] == "true"
