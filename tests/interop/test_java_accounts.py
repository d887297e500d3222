"""RocketMQ's own Java clients and `mqadmin` with keys, over TLS and not, against secured brokers.

What is refused changes nothing: nothing is stored, and the accounts stay as they were.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.server import Broker
from pocketmq.broker.store import StoreConfig
from pocketmq.client import Admin
from pocketmq.cluster.access_export import mqadmin_lines
from pocketmq.nameserver.config import NameServerConfig
from pocketmq.nameserver.server import NameServer
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.profile import PROFILE_4_9, PROFILE_5_3, Profile
from support.broker_rig import SMALL_FILES
from support.eventually import eventually
from support.java_versions import run_version
from support.nameserver_rig import MemoryStorage
from support.tls import server_tls

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(1200),  # a first run downloads RocketMQ
]

SOURCE = Path(__file__).resolve().parent / "java_accounts" / "Signed.java"
MQADMIN = "org.apache.rocketmq.tools.command.MQAdminStartup"
TLS = {"tls.enable": "true"}

ACCOUNTS = """
accounts:
  - accessKey: shopkey
    secretKey: shop-secret
    topicPerms: [orders=PUB|SUB]
    groupPerms: [billing=SUB]
  - accessKey: adminkey
    secretKey: admin-secret
    admin: true
"""
ADMIN = ("adminkey", "admin-secret")


@dataclass
class Secured:
    """A nameserver and a broker that take both TLS and plaintext, on free ports."""

    nameserver: NameServer
    broker: Broker
    folder: Path

    def admin(self) -> Admin:
        """Of the user who may do everything."""
        return Admin(nameservers=self.nameserver.address, credentials=ADMIN)

    async def signed(self, version: str, *steps: str, **options: Any) -> list[str]:
        """What `Signed` says of each step."""
        run = await asyncio.to_thread(
            run_version,
            version,
            "Signed",
            self.nameserver.address,
            *steps,
            source=SOURCE,
            **options,
        )
        told = [line.removeprefix("STEP ") for line in run.stdout.splitlines() if "STEP" in line]
        assert run.returncode == 0, run.stderr[-3000:]
        assert len(told) == len(steps), f"{run.stdout}\n{run.stderr[-3000:]}"
        return told

    async def mqadmin(self, version: str, *words: str, key: str = "", **options: Any) -> str:
        """What a command prints that signs by `conf/tools.yml`; without a key there is no file."""
        conf = self.folder / "home" / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        (conf / "logback_tools.xml").write_text("<configuration/>")
        (conf / "rmq.tools.logback.xml").write_text("<configuration/>")
        tools = conf / "tools.yml"
        tools.unlink(missing_ok=True)
        if key:
            access_key, secret_key = key.split(":")
            tools.write_text(f"accessKey: {access_key}\nsecretKey: '{secret_key}'\n")
        properties = {"rocketmq.home.dir": str(conf.parent), **options.pop("properties", {})}
        run = await asyncio.to_thread(
            run_version, version, MQADMIN, *words, "-n", self.nameserver.address,
            source=SOURCE, properties=properties, **options,
        )  # fmt: skip
        return run.stdout + run.stderr


@asynccontextmanager
async def secured(folder: Path, profile: Profile, **options: Any) -> AsyncIterator[Secured]:
    """With topics `orders` and `bills`."""
    clock, network = SystemClock(), TcpNetwork(server_tls=server_tls())
    nameserver = NameServer(
        NameServerConfig(port=0), clock, network, profile, kv_storage=MemoryStorage()
    )
    await nameserver.start()
    config = BrokerConfig(
        name="broker-a", data=folder / "broker-a", port=0, nameservers=(nameserver.address,),
        **options,
    )  # fmt: skip
    broker = Broker(config, clock, network, profile, store_config=StoreConfig(**SMALL_FILES))
    await broker.start()
    found = Secured(nameserver, broker, folder)
    try:
        async with found.admin() as admin:
            for topic in ("orders", "bills"):
                await admin.create_topic(topic, queues=1)
                await eventually(partial(admin.route, topic), f"{topic} has a route")
        yield found
    finally:
        await broker.stop()
        await nameserver.stop()


@asynccontextmanager
async def with_accounts(folder: Path) -> AsyncIterator[tuple[Secured, Path]]:
    """ACL 1.0 in profile 4.9, and its file."""
    path = folder / "conf" / "plain_acl.yml"
    path.parent.mkdir()
    path.write_text(ACCOUNTS)
    async with secured(folder, PROFILE_4_9, acl_enable=True, plain_acl_file=path) as found:
        yield found, path


@asynccontextmanager
async def with_users(folder: Path) -> AsyncIterator[Secured]:
    """ACL 2.0 in profile 5.3: user `shopkey`, and `gonekey` who is disabled."""
    async with secured(
        folder,
        PROFILE_5_3,
        authentication_enabled=True,
        authorization_enabled=True,
        init_authentication_user='{"username":"adminkey","password":"admin-secret"}',
    ) as found:
        async with found.admin() as admin:
            for name in ("shopkey", "gonekey"):
                await admin.create_user(name, f"{name[:4]}-secret")
                await admin.grant(name, ["Topic:orders"], ["Pub", "Sub"])
                await admin.grant(name, ["Group:billing"], ["Sub"])
            await admin.update_user("gonekey", is_enabled=False)
        yield found


RIGHT = ("send:shopkey:shop-secret:orders", "read:shopkey:shop-secret:orders")


async def judge(
    found: Secured, version: str, said: dict[str, str], properties: dict[str, str]
) -> None:
    """Nobody gets in whose key, value, body or topic is not right; then who has it does."""
    steps = [f"{step}:billing" for step in (*said, *RIGHT)]
    told = await found.signed(version, *steps, properties=properties)
    for step, line, words in zip(said, told, said.values(), strict=False):
        assert line.startswith(f"{step.partition(':')[0]} REFUSED {words}"), (step, line)
    assert told[len(said) :] == ["send SENT", "read READ"]
    async with found.admin() as admin:
        for topic, count in (("orders", 1), ("bills", 0)):
            stats = await admin.topic_stats(topic)
            assert sum(each.max_offset for each in stats.values()) == count, "none was stored"


OLD = "1 org.apache.rocketmq.acl.common.AclException: "
OF_ACCOUNTS = {
    "send:shopkey:wrong-secret:orders": f"{OLD}Check signature failed for accessKey=shopkey",
    "send:nobodykey:shop-secret:orders": f"{OLD}No acl config for nobodykey",
    "send:shopkey:shop-secret:bills": f"{OLD}No default permission for topic:bills",
    "alter:shopkey:shop-secret:orders": f"{OLD}Check signature failed for accessKey=shopkey",
    "body:shopkey:shop-secret:orders": f"{OLD}Check signature failed for accessKey=shopkey",
}
OF_USERS = {
    "send:shopkey:wrong-secret:orders": "16 check signature failed.",
    "send:nobodykey:shop-secret:orders": "16 User:nobodykey is not found.",
    "send:gonekey:gone-secret:orders": "16 User:gonekey is disabled.",
    "send:shopkey:shop-secret:bills": "16 User:shopkey has no permission to access Topic:bills",
    "alter:shopkey:shop-secret:orders": "16 check signature failed.",
    "body:shopkey:shop-secret:orders": "16 check signature failed.",
}


async def test_a_java_client_over_tls_gets_in_with_the_right_key_only(tmp_path: Path) -> None:
    async with with_accounts(tmp_path) as (found, _):
        await judge(found, "4.9.8", OF_ACCOUNTS, TLS)


@pytest.mark.nightly
@pytest.mark.parametrize("properties", [TLS, {}], ids=["tls", "plain"])
@pytest.mark.parametrize("version", ["4.9.8", "5.3.3"])
async def test_clients_of_each_line_get_in_at_either_kind_of_broker_with_the_right_key_only(
    tmp_path: Path, version: str, properties: dict[str, str]
) -> None:
    async with with_accounts(tmp_path) as (found, _):
        await judge(found, version, OF_ACCOUNTS, properties)
    async with with_users(tmp_path / "5.3") as found:
        await judge(found, version, OF_USERS, properties)


@pytest.mark.nightly
@pytest.mark.parametrize("properties", [TLS, {}], ids=["tls", "plain"])
async def test_mqadmin_changes_accounts_with_an_admin_s_key_alone(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    async with with_accounts(tmp_path) as (found, path):
        where = ("-b", found.broker.address)
        make = ("updateAclConfig", *where, "-a", "mailkey", "-s", "mail-secret", "-t",
                "letters=PUB|SUB,orders=SUB", "-g", "readers=SUB", "-m", "false")  # fmt: skip
        drop = ("deleteAccessConfig", *where, "-a", "shopkey")
        white = ("updateGlobalWhiteAddr", *where, "-g", "10.0.0.*,10.1.1.1")
        told = ("clusterAclConfigVersion", *where)
        commands = (make, drop, white, told)

        async def ask(words: tuple[str, ...], key: str) -> str:
            return await found.mqadmin("4.9.8", *words, key=key, properties=properties)

        for words in commands:
            for key, said in (
                ("", "No accessKey is configured"),
                ("adminkey:wrong-secret", "Check signature failed"),
                ("shopkey:shop-secret", "Need admin permission"),
            ):
                assert said in await ask(words, key)
        assert path.read_text() == ACCOUNTS, "no byte of the file has changed"
        for words in commands:
            assert "success" in await ask(words, "adminkey:admin-secret"), words
        text = path.read_text()
        assert "shopkey" not in text
        assert "- letters=PUB|SUB\n  - orders=SUB\n" in text
        assert "globalWhiteRemoteAddresses:\n- 10.0.0.*\n- 10.1.1.1\n" in text
        shown = await ask(told, "adminkey:admin-secret")
        [line] = [line for line in shown.splitlines() if str(path) in line]
        assert line.split()[:5] == ["DefaultCluster", "broker-a", found.broker.address,
                                    str(path), "3"]  # fmt: skip
        again = await ask(drop, "adminkey:admin-secret")
        assert "CODE: 210  DESC: The accesskey[shopkey] corresponding to accessConfig" in again


@pytest.mark.nightly
@pytest.mark.parametrize("properties", [TLS, {}], ids=["tls", "plain"])
async def test_mqadmin_with_a_key_makes_the_users_and_rules_that_were_exported(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    async with with_users(tmp_path) as found, found.admin() as admin:
        await admin.create_user("boss", "b0ss's", is_super=True)
        await admin.grant("shopkey", ["*"], ["All"], is_allowed=False, source_ips=["10.0.0.0/8"])
        users, rules = await admin.users(), await admin.rules()
        names = ("shopkey", "boss")
        lines = mqadmin_lines(
            [each for each in users["broker-a"] if each.username in names],
            [each for each in rules["broker-a"] if each.subject == "User:shopkey"],
            cluster="DefaultCluster",
            with_secrets=True,
        )
        for name in names:
            await admin.delete_user(name)
        before = await admin.users()

        async def ask(line: str, key: str) -> str:
            words = shlex.split(line)[1:]
            return await found.mqadmin("5.3.3", *words, key=key, properties=properties)

        for key, said in (
            ("", "username cannot be null"),
            ("adminkey:wrong-secret", "check signature failed"),
            ("gonekey:gone-secret", "is disabled"),
        ):
            assert said in await ask(lines[0], key)
            assert await admin.users() == before
        for line in lines:
            assert "success" in await ask(line, "adminkey:admin-secret"), line
        assert await admin.users() == users
        assert await admin.rules() == rules
