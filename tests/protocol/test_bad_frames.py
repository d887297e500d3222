"""Frames and headers that are wrong cost their own connection only (faults 25 to 28)."""

from __future__ import annotations

import asyncio
import json
import struct
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.errors import ConnectionLostError
from pocketmq.protocol.frame import FrameDecoder
from pocketmq.protocol.transport.memory import MemoryNetwork
from pocketmq.protocol.transport.tcp import TcpNetwork
from support.cost import DEPTH, cost_s, peak_bytes, slowest_s
from support.own_logs import own_logs
from support.strategies import mutated
from support.wire_pair import (
    ECHO,
    Echo,
    EchoAt,
    RawPeer,
    Word,
    commands_in,
    connected,
    raw_frame,
    request_bytes,
    served,
)


def packed(code: object = ECHO, ext: object = None, **more: object) -> bytes:
    return bytes(msgpack.packb({"code": code, "opaque": 1, "ext": ext} | more))


def with_raw_ext(ext: bytes) -> bytes:
    """A msgpack header whose ext is these bytes, sound or not."""
    return b"\x83\xa4code\xcd" + ECHO.to_bytes(2) + b"\xa6opaque\x01\xa3ext" + ext


def text(**fields: object) -> bytes:
    return json.dumps({"code": ECHO, "opaque": 1} | fields).encode()


HANG_UP = {
    # fault 25
    "length 16 MiB + 1": struct.pack(">i", 16 * 1024 * 1024 - 3),
    "length 2^31 - 1": struct.pack(">i", 2**31 - 1),
    "length negative": struct.pack(">i", -5),
    "length 0": struct.pack(">i", 0),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS hello": bytes.fromhex("16030100f8010000f40303"),
    # fault 26
    "header longer than its frame": struct.pack(">iI", 20, 17) + bytes(16),
    "unknown encoding": raw_frame(5, b"{}"),
    # fault 27
    "JSON nested 200,000 deep": raw_frame(0, b'{"code":' + b"[" * DEPTH + b"]" * DEPTH + b"}"),
    "JSON code of 5,000 digits": raw_frame(0, b'{"code":' + b"9" * 5000 + b"}"),
    "JSON NaN": raw_frame(0, b'{"code":NaN}'),
    "JSON with bad UTF-8": raw_frame(0, b'{"code":1,"remark":"\xff\xfe"}'),
    "JSON cut short": raw_frame(0, b'{"code":1,'),
    "JSON that is no object": raw_frame(0, b"[1,2]"),
    "JSON without a code": raw_frame(0, b'{"opaque":1}'),
    "JSON code as text": raw_frame(0, b'{"code":"eleven"}'),
    "JSON opaque over 32 bits": raw_frame(0, text(opaque=2**31)),
    "an empty JSON header": raw_frame(0, b""),
    # fault 28
    "msgpack array32 of 2^32 - 1": raw_frame(77, b"\xdd\xff\xff\xff\xff"),
    "msgpack map32 of 2^32 - 1": raw_frame(77, b"\xdf\xff\xff\xff\xff"),
    "msgpack bin32 of 2^32 - 1": raw_frame(77, b"\xc6\xff\xff\xff\xff"),
    "msgpack nested 200,000 deep": raw_frame(77, with_raw_ext(b"\x91" * DEPTH + b"\xc0")),
    "msgpack code as text": raw_frame(77, packed(code="x")),
    "msgpack code over 32 bits": raw_frame(77, packed(code=2**40)),
    "msgpack that ends early": raw_frame(77, packed()[:-2]),
    "msgpack with bytes after it": raw_frame(77, packed() + b"\x01"),
    "msgpack that is no map": raw_frame(77, b"\x01"),
    "an empty msgpack header": raw_frame(77, b""),
    # the binary header
    "an empty binary header": raw_frame(1, b""),
    "binary remark longer than the header": raw_frame(
        1, struct.pack(">hbhiii", 1, 0, 0, 1, 0, 2**31 - 1)
    ),
    "binary remark of negative length": raw_frame(1, struct.pack(">hbhiiii", 1, 0, 0, 1, 0, -1, 0)),
    "binary fields longer than the header": raw_frame(
        1, struct.pack(">hbhiiii", 1, 0, 0, 1, 0, 0, 2**31 - 1)
    ),
    "binary field name cut short": raw_frame(
        1, struct.pack(">hbhiiiihc", 1, 0, 0, 1, 0, 0, 3, 9, b"x")
    ),
    "binary field name that is no UTF-8": raw_frame(
        1, struct.pack(">hbhiiiih2si", 1, 0, 0, 1, 0, 0, 8, 2, b"\xff\xff", 0)
    ),
}
ANSWERED = {
    # A header that can be read, with fields that cannot: its sender hears which.
    "JSON field of the wrong type": (raw_frame(0, text(extFields={"word": [1]})), 1, "word"),
    "JSON fields that are no object": (raw_frame(0, text(extFields=[1])), 0, None),
    "JSON fields nested 200,000 deep": (
        raw_frame(0, text()[:-1] + b',"extFields":{"word":' + b"[" * 900 + b"]" * 900 + b"}}"),
        1,
        "word",
    ),
    "JSON keys twice: the last counts": (
        raw_frame(0, b'{"code":1,"code":29001,"opaque":1,"extFields":{"word":"a","word":"b"}}'),
        0,
        None,
    ),
    "JSON keys that nobody knows": (raw_frame(0, text(new=1, extFields={"x": "y"})), 0, None),
    "msgpack field of the wrong type": (raw_frame(77, packed(ext={"word": [1]})), 1, "word"),
    "msgpack fields that are no map": (raw_frame(77, packed(ext=[1, 2])), 0, None),
    "msgpack fields with keys that are no text": (raw_frame(77, packed(ext={7: "x"})), 0, None),
    "msgpack unknown extension type": (
        raw_frame(77, packed(ext={"word": msgpack.ExtType(42, b"x")})),
        1,
        "word",
    ),
    "an unknown code": (request_bytes(4711), 3, "4711"),
    "a negative code": (raw_frame(0, text(code=-7)), 3, "-7"),
}

# -- made by hand -------------------------------------------------------------------------------


@pytest.mark.parametrize("data", HANG_UP.values(), ids=HANG_UP.keys())
async def test_bytes_that_are_no_frame_end_their_connection_and_no_other(
    echo: EchoAt, data: bytes
) -> None:
    _, address, _ = echo
    async with connected(TcpNetwork(), address) as healthy:
        await healthy.request(Word())
        with own_logs() as logs:
            bad = await RawPeer.connect(address)
            bad.say(request_bytes(word="before"))
            assert (await bad.answer()).header(Word).word == "before"
            bad.say(data)
            assert await bad.is_hung_up_on()
            await bad.close()
        assert [line["event"] for line in logs] == ["frame.refused"]
        assert (await healthy.request(Word(word="fine"))).header(Word).word == "fine"


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "it is HTTP/2: RocketMQ's gRPC clients connect to"),
        (b"GET / HTTP/1.1\r\n\r\n", "it is HTTP, which this port does not speak"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it is HTTP, which this port does not speak"),
        (bytes.fromhex("16030100f8010000f40303"), "it is TLS, which is switched off here"),
        (b"EHLO localhost\r\n", "and 16777212"),
    ],
)
def test_a_peer_of_another_protocol_is_told_by_its_name(data: bytes, what: str) -> None:
    decoder = FrameDecoder()
    assert decoder.feed(data) == []
    assert what in str(decoder.failure)
    for size in (4, 8):  # judged as soon as the length is there
        early = FrameDecoder()
        early.feed(data[:size])
        assert str(early.failure) == str(decoder.failure)


@pytest.mark.parametrize("data", HANG_UP.values(), ids=HANG_UP.keys())
def test_bytes_that_are_no_frame_are_refused_quickly_and_without_memory(data: bytes) -> None:
    def refused() -> None:
        decoder = FrameDecoder()
        assert decoder.feed(data) == []
        assert decoder.failure is not None

    assert cost_s(refused) < slowest_s()
    assert peak_bytes(lambda: FrameDecoder().feed(data)) < 100_000 + 2 * len(data)


@pytest.mark.parametrize(("data", "code", "named"), ANSWERED.values(), ids=ANSWERED.keys())
async def test_a_request_that_can_be_answered_is_answered_and_keeps_its_connection(
    echo: EchoAt, data: bytes, code: int, named: str | None
) -> None:
    _, address, _ = echo
    peer = await RawPeer.connect(address)
    peer.say(data)
    answer = await peer.answer()
    assert (answer.code, answer.opaque) == (code, commands_in(data)[0].opaque)
    if named is not None:
        assert named in (answer.remark or "")
    peer.say(request_bytes(word="still here"))
    assert (await peer.answer()).header(Word).word == "still here"
    await peer.close()


async def test_a_client_survives_a_server_that_talks_nonsense() -> None:
    hung_up = asyncio.Event()

    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(request_bytes(opaque=77, flag=1) + b"nonsense")
        await reader.read()
        writer.close()
        await writer.wait_closed()
        hung_up.set()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    network = TcpNetwork()
    with own_logs() as logs:
        channel = await network.connect(f"127.0.0.1:{port}", Dispatcher())
        with pytest.raises(ConnectionLostError):
            await channel.request(Word())
    assert [line["event"] for line in logs] == ["reply.dropped", "frame.refused"]
    await hung_up.wait()  # uvloop never finishes closing a loop with a stream half closed
    server.close()
    await server.wait_closed()


def test_a_command_in_a_log_line_shows_no_body() -> None:
    command = Command(ECHO, Word(word="secret"), b"secret", 7, remark="x" * 500)
    assert "secret" not in str(command)
    assert len(str(command)) < 200


# -- fuzz ---------------------------------------------------------------------------------------

somebody = st.sampled_from(list(Encoding)).flatmap(
    lambda encoding: st.builds(
        request_bytes,
        st.sampled_from([ECHO, 11, 12345]),
        st.text("word", max_size=6),
        st.binary(max_size=20),
        opaque=st.integers(0, 5),
        flag=st.integers(0, 3),
        encoding=st.just(encoding),
    )
)


@given(data=st.binary(max_size=300) | mutated(somebody) | st.lists(somebody).map(b"".join))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
async def test_whatever_a_peer_sends_the_next_one_is_answered(data: bytes) -> None:
    network = MemoryNetwork()
    async with served(network, Echo().dispatcher) as (_, address):
        async with connected(network, address) as bad:
            transport: Any = bad._transport
            transport.write(data)
            async with connected(network, address) as good:
                reply = await good.request(Word(word="fine"))
        assert reply.header(Word).word == "fine"
