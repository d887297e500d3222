"""What a broker with access control takes and refuses (Y-42 to Y-46); nothing changes then."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog

from pocketmq.operation.access.resources import Resource
from pocketmq.operation.access.rules import Action, Decision, Entry, Policy, PolicyType
from pocketmq.operation.access.users import User, UserStatus, UserType
from pocketmq.operation.control.requests import RoleStatusRequestHeader
from pocketmq.protocol.bodies.access import UserInfo
from pocketmq.protocol.bodies.clients import ConsumerData, HeartbeatData, LockBatchBody
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.headers.access import (
    CreateUserRequestHeader,
    ListUsersRequestHeader,
    UpdateUserRequestHeader,
)
from pocketmq.protocol.headers.clients import HeartbeatRequestHeader
from pocketmq.protocol.headers.locks import LockBatchMqRequestHeader, UnlockBatchMqRequestHeader
from pocketmq.protocol.headers.settings import (
    GetBrokerConfigRequestHeader,
    UpdateBrokerConfigRequestHeader,
)
from pocketmq.protocol.headers.topics import UpdateAndCreateTopicRequestHeader
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.signing import Credentials, signature
from pocketmq.runtime.profile import PROFILE_5_X, PROFILES, Profile
from support.any_fields import Fixed
from support.broker_rig import (
    BrokerRig,
    Voice,
    consumer,
    pull_header,
    running_broker,
    send_header,
)

ADMIN = Credentials("admin", "rooted")
SHOP = Credentials("shop", "s3cret")
ON: dict[str, Any] = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": json.dumps({"username": "admin", "password": "rooted"}),
}


@dataclass
class Secured:
    """A broker with access control."""

    rig: BrokerRig

    async def voice(self, who: Credentials | None, encoding: Encoding = Encoding.MSGPACK) -> Voice:
        voice = await self.rig.voice(encoding)
        voice.channel.credentials = who
        return voice

    def user(self, name: str, password: str, **fields: Any) -> None:
        self.rig.broker.subjects.access.accounts.create(User(name, password, **fields))

    def allow(self, name: str, *rules: tuple[str, str]) -> None:
        """Rules as `("Topic:orders", "Pub,Sub")`."""
        entries = []
        for text, actions in rules:
            resource = Resource.parse(text)
            assert resource is not None
            found = tuple(Action(each) for each in actions.split(","))
            entries.append(Entry(resource, found, Decision.ALLOW))
        accounts = self.rig.broker.subjects.access.accounts
        accounts.keep(accounts.granted(f"User:{name}", [Policy(PolicyType.CUSTOM, tuple(entries))]))

    @property
    def state(self) -> tuple[Any, ...]:
        """What a request that was refused must not have changed."""
        broker = self.rig.broker
        return (
            broker.store.commit_log.max_offset,
            sorted(broker.topics.table),
            sorted(broker.groups.table),
            broker.subjects.access.accounts.users,
            dict(broker.subjects.access.accounts.acls),
            broker.core.config,
        )


@asynccontextmanager
async def secured(
    folder: Path, profile: Profile = PROFILE_5_X, **options: Any
) -> AsyncIterator[Secured]:
    async with running_broker(folder, profile, **{**ON, **options}) as rig:
        yield Secured(rig)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Secured]:
    async with secured(tmp_path) as made:
        made.user("shop", "s3cret")
        yield made


def said(reply: Command) -> tuple[int, str | None]:
    return reply.code, reply.remark


@pytest.mark.parametrize("encoding", list(Encoding), ids=lambda each: each.name.lower())
async def test_a_user_sends_and_reads_what_its_rules_allow(
    broker: Secured, encoding: Encoding
) -> None:
    broker.allow("shop", ("Topic:orders", "Pub,Sub"), ("Group:*", "Sub"))
    voice = await broker.voice(SHOP, encoding)

    await voice.send("orders", b"hello")
    pulled = await voice.pull("orders")
    other = await voice.try_send("billing")

    assert pulled.bodies == [b"hello"]
    assert said(other) == (
        16,
        "User:shop has no permission to access Topic:billing from 127.0.0.1, no matched policies.",
    )


@pytest.mark.parametrize(
    ("who", "remark"),
    [
        (None, "username cannot be null."),
        (Credentials("nobody", "x"), "User:nobody is not found."),
        (Credentials("off", "x"), "User:off is disabled."),
        (Credentials("shop", "wrong"), "check signature failed."),
    ],
)
@pytest.mark.parametrize("encoding", list(Encoding), ids=lambda each: each.name.lower())
async def test_who_does_not_prove_who_it_is_is_refused_and_nothing_is_changed(
    broker: Secured, encoding: Encoding, who: Credentials | None, remark: str
) -> None:
    broker.user("off", "x", status=UserStatus.DISABLE)
    before = broker.state
    voice = await broker.voice(who, encoding)

    answers = [
        await voice.try_send("orders"),
        await voice.ask(pull_header("orders", 0)),
        await beat(voice),
        await voice.ask(UpdateBrokerConfigRequestHeader(), b"brokerPermission=2"),
    ]

    assert [said(each) for each in answers] == [(16, remark)] * 4  # Y-42
    assert broker.state == before
    assert not broker.rig.broker.producers.groups


@pytest.mark.parametrize("encoding", list(Encoding), ids=lambda each: each.name.lower())
@pytest.mark.parametrize("change", ["topic", "body", "signature", "added"])
async def test_a_request_that_was_changed_on_its_way_is_refused(
    broker: Secured, encoding: Encoding, change: str
) -> None:
    voice = await broker.voice(None, encoding)
    fields = ADMIN.signed(send_header("orders"), b"hello", encoding)
    body = b"hello"
    match change:
        case "topic":
            fields["b"] = "billing"
        case "body":
            body = b"hullo"
        case "signature":
            fields["Signature"] = str(fields["Signature"]).lower()
        case _:
            fields["added"] = "1"
    before = broker.state

    reply = await raw(voice, RequestCode.SEND_MESSAGE_V2, fields, body)

    assert said(reply) == (16, "check signature failed.")
    assert broker.state == before


@pytest.mark.parametrize("encoding", list(Encoding), ids=lambda each: each.name.lower())
async def test_a_session_token_is_signed_and_not_looked_at(
    broker: Secured, encoding: Encoding
) -> None:
    # As in RocketMQ: it is for gateways before the broker (STS).
    who = Credentials("admin", "rooted", "STS.token")
    voice = await broker.voice(who, encoding)
    assert (await voice.try_send("orders")).code == 0

    fields = who.signed(send_header("orders"), b"hello", encoding)
    voice.channel.credentials = None
    for other in ({"SecurityToken": "STS.other"}, {"SecurityToken": None}):
        changed = {name: each for name, each in (fields | other).items() if each is not None}
        before = broker.state
        reply = await raw(voice, RequestCode.SEND_MESSAGE_V2, changed, b"hello")
        assert said(reply) == (16, "check signature failed.")
        assert broker.state == before


@pytest.mark.parametrize("topic", ["shops%orders", "RMQ_SYS_TRACE_TOPIC"])
async def test_namespaces_and_traces_need_rules_about_their_own_names(
    broker: Secured, topic: str
) -> None:
    voice = await broker.voice(SHOP)
    broker.allow("shop", ("Topic:orders", "Pub,Sub"), ("Group:shops%billing", "Sub"))
    refusal = f"User:shop has no permission to access Topic:{topic} from 127.0.0.1"
    before = broker.state
    reply = await voice.try_send(topic)
    assert reply.code == 16
    assert str(reply.remark).startswith(refusal)
    assert broker.state == before
    broker.allow("shop", (f"Topic:{topic}", "Pub"))
    assert (await voice.try_send(topic)).code == 0


async def test_all_request_codes_without_a_key_change_and_read_nothing(broker: Secured) -> None:
    voice = await broker.voice(None)
    before = broker.state

    for code in sorted(broker.rig.broker.dispatcher.codes | {9999}):
        reply = await raw(voice, code, {"topic": "T", "group": "G"}, b"{}")
        assert said(reply) == (16, "username cannot be null."), code
        assert bytes(reply.body_view) == b""

    assert broker.state == before


UNCHECKED = {
    18, 21, 25, 26, 28, 43, 45, 46, 60, 61, 200, 201, 225, 305, 306, 316, 324, 325, 329, 361, 400,
    401, 402, 907, 1007, 200056, 200151,
}  # fmt: skip
"""What RocketMQ leaves to any user (Y-44)."""


async def test_a_normal_user_without_rules_gets_only_what_rocketmq_leaves_unchecked(
    broker: Secured,
) -> None:
    voice = await broker.voice(SHOP)
    fields: dict[str, object] = dict.fromkeys(
        ("topic", "group", "consumerGroup", "groupName", "destGroup", "b", "a"), "T"
    )
    passed = set()
    for code in sorted(broker.rig.broker.dispatcher.codes):
        if code in {RequestCode.HEART_BEAT, 41, 42}:
            continue  # by their bodies: below
        reply = await raw(voice, code, fields, by=SHOP)
        if reply.code != ResponseCode.NO_PERMISSION or "permission to access" not in str(
            reply.remark
        ):
            passed.add(code)

    own = {code for code in passed if code >= 30_000 and code < 40_000}
    assert passed - own == UNCHECKED
    for code in own:
        reply = await raw(voice, code, {}, by=SHOP)
        assert reply.code == 16
        assert "only a super user may send" in str(reply.remark)


async def test_a_super_user_may_do_all(broker: Secured) -> None:
    voice = await broker.voice(ADMIN)

    await voice.send("orders", b"hello")
    assert (await voice.pull("orders")).bodies == [b"hello"]
    assert (await voice.ask(ListUsersRequestHeader())).code == 0
    assert (await voice.ask(RoleStatusRequestHeader())).code == 0


async def test_requests_of_one_turn_are_judged_one_by_one(broker: Secured) -> None:
    broker.allow("shop", ("Topic:orders", "Pub"))
    voice = await broker.voice(SHOP)

    futures = [
        voice.channel.request(send_header(topic), topic.encode())
        for topic in ("orders", "billing", "orders", "billing", "orders")
    ]
    replies = [await each for each in futures]

    assert [each.code for each in replies] == [0, 16, 0, 16, 0]
    assert broker.rig.broker.stats.put_messages == 3


async def test_members_of_a_group_need_sub_on_group_and_topics(broker: Secured) -> None:
    broker.allow("shop", ("Group:g", "Sub"), ("Topic:orders", "Sub"))
    voice = await broker.voice(SHOP)

    ok = await beat(voice, consumer("g", ["orders", "%RETRY%g"]))
    topic = await beat(voice, consumer("g", ["billing"]))
    group = await beat(voice, consumer("other", ["orders"]))

    assert ok.code == 0
    assert "Topic:billing" in str(topic.remark)
    assert "Group:other" in str(group.remark)
    assert set(broker.rig.broker.consumers.groups) == {"g"}


@pytest.mark.parametrize("header", [LockBatchMqRequestHeader, UnlockBatchMqRequestHeader])
async def test_queues_are_locked_and_unlocked_with_sub_on_group_and_topics(
    broker: Secured, header: type[LockBatchMqRequestHeader | UnlockBatchMqRequestHeader]
) -> None:
    broker.allow("shop", ("Group:g", "Sub"), ("Topic:orders", "Sub"))
    voice = await broker.voice(SHOP)

    async def ask(group: str, *topics: str) -> Command:
        queues = [MessageQueue(topic, "broker-a", 0) for topic in topics]
        body = LockBatchBody(consumer_group=group, client_id="c", mq_set=queues)
        return await voice.ask(header(), body)

    ok = await ask("g", "orders", "%RETRY%g")
    topic = await ask("g", "orders", "billing")
    group = await ask("other", "orders")

    assert ok.code == 0
    assert "Topic:billing" in str(topic.remark)
    assert "Group:other" in str(group.remark)


async def test_a_retry_topic_counts_as_its_group(broker: Secured) -> None:
    broker.allow("shop", ("Group:g", "Sub"))
    voice = await broker.voice(SHOP)

    taken = await voice.try_send("%RETRY%g", producer_group="g")
    refused = await voice.try_send("%RETRY%other", producer_group="other")

    assert "permission" not in str(taken.remark)
    assert "Group:other" in str(refused.remark)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
async def test_whose_sub_a_send_to_a_retry_topic_needs(
    tmp_path: Path, profile: Profile
) -> None:  # Y-43
    async with secured(tmp_path, profile) as broker:
        broker.user("shop", "s3cret")
        broker.allow("shop", ("Group:g", "Sub"))
        voice = await broker.voice(SHOP)

        foreign = await voice.try_send("%RETRY%other", producer_group="g")
        nameless = await voice.try_send("%RETRY%other", producer_group="")
        own = await voice.try_send("%RETRY%g", producer_group="other")

    takes_named = profile.name != "5.5"
    assert ("Group:other" in str(foreign.remark)) is not takes_named
    assert "Group:other" in str(nameless.remark)
    assert ("Group:other" in str(own.remark)) is takes_named


async def test_codes_of_the_white_lists_pass(tmp_path: Path) -> None:
    lists = {"authentication_whitelist": "17, 310", "authorization_whitelist": "310"}
    async with secured(tmp_path, **lists) as broker:
        voice = await broker.voice(None)

        await voice.send("orders", b"hello")
        created = await voice.ask(
            UpdateAndCreateTopicRequestHeader(
                topic="t", read_queue_nums=1, write_queue_nums=1, perm=6
            )
        )

    assert said(created) == (  # Y-43: a subject is needed for what needs a right
        16,
        "Authorization failed. Please verify your access rights and try again.",
    )


async def test_each_switch_works_alone(tmp_path: Path) -> None:
    async with secured(tmp_path / "a", authorization_enabled=False) as broker:
        broker.user("shop", "s3cret")
        await (await broker.voice(SHOP)).send("orders")
        assert (await (await broker.voice(None)).try_send("orders")).code == 16
    async with secured(tmp_path / "b", authentication_enabled=False) as broker:
        broker.user("shop", "s3cret")
        broker.allow("shop", ("Topic:orders", "Pub"))
        unproved = await broker.voice(Credentials("shop", "whatever"))
        await unproved.send("orders")
        assert (await unproved.try_send("billing")).code == 16


async def test_only_super_users_make_super_users(broker: Secured) -> None:
    broker.allow("shop", ("Cluster:*", "Update"))
    voice = await broker.voice(SHOP)
    body = UserInfo(password="x", user_type="Super")

    made = await voice.ask(CreateUserRequestHeader(username="root"), body)
    changed = await voice.ask(UpdateUserRequestHeader(username="shop"), body)
    other = await voice.ask(UpdateUserRequestHeader(username="admin"), UserInfo(password="mine"))

    assert said(made) == (1, "The super user can only be create by super user")
    assert said(changed) == (1, "The super user can only be update by super user")
    assert said(other) == (16, "The super user can only be update by super user")
    assert broker.rig.broker.subjects.access.accounts.users["admin"].password == "rooted"


async def test_without_the_switches_nothing_is_checked_and_the_dispatcher_is_the_plain_one(
    rig: BrokerRig,
) -> None:
    assert type(rig.broker.dispatcher) is Dispatcher
    voice = await rig.voice()
    voice.channel.credentials = Credentials("anybody", "x")
    await voice.send("orders")


async def test_secrets_are_neither_shown_nor_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = {"accessKey": "inner", "secretKey": "hidden"}
    async with secured(
        tmp_path, inner_client_authentication_credentials=json.dumps(inner)
    ) as broker:
        broker.user("shop", "s3cret")
        admin, wrong = await broker.voice(ADMIN), await broker.voice(Credentials("shop", "no"))
        with structlog.testing.capture_logs() as logged:
            shown = bytes((await admin.ask(GetBrokerConfigRequestHeader())).body_view).decode()
            for _ in range(3):
                await wrong.try_send("orders")
        users = broker.rig.broker.subjects.access.accounts.users

    for secret in ("rooted", "hidden", "s3cret"):
        assert secret not in shown
        assert secret not in str(logged)
        assert secret not in repr(users)
    assert "authenticationEnabled=true" in shown
    denied = [each for each in logged if each["event"] == "request.denied"]
    assert [each["log_level"] for each in denied] == ["info", "debug", "debug"]
    assert users["inner"].type is UserType.SUPER


async def raw(
    voice: Voice,
    code: int,
    fields: dict[str, object],
    body: bytes = b"",
    *,
    by: Credentials | None = None,
) -> Command:
    """Ask any code with any fields, signed where somebody is said."""
    sent = dict(fields)
    if by is not None:
        sent["AccessKey"] = by.access_key
        sent["Signature"] = signature(sent, body, by.secret_key)
    voice.channel.credentials = Fixed(sent)
    return await voice.channel.request(
        GetBrokerConfigRequestHeader(), body, code=code, timeout_s=60.0
    )


async def beat(voice: Voice, *consumers: ConsumerData) -> Command:
    """A heartbeat; the answer, whatever it is."""
    body = HeartbeatData(client_id="127.0.0.1@1", consumer_data_set=list(consumers))
    return await voice.ask(HeartbeatRequestHeader(), body)
