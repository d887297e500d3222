"""Peers that speak HTTP/2 as no SDK does: others beside them do not notice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final

import grpc
import grpc.aio
import pytest

from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import Code
from support.eventually import eventually
from support.proxy_rig import ProxyRig, message, proxy_rig
from support.raw_http2 import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    RST_STREAM,
    SETTINGS,
    RawHttp2,
    call,
    call_headers,
    frame,
    headers,
)

CONTINUATION: Final = 9
WINDOW_UPDATE: Final = 8


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ProxyRig]:
    async with proxy_rig(tmp_path) as made:
        await made.cluster.create_topic("orders", 1)
        yield made


async def rapid_reset(peer: RawHttp2) -> None:
    """Calls that are reset before they are answered (CVE-2023-44487)."""
    for at in range(20):
        some = b"".join(
            call("QueryRoute", pb.QueryRouteRequest(), stream)
            + frame(RST_STREAM, 0, stream, (8).to_bytes(4))
            for stream in range(at * 1_000 + 1, (at + 1) * 1_000, 2)
        )
        await peer.write(some)


async def settings_flood(peer: RawHttp2) -> None:
    """Settings that each have to be acknowledged, and acknowledgements that nobody reads."""
    for _ in range(100):
        await peer.write(frame(SETTINGS, payload=b"\0\x04\0\x01\0\0") * 1_000)


async def ping_flood(peer: RawHttp2) -> None:
    for _ in range(100):
        await peer.write(frame(PING, payload=b"12345678") * 1_000)


async def empty_frames(peer: RawHttp2) -> None:
    """A body of frames without a byte (CVE-2019-9518)."""
    await peer.write(frame(HEADERS, END_HEADERS, 1, call_headers("QueryRoute")))
    for _ in range(100):
        await peer.write(frame(DATA, 0, 1) * 1_000)


async def header_bomb(peer: RawHttp2) -> None:
    """A header that is long, and one that goes on and on (CVE-2024-27316)."""
    long = ("x-mq-namespace", "n" * 15_000)
    await peer.write(
        frame(HEADERS, END_STREAM | END_HEADERS, 1, call_headers("QueryRoute", long, long)[:16_000])
    )
    await peer.write(frame(HEADERS, 0, 3, call_headers("QueryRoute")))
    for _ in range(2_000):
        await peer.write(frame(CONTINUATION, 0, 3, headers(long)))


async def indexed_bomb(peer: RawHttp2) -> None:
    """One long entry of HPACK's table, named again and again by one byte (CVE-2016-6581)."""
    entry = b"\x40" + headers(("x-mq-namespace", "n" * 3_900))[1:]
    block = call_headers("QueryRoute") + entry + b"\xbe" * 12_000
    await peer.write(frame(HEADERS, END_STREAM | END_HEADERS, 1, block))


async def many_streams(peer: RawHttp2) -> None:
    """Ten thousand calls that have begun, and go no further."""
    for stream in range(1, 20_001, 2):
        await peer.write(frame(HEADERS, END_HEADERS, stream, call_headers("Telemetry")))


async def endless_message(peer: RawHttp2) -> None:
    """A message of 100 MiB, as fast as the proxy takes it."""
    await peer.write(frame(HEADERS, END_HEADERS, 1, call_headers("SendMessage")))
    await peer.write(frame(DATA, 0, 1, b"\0" + (100 * 1024 * 1024).to_bytes(4)))
    for _ in range(6_400):
        await peer.write(frame(DATA, 0, 1, b"x" * 16_384))


async def garbage(peer: RawHttp2) -> None:
    for kind in range(256):
        await peer.write(frame(kind, kind, kind, bytes(range(256)) * 4))


ATTACKS: Final = [
    rapid_reset, settings_flood, ping_flood, empty_frames, header_bomb, indexed_bomb, many_streams,
    endless_message, garbage,
]  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS, ids=[each.__name__ for each in ATTACKS])
async def test_others_do_not_notice(
    rig: ProxyRig, attack: Callable[[RawHttp2], Awaitable[None]]
) -> None:
    sdk, attackers = rig.sdk(), []
    assert (await sdk.send("orders")).status.code == Code.OK
    for _ in range(3):
        peer = await RawHttp2.open(rig.proxy.endpoints)
        attackers.append((peer, asyncio.ensure_future(attacked(peer, attack))))
    for _ in range(30):
        assert (await sdk.send("orders", b"beside")).status.code == Code.OK
    assert (await rig.sdk("new").send("orders")).status.code == Code.OK  # on a new connection
    for peer, task in attackers:
        task.cancel()
        peer.close()
    await asyncio.gather(*(task for _, task in attackers), return_exceptions=True)
    front = rig.proxy.front
    await eventually(lambda: len(front.peers) == 2, "their connections are gone")
    assert (await sdk.send("orders")).status.code == Code.OK


async def attacked(peer: RawHttp2, attack: Callable[[RawHttp2], Awaitable[None]]) -> None:
    """It may be hung up on, and it may be let wait: both are bounds."""
    try:
        await peer.begin()
        await attack(peer)
    except ConnectionError:
        return


async def test_an_answer_that_is_not_read_does_not_pile_up(rig: ProxyRig) -> None:
    """A window of nothing: the proxy may answer calls, and the peer lets no byte of it come."""
    peer = await RawHttp2.open(rig.proxy.endpoints)
    await peer.begin()
    await peer.write(frame(SETTINGS, payload=b"\0\x04\0\0\0\0"))  # initial window: 0
    request = pb.SendMessageRequest(messages=[message("orders")])
    for stream in range(1, 2_001, 2):
        await peer.write(call("SendMessage", request, stream))
    assert (await rig.sdk().send("orders")).status.code == Code.OK
    await peer.write(frame(SETTINGS, ACK))
    peer.close()


async def test_a_longer_message_than_any_ends_its_call(rig: ProxyRig) -> None:
    sdk = rig.sdk()
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await sdk.send("orders", b"x" * (21 * 1024 * 1024))
    assert raised.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (await sdk.send("orders")).status.code == Code.OK
