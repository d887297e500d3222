"""The two networks under one name, an echo to talk to, and raw sockets that misbehave."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from pocketmq.protocol.budget import DEFAULT_BUDGET, Budget
from pocketmq.protocol.codecs import codec_of
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.dispatch import Dispatcher, Peer, Reply
from pocketmq.protocol.frame import FrameDecoder, encode_frame
from pocketmq.protocol.header import Header
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.memory import MemoryNetwork
from pocketmq.protocol.transport.network import Listener, Network
from pocketmq.protocol.transport.tcp import TcpNetwork
from support.eventually import PATIENCE_S
from support.tls import memory_over_tls, tcp_over_tls

ECHO = 29_001
SILENT = 29_002
BROKEN = 29_003
HUGE = 29_004
UNSENDABLE = 29_005
CALL_BACK = 29_006


class Word(Header, kw_only=True):
    """A header with one text, for ECHO unless a test says otherwise."""

    word: str = ""


Word.CODE = ECHO  # declared inside, it would enter the table of all request headers


class Echo:
    """Answers some codes that no role has; the dispatcher of a test's server."""

    def __init__(self, budget: Budget = DEFAULT_BUDGET) -> None:
        self.waiting: list[tuple[Peer, Command]] = []
        self.codes: list[int] = []
        self.dispatcher = Dispatcher(lambda: budget)
        for code, processor in (
            (ECHO, self.echo),
            (SILENT, self.silent),
            (BROKEN, self.broken),
            (HUGE, self.huge),
            (UNSENDABLE, self.unsendable),
            (CALL_BACK, self.call_back),
        ):
            self.dispatcher.register(code, processor)

    def echo(self, _peer: Peer, request: Command) -> Reply:
        self.codes.append(request.code)
        return request.reply(request.header(Word), request.body_view)

    def silent(self, peer: Peer, request: Command) -> Reply:
        self.waiting.append((peer, request))
        return None

    def broken(self, _peer: Peer, request: Command) -> Reply:
        raise RuntimeError(f"no processor is perfect {request.header(Word).word}\ud800")

    def huge(self, _peer: Peer, request: Command) -> Reply:
        return request.reply(body=bytes(17 * 1024 * 1024))

    def unsendable(self, _peer: Peer, request: Command) -> Reply:
        return request.reply({"word": "half a pair: \ud800"})

    def call_back(self, peer: Peer, request: Command) -> Reply:
        peer.oneway(Word(word="first to you"))
        return request.reply()


NETWORKS: dict[str, Callable[[], Network]] = {
    "memory": MemoryNetwork,
    "tcp": TcpNetwork,
    "memory over TLS": memory_over_tls,
    "tcp over TLS": tcp_over_tls,
}


@asynccontextmanager
async def served(
    network: Network, dispatcher: Dispatcher, **options: Any
) -> AsyncIterator[tuple[Listener, str]]:
    """A listener on any port, and its address."""
    listener = await network.serve("127.0.0.1", 0, dispatcher, **options)
    try:
        yield listener, f"127.0.0.1:{listener.port}"
    finally:
        await listener.close()


EchoAt = tuple[Echo, str, list[Channel]]
"""An echo over TCP, its address, and the channels that it accepted."""


@asynccontextmanager
async def connected(
    network: Network, address: str, dispatcher: Dispatcher | None = None, **options: Any
) -> AsyncIterator[Channel]:
    """A channel, closed at the end."""
    channel = await network.connect(address, dispatcher or Dispatcher(), **options)
    try:
        yield channel
    finally:
        channel.abort()
        await channel.closed


def frame_bytes(command: Command) -> bytes:
    """The whole frame of a command."""
    return b"".join(encode_frame(command))


def raw_frame(encoding: int, header: bytes, body: bytes = b"") -> bytes:
    """A frame around any bytes."""
    total = 4 + len(header) + len(body)
    return struct.pack(">iI", total, encoding << 24 | len(header)) + header + body


def request_bytes(
    code: int = ECHO,
    word: str = "hello",
    body: bytes = b"",
    *,
    opaque: int = 1,
    flag: int = 0,
    encoding: Encoding = Encoding.MSGPACK,
) -> bytes:
    """The frame of a request."""
    return frame_bytes(Command(code, Word(word=word), body, opaque, flag, encoding=encoding))


def commands_in(data: bytes) -> list[Command]:
    """The commands of whole frames; fails on anything else."""
    decoder = FrameDecoder()
    commands = decoder.feed(data)
    assert decoder.failure is None, decoder.failure
    assert decoder.pending_bytes == 0
    return commands


def header_bytes(command: Command) -> bytes:
    """A command's header alone."""
    return codec_of(command.encoding).encode(command)


class RawPeer:
    """A TCP connection that says whatever a test likes, with no code of ours in between."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, address: str) -> RawPeer:
        host, _, port = address.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    def say(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> Command:
        """The next command from the other side."""
        async with asyncio.timeout(PATIENCE_S):
            length = await self.reader.readexactly(4)
            rest = await self.reader.readexactly(struct.unpack(">i", length)[0])
        [command] = commands_in(length + rest)
        return command

    async def is_hung_up_on(self) -> bool:
        """Whether the other side closes the connection; what it said before is lost."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while await self.reader.read(1 << 16):
                    pass
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        return True

    def reset(self) -> None:
        """End the connection with a reset, as a crashed machine or a proxy does."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def close(self) -> None:
        self.writer.transport.abort()
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self.writer.wait_closed()
        except (ConnectionError, TimeoutError):
            return
