"""Users and rules at the gRPC door: who is let in, what each call needs (G-6, G-140 to G-142)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from pocketmq.client.api import ClientApi
from pocketmq.operation.access.decisions import AccessDeniedError
from pocketmq.operation.control.requests import (
    GetClockRequestHeader,
    GetEventsRequestHeader,
    MoveClockRequestHeader,
    RoleStatusRequestHeader,
)
from pocketmq.protocol.budget import Budget
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.clients import (
    GetAllProducerInfoRequestHeader,
    GetConsumerConnectionListRequestHeader,
)
from pocketmq.protocol.signing import Credentials
from pocketmq.protocol.transport.proxy_protocol import VERSION_2, header_of
from pocketmq.proxy.access.claims import Claim
from pocketmq.proxy.access.needs import needs_of
from pocketmq.proxy.codes.refusals import Refusal
from pocketmq.proxy.config import ProxyConfig
from pocketmq.proxy.edge.front import FrontPeer
from pocketmq.proxy.edge.kept import EXPIRE_S, REFRESH_S
from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import ClientType, Code
from pocketmq.proxy.protos.shapes import UNARY
from pocketmq.runtime.errors import ConfigError
from support.golden import GOLDEN
from support.grpc_access import (
    ADMIN,
    CHECKS,
    DATE,
    SECURE,
    SHOP,
    TOPICS,
    admin_of,
    secured_rig,
    signed,
    stored,
)
from support.grpc_access_cases import CLOSED, PASSES, answer, cases, make_accounts
from support.grpc_consuming import asked, receive, received
from support.memory_cluster import START_MS
from support.own_logs import own_logs
from support.proxy_rig import ProxyRig, Sdk, message, proxy_rig

GROUP = {"group": pb.Resource(name="billing")}
ORDERS = {"topic": pb.Resource(name="orders")}
BILLS = {"topic": pb.Resource(name="bills")}
DENIED = "User:shop has no permission to access {} from 127.0.0.1, no matched policies."


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ProxyRig]:
    async with secured_rig(tmp_path) as made:
        yield made


def sdk(rig: ProxyRig, *key: str, client_id: str = "sdk-1", **headers: str) -> Sdk:
    """An SDK that signs with a key, if it has one."""
    return rig.sdk(client_id, **(signed(*key) if key else {}), **headers)


def told(answer: Any) -> tuple[int, str]:
    return answer.status.code, answer.status.message


# -- what is signed -----------------------------------------------------------------------------


def headers(rest: str, date: str = DATE) -> dict[str, str]:
    return {"authorization": f"MQv2-HMAC-SHA1 {rest}", "x-mq-date-time": date}


def test_the_signature_is_that_of_the_date_alone() -> None:
    right = "FE5145B93C155D66CC248AE77F6558969DB74F99"  # of RocketMQ's algorithm, as a vector
    for text in (right, right.lower()):
        for credential in ("shop", "shop//Rocketmq", "shop/region/RocketMQ"):
            claim = Claim.of(
                headers(f"Credential={credential},SignedHeaders=x-mq-date-time,Signature={text}")
            )
            assert claim.username == "shop"
            claim.check("secret")
            with pytest.raises(AccessDeniedError, match=r"check signature failed\."):
                claim.check("Secret")
    assert "FE51" not in repr(claim).upper()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"authorization": "MQv2-HMAC-SHA1 Credential=shop"}, "datetime is null."),
        (headers("") | {"authorization": "Credential=shop"}, "authentication header is incorrect."),
        (headers(""), "authentication keyValues length is incorrect, actual length=1."),
        (
            headers("Credential=a,,Signature=00"),
            "authentication keyValues length is incorrect, actual length=1.",
        ),
        (
            headers("Credential=/"),
            "authentication credential length is incorrect, actual length=0.",
        ),
        (headers("Credential=a, Signature=0"), "create authentication context error."),
        (headers("Credential=a, Signature=no"), "create authentication context error."),
        (headers("Credential=a, Signature=0 0"), "create authentication context error."),
    ],
)
def test_a_header_that_makes_no_sense_is_refused_with_rocketmqs_words(
    given: dict[str, str], words: str
) -> None:
    with pytest.raises(AccessDeniedError) as refused:
        Claim.of(given)
    assert str(refused.value) == words


@pytest.mark.parametrize("rest", ["Credential=", "Credential=/x", ",", "Other=x"])
def test_a_header_may_name_nobody(rest: str) -> None:
    assert Claim.of(headers(rest)).username == ""
    assert Claim.of({}).username == ""


# -- what is needed -----------------------------------------------------------------------------


def needed(request: Any) -> list[tuple[str, str]]:
    return [
        (need.resource.key, "|".join(action.value for action in need.actions))
        for need in needs_of(request)
    ]


QUEUE = {"message_queue": pb.MessageQueue(topic=pb.Resource(name="orders"))}
PUB, TOPIC_SUB, GROUP_SUB = (
    ("Topic:orders", "Pub"),
    ("Topic:orders", "Sub"),
    ("Group:billing", "Sub"),
)


def settings(**fields: Any) -> Any:
    return pb.TelemetryCommand(settings=pb.Settings(**fields))


NEEDS: list[tuple[Any, list[tuple[str, str]]]] = [
    (pb.SendMessageRequest(messages=[message("orders"), message("bills")]), [PUB]),
    (pb.RecallMessageRequest(**ORDERS), [PUB]),
    (pb.EndTransactionRequest(**ORDERS), [PUB]),
    (pb.QueryRouteRequest(**ORDERS), [("Topic:orders", "Pub|Sub")]),
    (pb.ReceiveMessageRequest(**GROUP, **QUEUE), [GROUP_SUB, TOPIC_SUB]),
    (pb.AckMessageRequest(**GROUP, **ORDERS), [GROUP_SUB, TOPIC_SUB]),
    (pb.QueryAssignmentRequest(**GROUP, **ORDERS), [GROUP_SUB, TOPIC_SUB]),
    (pb.ForwardMessageToDeadLetterQueueRequest(**GROUP, **ORDERS), [GROUP_SUB, TOPIC_SUB]),
    (pb.ChangeInvisibleDurationRequest(**GROUP, **ORDERS), [GROUP_SUB]),
    (pb.HeartbeatRequest(client_type=ClientType.PUSH_CONSUMER, **GROUP), [GROUP_SUB]),
    (pb.HeartbeatRequest(client_type=ClientType.PRODUCER), []),
    (pb.HeartbeatRequest(client_type=ClientType.PRODUCER, **GROUP), [GROUP_SUB]),
    (pb.NotifyClientTerminationRequest(), []),
    (pb.NotifyClientTerminationRequest(**GROUP), [GROUP_SUB]),
    (
        settings(
            publishing=pb.Publishing(topics=[pb.Resource(name="orders"), pb.Resource(name="bills")])
        ),
        [PUB, ("Topic:bills", "Pub")],
    ),
    (
        settings(
            subscription=pb.Subscription(
                **GROUP, subscriptions=[pb.SubscriptionEntry(topic=ORDERS["topic"])]
            )
        ),
        [GROUP_SUB, TOPIC_SUB],
    ),
    (pb.TelemetryCommand(thread_stack_trace=pb.ThreadStackTrace()), []),
]


def test_each_call_needs_what_it_needs_at_rocketmqs_proxy() -> None:
    for request, needs in NEEDS:
        assert needed(request) == needs, request


def test_a_topic_that_is_named_twice_is_one_need() -> None:
    twice = [pb.Resource(name=name) for name in ("orders", "bills", "orders")]
    assert needed(settings(publishing=pb.Publishing(topics=twice))) == [PUB, ("Topic:bills", "Pub")]
    entries = [pb.SubscriptionEntry(topic=each) for each in twice]
    assert needed(settings(subscription=pb.Subscription(**GROUP, subscriptions=entries))) == [
        GROUP_SUB, TOPIC_SUB, ("Topic:bills", "Sub"),
    ]  # fmt: skip


NAMELESS: list[tuple[Any, str]] = [
    (pb.SendMessageRequest(), "message is null."),
    (pb.SendMessageRequest(messages=[pb.Message()]), "topic is null."),
    (pb.QueryRouteRequest(), "topic is null."),
    (pb.ReceiveMessageRequest(**GROUP), "messageQueue is null."),
    (pb.ReceiveMessageRequest(**QUEUE), "group is null."),
    (pb.AckMessageRequest(**GROUP), "topic is null."),
    (pb.HeartbeatRequest(client_type=ClientType.SIMPLE_CONSUMER), "group is null."),
]


def test_a_call_without_names_is_denied_with_rocketmqs_words() -> None:
    for request, words in NAMELESS:
        with pytest.raises(AccessDeniedError) as refused:
            needs_of(request)
        assert str(refused.value) == words, request


def test_settings_of_nobody_are_a_fault_as_at_rocketmqs_proxy() -> None:
    with pytest.raises(Refusal, match="doesn't have publishing or subscription") as refused:
        needs_of(settings())
    assert refused.value.code is Code.INTERNAL_SERVER_ERROR


# -- who is let in ------------------------------------------------------------------------------


async def test_a_right_key_sends_and_receives_what_its_rules_allow(rig: ProxyRig) -> None:
    producer = sdk(rig, *SHOP, client_id="producer")
    assert (await producer.publish("orders")).status.code == Code.OK
    assert (await producer.send("orders", b"hello")).status.code == Code.OK

    consumer = sdk(rig, *SHOP, client_id="consumer")
    assert (await consumer.subscribe("billing", "orders")).status.code == Code.OK
    [got] = received(await receive(rig, consumer))
    assert got.body == b"hello"
    acked = await consumer.call(
        "AckMessage",
        **GROUP,
        **ORDERS,
        entries=[
            pb.AckMessageEntry(
                message_id=got.system_properties.message_id,
                receipt_handle=got.system_properties.receipt_handle,
            )
        ],
    )
    assert acked.status.code == Code.OK


async def test_a_super_user_needs_no_rules(rig: ProxyRig) -> None:
    assert (await sdk(rig, *ADMIN).send("bills", b"all")).status.code == Code.OK
    assert await stored(rig, "bills") == [b"all"]


@pytest.mark.parametrize(
    ("key", "topic", "words"),
    [
        ((), "orders", "username cannot be null."),
        (("", "x"), "orders", "username cannot be null."),
        (("nobody", "x"), "orders", "User:nobody is not found."),
        (("shop", "wrong"), "orders", "check signature failed."),
        (SHOP, "bills", DENIED.format("Topic:bills")),
    ],
)
async def test_a_send_is_refused_and_nothing_is_stored(
    rig: ProxyRig, key: tuple[str, ...], topic: str, words: str
) -> None:
    assert told(await sdk(rig, *key).send(topic, b"no")) == (Code.UNAUTHORIZED, words)
    assert await stored(rig, topic) == []


async def test_no_call_is_answered_without_a_key_and_nothing_changes(rig: ProxyRig) -> None:
    stranger = sdk(rig, client_id="stranger")
    calls: dict[str, dict[str, Any]] = {
        "QueryRoute": ORDERS,
        "Heartbeat": GROUP | {"client_type": ClientType.SIMPLE_CONSUMER},
        "NotifyClientTermination": {},
        "QueryAssignment": GROUP | ORDERS,
        "AckMessage": GROUP | ORDERS,
        "ChangeInvisibleDuration": GROUP | ORDERS,
        "ForwardMessageToDeadLetterQueue": GROUP | ORDERS,
        "SendMessage": {"messages": [message("orders")]},
        "EndTransaction": ORDERS,
        "RecallMessage": ORDERS,
    }
    unanswered = {"UpdateOffset", "GetOffset", "QueryOffset", "SyncLiteSubscription"}
    assert calls.keys() == set(UNARY) - unanswered
    denied = (Code.UNAUTHORIZED, "username cannot be null.")
    for rpc, fields in calls.items():
        assert told(await stranger.call(rpc, **fields)) == denied, rpc
    [only] = await stranger.receive(**asked(stranger))  # and no time of delivery, as there
    assert told(only) == denied
    assert told(await stranger.subscribe("billing", "orders")) == denied
    assert await stranger.hear() is grpc.aio.EOF

    assert len(rig.proxy.clients) == 0
    assert await stored(rig, "orders") == []
    async with admin_of(rig.cluster) as admin:
        assert "billing" not in await admin.groups("a")  # which asking makes


async def test_who_has_no_right_to_a_topic_cannot_consume_it(rig: ProxyRig) -> None:
    async with admin_of(rig.cluster) as admin:
        await admin.grant("shop", ["Topic:bills"], ["Pub"])
    shop = sdk(rig, *SHOP)
    denied = (Code.UNAUTHORIZED, DENIED.format("Topic:bills"))
    queue = pb.MessageQueue(topic=pb.Resource(name="bills"), id=-1)
    [only] = await shop.receive(**asked(shop, message_queue=queue))
    assert told(only) == denied
    assert told(await shop.call("QueryAssignment", **GROUP, **BILLS)) == denied
    assert (await shop.call("QueryRoute", **BILLS)).status.code == Code.OK  # Pub is enough
    [only] = await shop.receive(**asked(shop, group=pb.Resource(name="office")))
    assert told(only) == (Code.UNAUTHORIZED, DENIED.format("Group:office"))
    assert told(await shop.subscribe("billing", "orders", "bills")) == denied
    assert len(rig.proxy.clients) == 0


async def test_a_client_without_an_id_learns_first_that_it_has_no_right(rig: ProxyRig) -> None:
    assert told(await sdk(rig, client_id="").send("orders"))[0] == Code.UNAUTHORIZED
    assert told(await sdk(rig, *SHOP, client_id="").send("orders"))[0] == Code.CLIENT_ID_REQUIRED


async def test_brokers_are_asked_of_no_user_whose_name_is_over_the_budget(tmp_path: Path) -> None:
    async with secured_rig(tmp_path, budget=Budget(name_chars=4)) as rig:
        assert (await sdk(rig, *SHOP).send("orders")).status.code == Code.OK
        refused = told(await sdk(rig, *ADMIN).send("orders"))
        assert refused == (Code.UNAUTHORIZED, "User:admin is not found.")


async def test_nobody_has_the_rights_of_a_user_that_it_only_names(rig: ProxyRig) -> None:
    """RocketMQ's proxy takes the user from this header, where a client sends it."""
    shop = sdk(rig, *SHOP, **{"x-mq-authorization-ak": "admin"})
    answer = await shop.send("bills", b"no")
    assert told(answer) == (Code.UNAUTHORIZED, DENIED.format("Topic:bills"))
    assert await stored(rig, "bills") == []


async def test_a_rule_for_other_addresses_does_not_count(rig: ProxyRig) -> None:
    async with admin_of(rig.cluster) as admin:
        await admin.grant("shop", ["Topic:bills"], ["Pub"], source_ips=["10.0.0.0/8"])
    assert told(await sdk(rig, *SHOP).send("bills", b"no"))[0] == Code.UNAUTHORIZED
    async with admin_of(rig.cluster) as admin:
        await admin.grant("shop", ["Topic:bills"], ["Pub"], source_ips=["127.0.0.0/8"])
    await rig.cluster.advance(REFRESH_S)
    assert (await sdk(rig, *SHOP).send("bills", b"yes")).status.code == Code.OK
    assert await stored(rig, "bills") == [b"yes"]


@asynccontextmanager
async def passing_on(rig: ProxyRig, header: bytes) -> AsyncIterator[str]:
    """Where connections are passed on to the proxy behind a header, as ports of brokers do."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, to = await asyncio.open_connection("127.0.0.1", rig.proxy.grpc_port)
        to.write(header)
        await asyncio.gather(copy(reader, to), copy(inner, writer))

    async with await asyncio.start_server(pass_on, "127.0.0.1", 0) as server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


TOLD = header_of("10.0.0.9:5", "10.0.0.1:10911")


@pytest.mark.parametrize(
    ("header", "is_near", "expected"),
    [
        pytest.param(TOLD, True, [True, False, True], id="believed"),
        pytest.param(TOLD, False, [False, False, True], id="from another machine"),
        pytest.param(VERSION_2 + b"\x20\0\0\0", True, [False, False, True], id="says nothing"),
    ],
)
async def test_no_rule_with_addresses_gives_rights_to_an_address_that_is_not_known(
    rig: ProxyRig,
    monkeypatch: pytest.MonkeyPatch,
    header: bytes,
    is_near: bool,
    expected: list[bool],
) -> None:
    """Who passes on an SDK from another machine would lend it its own address."""
    own = ["127.0.0.0/8", "127.0.0.1"]
    async with admin_of(rig.cluster) as admin:
        for topic, allowed in (("bills", ["10.0.0.0/8"]), ("near", own)):
            await admin.grant("shop", [f"Topic:{topic}"], ["Pub"], source_ips=allowed)
    monkeypatch.setattr(FrontPeer, "_is_near", lambda _: is_near)
    async with passing_on(rig, header) as address, grpc.aio.insecure_channel(address) as channel:
        shop = Sdk(channel, rig.sdk().endpoints, "sdk-1", signed(*SHOP))
        found = []
        for topic in ("bills", "near", "orders"):
            route = await shop.call("QueryRoute", topic=pb.Resource(name=topic))
            found.append(route.status.code != Code.UNAUTHORIZED)
        assert found == expected
        if expected[0]:
            return
        assert told(await shop.call("QueryRoute", **BILLS))[1] == (
            "User:shop has no permission to access Topic:bills from an unknown address, "
            "no matched policies."
        )
        async with admin_of(rig.cluster) as admin:
            # Another address than it can have: nobody knows that.
            await admin.grant(
                "shop", ["Topic:orders"], ["Pub"], is_allowed=False, source_ips=["192.0.2.1"]
            )
        await rig.cluster.advance(REFRESH_S)
        assert told(await shop.call("QueryRoute", **ORDERS))[1].endswith("the decision is deny.")


async def test_it_lets_in_and_refuses_as_rocketmqs_own_proxy_does(tmp_path: Path) -> None:
    """`tests/interop/record_grpc_access.py` asked that one the same 399 calls."""
    expected = json.loads((GOLDEN / "access" / "grpc_5_3_3.json").read_text())
    for name, words in CLOSED.items():
        assert expected[name] == PASSES
        expected[name] = words
    async with proxy_rig(tmp_path, options=CHECKS, **SECURE) as rig:
        async with admin_of(rig.cluster) as admin:
            await make_accounts(admin)
            for topic in TOPICS:
                await admin.create_topic(topic)
        client = rig.sdk()
        assert {case.name: await answer(client, case) for case in cases()} == expected


# -- users change -------------------------------------------------------------------------------


async def test_a_change_at_a_broker_counts_after_20_s(rig: ProxyRig) -> None:
    shop = sdk(rig, *SHOP)
    assert (await shop.send("orders", b"before")).status.code == Code.OK
    assert told(await sdk(rig, "late", "x").send("orders"))[1] == "User:late is not found."
    async with admin_of(rig.cluster) as admin:
        await admin.update_user("shop", is_enabled=False)
        await admin.create_user("late", "x", is_super=True)
    assert (await shop.send("orders", b"kept")).status.code == Code.OK
    await rig.cluster.advance(REFRESH_S)
    assert told(await shop.send("orders", b"no")) == (Code.UNAUTHORIZED, "User:shop is disabled.")
    assert (await sdk(rig, "late", "x").send("orders", b"late")).status.code == Code.OK
    assert sorted(await stored(rig, "orders")) == [b"before", b"kept", b"late"]


async def test_without_brokers_users_are_known_for_a_while_and_then_nobody_gets_in(
    rig: ProxyRig,
) -> None:
    shop = sdk(rig, *SHOP)
    assert (await shop.call("QueryRoute", **ORDERS)).status.code == Code.OK
    await rig.cluster.stop_broker("a")
    await rig.cluster.advance(REFRESH_S)
    assert told(await shop.call("QueryRoute", **ORDERS))[0] != Code.UNAUTHORIZED
    failed = "Authentication failed. Please verify the credentials and try again."
    stranger = sdk(rig, "nobody", "x")
    assert told(await stranger.call("QueryRoute", **ORDERS)) == (Code.UNAUTHORIZED, failed)
    await rig.cluster.advance(EXPIRE_S)
    assert told(await shop.call("QueryRoute", **ORDERS)) == (Code.UNAUTHORIZED, failed)


async def test_where_one_broker_is_away_another_is_asked(tmp_path: Path) -> None:
    async with secured_rig(tmp_path, "a", "b") as rig:
        await rig.cluster.brokers["a"].stop()
        shop = sdk(rig, *SHOP)
        assert (await shop.call("QueryRoute", **ORDERS)).status.code == Code.OK


# -- options ------------------------------------------------------------------------------------


async def test_a_request_on_a_list_passes(tmp_path: Path) -> None:
    proxy = {
        "authentication_whitelist": "apache.rocketmq.v2.QueryRouteRequest , x",
        "authorization_whitelist": "apache.rocketmq.v2.QueryRouteRequest",
    }
    async with secured_rig(tmp_path, proxy=proxy) as rig:
        assert (await sdk(rig).call("QueryRoute", **BILLS)).status.code == Code.OK
        assert told(await sdk(rig).send("orders"))[0] == Code.UNAUTHORIZED


async def test_on_the_first_list_alone_a_name_counts_that_nobody_signed(tmp_path: Path) -> None:
    """As in RocketMQ, and docs/security.md says so."""
    listed = {"authentication_whitelist": "apache.rocketmq.v2.SendMessageRequest"}
    async with secured_rig(tmp_path, proxy=listed) as rig:
        assert told(await sdk(rig).send("orders"))[0] == Code.UNAUTHORIZED
        assert (await sdk(rig, SHOP[0], "wrong").send("orders")).status.code == Code.OK
        assert told(await sdk(rig, SHOP[0], "wrong").send("bills"))[0] == Code.UNAUTHORIZED
        assert told(await sdk(rig, SHOP[0], "wrong").call("QueryRoute", **ORDERS))[0] == (
            Code.UNAUTHORIZED
        )


async def test_brokers_have_two_seconds_to_tell_users_types_and_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frozen one would hold a call beyond the 3 s that its SDK waits."""
    waited: dict[str, float | None] = {}
    call = ClientApi.call

    async def noted(self: ClientApi, address: str, header: Any, *args: Any, **more: Any) -> Any:
        waited[type(header).__name__] = more.get("timeout_s")
        return await call(self, address, header, *args, **more)

    async with secured_rig(tmp_path) as rig:
        monkeypatch.setattr(ClientApi, "call", noted)
        shop = sdk(rig, *SHOP)
        assert (await shop.send("orders")).status.code == Code.OK
        await shop.subscribe("billing", "orders")
    asked = {"GetUserRequestHeader", "GetAclRequestHeader", "GetTopicConfigRequestHeader"}
    for name in (*asked, "GetSubscriptionGroupRequestHeader"):
        assert waited[name] == 2.0, name  # an SDK gives up after 3 s


async def test_without_authorization_a_signature_is_enough(tmp_path: Path) -> None:
    async with secured_rig(tmp_path, proxy={"authorization_enabled": False}) as rig:
        assert (await sdk(rig, *SHOP).send("bills")).status.code == Code.OK
        assert told(await sdk(rig, "shop", "wrong").send("bills"))[0] == Code.UNAUTHORIZED


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"authorization_enabled": True}, "no SDK would have any right"),
        (CHECKS | {"authentication_enabled": False}, "every SDK would have the rights"),
        (
            {"authentication_enabled": True, "inner_client_authentication_credentials": "inner:x"},
            "must be a JSON object",
        ),
    ],
)
def test_options_that_would_give_rights_away_are_refused(
    options: dict[str, Any], word: str
) -> None:
    with pytest.raises(ConfigError, match=word):
        ProxyConfig(**options)


# -- the port for tools --------------------------------------------------------------------------

FOR_TOOLS: tuple[Header, ...] = (
    GetClockRequestHeader(),
    MoveClockRequestHeader(time_ms=START_MS + 1),
    RoleStatusRequestHeader(),
    GetEventsRequestHeader(),
    GetConsumerConnectionListRequestHeader(consumer_group="billing"),
    GetAllProducerInfoRequestHeader(),
)


async def at_tools(rig: ProxyRig, key: Credentials | None, header: Header) -> int:
    """The code of an answer at the port for tools."""
    channel = await rig.cluster.network.connect(
        f"127.0.0.1:{rig.proxy.port}", Dispatcher(), credentials=key
    )
    code = (await channel.request(header)).code
    channel.close()
    return code


async def test_tools_are_a_super_user_s_where_the_proxy_authenticates(rig: ProxyRig) -> None:
    before_ms = rig.cluster.clock.time_ms()
    with own_logs() as logs:
        for key in (None, ("nobody", "x"), ("admin", "wrong"), ("inner", "wrong"), SHOP):
            for header in FOR_TOOLS:
                found = await at_tools(rig, Credentials(*key) if key else None, header)
                assert found == ResponseCode.NO_PERMISSION, (key, header)
    assert rig.cluster.clock.time_ms() == before_ms
    assert {each["reason"] for each in logs if each["event"] == "request.denied"} >= {
        "username cannot be null.",
        "User:nobody is not found.",
        "check signature failed.",
    }
    for key in (ADMIN, ("inner", "hidden")):
        for header in FOR_TOOLS:
            assert await at_tools(rig, Credentials(*key), header) != ResponseCode.NO_PERMISSION


async def test_the_cluster_controls_its_proxy_while_no_broker_answers(tmp_path: Path) -> None:
    async with secured_rig(tmp_path) as rig:
        for name in list(rig.cluster.brokers):
            await rig.cluster.stop_broker(name)
        assert await at_tools(rig, Credentials("inner", "hidden"), GetClockRequestHeader()) == 0
        denied = await at_tools(rig, Credentials("new", "user"), GetClockRequestHeader())
        assert denied == ResponseCode.NO_PERMISSION


async def test_tools_ask_a_proxy_that_does_not_authenticate_freely(tmp_path: Path) -> None:
    async with proxy_rig(tmp_path) as rig:
        assert await at_tools(rig, None, GetClockRequestHeader()) == 0
