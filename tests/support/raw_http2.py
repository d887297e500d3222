"""HTTP/2 written by hand: what no library sends, and from a port that the test knows."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from pocketmq.proxy.protos.shapes import PACKAGE, SERVICE
from pocketmq.runtime.addresses import address_text, split_address
from support.eventually import PATIENCE_S

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
END_STREAM, END_HEADERS, ACK = 1, 4, 1


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    """One frame."""
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def integer(value: int, bits: int = 7) -> bytes:
    """HPACK's, with no bits before it."""
    most = (1 << bits) - 1
    if value < most:
        return bytes((value,))
    made, value = bytearray((most,)), value - most
    while value >= 128:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes((*made, value))


def headers(*pairs: tuple[str, str]) -> bytes:
    """A block of literals that no table keeps."""
    return b"".join(
        b"\0" + b"".join(integer(len(each)) + each.encode() for each in pair) for pair in pairs
    )


def call_headers(rpc: str, *more: tuple[str, str]) -> bytes:
    """Of one call."""
    return headers(
        (":method", "POST"), (":scheme", "http"), (":authority", "here"),
        (":path", f"/{PACKAGE}.{SERVICE}/{rpc}"), ("content-type", "application/grpc"),
        ("te", "trailers"), ("x-mq-client-id", "by-hand"), *more,
    )  # fmt: skip


def call(rpc: str, request: Any, stream: int = 1) -> bytes:
    """The frames of a call with one request."""
    body = request.SerializeToString()
    return frame(HEADERS, END_HEADERS, stream, call_headers(rpc)) + frame(
        DATA, END_STREAM, stream, b"\0" + len(body).to_bytes(4) + body
    )


class RawHttp2:
    """A connection; use `open`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, address: str) -> RawHttp2:
        """Connect, and say nothing."""
        host, port = split_address(address)
        return cls(*await asyncio.open_connection(host, port))

    @property
    def own_address(self) -> str:
        return address_text(*self.writer.get_extra_info("sockname")[:2])

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def begin(self) -> None:
        """Preface and settings."""
        await self.write(PREFACE + frame(SETTINGS))

    async def next_frame(self) -> tuple[int, int, int, bytes]:
        """Kind, flags, stream and payload."""
        async with asyncio.timeout(PATIENCE_S):
            head = await self.reader.readexactly(9)
            payload = await self.reader.readexactly(int.from_bytes(head[:3]))
        return head[3], head[4], int.from_bytes(head[5:9]), payload

    async def answer(self, stream: int = 1) -> bytes:
        """All that a stream was answered, headers and data together."""
        said = b""
        while True:
            kind, flags, of, payload = await self.next_frame()
            if kind == SETTINGS and not flags & ACK:
                await self.write(frame(SETTINGS, ACK))
            elif kind == GOAWAY:
                raise ConnectionError(payload[8:].decode(errors="replace"))
            elif of == stream:
                said += payload
                if (kind in (DATA, HEADERS) and flags & END_STREAM) or kind == RST_STREAM:
                    return said

    async def said_until_closed(self) -> bytes:
        """Everything, until the other end hangs up."""
        said = b""
        async with asyncio.timeout(PATIENCE_S):
            try:
                while data := await self.reader.read(65_536):
                    said += data
            except ConnectionError:
                pass
        return said

    def close(self) -> None:
        self.writer.close()
