"""A role that listens at two ports, as a broker does with its VIP port, has one bound for both; a
process with two roles has one for their connections."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from pocketmq.protocol.budget import Budget
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.files import descriptors
from support.wire_pair import Echo, RawPeer, Word, connected, request_bytes, served

MIB = 1024 * 1024


async def test_what_peers_have_waiting_at_both_ports_is_added_up() -> None:  # fault 24
    dispatcher = Echo(Budget(peer_memory_bytes=2 * MIB)).dispatcher
    large, small = request_bytes(body=bytes(MIB * 7 // 4)), request_bytes(body=bytes(MIB // 4))
    async with (
        AsyncExitStack() as peers,
        served(TcpNetwork(), dispatcher) as (_, address),
        served(TcpNetwork(), dispatcher) as (_, vip_address),
    ):
        heavy = await RawPeer.connect(address)
        peers.push_async_callback(heavy.close)
        others = [await RawPeer.connect(vip_address) for _ in range(2)]
        for peer in others:
            peers.push_async_callback(peer.close)
        # Half frames; the heavy one has the most waiting in whatever order they are read.
        heavy.say(large[:-10])
        for peer in others:
            peer.say(small[:-10])
        assert await heavy.is_hung_up_on()
        for peer in others:
            peer.say(small[-10:])
            await peer.answer()


@pytest.mark.parametrize("roles", [1, 2])
async def test_connections_at_both_ports_leave_descriptors_for_files(
    monkeypatch: pytest.MonkeyPatch, roles: int
) -> None:  # fault 49
    monkeypatch.setattr(descriptors, "most_connections", lambda: 2)
    monkeypatch.setattr(descriptors, "ACCEPTED", descriptors.AcceptedConnections())
    dispatchers = [Echo().dispatcher for _ in range(roles)]
    async with (
        served(TcpNetwork(), dispatchers[0]) as (_, address),
        served(TcpNetwork(), dispatchers[-1]) as (_, vip_address),
        connected(TcpNetwork(), address) as first,
    ):
        async with connected(TcpNetwork(), vip_address) as second:
            assert (await first.request(Word())).code == 0
            assert (await second.request(Word())).code == 0
            late = await RawPeer.connect(vip_address)
            assert await late.is_hung_up_on()
            await late.close()
        async with connected(TcpNetwork(), vip_address) as again:
            assert (await again.request(Word())).code == 0
