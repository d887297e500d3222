"""What hostile consumers say is bounded before it reaches a broker, whose connection all share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import Code, FilterType
from support.eventually import eventually
from support.grpc_consuming import (
    about,
    ack,
    asked,
    consumer,
    entry,
    receive,
    received,
    refused,
    send,
)
from support.proxy_rig import ProxyRig, proxy_rig

LONG = "x" * 900_000


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ProxyRig]:
    async with proxy_rig(tmp_path) as made:
        await made.cluster.create_topic("orders", 1)
        yield made


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"attempt_id": LONG}, Code.BAD_REQUEST),
        (
            {"filter_expression": pb.FilterExpression(type=FilterType.TAG, expression=LONG)},
            Code.ILLEGAL_FILTER_EXPRESSION,
        ),
        ({"group": pb.Resource(name=LONG)}, Code.ILLEGAL_CONSUMER_GROUP),
        ({"batch_size": -1}, None),
        ({"batch_size": 2**31 - 1}, None),
        ({"long_polling_timeout": pb.Duration(seconds=315_576_000_000)}, None),
        (
            {"invisible_duration": pb.Duration(seconds=-315_576_000_000)},
            Code.ILLEGAL_INVISIBLE_TIME,
        ),
    ],
)
async def test_a_hostile_receive_disturbs_no_other(
    rig: ProxyRig, changes: dict[str, Any], code: Code | None
) -> None:
    good = rig.sdk("good")
    waiting = asyncio.ensure_future(good.receive(**asked(good)))
    await eventually(lambda: rig.proxy.receives_waiting == 1, "it waits")
    bad = rig.sdk("bad")
    hostile = asyncio.ensure_future(
        bad.receive(**asked(bad, **({"group": pb.Resource(name="bad")} | changes)))
    )
    if code is not None:
        assert Code((await hostile)[0].status.code) == code
    else:
        await asyncio.wait({hostile}, timeout=0.3)
    assert not waiting.done()
    await send(rig, "one")
    assert [each.body for each in received(await waiting)] == [b"one"]
    hostile.cancel()


async def test_pops_of_clients_that_have_gone_count_as_receives(
    rig: ProxyRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pocketmq.proxy.edge.consuming.MOST_RECEIVES", 2)
    sdk = await consumer(rig)
    for _ in range(2):
        gone = asyncio.ensure_future(sdk.receive(**asked(sdk)))
        await eventually(lambda: rig.proxy.receives_waiting == 1, "it waits")
        gone.cancel()
        await eventually(lambda: rig.proxy.receives_waiting == 0, "it has gone")
    assert refused(await sdk.receive(**asked(sdk))) == (Code.TOO_MANY_REQUESTS, "flow limit")
    await rig.cluster.advance(20)  # the broker answers both
    assert refused(await receive(rig, sdk))[0] == Code.MESSAGE_NOT_FOUND


async def test_hostile_words_about_a_message_disturb_no_other(rig: ProxyRig) -> None:
    await send(rig, "one")
    sdk = await consumer(rig)
    [message] = received(await receive(rig, sdk))
    waiting = asyncio.ensure_future(rig.sdk("good").receive(**asked(sdk)))
    await eventually(lambda: rig.proxy.receives_waiting == 1, "it waits")
    handle = message.system_properties.receipt_handle
    for wrong in (f"{handle} {LONG}", handle.replace(" 0 a ", f" {LONG} a "), LONG):
        answer = await ack(sdk, pb.AckMessageEntry(message_id="m", receipt_handle=wrong))
        assert answer.status.code == Code.INTERNAL_SERVER_ERROR
        assert len(answer.entries[0].status.message) < 200
    answer = await sdk.call(
        "ForwardMessageToDeadLetterQueue", **(about(message) | {"message_id": LONG})
    )
    assert answer.status.code == Code.ILLEGAL_MESSAGE_ID
    many = [pb.AckMessageEntry(message_id="m", receipt_handle="garbage")] * 20_000
    assert (await ack(sdk, *many)).status.code == Code.INTERNAL_SERVER_ERROR
    assert (await ack(sdk, *[pb.AckMessageEntry()] * 40_000)).status.code == Code.BAD_REQUEST
    assert (await ack(sdk, entry(message))).status.code == Code.OK
    assert not waiting.done()
    await send(rig, "two")
    assert [each.body for each in received(await waiting)] == [b"two"]
