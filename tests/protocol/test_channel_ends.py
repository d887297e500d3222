"""How channels end, and the client that keeps them, over both networks."""

from __future__ import annotations

import asyncio
import gc
from weakref import ReferenceType, ref

import pytest

from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.errors import (
    ConnectError,
    ConnectionLostError,
)
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.network import Network
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.runtime.errors import PortInUseError
from support.eventually import eventually
from support.wire_pair import (
    SILENT,
    Echo,
    Word,
    connected,
    served,
)


async def test_a_lost_connection_fails_every_call_under_way(network: Network) -> None:
    closed: list[Channel] = []
    echo = Echo()
    async with (
        served(network, echo.dispatcher) as (listener, address),
        connected(network, address, on_close=closed.append) as channel,
    ):
        seen: list[Channel] = []
        channel.add_close_listener(seen.append)
        calls = [channel.request(Word(), code=SILENT) for _ in range(3)]
        await channel.request(Word())
        await listener.close()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(result) for result in results] == [ConnectionLostError] * 3
        await channel.closed
        assert closed == seen == [channel]
        with pytest.raises(ConnectionLostError):
            await channel.request(Word())
        channel.oneway(Word())  # nobody hears it, and that is no error
        echo.waiting[0][0].reply(echo.waiting[0][1], Command(0))


async def test_the_server_hears_that_a_client_has_gone(network: Network) -> None:
    gone = asyncio.get_running_loop().create_future()
    async with (
        served(network, Echo().dispatcher, on_close=gone.set_result) as (_, address),
        connected(network, address) as channel,
    ):
        await channel.request(Word())
        channel.close()
        peer = await gone
        assert peer.address == channel.local_address


async def test_what_was_written_before_a_close_still_arrives(network: Network) -> None:
    echo = Echo()
    async with served(network, echo.dispatcher) as (_, address):
        channel = await network.connect(address, Dispatcher())
        for _ in range(50):
            channel.oneway(Word(), bytes(10_000))
        channel.close()
        await channel.closed
        async with connected(network, address) as other:
            while len(echo.codes) < 50:
                await other.request(Word(), code=4711)
    assert len(echo.codes) == 50


async def test_nobody_at_an_address_is_a_connect_error(network: Network) -> None:
    async with served(network, Dispatcher()) as (listener, address):
        await listener.close()
        with pytest.raises(ConnectError, match="is the process running"):
            await network.connect(address, Dispatcher())
    with pytest.raises(ConnectError):
        await network.connect("no-port", Dispatcher())


async def test_a_port_serves_once(network: Network) -> None:
    async with served(network, Dispatcher()) as (listener, _):
        with pytest.raises(PortInUseError):
            await network.serve("127.0.0.1", listener.port, Dispatcher())


async def test_concurrent_callers_share_one_connection(network: Network) -> None:
    accepted: list[Channel] = []
    async with served(network, Echo().dispatcher, on_open=accepted.append) as (_, address):
        client = RemotingClient(network)
        await asyncio.gather(*(client.call(address, Word()) for _ in range(20)))
        assert len(accepted) == 1
        await client.close()
        with pytest.raises(ConnectError, match="closed"):
            await client.call(address, Word())


async def test_a_client_connects_anew_after_its_connection_was_lost(network: Network) -> None:
    async with served(network, Echo().dispatcher) as (_, address):
        client = RemotingClient(network)
        first = await client.channel(address)
        first.abort()
        await first.closed
        assert client.open_channel(address) is None
        assert (await client.call(address, Word())).code == 0
        client.drop(address)
        assert client.open_channel(address) is None
        await client.close()


async def test_a_client_keeps_nothing_of_an_address_whose_connection_ended(
    network: Network,
) -> None:
    client = RemotingClient(network)
    channels: list[ReferenceType[Channel]] = []
    for _ in range(3):
        async with served(network, Echo().dispatcher) as (_, address):
            await client.call(address, Word())
            channel = client.open_channel(address)
            assert channel is not None
            channels.append(ref(channel))
        await channel.closed
        assert client.open_channel(address) is None
        del channel
    await eventually(lambda: _of(channels) == [], "the channels are given up")
    await client.close()


def _of(channels: list[ReferenceType[Channel]]) -> list[Channel]:
    gc.collect()
    return [channel for each in channels if (channel := each()) is not None]
