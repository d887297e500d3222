"""ACL 1.0 beside RocketMQ 4.9.8's own code; in a broker: files, watch, migration (Y-20 to Y-24)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from pocketmq.broker.access.plain.accounts import ACCOUNT_CODES, PlainAcl, PlainAclError
from pocketmq.broker.access.plain.addresses import address_pattern
from pocketmq.broker.access.plain.files import LOOK_S, parsed
from pocketmq.broker.access.plain.plain_guard import PlainGuard, PlainRefusedError
from pocketmq.operation.access.rules import Decision, PolicyType
from pocketmq.operation.access.users import UserType
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.headers.topics import UpdateAndCreateTopicRequestHeader
from pocketmq.protocol.signing import SIGNATURE, Credentials, signature
from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.profile import PROFILE_4_9, PROFILE_5_3, Profile
from support.broker_rig import BrokerRig, running_broker, send_header
from support.golden import GOLDEN
from support.plain_access_cases import FILES, REQUESTS, drawn

WORDS = "org.apache.rocketmq.acl.common.AclException: "
VERSION = 401


def ours(file: dict[str, Any]) -> list[str]:
    guard = PlainGuard()
    try:
        guard.use(PlainAcl.of(parsed({Path("plain_acl.yml"): file["yaml"].encode()})))
    except PlainAclError:
        return ["file refused"]
    return [judged(guard, each) for each in file["requests"]]


def judged(guard: PlainGuard, wanted: dict[str, Any]) -> str:
    body = (wanted["body"] or "").encode()
    fields = dict(wanted["fields"])
    if wanted["secret"] is not None:
        fields[SIGNATURE] = signature(fields, body, wanted["secret"])
    request = Command(wanted["code"], fields, body, encoding=Encoding.JSON, version=VERSION)
    try:
        guard.check(SimpleNamespace(address=wanted["address"]), request)
    except PlainRefusedError as exc:
        return str(exc).partition(WORDS)[2].rpartition(", ")[0]
    return "allowed"


def test_decisions_are_those_of_rocketmq() -> None:
    theirs = iter((GOLDEN / "access" / "answers_4_9_8.txt").read_text().splitlines())
    compared = 0
    for file in drawn():
        for number, mine in enumerate(ours(file)):
            answer = next(theirs)
            compared += 1
            wanted = file["requests"][number]
            if wanted["code"] in ACCOUNT_CODES and mine != answer:  # Y-25: for admins only
                assert answer == "allowed"
                assert mine.startswith(("Need admin permission", "Check signature failed")), wanted
                continue
            if answer.startswith("No default permission"):  # which of two, its hash map says
                assert mine.startswith("No default permission"), (file["yaml"], wanted, mine)
            else:
                assert mine == answer, (file["yaml"], wanted)
    assert next(theirs, None) is None
    assert compared > FILES * REQUESTS * 0.7


@pytest.mark.parametrize("text", ["10.0.0", "x", "1-2.0.0.1", "10.0.0.0-0", "fe80::x"])
def test_what_is_no_pattern_of_addresses_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        address_pattern(text)


YAML = """
globalWhiteRemoteAddresses: [10.10.103.*]
accounts:
  - accessKey: shopkey
    secretKey: 12345678
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms: [orders=PUB|SUB, bills=SUB]
  - accessKey: RocketMQ
    secretKey: rocketmq-secret
    admin: true
"""
SHOP = Credentials("shopkey", "12345678")
ADMIN = Credentials("RocketMQ", "rocketmq-secret")


@asynccontextmanager
async def guarded(
    folder: Path, text: str = YAML, profile: Profile = PROFILE_4_9, **options: Any
) -> AsyncIterator[tuple[BrokerRig, Path]]:
    path = folder / "conf" / "plain_acl.yml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    options = {"acl_enable": True, "plain_acl_file": path, **options}
    async with running_broker(folder / "store", profile, **options) as rig:
        yield rig, path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


async def send(rig: BrokerRig, who: Credentials | None, topic: str) -> Command:
    voice = await rig.voice()
    voice.channel.credentials = who
    return await voice.ask(send_header(topic=topic), b"x")


async def test_a_broker_takes_what_its_file_allows(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (rig, _):
        voice = await rig.voice()
        voice.channel.credentials = ADMIN
        for topic in ("orders", "bills"):
            header = UpdateAndCreateTopicRequestHeader(topic=topic, read_queue_nums=1,
                write_queue_nums=1, perm=6, topic_filter_type="SINGLE_TAG")  # fmt: skip
            assert (await voice.ask(header)).code == ResponseCode.SUCCESS
        end = rig.broker.store.commit_log.max_offset
        for who, topic, said in (
            (None, "orders", "No accessKey is configured"),
            (SHOP, "bills", "No default permission for topic:bills"),
            (SHOP, "other", "No default permission for topic:other"),
            (Credentials("shopkey", "wrong-secret"), "orders", "Check signature failed for"),
            (Credentials("nobodys", "wrong-secret"), "orders", "No acl config for nobodys"),
        ):
            refused = await send(rig, who, topic)
            assert refused.code == ResponseCode.SYSTEM_ERROR
            assert (refused.remark or "").startswith(f"{WORDS}{said}"), refused.remark
        assert rig.broker.store.commit_log.max_offset == end, "nothing was stored"
        assert (await send(rig, SHOP, "orders")).code == ResponseCode.SUCCESS


async def test_the_file_is_watched_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (rig, path):

        async def after(text: str, where: Path = path) -> str:
            write(where, text)
            await rig.advance(LOOK_S)
            return (await send(rig, SHOP, "later")).remark or ""

        with structlog.testing.capture_logs() as logs:
            assert "No default permission" in await after("accounts: {")
            assert "No default permission" in await after(YAML.replace("12345678", "short"))
        told = [each for each in logs if each["event"] == "acl.refused"]
        assert len(told) == 2
        assert "rocketmq-secret" not in str(logs)
        assert await after(YAML.replace("bills=SUB", "later=PUB")) == ""
        more = YAML.replace("shopkey", "another")
        assert "No acl config for shopkey" in await after(more)
        assert "default permission" in await after(YAML, path.parent / "acl" / "more.yaml")


async def test_a_broken_file_lets_no_broker_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="length should longer than 6"):
        async with guarded(tmp_path, YAML.replace("12345678", "short")):
            pass


async def test_the_switch_has_no_effect_in_5_3(tmp_path: Path) -> None:
    async with guarded(tmp_path, profile=PROFILE_5_3) as (rig, _):
        assert rig.broker.subjects.access.guard is None


async def test_both_kinds_of_access_control_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="turn one off"):
        async with guarded(tmp_path, authentication_enabled=True):
            pass


async def test_accounts_become_users_at_each_start(tmp_path: Path) -> None:  # Y-50
    options: dict[str, Any] = {"acl_enable": False, "migrate_auth_from_v1_enabled": True}
    async with guarded(tmp_path, profile=PROFILE_5_3, **options) as (rig, _):
        accounts = rig.broker.subjects.access.accounts
        assert accounts.users["shopkey"].type is UserType.NORMAL
        assert accounts.users["RocketMQ"].type is UserType.SUPER
        custom, default = accounts.acls["User:shopkey"].policies
        rules = [
            (each.resource.key, [one.value for one in each.actions], each.decision)
            for each in (*custom.entries, *default.entries)
        ]
        assert (custom.type, default.type) == (PolicyType.CUSTOM, PolicyType.DEFAULT)
        assert rules == [
            ("Topic:orders", ["Pub", "Sub"], Decision.ALLOW),
            ("Topic:bills", ["Sub"], Decision.ALLOW),
            ("Topic:*", ["All"], Decision.DENY),
            ("Group:*", ["Sub"], Decision.ALLOW),
        ]
        assert "User:RocketMQ" not in accounts.acls
        accounts.update("shopkey", password="changed-since", kind=None, status=None)
        accounts.delete("RocketMQ")
    path = tmp_path / "conf" / "plain_acl.yml"
    options |= {"plain_acl_file": path}
    async with running_broker(tmp_path / "store", PROFILE_5_3, **options) as rig:
        users = rig.broker.subjects.access.accounts.users
        assert users["shopkey"].password == "changed-since"
        assert "RocketMQ" in users, "who is not there is made again"


def test_the_yaml_of_generated_cases_is_what_people_write() -> None:
    [content] = parsed({Path("x.yml"): YAML.encode()})
    assert json.loads(json.dumps(content))["accounts"][0]["secretKey"] == 12345678
