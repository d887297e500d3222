"""RocketMQ's own Java clients and `mqadmin` with keys, over TLS and not, against secured brokers.

What is refused changes nothing: nothing is stored, and the accounts stay as they were.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from pocketmq.cluster.access_export import mqadmin_lines
from support.java_versions import run_version
from support.secured import ACCOUNTS, Secured, with_accounts, with_users

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(1200),  # a first run downloads RocketMQ
]

SOURCE = Path(__file__).resolve().parent / "java_accounts" / "Signed.java"
MQADMIN = "org.apache.rocketmq.tools.command.MQAdminStartup"
TLS = {"tls.enable": "true"}


async def signed(found: Secured, version: str, *steps: str, **options: Any) -> list[str]:
    """What `Signed` says of each step."""
    run = await asyncio.to_thread(
        run_version,
        version,
        "Signed",
        found.nameserver.address,
        *steps,
        source=SOURCE,
        **options,
    )
    told = [line.removeprefix("STEP ") for line in run.stdout.splitlines() if "STEP" in line]
    assert run.returncode == 0, run.stderr[-3000:]
    assert len(told) == len(steps), f"{run.stdout}\n{run.stderr[-3000:]}"
    return told


async def mqadmin(found: Secured, version: str, *words: str, key: str = "", **options: Any) -> str:
    """What a command prints that signs by `conf/tools.yml`; without a key there is no file."""
    conf = found.folder / "home" / "conf"
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
        run_version, version, MQADMIN, *words, "-n", found.nameserver.address,
        source=SOURCE, properties=properties, **options,
    )  # fmt: skip
    return run.stdout + run.stderr


RIGHT = ("send:shopkey:shop-secret:orders", "read:shopkey:shop-secret:orders")


async def judge(
    found: Secured, version: str, said: dict[str, str], properties: dict[str, str]
) -> None:
    """Nobody gets in whose key, value, body or topic is not right; then who has it does."""
    steps = [f"{step}:billing" for step in (*said, *RIGHT)]
    told = await signed(found, version, *steps, properties=properties)
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
            return await mqadmin(found, "4.9.8", *words, key=key, properties=properties)

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
            return await mqadmin(found, "5.3.3", *words, key=key, properties=properties)

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


@pytest.mark.nightly
async def test_each_command_of_mqadmin_for_users_and_rules_works(tmp_path: Path) -> None:
    async with with_users(tmp_path) as found:
        here = found.broker.address

        async def ask(command: str, *words: str) -> str:
            where = ("-f", here, "-t", here) if command.startswith("copy") else ("-b", here)
            key = "adminkey:admin-secret"
            return await mqadmin(found, "5.3.3", command, *where, *words, key=key)

        who = ("-s", "User:mail")
        rule = ("-r", "Topic:letters", "-d")
        assert "success" in await ask("createUser", "-u", "mail", "-p", "mail-secret")
        assert re.search(r"mail +mail-secret +Normal +enable", await ask("getUser", "-u", "mail"))
        assert "success" in await ask("updateUser", "-u", "mail", "-s", "disable")
        listed = await ask("listUser")
        assert re.search(r"mail +mail-secret +Normal +disable", listed)
        assert "shopkey" in listed
        assert "mail" not in await ask("listUser", "-f", "shop")
        assert "success" in await ask("copyUser", "-u", "mail")
        made = (*who, *rule, "Allow", "-a", "Pub", "-i", "10.0.0.1")
        assert "success" in await ask("createAcl", *made)
        shown = await ask("getAcl", *who)
        assert re.search(
            r"User:mail +Custom +Topic:letters +.*Pub.* +.*10\.0\.0\.1.* +Allow", shown
        )
        assert "success" in await ask("updateAcl", *who, *rule, "Deny", "-a", "Pub,Sub")
        shown = await ask("listAcl", *who)
        assert re.search(r"User:mail +Custom +Topic:letters +.*Pub.*Sub.* +Deny", shown)
        assert "success" in await ask("copyAcl", *who)
        assert "success" in await ask("deleteAcl", *who, "-r", "Topic:letters")
        assert "Topic:letters" not in await ask("listAcl")
        assert "success" in await ask("deleteUser", "-u", "mail")
        assert "mail" not in await ask("listUser")
