"""Requests about users and rules: 3001 to 3010 (Y-46, Y-47), in all three encodings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from pocketmq.protocol.bodies.access import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.budget import Budget
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.headers.access import (
    CreateAclRequestHeader,
    CreateUserRequestHeader,
    DeleteAclRequestHeader,
    DeleteUserRequestHeader,
    GetAclRequestHeader,
    GetUserRequestHeader,
    ListAclsRequestHeader,
    ListUsersRequestHeader,
    UpdateAclRequestHeader,
    UpdateUserRequestHeader,
)
from support.broker_rig import BrokerRig, Voice, running_broker

SHOP = "User:shop"


def rules(
    resource: str = "Topic:orders",
    *actions: str,
    decision: str = "Allow",
    ips: list[str] | None = None,
    kind: str | None = "Custom",
) -> AclInfo:
    entry = PolicyEntryInfo(
        resource=resource, actions=list(actions or ["Pub"]), source_ips=ips, decision=decision
    )
    return AclInfo(policies=[PolicyInfo(policy_type=kind, entries=[entry])])


async def make_user(voice: Voice, name: str = "shop", **fields: Any) -> Command:
    body = UserInfo(**{"password": "s3cret", **fields})
    return await voice.ask(CreateUserRequestHeader(username=name), body)


@pytest.fixture
async def speaker(rig: BrokerRig, encoding: Encoding) -> Voice:
    return await rig.voice(encoding)


async def test_a_user_is_made_read_changed_listed_and_deleted(
    speaker: Voice, encoding: Encoding
) -> None:
    assert (await make_user(speaker)).code == 0
    found = await speaker.ask(GetUserRequestHeader(username="shop"))
    assert decode_body(found.body_view, UserInfo, encoding) == UserInfo(
        username="shop", password="s3cret", user_type="Normal", user_status="enable"
    )

    changed = UserInfo(user_type="super", user_status="DISABLE")
    assert (await speaker.ask(UpdateUserRequestHeader(username="shop"), changed)).code == 0
    listed = await speaker.ask(ListUsersRequestHeader(filter="ho"))
    [info] = decode_body(listed.body_view, list[UserInfo], encoding)
    assert info == UserInfo(
        username="shop", password="s3cret", user_type="Super", user_status="disable"
    )

    assert (await speaker.ask(DeleteUserRequestHeader(username="shop"))).code == 0
    assert (await speaker.ask(GetUserRequestHeader(username="shop"))).body_view == b""
    assert (await speaker.ask(ListUsersRequestHeader())).body_view == b""
    assert (await speaker.ask(DeleteUserRequestHeader(username="shop"))).code == 0


async def test_what_is_no_user_is_refused_with_rocketmq_s_words(voice: Voice) -> None:
    await make_user(voice)

    assert said(await make_user(voice, "")) == (29, "The username is blank")
    assert said(await make_user(voice)) == (16, "The user is existed")
    assert said(await make_user(voice, "b", password=" ")) == (16, "password can not be blank")
    absent = await voice.ask(UpdateUserRequestHeader(username="b"), UserInfo(password="x"))
    assert said(absent) == (16, "The user is not exist")
    blank = await voice.ask(DeleteUserRequestHeader(username=" "))
    assert said(blank) == (16, "username can not be blank")


async def test_a_request_that_names_nobody_is_refused_as_a_blank_name_is(voice: Voice) -> None:
    body = UserInfo(password="x")
    assert said(await voice.ask(CreateUserRequestHeader(), body)) == (29, "The username is blank")
    assert said(await voice.ask(UpdateUserRequestHeader(), body)) == (29, "The username is blank")
    assert said(await voice.ask(GetUserRequestHeader())) == (29, "The username is blank")
    nobody = await voice.ask(DeleteUserRequestHeader())
    assert said(nobody) == (16, "username can not be blank")
    assert said(await voice.ask(DeleteAclRequestHeader())) == (16, "The subject is null.")


async def test_what_a_peer_can_have_kept_is_bounded(tmp_path: Path) -> None:
    budget = Budget(users=2, rules_per_user=3, name_chars=20)
    async with running_broker(tmp_path, budget=budget) as rig:
        voice = await rig.voice()
        for long in ({"name": "n" * 21}, {"password": "p" * 21}):
            reply = await make_user(voice, **long)
            assert reply.code == ResponseCode.INVALID_PARAMETER
            assert "21 is over the limit of 20 (budget.name_chars)" in str(reply.remark)
        assert [(await make_user(voice, name)).code for name in ("shop", "b")] == [0, 0]
        assert "budget.users" in str((await make_user(voice, "c")).remark)
        assert said(await make_user(voice, "b")) == (16, "The user is existed")

        async def grant(*entries: AclInfo) -> str:
            header = CreateAclRequestHeader(subject=SHOP)
            policies = [policy for each in entries for policy in each.policies or ()]
            merged = [entry for policy in policies for entry in policy.entries or ()]
            body = AclInfo(policies=[PolicyInfo(policy_type="Custom", entries=merged)])
            return (await voice.ask(header, body)).remark or ""

        assert "a resource" in await grant(rules("Topic:" + "t" * 21))
        many = rules("Topic:a", ips=["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"])
        assert "budget.rules_per_user" in await grant(many)
        assert not await grant(rules("Topic:a"), rules("Topic:b"))
        assert not await grant(rules("Topic:a"), rules("Topic:c"))  # one of them is replaced
        assert "budget.rules_per_user" in await grant(rules("Topic:d"))
        found = await voice.ask(GetAclRequestHeader(subject=SHOP))
        [policy] = decode_body(found.body_view, AclInfo, Encoding.MSGPACK).policies or ()
        kept = [each.resource for each in policy.entries or ()]
        assert kept == ["Topic:a", "Topic:b", "Topic:c"]


async def test_rules_are_added_replaced_listed_and_taken(
    speaker: Voice, encoding: Encoding
) -> None:
    await make_user(speaker)
    granted = await speaker.ask(
        CreateAclRequestHeader(subject="user:shop"),
        rules("Topic:orders*", "pub", "SUB", "dance", ips=["10.0.0.0/8"]),
    )
    assert granted.code == 0, granted.remark
    await speaker.ask(UpdateAclRequestHeader(subject=SHOP), rules("group:g", decision="deny"))
    await speaker.ask(UpdateAclRequestHeader(subject=SHOP), rules("*", "All", kind="Default"))

    found = await speaker.ask(GetAclRequestHeader(subject=SHOP))
    acl = decode_body(found.body_view, AclInfo, encoding)
    assert acl.subject == SHOP
    assert [
        (policy.policy_type, entry.resource, entry.actions, entry.source_ips, entry.decision)
        for policy in acl.policies or ()
        for entry in policy.entries or ()
    ] == [
        ("Custom", "Topic:orders*", ["Pub", "Sub"], ["10.0.0.0/8"], "Allow"),
        ("Custom", "Group:g", ["Pub"], None, "Deny"),
        ("Default", "*", ["All"], None, "Allow"),
    ]
    only = await speaker.ask(ListAclsRequestHeader(resource_filter="Group:"))
    [listed] = decode_body(only.body_view, list[AclInfo], encoding)
    assert [p.entries[0].resource for p in listed.policies or () if p.entries] == ["Group:g"]

    one = DeleteAclRequestHeader(subject=SHOP, resource="Group:g")
    assert (await speaker.ask(one)).code == 0
    none = await speaker.ask(ListAclsRequestHeader(resource_filter="Group:"))
    assert none.body_view == b""
    assert (await speaker.ask(DeleteAclRequestHeader(subject=SHOP))).code == 0
    gone = await speaker.ask(GetAclRequestHeader(subject=SHOP))
    assert (gone.code, gone.body_view) == (0, b"")
    twice = await speaker.ask(DeleteAclRequestHeader(subject=SHOP))
    assert said(twice) == (16, "The acl is not exist.")


@pytest.mark.parametrize(
    ("acl", "remark"),
    [
        (rules("Nothing:x"), "The resource is null."),
        (rules("Topic:x", "dance"), "The actions is empty."),
        (rules("Topic:x", "any"), "The actions can not be Any."),
        (rules("Topic:x", ips=[" "]), "The source ip is empty."),
        (rules("Topic:x", ips=["10.0.0.0/33"]), "The source ip is invalid."),
        (rules("Topic:x", decision="perhaps"), "The decision is null or illegal."),
        (AclInfo(policies=[PolicyInfo(entries=[])]), "The policies is empty."),
    ],
)
async def test_a_rule_that_makes_no_sense_is_refused(
    voice: Voice, acl: AclInfo, remark: str
) -> None:
    await make_user(voice)

    assert said(await voice.ask(CreateAclRequestHeader(subject=SHOP), acl)) == (16, remark)
    assert (await voice.ask(ListAclsRequestHeader())).body_view == b""


async def test_rules_need_a_subject_that_exists(voice: Voice) -> None:
    made = await voice.ask(CreateAclRequestHeader(subject=SHOP), rules())
    assert said(made) == (16, "The subject of User:shop is not exist.")
    got = await voice.ask(GetAclRequestHeader(subject=SHOP))
    assert said(got) == (16, "The subject is not exist.")
    strange = await voice.ask(CreateAclRequestHeader(subject="Robot:x"), rules())
    assert strange.code == ResponseCode.SYSTEM_ERROR
    empty = await voice.ask(CreateAclRequestHeader(subject=SHOP), AclInfo())
    assert empty.code == ResponseCode.SYSTEM_ERROR
    assert "The body of acl is null" in (empty.remark or "")


async def test_users_and_rules_survive_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        await make_user(voice, user_type="Super", user_status="disable")
        await voice.ask(CreateAclRequestHeader(subject=SHOP), rules(ips=["::1", "10.1.0.0/16"]))
        before = await voice.ask(ListAclsRequestHeader())
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        after = await voice.ask(ListAclsRequestHeader())
        users = await voice.ask(ListUsersRequestHeader())

    assert bytes(after.body_view) == bytes(before.body_view)
    [user] = msgspec.msgpack.decode(users.body_view, type=list[UserInfo])
    assert (user.user_type, user.user_status) == ("Super", "disable")


async def test_a_deleted_user_s_rules_go_too(voice: Voice) -> None:
    await make_user(voice)
    await voice.ask(CreateAclRequestHeader(subject=SHOP), rules())

    await voice.ask(DeleteUserRequestHeader(username="shop"))
    await make_user(voice)

    assert (await voice.ask(GetAclRequestHeader(subject=SHOP))).body_view == b""


def said(reply: Command) -> tuple[int, str | None]:
    return reply.code, reply.remark
