"""What an SDK's consumer says and hears, as raw RPCs, of the topic `orders` and group `billing`."""

from __future__ import annotations

import asyncio
from typing import Any

from pocketmq.client import Message
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import ClientType, Code, FilterType
from support.eventually import LOOK_S
from support.proxy_rig import ProxyRig, Sdk


def asked(sdk: Sdk, **changes: Any) -> dict[str, Any]:
    """The fields of a receive as an SDK fills them in."""
    queue = pb.MessageQueue(topic=pb.Resource(name="orders"), id=-1)
    queue.broker.name = "a"
    return {
        "group": pb.Resource(name="billing"),
        "message_queue": queue,
        "filter_expression": pb.FilterExpression(type=FilterType.TAG, expression="*"),
        "batch_size": 32,
        "invisible_duration": pb.Duration(seconds=30),
        "long_polling_timeout": pb.Duration(seconds=5),
    } | changes


async def receive(rig: ProxyRig, sdk: Sdk, **changes: Any) -> list[Any]:
    """What a receive streams, while time passes; but none while gRPC is at work."""
    task = asyncio.ensure_future(sdk.receive(**asked(sdk, **changes)))
    while not task.done():  # at its deadline it is
        await asyncio.wait({task}, timeout=LOOK_S)
        if rig.proxy.receives_waiting:
            await rig.cluster.advance(0.5)
    return await task


def received(answers: list[Any]) -> list[Any]:
    """The messages of a receive, whose answers come in the order that SDKs rely on."""
    kinds = [answer.WhichOneof("content") for answer in answers]
    assert kinds == ["status", *["message"] * (len(kinds) - 2), "delivery_timestamp"]
    return [answer.message for answer in answers[1:-1]]


def refused(answers: list[Any]) -> tuple[Code, str]:
    """The status of a receive that brought nothing."""
    assert received(answers) == []
    return Code(answers[0].status.code), answers[0].status.message


async def send(rig: ProxyRig, *bodies: str, topic: str = "orders", **options: Any) -> None:
    async with rig.cluster.producer() as producer:
        for body in bodies:
            await producer.send(Message(topic, body.encode(), **options))


async def create_group(rig: ProxyRig, group: str, **values: Any) -> None:
    async with rig.cluster.admin() as admin:
        await admin.create_group(SubscriptionGroupConfig(group_name=group, **values))


async def consumer(rig: ProxyRig, kind: ClientType = ClientType.SIMPLE_CONSUMER) -> Sdk:
    sdk = rig.sdk()
    await sdk.subscribe("billing", "orders", kind=kind)
    return sdk


def entry(message: Any) -> Any:
    system = message.system_properties
    return pb.AckMessageEntry(message_id=system.message_id, receipt_handle=system.receipt_handle)


def about(message: Any) -> dict[str, Any]:
    """Group, topic, handle and id in a request about a message."""
    return {
        "group": pb.Resource(name="billing"),
        "topic": pb.Resource(name="orders"),
        "receipt_handle": message.system_properties.receipt_handle,
        "message_id": message.system_properties.message_id,
    }


async def ack(sdk: Sdk, *entries: Any) -> Any:
    return await sdk.call(
        "AckMessage",
        group=pb.Resource(name="billing"),
        topic=pb.Resource(name="orders"),
        entries=entries,
    )
