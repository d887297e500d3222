"""Health and reflection: what `grpcurl` and load balancers ask."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from pocketmq.proxy.protos.pool import message_class
from pocketmq.proxy.protos.shapes import HEALTH, REFLECTION
from support.eventually import PATIENCE_S
from support.proxy_rig import ProxyRig, proxy_rig

SERVICE = "apache.rocketmq.v2.MessagingService"


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ProxyRig]:
    async with proxy_rig(tmp_path) as made:
        yield made


async def reflected(rig: ProxyRig, package: str, **asked: str) -> Any:
    """The answer to one question."""
    invoke = rig.sdk().channel.stream_stream(
        f"/{package}.ServerReflection/ServerReflectionInfo",
        request_serializer=message_class("ServerReflectionRequest", package).SerializeToString,
        response_deserializer=message_class("ServerReflectionResponse", package).FromString,
    )
    stream = invoke(timeout=PATIENCE_S)
    await stream.write(message_class("ServerReflectionRequest", package)(**asked))
    answer = await stream.read()
    await stream.done_writing()
    return answer


@pytest.mark.parametrize("package", REFLECTION)
async def test_a_tool_that_knows_nothing_can_call(rig: ProxyRig, package: str) -> None:
    """As grpcurl does: list the services, fetch the files of one, make messages of them."""
    listed = await reflected(rig, package, list_services="*")
    assert [each.name for each in listed.list_services_response.service] == [
        SERVICE, f"{HEALTH}.Health", *(f"{each}.ServerReflection" for each in REFLECTION),
    ]  # fmt: skip
    answer = await reflected(rig, package, file_containing_symbol=SERVICE)
    pool = descriptor_pool.DescriptorPool()
    for each in reversed(answer.file_descriptor_response.file_descriptor_proto):
        pool.Add(descriptor_pb2.FileDescriptorProto.FromString(each))
    method = pool.FindServiceByName(SERVICE).methods_by_name["QueryRoute"]
    request = message_factory.GetMessageClass(method.input_type)
    response = message_factory.GetMessageClass(method.output_type)
    invoke = rig.sdk().channel.unary_unary(
        f"/{SERVICE}/QueryRoute", request.SerializeToString, response.FromString
    )
    await rig.cluster.create_topic("orders", 4)
    asked = request()
    asked.topic.name = "orders"
    found = await invoke(asked, metadata=(("x-mq-client-id", "tool"),), timeout=PATIENCE_S)
    assert len(found.message_queues) == 4


async def test_what_is_not_there_is_told(rig: ProxyRig) -> None:
    package = REFLECTION[0]
    missing = await reflected(rig, package, file_containing_symbol="no.such.Thing")
    assert missing.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
    assert missing.original_request.file_containing_symbol == "no.such.Thing"
    missing = await reflected(rig, package, file_by_filename="x" * 20_000)
    assert missing.error_response.error_code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    there = await reflected(rig, package, file_by_filename="google/protobuf/duration.proto")
    assert len(there.file_descriptor_response.file_descriptor_proto) == 1


async def test_it_is_healthy(rig: ProxyRig) -> None:
    request = message_class("HealthCheckRequest", HEALTH)
    response = message_class("HealthCheckResponse", HEALTH)
    channel = rig.sdk().channel
    check = channel.unary_unary(
        f"/{HEALTH}.Health/Check", request.SerializeToString, response.FromString
    )
    for name in ("", SERVICE):
        assert (await check(request(service=name), timeout=PATIENCE_S)).status == 1
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await check(request(service="other"), timeout=PATIENCE_S)
    assert raised.value.code() == grpc.StatusCode.NOT_FOUND
    watch = channel.unary_stream(
        f"/{HEALTH}.Health/Watch", request.SerializeToString, response.FromString
    )
    for name, status in (("", 1), ("other", 3)):
        stream = watch(request(service=name), timeout=PATIENCE_S)
        assert (await stream.read()).status == status
        stream.cancel()
