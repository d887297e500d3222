"""Requests 50 to 53 change the accounts of ACL 1.0 as RocketMQ 4.9.8 does, for admins (Y-25)."""

from __future__ import annotations

import json
import stat
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml

from pocketmq.broker.access.plain import files as plain_files
from pocketmq.broker.access.plain.changes import NothingChangedError, delete_account
from pocketmq.broker.access.plain.files import LOOK_S, Change, PlainAclFiles
from pocketmq.protocol.budget import Budget
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.plain_access import (
    CreateAccessConfigRequestHeader,
    DeleteAccessConfigRequestHeader,
    GetBrokerAclConfigResponseHeader,
    GetBrokerAclInfoRequestHeader,
    UpdateGlobalWhiteAddrsConfigRequestHeader,
)
from pocketmq.protocol.signing import Credentials
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import PROFILE_4_9, PROFILE_5_3, Profile
from support.broker_rig import BrokerRig, Voice, running_broker, send_header
from support.eventually import eventually

YAML = """
# of the shop
accounts:
  - accessKey: shopkey
    secretKey: 12345678
    topicPerms: [orders=PUB]
  - accessKey: RocketMQ
    secretKey: rocketmq-secret
    admin: true
"""
SHOP = Credentials("shopkey", "12345678")
ADMIN = Credentials("RocketMQ", "rocketmq-secret")
MAIL = Credentials("mailkey", "mail-secret")

MAKE = CreateAccessConfigRequestHeader(
    access_key="mailkey", secret_key="mail-secret", topic_perms="letters=PUB|SUB,orders=SUB"
)
DELETE = DeleteAccessConfigRequestHeader(access_key="shopkey")
WHITE = UpdateGlobalWhiteAddrsConfigRequestHeader(global_white_addrs="10.0.0.*,127.0.0.2")
INFO = GetBrokerAclInfoRequestHeader()


@asynccontextmanager
async def guarded(
    folder: Path, profile: Profile = PROFILE_4_9, text: str = YAML, **options: Any
) -> AsyncIterator[tuple[BrokerRig, Path]]:
    path = folder / "conf" / "plain_acl.yml"
    path.parent.mkdir()
    path.write_text(text)
    options = {"acl_enable": True, "plain_acl_file": path, **options}
    async with running_broker(folder / "store", profile, **options) as rig:
        yield rig, path


async def voice_of(rig: BrokerRig, who: Credentials | None) -> Voice:
    voice = await rig.voice()
    voice.channel.credentials = who
    return voice


async def ask(rig: BrokerRig, header: Header, who: Credentials | None = ADMIN) -> Command:
    return await (await voice_of(rig, who)).ask(header)


async def sent(rig: BrokerRig, who: Credentials | None, topic: str) -> str:
    """What the broker says of a send."""
    return (await ask(rig, send_header(topic=topic), who)).remark or ""


def held(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


@pytest.mark.parametrize("encoding", list(Encoding))
async def test_an_account_that_is_made_counts_at_once_and_is_in_the_file(
    tmp_path: Path, encoding: Encoding
) -> None:
    async with guarded(tmp_path) as (rig, path):
        voice = await voice_of(rig, ADMIN)
        voice.channel.encoding = encoding
        assert "No acl config for mailkey" in await sent(rig, MAIL, "letters")
        assert (await voice.ask(MAKE)).code == ResponseCode.SUCCESS
        assert "acl" not in await sent(rig, MAIL, "letters")
        assert "No default permission for topic:orders" in await sent(rig, MAIL, "orders")
        now_ms = rig.clock.time_ms()
        assert held(path)["accounts"][-1] == {
            "accessKey": "mailkey",
            "secretKey": "mail-secret",
            "admin": False,
            "topicPerms": ["letters=PUB|SUB", "orders=SUB"],
        }
        assert held(path)["dataVersion"] == [{"counter": 1, "timestamp": now_ms}]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert [each.name for each in path.parent.iterdir()] == [path.name]


async def test_a_change_keeps_what_it_does_not_name_and_stays_in_its_file(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (rig, path):
        other = path.parent / "acl" / "mail.yaml"
        other.parent.mkdir()
        other.write_text("accounts: [{accessKey: mailkey, secretKey: mail-secret, admin: true,"
                         " defaultGroupPerm: SUB, topicPerms: [orders=PUB]}]")  # fmt: skip
        await rig.advance(LOOK_S)
        before = path.read_bytes()
        changed = CreateAccessConfigRequestHeader(
            access_key="mailkey",
            secret_key="mail-other",
            default_topic_perm="PUB",
            white_remote_address="10.1.1.1",
        )
        assert (await ask(rig, changed)).code == ResponseCode.SUCCESS
        assert path.read_bytes() == before
        [account] = held(other)["accounts"]
        assert account == {
            "accessKey": "mailkey",
            "secretKey": "mail-other",
            "admin": False,
            "defaultGroupPerm": "SUB",
            "topicPerms": ["orders=PUB"],
            "whiteRemoteAddress": "10.1.1.1",
            "defaultTopicPerm": "PUB",
        }
        assert "Check signature failed" in await sent(rig, MAIL, "orders")
        assert "acl" not in await sent(rig, Credentials("mailkey", "mail-other"), "orders")


async def test_an_account_that_is_deleted_gets_in_no_more(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (rig, path):
        assert (await ask(rig, DELETE)).code == ResponseCode.SUCCESS
        assert "No acl config for shopkey" in await sent(rig, SHOP, "orders")
        assert [each["accessKey"] for each in held(path)["accounts"]] == ["RocketMQ"]
        for key in ("shopkey", ""):
            again = await ask(rig, DeleteAccessConfigRequestHeader(access_key=key))
            assert (again.code, again.remark) == (
                210,
                f"The accesskey[{key}] corresponding to accessConfig has been deleted failed.",
            )
        assert held(path)["dataVersion"][0]["counter"] == 1


async def test_white_addresses_are_replaced_in_a_file_of_accounts_alone(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (rig, path):
        assert (await ask(rig, WHITE)).code == ResponseCode.SUCCESS
        assert held(path)["globalWhiteRemoteAddresses"] == ["10.0.0.*", "127.0.0.2"]
        beside = path.parent / "other.yml"
        beside.write_text("{}")
        for named in (beside, path.parent / "acl" / ".." / ".." / "conf" / "other.yml", "/etc/x"):
            refused = await ask(
                rig,
                UpdateGlobalWhiteAddrsConfigRequestHeader(
                    global_white_addrs="*", acl_file_full_path=str(named)
                ),
            )
            assert refused.code == 211
            assert refused.remark == "The globalWhiteAddresses[*] has been updated failed."
        assert beside.read_text() == "{}"
        named_so = UpdateGlobalWhiteAddrsConfigRequestHeader(
            global_white_addrs="", acl_file_full_path=str(path)
        )
        assert (await ask(rig, named_so)).code == ResponseCode.SUCCESS
        assert held(path)["globalWhiteRemoteAddresses"] == [""]
        assert held(path)["dataVersion"][0]["counter"] == 2


async def test_versions_tell_how_often_each_file_was_changed(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (rig, path):

        async def told() -> tuple[dict[str, int], dict[str, dict[str, int]]]:
            found = (await ask(rig, INFO)).header(GetBrokerAclConfigResponseHeader)
            assert found.broker_name == rig.broker.config.name
            assert found.broker_addr == rig.broker.address
            assert found.cluster_name == rig.broker.config.cluster_name
            return json.loads(found.version), json.loads(found.all_acl_file_version or "")

        start_ms = rig.clock.time_ms()
        assert await told() == ({"counter": 0, "timestamp": start_ms},
                                {str(path): {"counter": 0, "timestamp": start_ms}})  # fmt: skip
        await rig.advance(LOOK_S)
        await ask(rig, MAKE)
        await ask(rig, DELETE)
        changed_ms = rig.clock.time_ms()
        version, files = await told()
        assert version == {"counter": 2, "timestamp": changed_ms}
        assert files == {str(path): version}
        path.write_text(path.read_text().replace("counter: 2", "counter: 7"))
        await rig.advance(LOOK_S)
        assert (await told())[0] == {"counter": 7, "timestamp": changed_ms}


BAD = (
    ({"secret_key": "short"}, "length should longer than 6"),
    ({"secret_key": None}, "length should longer than 6"),
    ({"access_key": "short"}, "length should longer than 6"),
    ({"topic_perms": "orders"}, "Parse Resource format error for orders.\nThe expected"),
    ({"topic_perms": ""}, "Parse Resource format error for .\nThe expected"),
    ({"group_perms": "g=ANY"}, "Parse resource permission error for g=ANY.\nThe expected"),
    ({"white_remote_address": "10.0.0.x-9"}, "Netaddress examine Exception"),
)


@pytest.mark.parametrize(("fields", "said"), BAD)
async def test_what_makes_no_sense_is_refused_and_nothing_is_written(
    tmp_path: Path, fields: dict[str, Any], said: str
) -> None:
    known = {"access_key": "mailkey", "secret_key": "mail-secret", **fields}
    async with guarded(tmp_path) as (rig, path):
        before = path.read_bytes()
        refused = await ask(rig, CreateAccessConfigRequestHeader(**known))
        assert refused.code == 209
        assert said in (refused.remark or "")
        white = UpdateGlobalWhiteAddrsConfigRequestHeader(global_white_addrs="10.0.0.x-9")
        refused = await ask(rig, white)
        assert refused.code == 211
        assert "Netaddress examine Exception" in (refused.remark or "")
        assert path.read_bytes() == before


@pytest.mark.parametrize("header", [MAKE, DELETE, WHITE, INFO], ids=lambda each: str(each.CODE))
async def test_only_an_admin_may(tmp_path: Path, header: Header) -> None:
    text = YAML.replace("    topicPerms", "    whiteRemoteAddress: '*'\n    topicPerms")
    async with guarded(tmp_path, text=text) as (rig, path):
        for who, said in (
            (None, "No accessKey is configured"),
            (SHOP, f"Need admin permission for request code={header.CODE}"),
            (Credentials("shopkey", "wrong-secret"), "Check signature failed"),
            (Credentials("RocketMQ", "wrong-secret"), "Check signature failed"),
        ):
            refused = await ask(rig, header, who)
            assert refused.code == ResponseCode.SYSTEM_ERROR
            assert said in (refused.remark or "")
        assert path.read_text() == text, "no byte of the file has changed"


async def test_a_file_that_cannot_be_written_leaves_all_as_it_was(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (rig, path):
        path.with_name(f"{path.name}.tmp").mkdir()
        refused = await ask(rig, DELETE)
        assert refused.code == 210
        assert "plain_acl.yml" in (refused.remark or "")
        assert "acl" not in await sent(rig, SHOP, "orders")
        path.with_name(f"{path.name}.tmp").rmdir()
        assert (await ask(rig, DELETE)).code == ResponseCode.SUCCESS


async def test_changes_that_come_at_once_are_all_made(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (rig, path):
        voice = await voice_of(rig, ADMIN)
        asked = [
            voice.channel.request(
                CreateAccessConfigRequestHeader(access_key=f"account-{n}", secret_key="a-secret")
            )
            for n in range(20)
        ]
        for each in asked:
            assert (await each).code == ResponseCode.SUCCESS
        assert len(held(path)["accounts"]) == 22
        assert held(path)["dataVersion"][0]["counter"] == 20


async def test_files_are_parsed_and_dumped_beside_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand accounts take PyYAML a second, and no request may wait for it."""
    threads: dict[str, list[int]] = {"load": [], "dump": []}

    def recorded(name: str) -> Callable[..., Any]:
        function = getattr(yaml, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            threads[name].append(threading.get_ident())
            # C reads and writes them eight times faster, and wheels have it.
            assert kwargs["Loader" if name == "load" else "Dumper"].__name__[:5] == "CSafe"
            return function(*args, **kwargs)

        return call

    for name in threads:
        monkeypatch.setattr(yaml, name, recorded(name))
    async with guarded(tmp_path) as (rig, path):
        assert (await ask(rig, MAKE)).code == ResponseCode.SUCCESS
        path.write_text(YAML)
        await rig.advance(LOOK_S)
        assert len(threads["load"]) == 3, "at the start, for the change, and when it is seen"
        assert len(threads["dump"]) == 1
        assert threading.get_ident() not in threads["load"] + threads["dump"]


async def test_changes_that_wait_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_files, "MOST_WAITING", 3)
    async with guarded(tmp_path) as (rig, path):
        voice = await voice_of(rig, ADMIN)
        asked = [
            voice.channel.request(
                CreateAccessConfigRequestHeader(access_key=f"account-{n}", secret_key="a-secret")
            )
            for n in range(10)
        ]
        answers = [await each for each in asked]
        refused = [each for each in answers if each.code != ResponseCode.SUCCESS]
        assert 3 <= len(answers) - len(refused) <= 4, "one of them may have begun"
        for each in refused:
            assert each.code == ResponseCode.SYSTEM_BUSY
            assert "3 changes of accounts are already waiting" in (each.remark or "")
        assert held(path)["dataVersion"][0]["counter"] == len(answers) - len(refused)
        assert (await ask(rig, DELETE)).code == ResponseCode.SUCCESS, "later there is room again"


async def test_an_answer_that_fails_stops_no_later_change(tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text(YAML)
    files = PlainAclFiles(path, ManualClock(0), lambda _: None)
    await files.load()
    told: list[Exception | None] = []

    def fails(_failure: Exception | None) -> None:
        raise ValueError("the peer's channel is broken")

    def asked(key: str) -> Change:
        return lambda found: delete_account(found, key)

    with structlog.testing.capture_logs() as logs:
        files.change(asked("shopkey"), fails)
        files.change(asked("RocketMQ"), told.append)
        await eventually(lambda: bool(told), "the change behind it to be made")
    assert [each["event"] for each in logs if each["log_level"] == "error"] == ["acl.answer_failed"]
    files.change(asked("nobody"), told.append)
    await eventually(lambda: len(told) == 2, "a later one to be made")
    assert told[0] is None
    assert isinstance(told[1], NothingChangedError)
    assert held(path)["accounts"] == []


async def test_accounts_are_bounded(tmp_path: Path) -> None:
    async with guarded(tmp_path, budget=Budget(users=2)) as (rig, path):
        refused = await ask(rig, MAKE)
        assert refused.code != ResponseCode.SUCCESS
        assert "accounts" in (refused.remark or "")
        assert path.read_text() == YAML


async def test_without_acl_1_0_the_answer_says_so(tmp_path: Path) -> None:
    async with guarded(tmp_path, acl_enable=False) as (rig, path):
        for header, code in ((MAKE, 209), (DELETE, 210), (WHITE, 211), (INFO, 1)):
            refused = await ask(rig, header, None)
            assert refused.code == code
            assert "aclEnable=true" in (refused.remark or "")
        assert path.read_text() == YAML


async def test_from_5_3_3_on_nobody_knows_these_requests(tmp_path: Path) -> None:
    async with guarded(tmp_path, PROFILE_5_3) as (rig, _):
        for header in (MAKE, DELETE, WHITE, INFO):
            assert (await ask(rig, header)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def test_the_codes_are_of_4_9_to_5_3_2() -> None:
    assert {RequestCode(code).until for code in range(50, 54)} == {"5.3.2"}
