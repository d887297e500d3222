"""What one client may cost the proxy: bytes of a request, settings, groups, connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from pocketmq.operation.access.rules import Need
from pocketmq.protocol.budget import DEFAULT_BUDGET, Budget
from pocketmq.proxy.access.needs import needs_of
from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import ClientType, Code
from pocketmq.proxy.settings.clients import MOST_GROUPS, Clients
from pocketmq.proxy.settings.limits import Limits
from support.grpc_access import SHOP, secured_rig, signed
from support.grpc_consuming import ack, asked, refused
from support.proxy_rig import ProxyRig, message, proxy_rig

PUSH = ClientType.PUSH_CONSUMER


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ProxyRig]:
    async with proxy_rig(tmp_path) as made:
        await made.cluster.create_topic("orders", 1)
        yield made


async def test_a_request_is_too_large_before_it_is_read(rig: ProxyRig) -> None:
    sdk, long = rig.sdk(), "x" * 1_100_000
    answer = await sdk.call("QueryRoute", topic=pb.Resource(name="orders", resource_namespace=long))
    assert (answer.status.code, answer.status.message[-14:]) == (
        Code.PAYLOAD_TOO_LARGE,
        "max is 1048576",
    )
    group = pb.Resource(name="billing", resource_namespace=long)
    answers = await sdk.receive(**asked(sdk, group=group))
    assert refused(answers)[0] == Code.PAYLOAD_TOO_LARGE
    assert (await ack(sdk, *[pb.AckMessageEntry(message_id=long)])).status.code == (
        Code.PAYLOAD_TOO_LARGE
    )
    six = message("orders", b"x" * 6_000_000)
    assert (await sdk.call("SendMessage", messages=[six])).status.code == Code.PAYLOAD_TOO_LARGE
    five = message("orders", b"x" * 5_000_000)  # one that is read hears what was wrong (G-64)
    sent = await sdk.call("SendMessage", messages=[five])
    assert sent.status.code == Code.MESSAGE_BODY_TOO_LARGE


async def test_settings_have_a_size(rig: ProxyRig) -> None:
    sdk = rig.sdk()
    with pytest.raises(grpc.aio.AioRpcError, match=r"max is 262144"):
        await sdk.publish("orders", "t" * 300_000)
    sdk = rig.sdk()
    with pytest.raises(grpc.aio.AioRpcError, match=r"more than 1000 topics") as raised:
        await sdk.publish(*["orders"] * 1_001)
    assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    sdk = rig.sdk()
    with pytest.raises(grpc.aio.AioRpcError, match=r"more than 1000 topics") as raised:
        await sdk.subscribe("billing", *["orders"] * 1_001)
    assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert len(rig.proxy.clients) == 0


async def test_settings_with_too_many_topics_are_refused_before_rights_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's 50,000 topics would hold the loop for half a second."""
    looked_at = []

    def noted(request: Any) -> list[Need]:
        looked_at.append(request)
        return needs_of(request)

    monkeypatch.setattr("pocketmq.proxy.edge.guard.needs_of", noted)
    async with secured_rig(tmp_path) as rig:
        sdk = rig.sdk(**signed(*SHOP))
        with pytest.raises(grpc.aio.AioRpcError, match=r"more than 1000 topics"):
            await sdk.publish(*(f"t{number}" for number in range(20_000)))
        sdk = rig.sdk(**signed(*SHOP))
        with pytest.raises(grpc.aio.AioRpcError, match=r"more than 1000 topics"):
            await sdk.subscribe("billing", *(f"t{number}" for number in range(10_000)))
        assert looked_at == []
        assert (await rig.sdk(**signed(*SHOP)).publish(*["orders"] * 1_000)).status.code == Code.OK
        assert len(looked_at) == 1


async def test_a_send_has_so_many_messages(rig: ProxyRig) -> None:
    few = [message("orders", b"x")]
    refusal = await rig.sdk().call("SendMessage", messages=few * 1_025)
    assert refusal.status.code == Code.BAD_REQUEST
    assert (await rig.sdk().call("SendMessage", messages=few * 1_024)).status.code == Code.OK


async def test_a_client_is_in_so_many_groups(rig: ProxyRig) -> None:
    sdk = rig.sdk()
    for number in range(MOST_GROUPS + 1):
        group = pb.Resource(name=f"g{number}", resource_namespace="n" * 10_000)
        beat = await sdk.call("Heartbeat", group=group, client_type=PUSH)
        assert beat.status.code == (Code.OK if number < MOST_GROUPS else Code.BAD_REQUEST)
    [client] = rig.proxy.clients.all()
    assert len(client.groups) == MOST_GROUPS
    assert client.settings.ByteSize() < 1_000, "of a Resource only the name counts (G-50)"


def test_settings_of_all_clients_have_so_many_bytes_together() -> None:
    clients = Clients(Limits.of(Budget(grpc_clients_bytes=10_000), 1), lambda: 0)
    for number in range(20):
        clients.said(
            f"client-{number}", pb.Settings(client_type=PUSH, client_properties={"a": "x" * 3_000})
        )
    assert [client.client_id for client in clients.all()] == ["client-17", "client-18", "client-19"]
    clients.said("client-19", pb.Settings(client_type=PUSH))
    clients.remove("client-18")
    for name in "ab":
        clients.said(name, pb.Settings(client_type=PUSH, client_properties={"a": "x" * 3_000}))
    assert len(clients) == 4, "what was replaced and removed counts no more"


def test_all_that_is_kept_of_a_client_counts_as_long_as_it_is_sent() -> None:
    clients = Clients(Limits.of(DEFAULT_BUDGET, 1), lambda: 0)
    settings = pb.Settings(client_type=PUSH)
    client = clients.said(
        "\u00e9\u20ac", settings, language="GO", version="5.1.4\u00fc", address="127.0.0.1:5"
    )
    clients.join(client, "g\u00fc")
    # 2 and 3 bytes, 2, 5 and 2, 11, 1 and 2.
    assert client.kept_bytes == settings.ByteSize() + 5 + 2 + 7 + 11 + 3


async def test_connections_leave_descriptors_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pocketmq.proxy.edge.front.most_connections", lambda: 8)
    async with proxy_rig(tmp_path) as rig:
        for number in range(2):
            await rig.sdk(f"sdk-{number}").call("QueryRoute")
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await rig.sdk("sdk-3").call("QueryRoute")
        assert raised.value.code() == grpc.StatusCode.UNAVAILABLE


async def test_a_client_that_does_not_read_is_not_read_from(rig: ProxyRig) -> None:
    """Each of its settings is answered, so it would fill the proxy's memory with answers."""
    sdk = rig.sdk()
    settings = pb.Settings(client_type=PUSH, client_properties={"a": "x" * 200_000})
    settings.subscription.group.name = "billing"
    written = 0
    for _ in range(400):
        try:
            async with asyncio.timeout(1):
                await sdk.say(settings=settings)
        except TimeoutError:
            break
        written += 1
    assert written < 200
