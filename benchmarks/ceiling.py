"""Servers that do less than a broker: upper bounds for its figures.

`floor`  the minimum of a send in Python: split the frames, decode the typed header with the C
         decoder, CRC the body, pack the record, one slice assignment per read, a reply from a
         fixed template. No tables, no checks, no consume queue.
`bare`   only splits frames and answers each with a fixed reply: the time of loop and sockets.
`buffered`  does the same as an `asyncio.BufferedProtocol`, which gives the loop the buffer to read
         into: one copy of each read less.
`pull`   answers every request with one prebuilt pull reply.
`java`   is name server and broker of RocketMQ's Java client: answers what it sends with success at
         once, and looks at nothing but code and opaque. No broker lets that client send faster.

`python ceiling.py floor|bare|buffered|pull|java --port 0` prints `READY port=...`.
"""

from __future__ import annotations

import argparse
import asyncio
import mmap
import os
import re
import struct
import tempfile
import zlib

import msgspec
import uvloop

from pocketmq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from pocketmq.protocol.body import encode_body
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.frame import encode_frame
from pocketmq.protocol.headers.pull import PullMessageResponseHeader
from pocketmq.protocol.headers.send import SendMessageRequestHeaderV2, SendMessageResponseHeader

_WORDS = struct.Struct(">iI")
_RECORD = struct.Struct(">iiiiiqqiqQqQiqi")
_LOG_BYTES = 1 << 30


class _Envelope(msgspec.Struct):
    code: int
    opaque: int = 0
    ext: msgspec.Raw = msgspec.Raw()


class _JsonEnvelope(msgspec.Struct):
    code: int
    opaque: int = 0
    extFields: msgspec.Raw = msgspec.Raw()


def reply_template(encoding: Encoding) -> tuple[bytes, bytes]:
    """A send reply split around its opaque; in msgpack the opaque has five bytes."""
    header = SendMessageResponseHeader(
        msg_id="7F00000100002A9F0000000000000000", queue_id=0, queue_offset=1_000_000
    )
    frame = b"".join(
        encode_frame(Command(0, header, opaque=1_234_567_890, flag=1, encoding=encoding))
    )
    mark = b"1234567890" if encoding is Encoding.JSON else struct.pack(">I", 1_234_567_890)
    before, after = frame.split(mark)
    return before, after


def whole_frames(data: bytes | bytearray, end: int) -> tuple[list[tuple[int, int, int]], int]:
    """Header, body and end of each whole frame, and where the first one begins that is not."""
    frames = []
    at = 0
    while end - at >= 8:
        total, word = _WORDS.unpack_from(data, at)
        stop = at + 4 + total
        if stop > end:
            break
        frames.append((at + 8, at + 8 + (word & 0xFFFFFF), stop))
        at = stop
    return frames, at


class Splitter(asyncio.Protocol):
    """Splits frames and passes all of a read to `answer`."""

    def __init__(self) -> None:
        self.rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.rest:
            data = self.rest + data
        frames, at = whole_frames(data, len(data))
        self.rest = data[at:]
        if frames:
            self.transport.write(b"".join(self.answer(data, frames)))

    def answer(self, data: bytes, frames: list[tuple[int, int, int]]) -> list[bytes]:
        raise NotImplementedError


class Bare(Splitter):
    """Answers each frame with the same bytes."""

    reply = b""

    def answer(self, data: bytes, frames: list[tuple[int, int, int]]) -> list[bytes]:
        return [self.reply] * len(frames)


class Buffered(asyncio.BufferedProtocol):
    """As `Bare`, in a buffer of its own."""

    def __init__(self) -> None:
        self.buffer = bytearray(1 << 18)
        self.view = memoryview(self.buffer)
        self.end = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.view[self.end :]

    def buffer_updated(self, nbytes: int) -> None:
        self.end += nbytes
        frames, at = whole_frames(self.buffer, self.end)
        left = self.end - at
        self.view[:left] = self.view[at : self.end]
        self.end = left
        if frames:
            self.transport.write(b"".join([Bare.reply] * len(frames)))


class Floor(Splitter):
    """Does the minimum work of a send."""

    log: mmap.mmap
    position = 0
    encoding = Encoding.MSGPACK
    before = b""
    after = b""

    def answer(self, data: bytes, frames: list[tuple[int, int, int]]) -> list[bytes]:
        json = Floor.encoding is Encoding.JSON
        envelope = _DECODERS[json][0]
        header_of = _DECODERS[json][1]
        view = memoryview(data)
        crc32, pack, before, after = zlib.crc32, _RECORD.pack, Floor.before, Floor.after
        out: list[bytes] = []
        records: list[bytes | memoryview] = []
        position = Floor.position
        for start, body_at, stop in frames:
            head = envelope(view[start:body_at])
            header = header_of(head.extFields if json else head.ext)
            body = view[body_at:stop]
            topic = header.topic.encode()
            properties = header.properties.encode()
            size = 91 + len(body) + len(topic) + len(properties)
            records += (
                pack(
                    size,
                    -626843481,
                    crc32(body) & 0x7FFFFFFF,
                    header.queue_id,
                    header.flag,
                    position,
                    position,
                    header.sys_flag,
                    header.born_timestamp,
                    0,
                    0,
                    0,
                    header.reconsume_times,
                    0,
                    len(body),
                ),
                body,
                bytes((len(topic),)),
                topic,
                len(properties).to_bytes(2, "big"),
                properties,
            )
            position += size
            opaque = head.opaque
            out.append(before + (b"%010d" % opaque if json else opaque.to_bytes(4, "big")) + after)
        block = b"".join(records)
        at = Floor.position
        if at + len(block) > _LOG_BYTES:
            at = 0
        Floor.log[at : at + len(block)] = block
        Floor.position = at + len(block)
        return out


_DECODERS = {
    False: (
        msgspec.msgpack.Decoder(_Envelope).decode,
        msgspec.msgpack.Decoder(SendMessageRequestHeaderV2).decode,
    ),
    True: (
        msgspec.json.Decoder(_JsonEnvelope).decode,
        msgspec.json.Decoder(SendMessageRequestHeaderV2, strict=False).decode,
    ),
}


class Pull(Splitter):
    """Answers every pull with the same records."""

    before = b""
    after = b""

    def answer(self, data: bytes, frames: list[tuple[int, int, int]]) -> list[bytes]:
        out = []
        decode = _DECODERS[False][0]
        for start, body_at, _ in frames:
            opaque = decode(data[start:body_at]).opaque
            out += (Pull.before, opaque.to_bytes(4, "big"), Pull.after)
        return out


class Java(Splitter):
    """Answers the client's questions for a route, and anything else as a send."""

    before = b""
    after = b""
    route: tuple[bytes, bytes] = (b"", b"")
    """A reply with the route to this server, split around its opaque."""

    def answer(self, data: bytes, frames: list[tuple[int, int, int]]) -> list[bytes]:
        out = []
        for start, body_at, _ in frames:
            header = data[start:body_at]
            code, opaque = _CODE.search(header), _OPAQUE.search(header)
            assert code is not None
            assert opaque is not None
            asks_route = int(code[1]) == RequestCode.GET_ROUTEINFO_BY_TOPIC
            before, after = Java.route if asks_route else (Java.before, Java.after)
            # As wide as the number it stands for, so that the frame keeps its length.
            out += (before, opaque[1].rjust(10), after)
        return out


_CODE = re.compile(rb'"code":(\d+)')
_OPAQUE = re.compile(rb'"opaque":(\d+)')


def route_reply(port: int) -> tuple[bytes, bytes]:
    """The reply with a route of eight queues at this server, split around its opaque."""
    queues = QueueData(broker_name="nothing", read_queue_nums=8, write_queue_nums=8, perm=6)
    address = f"127.0.0.1:{port}"
    broker = BrokerData(cluster="nothing", broker_name="nothing", broker_addrs={0: address})
    body = encode_body(TopicRouteData(queue_datas=[queues], broker_datas=[broker]), Encoding.JSON)
    command = Command(0, None, body, opaque=1_234_567_890, flag=1, encoding=Encoding.JSON)
    before, after = b"".join(encode_frame(command)).split(b"1234567890")
    return before, after


def pull_reply(records: bytes) -> tuple[bytes, bytes]:
    """A pull reply split around its opaque."""
    header = PullMessageResponseHeader(
        suggest_which_broker_id=0, next_begin_offset=32, min_offset=0, max_offset=1_000_000
    )
    command = Command(0, header, records, opaque=1_234_567_890, flag=1)
    before, after = b"".join(encode_frame(command)).split(struct.pack(">I", 1_234_567_890), 1)
    return before, after


async def serve(kind: str, port: int, encoding: Encoding, records: bytes) -> None:
    protocol: type[Splitter | Buffered]
    if kind in ("bare", "buffered"):
        Bare.reply = (123456789).to_bytes(4, "big").join(reply_template(Encoding.MSGPACK))
        protocol = Bare if kind == "bare" else Buffered
    elif kind == "pull":
        Pull.before, Pull.after = pull_reply(records)
        protocol = Pull
    elif kind == "java":
        Java.before, Java.after = reply_template(Encoding.JSON)
        protocol = Java
    else:
        Floor.encoding = encoding
        Floor.before, Floor.after = reply_template(encoding)
        with tempfile.NamedTemporaryFile() as file:
            os.ftruncate(file.fileno(), _LOG_BYTES)
            Floor.log = mmap.mmap(file.fileno(), _LOG_BYTES)
        protocol = Floor
    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", port)
    bound = server.sockets[0].getsockname()[1]
    Java.route = route_reply(bound)
    print(f"READY port={bound}", flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["floor", "bare", "buffered", "pull", "java"])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--encoding", choices=["msgpack", "json"], default="msgpack")
    parser.add_argument("--records", help="file with the records of a pull reply")
    options = parser.parse_args()
    records = b""
    if options.records:
        with open(options.records, "rb") as file:
            records = file.read()
    uvloop.run(serve(options.kind, options.port, Encoding[options.encoding.upper()], records))


if __name__ == "__main__":
    main()
