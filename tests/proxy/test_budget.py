"""The limits of a proxy are options of `[budget]`; each says what it does with more."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import grpc.aio
import pytest

from pocketmq.protocol.budget import Budget
from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import ClientType, Code
from support.proxy_rig import Sdk, proxy_rig


async def beat(sdk: Sdk, group: str = "billing") -> int:
    """The code of a heartbeat."""
    answer = await sdk.call(
        "Heartbeat", client_type=ClientType.SIMPLE_CONSUMER, group=pb.Resource(name=group)
    )
    code: int = answer.status.code
    return code


async def test_so_many_calls_are_open_at_once(tmp_path: Path) -> None:
    async with proxy_rig(tmp_path, budget=Budget(grpc_calls=1)) as rig:
        stream = rig.sdk("shop")
        await stream.publish("orders")
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await beat(rig.sdk("other"))
        assert raised.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_further_calls_of_one_connection_wait(tmp_path: Path) -> None:
    async with proxy_rig(tmp_path, budget=Budget(grpc_calls_per_connection=1)) as rig:
        one = rig.sdk("shop")
        await one.publish("orders")  # its stream stays open
        waits = asyncio.create_task(beat(one))
        assert await beat(rig.sdk("other")) == Code.OK  # of another connection
        assert not waits.done()
        one.stream.cancel()
        assert await waits == Code.OK


async def test_headers_requests_and_settings_have_a_size(tmp_path: Path) -> None:
    small = Budget(grpc_metadata_bytes=2_000, grpc_request_bytes=200, grpc_command_bytes=300)
    async with proxy_rig(tmp_path, budget=small) as rig:
        assert await beat(rig.sdk()) == Code.OK
        assert await beat(rig.sdk(), "g" * 200) == Code.PAYLOAD_TOO_LARGE
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await beat(rig.sdk(**{"x-mq-request-id": "x" * 4_000}))
        assert raised.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await rig.sdk("shop").publish(*(f"topic-{number}" for number in range(50)))
        assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert "max is 300" in str(raised.value.details())


async def test_settings_have_so_many_topics(tmp_path: Path) -> None:
    async with proxy_rig(tmp_path, budget=Budget(grpc_topics=2)) as rig:
        assert (await rig.sdk("shop").publish("a", "b")).status.code == Code.OK
        assert (await rig.sdk("billing").subscribe("g", "a", "b")).status.code == Code.OK
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await rig.sdk("shop-2").publish("a", "b", "c")
        assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert "more than 2 topics (budget.grpc_topics)" in str(raised.value.details())
        with pytest.raises(grpc.aio.AioRpcError, match=r"more than 2 topics"):
            await rig.sdk("billing-2").subscribe("g", "a", "b", "c")
        assert len(rig.proxy.clients) == 2


@pytest.mark.parametrize(
    "small", [Budget(grpc_clients=1), Budget(grpc_clients_bytes=400)], ids=["number", "bytes"]
)
async def test_the_client_that_was_silent_longest_is_forgotten(
    small: Budget, tmp_path: Path
) -> None:
    async with proxy_rig(tmp_path, budget=small) as rig:
        for client_id in ("first", "second"):
            assert await beat(rig.sdk(client_id), "g" * 60) == Code.OK
        assert [each.client_id for each in rig.proxy.clients.all()] == ["second"]
