"""`GrpcDoor`: what one who knocks without end may cost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from pocketmq.operation.grpc_ports.door import MOST_AT_ONCE, MOST_TRIED, GrpcDoor
from pocketmq.operation.grpc_ports.requests import ProxyAddress
from pocketmq.protocol.errors import ConnectError
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.network import Network
from pocketmq.protocol.transport.passed_on import PassedOn
from support.eventually import eventually

CALL = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 1, 5)) + (1).to_bytes(4)


class FakeChannel:
    """A channel whose peer has sent the head of a call."""

    address, local_address = "10.0.0.1:5", "10.0.0.2:10911"

    def __init__(self) -> None:
        self.frame_began_at: float | None = None
        self.taker: PassedOn | None = None
        self.sent = b""
        self.is_closed = False

    def hand_over(self, taker: PassedOn) -> bytes:
        self.taker = taker
        return CALL

    def pass_back(self, data: bytes) -> None:
        self.sent += data

    def hold_reading(self, *, held: bool) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True


class DeadNetwork:
    """Nobody can be reached."""

    def __init__(self) -> None:
        self.dialled: list[str] = []

    async def dial(self, address: str, protocol: object, *, tls: bool, to_member: bool) -> None:
        self.dialled.append(address)
        raise ConnectError(address, "nobody is there")


def door(network: DeadNetwork, proxies: asyncio.Future[Sequence[ProxyAddress]]) -> GrpcDoor:
    async def find() -> Sequence[ProxyAddress]:
        return await asyncio.shield(proxies)

    return GrpcDoor("broker", cast("Network", network), find)


def proxies(count: int) -> list[ProxyAddress]:
    return [ProxyAddress(name=f"p{n}", endpoints=f"10.1.0.{n}:8081") for n in range(count)]


async def test_of_many_that_knock_the_last_are_hung_up_on() -> None:
    found: asyncio.Future[Sequence[ProxyAddress]] = asyncio.get_running_loop().create_future()
    opened = door(DeadNetwork(), found)
    channels = [FakeChannel() for _ in range(MOST_AT_ONCE + 2)]
    for each in channels:
        opened(cast("Channel", each))
    assert [each.is_closed for each in channels].count(True) == 2
    found.set_result([])
    await eventually(lambda: bool(channels[0].sent), "the first one hears why")
    await opened.stop()


async def test_few_of_many_dead_proxies_are_dialled() -> None:
    found: asyncio.Future[Sequence[ProxyAddress]] = asyncio.get_running_loop().create_future()
    found.set_result(proxies(64))
    network, channel = DeadNetwork(), FakeChannel()
    opened = door(network, found)
    opened(cast("Channel", channel))
    await eventually(lambda: b"cannot be reached" in channel.sent, "it hears why")
    assert len(network.dialled) == MOST_TRIED
    await opened.stop()


async def test_nobody_is_dialled_for_who_has_left() -> None:
    left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    answered: list[bool] = []

    async def find() -> Sequence[ProxyAddress]:
        await left
        answered.append(True)
        return proxies(1)

    network, channel = DeadNetwork(), FakeChannel()
    opened = GrpcDoor("broker", cast("Network", network), find)
    opened(cast("Channel", channel))
    assert channel.taker is not None
    channel.taker.peer_lost()
    left.set_result(None)
    await eventually(lambda: answered, "the proxies are known")
    await opened.stop()
    assert network.dialled == []
