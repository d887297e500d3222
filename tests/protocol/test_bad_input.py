"""Bytes and peers that misbehave: each costs its own connection and nothing else (A5, 21-28)."""

from __future__ import annotations

import asyncio
import json
import os
import struct
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from pocketmq.protocol.bodies.clients import HeartbeatData
from pocketmq.protocol.bodies.topics import RegisterBrokerBody
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.dispatch import Dispatcher, Peer, Reply
from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.frame import FrameDecoder
from pocketmq.protocol.headers.pull import PullMessageRequestHeader
from pocketmq.protocol.transport import channel as channel_module
from pocketmq.protocol.transport import network as network_module
from pocketmq.protocol.transport.channel import HIGH_WATER_BYTES, Channel
from pocketmq.protocol.transport.memory import MemoryNetwork
from pocketmq.protocol.transport.network import FRAME_LIMIT_S, IDLE_LIMIT_S, OpenChannels
from pocketmq.protocol.transport.tcp import TcpListener, TcpNetwork
from support.cost import cost_s
from support.eventually import eventually
from support.strategies import mutated
from support.wire_pair import (
    ECHO,
    SILENT,
    Echo,
    RawPeer,
    Word,
    commands_in,
    connected,
    raw_frame,
    request_bytes,
    served,
)

DEPTH = 200_000
SLOWEST_S = 0.1
"""What one piece of bad input may cost; 5 ms when nothing else runs."""


def packed(code: object = ECHO, ext: object = None, **more: object) -> bytes:
    return bytes(msgpack.packb({"code": code, "opaque": 1, "ext": ext} | more))


def with_raw_ext(ext: bytes) -> bytes:
    """A msgpack header whose ext is these bytes, sound or not."""
    return b"\x83\xa4code\xcd" + ECHO.to_bytes(2) + b"\xa6opaque\x01\xa3ext" + ext


def text(**fields: object) -> bytes:
    return json.dumps({"code": ECHO, "opaque": 1} | fields).encode()


HANG_UP = {
    # row 25
    "length 16 MiB + 1": struct.pack(">i", 16 * 1024 * 1024 - 3),
    "length 2^31 - 1": struct.pack(">i", 2**31 - 1),
    "length negative": struct.pack(">i", -5),
    "length 0": struct.pack(">i", 0),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS hello": bytes.fromhex("16030100f8010000f40303"),
    # row 26
    "header longer than its frame": struct.pack(">iI", 20, 17) + bytes(16),
    "unknown encoding": raw_frame(5, b"{}"),
    # row 27
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
    # row 28
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


@pytest.fixture
async def echo() -> AsyncIterator[tuple[Echo, str, list[Channel]]]:
    """An echo over TCP, its address, and the channels that it accepted."""
    echo, accepted = Echo(), list[Channel]()
    async with served(TcpNetwork(), echo.dispatcher, on_open=accepted.append) as (_, address):
        yield echo, address, accepted


EchoAt = tuple[Echo, str, list[Channel]]


# -- rows 25 to 28 ---------------------------------------------------------------------------------


@pytest.mark.parametrize("data", HANG_UP.values(), ids=HANG_UP.keys())
async def test_bytes_that_are_no_frame_end_their_connection_and_no_other(
    echo: EchoAt, data: bytes
) -> None:
    _, address, _ = echo
    async with connected(TcpNetwork(), address) as healthy:
        await healthy.request(Word())
        with capture_logs() as logs:
            bad = await RawPeer.connect(address)
            bad.say(request_bytes(word="before"))
            assert (await bad.answer()).header(Word).word == "before"
            bad.say(data)
            assert await bad.is_hung_up_on()
            await bad.close()
        assert [line["event"] for line in logs] == ["frame.refused"]
        assert (await healthy.request(Word(word="fine"))).header(Word).word == "fine"


@pytest.mark.parametrize("data", HANG_UP.values(), ids=HANG_UP.keys())
def test_bytes_that_are_no_frame_are_refused_quickly_and_without_memory(data: bytes) -> None:
    def refused() -> None:
        decoder = FrameDecoder()
        assert decoder.feed(data) == []
        assert decoder.failure is not None

    assert cost_s(refused) < SLOWEST_S
    tracemalloc.start()
    try:
        FrameDecoder().feed(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000 + 2 * len(data)


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


BAD_BODIES = {
    Encoding.JSON: [
        b"", b"{", b"nonsense", b"[" * DEPTH, b'{"clientID":' + b"[" * DEPTH, b"\xff\xfe",
        b'{"clientID":1e999}', b'{"clientID":NaN}', b"9" * 5000, b'{"clientID":"\\ud800"}',
        b'{"clientID":"x","consumerDataSet":{"$ref":"$"}}', b'{"$ref":"$"}', b"null", b"[]",
    ],
    Encoding.MSGPACK: [
        b"", b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xff\x01", b"\x91" * DEPTH, b"\x81" * DEPTH,
        b"\x81\x81\x01\x02\x03", b"\x81\x90\x01", b"\xc1", b"\xa2\xff\xff",
        b"\xd6\xff\x00\x00\x00\x01", b"\xc0", b"\x90", b"\x80", b"\x80\x80",
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("encoding", "data"),
    [(encoding, data) for encoding, found in BAD_BODIES.items() for data in found],
    ids=lambda value: value.name if isinstance(value, Encoding) else repr(value[:40]),
)
def test_a_broken_body_is_a_bad_request_and_nothing_else(encoding: Encoding, data: bytes) -> None:
    def refused() -> None:
        with pytest.raises(BadRequestError, match="body is no HeartbeatData"):
            decode_body(data, HeartbeatData, encoding)

    assert cost_s(refused) < SLOWEST_S


def test_a_body_that_lacks_a_field_says_which() -> None:
    for encoding, data in ((Encoding.JSON, b"{}"), (Encoding.MSGPACK, b"\x80")):
        with pytest.raises(BadRequestError, match="clientID"):
            decode_body(data, HeartbeatData, encoding)


# -- fuzz ------------------------------------------------------------------------------------------

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
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_whatever_a_peer_sends_the_next_one_is_answered(data: bytes) -> None:
    network = MemoryNetwork()
    async with served(network, Echo().dispatcher) as (_, address):
        async with connected(network, address) as bad:
            transport: Any = bad._transport
            transport.write(data)
            async with connected(network, address) as good:
                reply = await good.request(Word(word="fine"))
        assert reply.header(Word).word == "fine"


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=5) | st.integers(0, 9), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
fields = st.dictionaries(
    st.sampled_from(["consumerGroup", "topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag"])
    | st.text(max_size=4),
    values,
)


@given(fields)
def test_any_typed_fields_are_a_header_or_a_bad_request(ext: dict[str, Any]) -> None:
    header = msgpack.packb({"code": 11, "ext": ext}, unicode_errors="surrogatepass")
    decoder = FrameDecoder()
    for command in decoder.feed(raw_frame(77, header)):
        try:
            command.header(PullMessageRequestHeader)
        except BadRequestError as exc:
            error = exc
            assert error.code == ResponseCode.SYSTEM_ERROR


@given(values)
def test_any_msgpack_value_as_a_body_is_a_body_or_a_bad_request(value: Any) -> None:
    data = msgpack.packb(value, unicode_errors="surrogatepass")
    for cls in (HeartbeatData, RegisterBrokerBody):
        try:
            decode_body(data, cls, Encoding.MSGPACK)
        except BadRequestError as exc:
            error = exc
            assert cls.__name__ in str(error)


@given(st.binary(max_size=100), st.sampled_from(list(Encoding)))
def test_any_bytes_as_a_body_are_a_body_or_a_bad_request(data: bytes, encoding: Encoding) -> None:
    for cls in (HeartbeatData, RegisterBrokerBody):
        try:
            decode_body(data, cls, encoding)
        except BadRequestError as exc:
            error = exc
            assert cls.__name__ in str(error)


# -- row 21: reset in the middle of a frame --------------------------------------------------------


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
        async with asyncio.timeout(5):
            await asyncio.gather(*(channel.closed for channel in accepted[1:]))
        assert len(server.codes) == heard_before
        assert len(os.listdir("/proc/self/fd")) == open_before
        assert (await healthy.request(Word())).code == 0


# -- rows 22 and 23: peers that say nothing, or next to nothing ------------------------------------


@pytest.fixture
async def swept() -> AsyncIterator[tuple[OpenChannels, str]]:
    """The channels that an echo over TCP accepted, and its address; only a test sweeps them."""
    async with served(TcpNetwork(), Echo().dispatcher) as (listener, address):
        assert isinstance(listener, TcpListener)
        yield listener.channels, address


async def test_a_peer_that_vanished_without_a_word_is_closed_after_the_idle_limit(
    swept: tuple[OpenChannels, str],
) -> None:  # row 22; N-22, B-26
    channels, address = swept
    async with connected(TcpNetwork(), address) as healthy:
        await healthy.request(Word())
        silent = await RawPeer.connect(address)
        silent.say(request_bytes())
        await silent.answer()
        [spoke, silence] = channels.all
        spoke.last_active_at -= IDLE_LIMIT_S - 5
        silence.last_active_at -= IDLE_LIMIT_S - 5
        with capture_logs() as logs:
            channels.sweep()
            assert (logs, silence.is_open) == ([], True)
            await healthy.request(Word())
            for channel in (spoke, silence):
                channel.last_active_at -= 6
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
) -> None:  # row 23
    channels, address = swept
    frame = request_bytes(body=bytes(10_000))
    slow = [await RawPeer.connect(address) for _ in range(100)]
    async with connected(TcpNetwork(), address) as healthy:
        await healthy.request(Word())
        *stalling, _ = channels.all
        with capture_logs() as logs:
            for at, passed_s in enumerate((10, FRAME_LIMIT_S - 15, 6)):
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
        channel.frame_began_at -= FRAME_LIMIT_S - 5
        channels.sweep()
        peer.say(frame[10:] + frame[:10])
    await peer.answer()
    await peer.close()


# -- row 24: peers that ask and do not read --------------------------------------------------------


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


async def test_answers_that_a_peer_does_not_take_in_the_end_cost_its_connection(
    echo: EchoAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "OVERFLOW_BYTES", 8 * 1024 * 1024)
    server, address, accepted = echo
    deaf = await RawPeer.connect(address)
    deaf.reader._transport.pause_reading()  # type: ignore[attr-defined]
    deaf.say(request_bytes(SILENT) * 40)
    async with connected(TcpNetwork(), address) as healthy:
        while len(server.waiting) < 40:
            await healthy.request(Word())
        with capture_logs() as logs:
            for peer, request in server.waiting:
                peer.reply(request, request.reply(body=bytes(1024 * 1024)))
                await healthy.request(Word())
        assert "peer.overflowed" in [line["event"] for line in logs]
        assert not accepted[0].is_open
        assert (await healthy.request(Word())).code == 0
    await deaf.close()


async def test_both_ends_of_a_connection_never_wait_for_each_other(echo: EchoAt) -> None:
    _, address, _ = echo
    async with connected(TcpNetwork(), address) as channel:
        body = bytes(1024 * 1024)
        calls = [channel.request(Word(word=str(n)), body, timeout_s=20) for n in range(48)]
        replies = await asyncio.gather(*calls)
        assert [reply.header(Word).word for reply in replies] == [str(n) for n in range(48)]


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
    with capture_logs() as logs:
        channel = await network.connect(f"127.0.0.1:{port}", Dispatcher())
        from pocketmq.protocol.errors import ConnectionLostError

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
