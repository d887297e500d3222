"""An SDK at any port: the proxy's, a broker's, a nameserver's; with TLS and in plaintext."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.server import Broker
from pocketmq.client import Admin
from pocketmq.nameserver.config import NameServerConfig
from pocketmq.nameserver.server import NameServer
from pocketmq.operation.role_process import RoleCommand
from pocketmq.operation.tls.certificate import make_certificate
from pocketmq.operation.tls.contexts import KeyPair, client_context, server_context
from pocketmq.operation.tls.role_tls import RoleTls
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.transport.proxy_protocol import header_of
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.protocol.transport.tls.client_tls import ClientTls
from pocketmq.protocol.transport.tls.server_tls import ServerTls
from pocketmq.proxy.__main__ import use_own_certificate
from pocketmq.proxy.assembly.proxy import Proxy
from pocketmq.proxy.config import ProxyConfig
from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import AddressScheme, Code
from pocketmq.runtime.addresses import split_address
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import DiskError
from support.eventually import eventually
from support.proxy_rig import Sdk, message
from support.raw_http2 import PREFACE, SETTINGS, RawHttp2, call, frame

TLS_MODES = ["none", "permissive", "enforcing"]


class World:
    """A nameserver, a broker and perhaps a proxy on real sockets, in this loop."""

    def __init__(self, folder: Path, own: KeyPair | None, *, enforces: bool) -> None:
        self.own = own
        context = None if own is None else server_context(own)
        tls = None if own is None else ServerTls(lambda: context, enforces=enforces)
        client = ClientTls(client_context()) if enforces else None
        self.network = TcpNetwork(server_tls=tls, client_tls=client)
        self.clock = SystemClock()
        self.nameserver = NameServer(
            NameServerConfig(port=0, kv_config_path=folder / "kv.json"), self.clock, self.network
        )
        self.folder = folder
        self._channels: list[Any] = []

    @property
    def nameservers(self) -> tuple[str, ...]:
        return (self.nameserver.address,)

    def make_broker(self) -> Broker:
        config = BrokerConfig(
            port=0, data=self.folder / "broker-a", nameservers=self.nameservers,
            vip_port_enable=False,
        )  # fmt: skip
        return Broker(config, self.clock, self.network)

    def make_proxy(self) -> Proxy:
        config = ProxyConfig(grpc_port=0, nameservers=self.nameservers, encoding="msgpack")
        return Proxy(config, self.clock, self.network, tls=self.network.server_tls)

    def sdk(self, address: str, *, tls: bool = False) -> Sdk:
        """A client that was given this address."""
        if tls:
            assert self.own is not None
            trusted = grpc.ssl_channel_credentials(self.own.certificate.read_bytes())
            channel = grpc.aio.secure_channel(address, trusted)
        else:
            channel = grpc.aio.insecure_channel(
                address, options=[("grpc.use_local_subchannel_pool", 1)]
            )
        self._channels.append(channel)
        host, port = split_address(address)
        endpoints = pb.Endpoints(
            scheme=AddressScheme.IPv4, addresses=[pb.Address(host=host, port=port)]
        )
        return Sdk(channel, endpoints, f"sdk-{len(self._channels)}")

    async def born_host(self) -> str:
        """Of the only message."""
        async with Admin(nameservers=self.nameserver.address, network=self.network) as admin:
            for queue in await admin.subscribe_queues("orders"):
                for each in (await admin.read(queue, 0)).messages:
                    return str(each.properties[names.BORN_HOST])
        raise AssertionError("nothing is stored")

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()


@asynccontextmanager
async def world(folder: Path, mode: str = "none") -> AsyncIterator[tuple[World, Broker]]:
    own = None if mode == "none" else make_certificate(folder)
    made = World(folder, own, enforces=mode == "enforcing")
    await made.nameserver.start()
    broker = made.make_broker()
    await broker.start()
    try:
        await eventually(lambda: len(made.nameserver.table.live) == 1, "the broker is known")
        async with Admin(nameservers=made.nameserver.address, network=made.network) as admin:
            await admin.create_topic("orders")
        yield made, broker
    finally:
        await made.close()
        await broker.stop()
        await made.nameserver.stop()


@pytest.mark.parametrize("mode", TLS_MODES)
async def test_an_sdk_sends_through_any_port(tmp_path: Path, mode: str) -> None:
    async with world(tmp_path, mode) as (made, broker), made.make_proxy() as proxy:
        for address in (proxy.endpoints, broker.address, made.nameserver.address):
            for tls in {"none": (False,), "permissive": (False, True), "enforcing": (True,)}[mode]:
                sdk = made.sdk(address, tls=tls)
                route = await sdk.call(
                    "QueryRoute", topic=pb.Resource(name="orders"), endpoints=sdk.endpoints
                )
                assert route.message_queues[0].broker.endpoints == sdk.endpoints, "as it asked"
                assert (await sdk.publish("orders")).status.code == Code.OK
                assert (await sdk.send("orders", b"x" * 1_000_000)).status.code == Code.OK


async def test_plaintext_is_refused_where_tls_is_enforced(tmp_path: Path) -> None:
    async with world(tmp_path, "enforcing") as (made, broker), made.make_proxy() as proxy:
        for address in (proxy.endpoints, broker.address, made.nameserver.address):
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await made.sdk(address).call("QueryRoute")
            assert raised.value.code() == grpc.StatusCode.UNAVAILABLE


async def test_the_true_address_is_the_born_host(tmp_path: Path) -> None:
    async with world(tmp_path) as (made, broker), made.make_proxy():
        peer = await RawHttp2.open(broker.address)
        for part in (PREFACE[:2], PREFACE[2:7], PREFACE[7:] + frame(SETTINGS)):
            await peer.write(part)  # the first segment may be short
        await peer.write(call("SendMessage", pb.SendMessageRequest(messages=[message("orders")])))
        assert b"OK" in await peer.answer()
        assert await made.born_host() == peer.own_address
        peer.close()


async def refused(address: str) -> str:
    """What a call at this address is told; the connection is told it as well."""
    peer = await RawHttp2.open(address)
    await peer.begin()
    await peer.write(call("QueryRoute", pb.QueryRouteRequest()))
    told = (await peer.answer()).partition(b"grpc-message")[2].decode(errors="replace")
    with pytest.raises(ConnectionError) as goaway:
        await peer.answer()
    assert str(goaway.value) in told
    peer.close()
    return str(goaway.value)


@pytest.mark.parametrize("port", ["broker", "nameserver"])
async def test_without_a_proxy_it_hears_what_to_install(tmp_path: Path, port: str) -> None:
    async with world(tmp_path) as (made, broker):
        address = broker.address if port == "broker" else made.nameserver.address
        sentence = await refused(address)
        assert f"this is the port of a {port}, and no gRPC proxy is known" in sentence
        assert "pip install 'pocketmq[grpc]'" in sentence
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await made.sdk(address).call("QueryRoute")
        assert (raised.value.code(), raised.value.details()) == (
            grpc.StatusCode.UNAVAILABLE,
            sentence,
        )


async def test_a_proxy_that_was_killed_is_named(tmp_path: Path) -> None:
    async with world(tmp_path) as (made, broker):
        proxy = made.make_proxy()
        await proxy.start()
        where = proxy.endpoints
        await proxy.abort()
        for address in (broker.address, made.nameserver.address):
            sentence = await refused(address)
            assert f"the gRPC proxy at {where} cannot be reached from here" in sentence
        await proxy.stop()
        assert "no gRPC proxy is known" in await refused(broker.address)


@pytest.mark.parametrize(
    ("first", "answer"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"400 Bad Request"),
        (bytes.fromhex("0000002801000023"), b""),
        (b"PROXY TCP4 nobody 1 1 1\r\nPRI ", b""),
        (b"\x16\x03\x01\x00\x05hello", b""),
        (b"\r\n\r\n\0\r\nQUIT\n\x31\x11\x00\x0c" + b"0" * 20, b""),
    ],
)
async def test_what_is_no_sdk_is_hung_up_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bytes, answer: bytes
) -> None:
    """By what it sends, and not because it says nothing more."""
    monkeypatch.setattr("pocketmq.proxy.edge.front.FIRST_BYTES_S", 1_000.0)
    async with world(tmp_path) as (made, _broker), made.make_proxy() as proxy:
        said = await answered(proxy.endpoints, first)
        assert answer in said if answer else said == b""
        assert (await made.sdk(proxy.endpoints).send("orders")).status.code == Code.OK


async def test_who_says_nothing_is_hung_up_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pocketmq.proxy.edge.front.FIRST_BYTES_S", 0.05)
    async with world(tmp_path, "permissive") as (made, _broker), made.make_proxy() as proxy:
        for first in (b"", b"PR", b"PROXY TCP4 ", b"\x16\x03\x01"):
            assert await answered(proxy.endpoints, first) == b""


async def test_a_header_of_this_machine_says_whose_a_connection_is(tmp_path: Path) -> None:
    async with world(tmp_path) as (made, _broker), made.make_proxy() as proxy:
        peer = await RawHttp2.open(proxy.endpoints)
        await peer.write(header_of("192.0.2.7:4711", proxy.endpoints))
        await peer.begin()
        await peer.write(call("SendMessage", pb.SendMessageRequest(messages=[message("orders")])))
        assert b"OK" in await peer.answer()
        peer.close()
        assert await made.born_host() == "192.0.2.7:4711"


async def test_tls_is_answered_with_http2(tmp_path: Path) -> None:
    async with world(tmp_path, "permissive") as (made, broker), made.make_proxy() as proxy:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2", "http/1.1"])
        for address in (proxy.endpoints, broker.address, made.nameserver.address):
            host, port = split_address(address)
            _, writer = await asyncio.open_connection(host, port, ssl=context)
            assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
            writer.close()


async def answered(address: str, first: bytes) -> bytes:
    """All that comes until the connection is closed."""
    peer = await RawHttp2.open(address)
    await peer.write(first)
    said = await peer.said_until_closed()
    peer.close()
    return said


def test_a_certificate_of_its_own_is_made_once(tmp_path: Path) -> None:
    """`--certificate DIR`: what an SDK was given is still right after a restart."""
    shown = []
    for _ in range(2):
        command = RoleCommand(
            "proxy", [ProxyConfig], ["--certificate", str(tmp_path), "--advertise", "mq.example:1"]
        )
        path = use_own_certificate(command, command.config(ProxyConfig))
        assert path == tmp_path / "certificate.pem"
        shown.append(path.read_bytes())
        server = RoleTls(command.security).server
        assert server is not None
        assert server.context() is not None
    assert shown[0] == shown[1]
    assert b"mq.example" in ssl.PEM_cert_to_DER_cert(shown[0].decode())
    (tmp_path / "file").touch()
    command = RoleCommand("proxy", [ProxyConfig], ["--certificate", str(tmp_path / "file" / "no")])
    with pytest.raises(DiskError, match="choose another folder"):
        use_own_certificate(command, command.config(ProxyConfig))
