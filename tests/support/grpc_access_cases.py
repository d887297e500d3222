"""Calls of users with and without rights: what RocketMQ's own proxy answers is a golden file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Final

from pocketmq.client import Admin
from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import ClientType, Code
from support.grpc_access import DATE, TOPICS, signed
from support.proxy_rig import Sdk, message

USERS: Final = {
    "shop": "s3cret",  # may send to and consume orders, in the group billing
    "writer": "w",  # may only send to orders
    "reader": "r",  # may only consume orders, in all groups but one
    "nothing": "n",  # has no rules
    "gone": "g",  # is disabled, with all rights
}
KEYS: Final[dict[str, tuple[str, str] | None]] = {
    **{name: (name, secret) for name, secret in USERS.items()},
    "super": ("admin", "rooted"),
    "wrong secret": ("shop", "wrong"),
    "unknown": ("nobody", "x"),
    "empty": ("", ""),
    "none": None,
}


async def make_accounts(admin: Admin) -> None:
    """Make them, and their rules, at brokers that have none of them."""
    for name, secret in USERS.items():
        await admin.create_user(name, secret)
    await admin.grant("shop", ["Topic:orders"], ["Pub", "Sub"])
    await admin.grant("shop", ["Group:billing"], ["Sub"])
    await admin.grant("writer", ["Topic:ord*"], ["Pub"], source_ips=["127.0.0.0/8"])
    await admin.grant("writer", ["Topic:bills"], ["Pub"], source_ips=["10.0.0.1"])
    await admin.grant("reader", ["Topic:orders", "Group:*"], ["Sub"])
    await admin.grant("reader", ["Group:office"], ["Sub"], is_allowed=False)
    await admin.grant("gone", ["*"], ["All"])
    await admin.update_user("gone", is_enabled=False)


@dataclass(frozen=True)
class Case:
    """One call."""

    name: str
    rpc: str
    request: Any
    headers: dict[str, str]


def _requests() -> Iterator[tuple[str, str, Any]]:
    """What is called, the RPC, and its request."""
    group = pb.Resource(name="billing")
    for name in TOPICS:
        topic = pb.Resource(name=name)
        queue = pb.MessageQueue(topic=topic, id=-1)
        names: dict[str, Any] = {"group": group, "topic": topic}
        for rpc, fields in {
            "QueryRoute": {"topic": topic},
            "SendMessage": {"messages": [message(name)]},
            "EndTransaction": {"topic": topic, "transaction_id": "x"},
            "RecallMessage": {"topic": topic, "recall_handle": "x"},
            "QueryAssignment": names,
            "AckMessage": names,
            "ForwardMessageToDeadLetterQueue": names,
            "ChangeInvisibleDuration": names,
            "ReceiveMessage": {"group": group, "message_queue": queue},
        }.items():
            yield f"{rpc} {name}", rpc, getattr(pb, f"{rpc}Request")(**fields)
        sub = pb.Subscription(group=group, subscriptions=[pb.SubscriptionEntry(topic=topic)])
        for kind, said in {
            "publishing": pb.Settings(publishing=pb.Publishing(topics=[topic])),
            "subscription": pb.Settings(client_type=ClientType.SIMPLE_CONSUMER, subscription=sub),
        }.items():
            yield f"Telemetry {kind} {name}", "Telemetry", pb.TelemetryCommand(settings=said)
    for name in ("billing", "office"):
        beat = pb.HeartbeatRequest(
            client_type=ClientType.PUSH_CONSUMER, group=pb.Resource(name=name)
        )
        yield f"Heartbeat {name}", "Heartbeat", beat
        ends = pb.NotifyClientTerminationRequest(group=pb.Resource(name=name))
        yield f"NotifyClientTermination {name}", "NotifyClientTermination", ends
    ended = pb.NotifyClientTerminationRequest()
    yield "NotifyClientTermination", "NotifyClientTermination", ended
    producer = pb.HeartbeatRequest(client_type=ClientType.PRODUCER)
    yield "Heartbeat of a producer", "Heartbeat", producer
    for rpc in (
        "QueryRoute", "SendMessage", "EndTransaction", "RecallMessage", "QueryAssignment",
        "AckMessage", "ForwardMessageToDeadLetterQueue", "ChangeInvisibleDuration",
        "ReceiveMessage",
    ):  # fmt: skip
        yield f"{rpc} of nothing", rpc, getattr(pb, f"{rpc}Request")()
    command = pb.TelemetryCommand(thread_stack_trace=pb.ThreadStackTrace(nonce="1"))
    yield "Telemetry of a stack", "Telemetry", command


def _odd_headers() -> Iterator[tuple[str, dict[str, str]]]:
    right = signed(*KEYS["shop"] or ())
    hexadecimal = right["authorization"].rpartition("=")[2]
    for rest in (
        "", ",", "Credential", "Credential=/", "Credential=/x", "Credential=shop",
        "Credential=shop, Signature=", "Credential=shop, Signature=0",
        "Credential=shop, Signature=xy", "Credential=shop,, Signature=00",
        f"Credential=shop/a/b, Signature={hexadecimal.upper()}",
        f"Signature={hexadecimal},Credential=shop,",
        f"Credential=nobody, Credential=shop, Signature={hexadecimal}",
    ):  # fmt: skip
        yield f"MQv2-HMAC-SHA1 {rest}", right | {"authorization": f"MQv2-HMAC-SHA1 {rest}"}
    yield "one word", right | {"authorization": "Credential=shop"}
    yield (
        "another scheme",
        right | {"authorization": right["authorization"].replace("MQv2-HMAC-SHA1", "Basic")},
    )
    yield "no date", {"authorization": right["authorization"]}
    yield "another date", right | {"x-mq-date-time": f"{DATE}x"}


def _holes() -> dict[str, tuple[str, Any, dict[str, str]]]:
    office = pb.Resource(name="office")
    beat = pb.HeartbeatRequest(client_type=ClientType.PRODUCER, group=office)
    send = pb.SendMessageRequest(messages=[message("bills")])
    return {
        "SendMessage bills: shop, which says that it is admin": (
            "SendMessage", send, {"x-mq-authorization-ak": "admin"},
        ),
        "Heartbeat of a producer office: shop": ("Heartbeat", beat, {}),
    }  # fmt: skip


CLOSED: Final = {
    "SendMessage bills: shop, which says that it is admin": (
        "User:shop has no permission to access Topic:bills from 127.0.0.1, no matched policies."
    ),
    "Heartbeat of a producer office: shop": (
        "User:shop has no permission to access Group:office from 127.0.0.1, no matched policies."
    ),
}
"""What our proxy says where RocketMQ's lets a user have rights that it has not."""


def cases() -> Iterator[Case]:
    """All of them."""
    for what, rpc, request in _requests():
        for who, key in KEYS.items():
            yield Case(f"{what}: {who}", rpc, request, signed(*key) if key else {})
    for name, (rpc, request, headers) in _holes().items():
        yield Case(name, rpc, request, signed("shop", USERS["shop"]) | headers)
    route = pb.QueryRouteRequest(topic=pb.Resource(name="orders"))
    for what, headers in _odd_headers():
        yield Case(f"QueryRoute orders: {what}", "QueryRoute", route, headers)


PASSES: Final = "passes"


async def answer(sdk: Sdk, case: Case) -> str:
    """The words of a refusal, or that there is none."""
    sdk.headers = case.headers
    fields = {field.name: value for field, value in case.request.ListFields()}
    if case.rpc == "Telemetry":
        sdk.stream = None
        await sdk.say(**fields)
        await sdk.stream.done_writing()
        answers = [each async for each in _heard(sdk)]
    elif case.rpc == "ReceiveMessage":
        answers = await sdk.receive(**fields)
    else:
        answers = [await sdk.call(case.rpc, **fields)]
    words = [each.status.message for each in answers if each.status.code == Code.UNAUTHORIZED]
    return words[0] if words else PASSES


async def _heard(sdk: Sdk) -> AsyncIterator[Any]:
    import grpc.aio

    try:
        while (command := await sdk.hear()) is not grpc.aio.EOF:
            yield command
    except grpc.aio.AioRpcError:
        return  # other faults of settings end the stream
