"""Peers that break off, fall silent, stall or do not read (faults 21 to 24)."""

from __future__ import annotations

import asyncio
import os
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pocketmq.protocol.budget import Budget
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply
from pocketmq.protocol.transport import network as network_module
from pocketmq.protocol.transport.channel import HIGH_WATER_BYTES, Channel
from pocketmq.protocol.transport.network import OpenChannels
from pocketmq.protocol.transport.tcp import TcpListener, TcpNetwork
from support.eventually import PATIENCE_S, eventually
from support.own_logs import own_logs
from support.wire_pair import (
    SILENT,
    Echo,
    EchoAt,
    RawPeer,
    Word,
    connected,
    request_bytes,
    served,
)

MIB = 1024 * 1024

# -- fault 21: reset in the middle of a frame -----------------------------------------------------


async def test_a_reset_in_the_middle_of_a_frame_leaves_nothing_behind(echo: EchoAt) -> None:
    server, address, accepted = echo
    frame = request_bytes(body=b"never whole")
    async with connected(TcpNetwork(), address) as healthy:
        await healthy.request(Word())
        open_before, heard_before = len(os.listdir("/proc/self/fd")), len(server.codes)
        for count in range(len(frame)):
            peer = await RawPeer.connect(address)
            peer.say(frame[:count])
            await healthy.request(Word(), code=4711)  # a round trip: the bytes are there
            peer.reset()
            await peer.close()
        assert len(accepted) == 1 + len(frame)
        await asyncio.gather(*(channel.closed for channel in accepted[1:]))
        assert len(server.codes) == heard_before
        # Fewer when the collector met something of an earlier test.
        assert len(os.listdir("/proc/self/fd")) <= open_before
        assert (await healthy.request(Word())).code == 0


# -- rows 22 and 23: peers that say nothing, or next to nothing ---------------------------------


LIMIT_S = 3600.0
"""How long a peer may be silent, or a frame take, where a test lets that time pass by hand: so much
that the real seconds of the test itself do not count."""


@pytest.fixture
async def swept(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[OpenChannels, str]]:
    """The channels that an echo over TCP accepted, and its address; only a test ages them."""
    monkeypatch.setattr(network_module, "IDLE_LIMIT_S", LIMIT_S)
    monkeypatch.setattr(network_module, "FRAME_LIMIT_S", LIMIT_S)
    async with served(TcpNetwork(), Echo().dispatcher) as (listener, address):
        assert isinstance(listener, TcpListener)
        yield listener.channels, address


async def test_a_peer_that_vanished_without_a_word_is_closed_after_the_idle_limit(
    swept: tuple[OpenChannels, str],
) -> None:  # fault 22; N-22, B-26
    channels, address = swept
    async with connected(TcpNetwork(), address) as healthy:
        await healthy.request(Word())
        silent = await RawPeer.connect(address)
        silent.say(request_bytes())
        await silent.answer()
        [spoke, silence] = channels.all
        for channel in (spoke, silence):
            channel.last_active_at -= LIMIT_S / 2
        with own_logs() as logs:
            channels.sweep()
            assert (logs, silence.is_open) == ([], True)
            await healthy.request(Word())
            for channel in (spoke, silence):
                channel.last_active_at -= LIMIT_S / 2 + 1
            channels.sweep()
        assert [line["event"] for line in logs] == ["peer.idle"]
        assert await silent.is_hung_up_on()
        assert (await healthy.request(Word())).code == 0
    await silent.close()


async def test_silent_peers_are_looked_for_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(network_module, "IDLE_LIMIT_S", 0.05)
    monkeypatch.setattr(network_module, "SWEEP_S", 0.01)
    async with served(TcpNetwork(), Echo().dispatcher) as (_, address):
        for _ in range(2):
            silent = await RawPeer.connect(address)
            assert await silent.is_hung_up_on()
            await silent.close()


async def test_a_byte_now_and_then_does_not_keep_a_connection(
    swept: tuple[OpenChannels, str],
) -> None:  # fault 23
    channels, address = swept
    frame = request_bytes(body=bytes(10_000))
    slow = [await RawPeer.connect(address) for _ in range(100)]
    async with connected(TcpNetwork(), address) as healthy:
        await healthy.request(Word())
        *stalling, _ = channels.all
        with own_logs() as logs:
            for at, passed_s in enumerate((LIMIT_S / 4, LIMIT_S / 4, LIMIT_S / 2 + 1)):
                for peer in slow:
                    peer.say(frame[at : at + 1])
                await eventually(
                    lambda: all(channel.frame_began_at for channel in stalling), "all have begun"
                )
                await healthy.request(Word())
                assert (logs, len(channels.all)) == ([], 101)
                for channel in stalling:
                    assert channel.frame_began_at is not None
                    channel.frame_began_at -= passed_s
                channels.sweep()
        assert [line["event"] for line in logs] == ["frame.stalled"] * 100
        for peer in slow:
            assert await peer.is_hung_up_on()
            await peer.close()
        assert (await healthy.request(Word())).code == 0


async def test_a_peer_that_always_finishes_its_frames_is_never_closed_as_stalled(
    swept: tuple[OpenChannels, str],
) -> None:
    channels, address = swept
    peer = await RawPeer.connect(address)
    frame = request_bytes()
    peer.say(frame + frame[:10])
    for _ in range(3):
        await peer.answer()
        [channel] = channels.all
        assert channel.frame_began_at is not None  # always in the middle of some frame
        channel.frame_began_at -= LIMIT_S / 2
        channels.sweep()
        peer.say(frame[10:] + frame[:10])
    await peer.answer()
    await peer.close()


# -- fault 24: peers that ask and do not read -----------------------------------------------------


async def test_a_peer_that_does_not_read_is_not_served_and_costs_no_memory(echo: EchoAt) -> None:
    server, address, accepted = echo
    greedy = await RawPeer.connect(address)
    greedy.reader._transport.pause_reading()  # type: ignore[attr-defined]
    body, count = bytes(60_000), 2_000
    ask = request_bytes(SILENT) + request_bytes(body=body)
    tracemalloc.start()
    try:
        # 120 MB of answers are asked for; what the sockets do not take must not pile up here.
        asked = asyncio.create_task(_say_all(greedy, [ask] * count))
        async with connected(TcpNetwork(), address) as healthy:
            before = -1
            while len(server.codes) > before or not accepted[0]._paused:
                before = len(server.codes)
                for _ in range(20):
                    assert (await healthy.request(Word(), code=4711)).code == 3
            [channel] = accepted[:1]
            transport: Any = channel._transport
            assert transport.get_write_buffer_size() < 2 * HIGH_WATER_BYTES
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(server.codes) < count
    assert peak < 64 * 1024 * 1024
    greedy.reader._transport.resume_reading()  # type: ignore[attr-defined]
    for _ in range(count):  # nothing was lost, and nothing has changed places
        assert len((await greedy.answer()).body_view) == len(body)
    await asked
    await greedy.close()


async def test_one_read_full_of_questions_with_long_answers_is_answered_in_pieces(
    echo: EchoAt,
) -> None:
    server, address, accepted = echo
    long, count, answered = bytes(1024 * 1024), 40, 0

    def at_length(_peer: Peer, request: Command) -> Reply:
        nonlocal answered
        answered += 1
        return request.reply(body=long)

    server.dispatcher.register(4711, at_length)
    greedy = await RawPeer.connect(address)
    greedy.reader._transport.pause_reading()  # type: ignore[attr-defined]
    greedy.say(request_bytes(4711) * count)
    await eventually(lambda: accepted and accepted[0]._paused, "the peer is not served any more")
    assert answered < count - 10  # some MiB are with the kernel
    greedy.reader._transport.resume_reading()  # type: ignore[attr-defined]
    for _ in range(count):
        assert len((await greedy.answer()).body_view) == len(long)
    await greedy.close()


async def _say_all(peer: RawPeer, parts: list[bytes]) -> None:
    for part in parts:
        peer.say(part)
        await peer.writer.drain()


async def test_answers_that_a_peer_does_not_take_in_the_end_cost_its_connection() -> None:
    server = Echo(Budget(connection_bytes=8 * MIB))
    async with served(TcpNetwork(), server.dispatcher) as (listener, address):
        deaf = await deaf_peer(address)
        deaf.say(request_bytes(SILENT) * 40)
        async with connected(TcpNetwork(), address) as healthy:
            while len(server.waiting) < 40:
                await healthy.request(Word())
            [channel, _] = channels_of(listener)
            with own_logs() as logs:
                for peer, request in server.waiting:
                    peer.reply(request, request.reply(body=bytes(MIB)))
                    await healthy.request(Word())
            assert "peer.overflowed" in [line["event"] for line in logs]
            assert not channel.is_open
            assert (await healthy.request(Word())).code == 0
        await deaf.close()


# -- all peers together --------------------------------------------------------------------------


async def deaf_peer(address: str) -> RawPeer:
    """One that asks and never reads."""
    peer = await RawPeer.connect(address)
    peer.reader._transport.pause_reading()  # type: ignore[attr-defined]
    return peer


def channels_of(listener: object) -> list[Channel]:
    assert isinstance(listener, TcpListener)
    return list(listener.channels.all)


async def test_peers_that_never_read_cost_no_more_together_than_the_budget_says() -> None:
    # fault 24: 500 of them cost 0.5 to 1.2 GB when each had a bound and all together none.
    limit = 24 * MIB
    server = Echo(Budget(peer_memory_bytes=limit))
    async with served(TcpNetwork(), server.dispatcher) as (listener, address):
        assert isinstance(listener, TcpListener)
        memory = listener.channels.memory
        async with connected(TcpNetwork(), address) as healthy:
            await healthy.request(Word())
            [kept] = channels_of(listener)
            deaf = [await deaf_peer(address) for _ in range(12)]
            for peer in deaf:
                peer.say(request_bytes(SILENT))
            while len(server.waiting) < len(deaf):
                await healthy.request(Word())
            with own_logs() as logs:
                tracemalloc.start()
                try:
                    for peer, request in server.waiting:
                        peer.reply(request, request.reply(body=bytes(12 * MIB)))
                        assert (await healthy.request(Word())).code == 0
                        assert memory.total_bytes <= limit
                    _, peak = tracemalloc.get_traced_memory()
                finally:
                    tracemalloc.stop()
        closed = [line for line in logs if line["event"] == "peer.too_heavy"]
        assert len(closed) > 6
        assert all("budget.peer_memory_bytes" in line["advice"] for line in closed)
        assert peak < limit + 40 * MIB, "one answer more, as it is made and sent"
        assert kept.address not in {line["peer"] for line in closed}
        for peer in deaf:
            await peer.close()
        await eventually(lambda: memory.total_bytes == 0, "all is given back")


async def test_the_heaviest_peer_is_the_one_that_is_closed() -> None:
    frame = request_bytes(body=bytes(MIB))
    async with served(TcpNetwork(), Echo(Budget(peer_memory_bytes=2 * MIB)).dispatcher) as (
        listener,
        address,
    ):
        assert isinstance(listener, TcpListener)
        memory = listener.channels.memory
        light, heavy, last = [await RawPeer.connect(address) for _ in range(3)]
        for peer, size in ((light, MIB // 2), (heavy, MIB - 10), (last, MIB * 3 // 4)):
            held = memory.total_bytes
            peer.say(frame[:size])  # half frames
            with own_logs() as logs:
                await eventually(
                    lambda held=held, size=size: (
                        abs(memory.total_bytes - held - size) < 64_000
                        or any(line["event"] == "peer.too_heavy" for line in logs)
                    ),
                    "it is read",
                )
        [line] = [line for line in logs if line["event"] == "peer.too_heavy"]
        assert line["waiting_bytes"] > MIB * 3 // 4
        assert await heavy.is_hung_up_on()
        assert [channel.is_open for channel in channels_of(listener)] == [True, True]
        for peer in (light, last):
            peer.say(frame[MIB // 2 if peer is light else MIB * 3 // 4 :])
        for peer in (light, last):
            await peer.answer()
        for peer in (light, heavy, last):
            await peer.close()


async def test_both_ends_of_a_connection_never_wait_for_each_other(echo: EchoAt) -> None:
    _, address, _ = echo
    async with connected(TcpNetwork(), address) as channel:
        body = bytes(1024 * 1024)
        calls = [channel.request(Word(word=str(n)), body, timeout_s=PATIENCE_S) for n in range(48)]
        replies = await asyncio.gather(*calls)
        assert [reply.header(Word).word for reply in replies] == [str(n) for n in range(48)]
