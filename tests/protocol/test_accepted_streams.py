"""Byte streams that a process accepts leave descriptors for its files, as its channels do."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.files import descriptors
from support.eventually import eventually
from support.wire_pair import Echo, RawPeer, Word, connected, served


class Heard(asyncio.Protocol):
    """One end of a stream."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.data = b""
        self.has_ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.has_ended = True

    def end(self) -> None:
        assert self.transport is not None
        self.transport.close()


async def test_streams_and_channels_have_places_in_common(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fault 49
    monkeypatch.setattr(descriptors, "most_connections", lambda: 2)
    places = descriptors.AcceptedConnections()
    monkeypatch.setattr(descriptors, "ACCEPTED", places)
    accepted: list[Heard] = []

    def make() -> Heard:
        accepted.append(Heard())
        return accepted[-1]

    network = TcpNetwork()
    streams = await network.listen("127.0.0.1", 0, make)

    async def dialled() -> Heard:
        heard = Heard()
        await network.dial(f"127.0.0.1:{streams.port}", heard)
        return heard

    async with served(network, Echo().dispatcher) as (_, address):
        async with connected(network, address) as channel:
            slave = await dialled()
            stranger = await dialled()
            await eventually(lambda: stranger.has_ended, "the third is hung up on")
            assert accepted[1].transport is None, "and nobody was told of it"
            late = await RawPeer.connect(address)
            assert await late.is_hung_up_on()
            await late.close()
            assert slave.transport is not None
            slave.transport.write(b"report")
            await eventually(lambda: accepted[0].data == b"report", "the second is served")
            assert (await channel.request(Word())).code == 0
            slave.end()
            await eventually(lambda: places.count == 1, "its place is free")
            again = await dialled()
            await eventually(lambda: accepted[-1].transport is not None, "another one takes it")
            again.end()
            await eventually(lambda: places.count == 1, "its place is free")
        await eventually(lambda: places.count == 0, "all have ended")
    await streams.close()
