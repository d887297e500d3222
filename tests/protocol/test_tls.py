"""TLS on a role's ports (Y-1): which peers get in, what they may cost, what they are told."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pocketmq.operation.tls.contexts import client_tls
from pocketmq.protocol.budget import Budget
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.errors import ConnectError
from pocketmq.protocol.transport import channel as channel_module
from pocketmq.protocol.transport import network as network_module
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.line_transport import LineTransport
from pocketmq.protocol.transport.memory import MemoryNetwork
from pocketmq.protocol.transport.tcp import TcpListener, TcpNetwork
from pocketmq.protocol.transport.tls.engine import TlsEngine
from pocketmq.protocol.transport.tls.line import TlsTransport
from pocketmq.protocol.transport.tls.server_tls import ServerTls
from support.eventually import PATIENCE_S, eventually
from support.own_logs import own_logs
from support.renegotiation import DATA, HANDSHAKE, NO_RENEGOTIATION, AskingPeer
from support.tls import HALF_HELLO, own_pair, server_tls, trusting
from support.wire_pair import Echo, RawPeer, Word, connected, request_bytes, served


async def the_echo(channel: Channel, word: str = "hello", body: bytes = b"") -> bytes:
    reply = await channel.request(Word(word=word), body)
    assert reply.header(Word).word == word
    return bytes(reply.body_view)


@contextlib.asynccontextmanager
async def permissive(
    *, budget: Budget | None = None, tls: ServerTls | None = None
) -> AsyncIterator[tuple[TcpListener, str]]:
    """An echo over TCP that takes TLS and plaintext."""
    echo = Echo() if budget is None else Echo(budget)
    network = TcpNetwork(server_tls=tls or server_tls())
    async with served(network, echo.dispatcher) as (listener, address):
        assert isinstance(listener, TcpListener)
        yield listener, address


# -- which peers get in ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [MemoryNetwork, TcpNetwork])
async def test_a_permissive_port_takes_tls_and_plaintext(
    kind: type[MemoryNetwork | TcpNetwork],
) -> None:
    # Y-1
    network = kind(server_tls=server_tls())
    async with served(network, Echo().dispatcher) as (_, address):
        async with connected(network, address) as plain:
            assert await the_echo(plain, body=b"in the open") == b"in the open"
        secured = kind(client_tls=trusting())
        if isinstance(network, MemoryNetwork) and isinstance(secured, MemoryNetwork):
            secured.listeners = network.listeners
        async with connected(secured, address) as channel:
            assert await the_echo(channel, body=b"locked") == b"locked"


async def test_an_enforcing_port_closes_a_plain_connection_and_says_why() -> None:
    # Y-1
    network = TcpNetwork(server_tls=server_tls(enforces=True))
    echo = Echo()
    with own_logs() as logs:
        async with served(network, echo.dispatcher) as (_, address):
            peer = await RawPeer.connect(address)
            peer.say(request_bytes())
            assert await peer.reader.read() == b""
            await peer.close()
    assert echo.codes == []
    assert [each["event"] for each in logs] == ["tls.missing"]


async def test_a_port_without_tls_closes_a_tls_peer_and_says_how_to_switch_it_on() -> None:
    # Y-1: disabled
    with own_logs() as logs:
        async with served(TcpNetwork(), Echo().dispatcher) as (_, address):
            with pytest.raises(ConnectError, match="hung up during the handshake"):
                await TcpNetwork(client_tls=trusting()).connect(address, Dispatcher())
    [refused] = [each for each in logs if each["event"] == "frame.refused"]
    assert "tls.server.mode" in refused["reason"]


async def test_a_plain_connection_is_read_by_its_channel_directly() -> None:
    async with permissive() as (listener, address), connected(TcpNetwork(), address) as channel:
        await the_echo(channel)
        [accepted] = listener.channels.all
        transport = accepted._transport
        assert transport is not None
        assert transport.get_protocol() is accepted
        assert "Tls" not in type(transport).__name__


async def test_a_port_without_certificate_hangs_up_on_a_tls_peer_alone() -> None:
    async with permissive(tls=ServerTls(lambda: None)) as (_, address):
        with pytest.raises(ConnectError):
            await TcpNetwork(client_tls=trusting()).connect(address, Dispatcher())
        async with connected(TcpNetwork(), address) as plain:
            await the_echo(plain)


# -- whom a client trusts -------------------------------------------------------------------------


async def test_a_client_takes_any_server_until_it_is_given_a_ca() -> None:
    # Y-4
    async with permissive() as (_, address):
        anyone = client_tls(True)
        async with connected(TcpNetwork(client_tls=anyone), address) as channel:
            await the_echo(channel)
        stranger = client_tls(True, ca_file=own_pair("stranger").certificate)
        with pytest.raises(ConnectError, match="certificate was refused"):
            await TcpNetwork(client_tls=stranger).connect(address, Dispatcher())


async def test_a_client_that_names_its_server_refuses_a_certificate_for_another() -> None:
    async with permissive() as (_, address):
        tls = client_tls(True, ca_file=own_pair().certificate, server_name="broker.example")
        with pytest.raises(ConnectError, match=r"broker\.example"):
            await TcpNetwork(client_tls=tls).connect(address, Dispatcher())


async def test_a_client_may_bring_a_context_of_its_own() -> None:
    context = ssl.create_default_context(cafile=str(own_pair().certificate))
    async with permissive() as (_, address):
        tls = client_tls(context, server_name="localhost")
        async with connected(TcpNetwork(client_tls=tls), address) as channel:
            await the_echo(channel)


async def test_a_server_that_never_shakes_hands_is_given_up_in_time() -> None:
    class Silent(asyncio.Protocol):
        pass

    loop = asyncio.get_running_loop()
    server = await loop.create_server(Silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(ConnectError, match="Timeout"):
        await TcpNetwork(client_tls=trusting()).connect(
            f"127.0.0.1:{port}", Dispatcher(), timeout_s=0.05
        )
    server.close()
    await server.wait_closed()


# -- one write ------------------------------------------------------------------------------------


async def test_requests_of_one_turn_leave_in_one_write_over_tls_too() -> None:
    async with (
        permissive() as (listener, address),
        connected(TcpNetwork(client_tls=trusting()), address) as channel,
    ):
        await the_echo(channel)
        [accepted] = listener.channels.all
        asked = _writes_of(channel)
        answered = _writes_of(accepted)
        await asyncio.gather(*(the_echo(channel, str(n), bytes(100)) for n in range(10)))
        assert (len(asked), len(answered)) == (1, 1)


def _writes_of(channel: Channel) -> list[int]:
    """The bytes of each write of the channel's socket from now on."""
    transport = channel._transport
    assert isinstance(transport, TlsTransport)
    socket_transport = transport._line._transport
    assert socket_transport is not None
    written: list[int] = []

    class Counting(LineTransport):
        def write(self, data: bytes | bytearray | memoryview) -> None:
            written.append(len(data))
            self._to.write(data)

    transport._line._transport = Counting(socket_transport)
    return written


# -- what hostile peers may cost ------------------------------------------------------------------


async def test_of_a_thousand_half_handshakes_a_budgets_worth_stays() -> None:
    tls = server_tls()
    limit = 50
    async with permissive(budget=Budget(tls_handshakes=limit), tls=tls) as (listener, address):
        peers = []
        for _ in range(1_000):
            peer = await RawPeer.connect(address)
            peer.say(HALF_HELLO)
            peers.append(peer)
            assert len(tls.handshakes) <= limit
        await eventually(lambda: len(listener.channels.all) == limit, "the rest to be closed")
        # The newest are left, and somebody who does get done comes through between them.
        async with connected(TcpNetwork(client_tls=trusting()), address) as channel:
            assert await the_echo(channel, body=b"through") == b"through"
        assert await peers[0].is_hung_up_on()
        for peer in peers:
            await peer.close()
        await eventually(lambda: len(tls.handshakes) == 0, "all to be forgotten")


async def test_a_handshake_that_does_not_end_is_closed_by_the_sweep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tls = server_tls()
    async with permissive(tls=tls) as (listener, address):
        peer = await RawPeer.connect(address)
        peer.say(HALF_HELLO)
        await eventually(lambda: len(tls.handshakes) == 1, "the handshake to begin")
        listener.channels.sweep()
        assert len(tls.handshakes) == 1
        monkeypatch.setattr(network_module, "FRAME_LIMIT_S", -1.0)
        listener.channels.sweep()
        assert await peer.is_hung_up_on()
        assert len(tls.handshakes) == 0
        await peer.close()


async def test_a_whole_handshake_is_no_frame_that_has_begun() -> None:
    async with (
        permissive() as (listener, address),
        connected(TcpNetwork(client_tls=trusting()), address) as channel,
    ):
        await the_echo(channel)
        [accepted] = listener.channels.all
        assert accepted.frame_began_at is None


async def test_what_is_no_handshake_gets_an_alert_and_the_end() -> None:
    with own_logs() as logs:
        async with permissive() as (_, address):
            peer = await RawPeer.connect(address)
            peer.say(b"\x16\x03\x01\x00\x05nope!" + bytes(20))
            said = await peer.reader.read()
            assert said[:1] == b"\x15", said  # an alert
            await peer.close()
    assert "tls.failed" in [each["event"] for each in logs]


async def test_rubbish_after_the_handshake_ends_that_connection_alone() -> None:
    async with (
        permissive() as (_, address),
        connected(TcpNetwork(client_tls=trusting()), address) as victim,
        connected(TcpNetwork(client_tls=trusting()), address) as other,
    ):
        await the_echo(victim)
        transport = victim._transport
        assert isinstance(transport, TlsTransport)
        assert transport._line._transport is not None
        transport._line._transport.write(b"\x17\x03\x03\x00\x20" + bytes(32))
        await asyncio.wait_for(victim.closed, PATIENCE_S)
        await the_echo(other)


@pytest.mark.parametrize(("peers", "times"), [(1_000, 1), (1, 1_000)])
async def test_a_thousand_renegotiations_are_refused_and_nobody_else_notices(
    tmp_path: Path, peers: int, times: int
) -> None:
    tls = server_tls()
    asking: list[AskingPeer] = []
    async with (
        permissive(tls=tls) as (listener, address),
        connected(TcpNetwork(), address) as plain,
        connected(TcpNetwork(client_tls=trusting()), address) as secured,
    ):
        for _ in range(peers):
            peer = await AskingPeer.connect(address, tmp_path)
            asking.append(peer)
            for number in range(times):
                peer.ask()
                # In their midst, the others are answered.
                if number % 20 == 19:
                    await the_echo(plain)
                    await the_echo(secured)
            for _ in range(times):
                assert await peer.hear() == NO_RENEGOTIATION
            assert len(tls.handshakes) == 0, "none has begun"
            await the_echo(plain)
        # Nobody has waited for another handshake: each connection is as it was.
        assert len(listener.channels.all) == peers + 2
        for peer in (asking[0], asking[-1]):
            peer.say(DATA, request_bytes(word="still here"))
            kind, said = await peer.hear()
            assert kind == DATA
            assert b"still here" in said
        for peer in asking:
            await peer.close()
        await eventually(lambda: len(listener.channels.all) == 2, "all to be forgotten")
        await the_echo(plain)
        await the_echo(secured)


async def test_of_a_peer_that_asks_and_does_not_listen_reading_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each refusal is as long as the question, and would stay in memory until it is read."""
    monkeypatch.setattr(channel_module, "HIGH_WATER_BYTES", 64 * 1024)
    async with (
        permissive() as (listener, address),
        connected(TcpNetwork(), address) as plain,
    ):
        await the_echo(plain)
        peer = await AskingPeer.connect(address, tmp_path)
        await eventually(lambda: len(listener.channels.all) == 2, "the connection")
        *_, accepted = listener.channels.all
        transport = accepted._transport
        assert transport is not None
        async with asyncio.timeout(PATIENCE_S):
            while not accepted._paused:
                for _ in range(1_000):
                    peer.say(HANDSHAKE, b"\x01\x00\x00\x00")  # all that OpenSSL looks at
                await the_echo(plain)
        assert transport.get_write_buffer_size() < 2 * 1024 * 1024
        await the_echo(plain)
        await peer.close()
        await eventually(lambda: len(listener.channels.all) == 1, "the end of the connection")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is missing")
async def test_nothing_is_renegotiated() -> None:
    """A client of TLS 1.2 that asks for another handshake, as `openssl s_client`'s R does."""
    async with permissive() as (listener, address):
        port = int(address.rpartition(":")[2])
        process = await asyncio.create_subprocess_exec(
            "openssl", "s_client", "-tls1_2", "-connect", f"127.0.0.1:{port}",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        await eventually(lambda: len(listener.channels.all) == 1, "the connection")
        said = b""
        while b"Verify return code" not in said:
            said += await process.stdout.read(4096)
        process.stdin.write(b"R\n")
        await process.stdin.drain()
        rest, _ = await process.communicate()
        assert b"RENEGOTIATING" in said + rest
        assert b"no renegotiation" in (said + rest).lower()
        await eventually(lambda: not listener.channels.all, "the end of the connection")


async def test_bytes_that_come_one_by_one_are_read_as_well() -> None:
    async with permissive() as (_, address):
        tls = trusting()
        engine = TlsEngine(tls.context, server_side=False, server_name=tls.server_name)
        engine.start()
        peer = await RawPeer.connect(address)
        pending = engine.take()
        while not engine.is_open:
            for byte in pending:
                peer.say(bytes([byte]))
                await peer.writer.drain()
            engine.feed(await peer.reader.read(65536))
            pending = engine.take()
        for byte in pending + engine.seal(request_bytes(word="slow")):
            peer.say(bytes([byte]))
            await peer.writer.drain()
        plain = b""
        while b"slow" not in plain:
            plain += engine.feed(await peer.reader.read(65536))
        await peer.close()


# -- what gRPC clients ask ------------------------------------------------------------------------


def test_a_peer_that_offers_http_2_gets_it() -> None:
    """grpc-java and grpc-go hang up otherwise, before anybody can tell them what they met."""
    from pocketmq.operation.tls.contexts import server_context

    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    client.set_alpn_protocols(["h2"])
    ours = TlsEngine(client, server_side=False)
    theirs = TlsEngine(server_context(own_pair()), server_side=True)
    ours.start()
    while not (ours.is_open and theirs.is_open):
        theirs.feed(ours.take())
        ours.feed(theirs.take())
    assert ours.ssl_object.selected_alpn_protocol() == "h2"
