"""Sends prepacked frames: they are built once, and connections keep a window of them in flight.

Runs in its own process (`python load.py --address H:P --topic T ...`) and prints one JSON line:
`{"messages": n, "seconds": s, "refused": 0, "p50_us": .., "p99_us": ..}`. Latencies are measured
only with a window of one. A send that waits for 200 ms in a broker is refused (B-161), as may
happen on a busy machine; a rate with refusals is invalid.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import struct
import time

import uvloop

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.frame import encode_frame
from pocketmq.protocol.headers.send import SendMessageRequestHeaderV2
from pocketmq.runtime.addresses import split_address

_LENGTH = struct.Struct(">i")


def send_frame(topic: str, queue_id: int, body_bytes: int, encoding: Encoding) -> bytes:
    """One send request as a client would make it."""
    header = SendMessageRequestHeaderV2(
        producer_group="bench",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=1_700_000_000_000,
        flag=0,
        properties="UNIQ_KEY\x017F0000010000000000000000000000A1\x02WAIT\x01true\x02TAGS\x01TagA\x02",
    )
    command = Command(
        RequestCode.SEND_MESSAGE_V2, header, b"x" * body_bytes, opaque=7, encoding=encoding
    )
    return b"".join(encode_frame(command))


STORED = {Encoding.MSGPACK: b"\xa4code\x00", Encoding.JSON: b'"code":0,'}
"""Bytes that occur once in an answer with code SUCCESS (0), and in no other answer."""


class Loader(asyncio.Protocol):
    """One connection with `window` requests in flight."""

    def __init__(self, frames: list[bytes], window: int, run: Run) -> None:
        self.frames = frames
        self.window = window
        self.run = run
        self.next = 0
        self.rest = b""
        self.sent_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.put(self.window)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.run.done.done():
            self.run.done.set_exception(ConnectionError("the server closed a connection"))

    def put(self, count: int) -> None:
        count = self.run.take(count)
        if not count:
            return
        frames, n = self.frames, len(self.frames)
        if self.window == 1:
            self.sent_at = time.perf_counter()
        self.transport.write(b"".join([frames[(self.next + i) % n] for i in range(count)]))
        self.next += count

    def data_received(self, data: bytes) -> None:
        if self.rest:
            data = self.rest + data
        at, end, done = 0, len(data), 0
        unpack = _LENGTH.unpack_from
        while end - at >= 4:
            stop = at + 4 + unpack(data, at)[0]
            if stop > end:
                break
            at = stop
            done += 1
        self.rest = data[at:]
        if done:
            if self.window == 1:
                self.run.latencies.append(time.perf_counter() - self.sent_at)
            stored = self.run.stored
            self.run.finish(done, data.count(stored, 0, at) if stored else done)
            self.put(done)


class Run:
    """Counts the frames that are still to be sent and to be answered."""

    def __init__(self, total: int, stored: bytes | None) -> None:
        self.left = total
        self.open = total
        self.refused = 0
        self.stored = stored
        self.latencies: list[float] = []
        self.done = asyncio.get_running_loop().create_future()

    def take(self, count: int) -> int:
        count = min(count, self.left)
        self.left -= count
        return count

    def finish(self, count: int, stored: int) -> None:
        self.open -= count
        self.refused += count - stored
        if self.open == 0 and not self.done.done():
            self.done.set_result(None)


async def load(
    addresses: list[str],
    frames: list[bytes],
    connections: int,
    window: int,
    total: int,
    limit_s: float,
    stored: bytes | None = None,
    *,
    tls: bool = False,
) -> dict[str, float]:
    """Send `total` frames over all connections together; returns counts and seconds."""
    loop = asyncio.get_running_loop()
    run = Run(total, stored)
    context = any_server() if tls else None
    began = time.perf_counter()
    protocols = []
    for i in range(connections):
        host, port = split_address(addresses[i % len(addresses)])
        _, protocol = await loop.create_connection(
            lambda: Loader(frames, window, run), host, port, ssl=context
        )
        protocols.append(protocol)
    await asyncio.wait_for(run.done, limit_s)
    seconds = time.perf_counter() - began
    for protocol in protocols:
        protocol.transport.close()
    result: dict[str, float] = {"messages": total, "seconds": seconds, "refused": run.refused}
    if run.latencies:
        ordered = sorted(run.latencies)
        result["p50_us"] = ordered[len(ordered) // 2] * 1e6
        result["p99_us"] = ordered[len(ordered) * 99 // 100] * 1e6
    return result


def any_server() -> ssl.SSLContext:
    """TLS that trusts every certificate, as RocketMQ's clients do."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def load_parser(
    about: str | None, *, connections: int, window: int, limit_s: float
) -> argparse.ArgumentParser:
    """The options of every load of prepacked frames, with these defaults."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--address", required=True, help="host:port; several by ;")
    parser.add_argument("--topic", default="bench")
    parser.add_argument("--queues", type=int, default=4)
    parser.add_argument("--connections", type=int, default=connections)
    parser.add_argument("--window", type=int, default=window)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--body-bytes", type=int, default=1024)
    parser.add_argument("--limit-s", type=float, default=limit_s)
    return parser


def queue_frames(options: argparse.Namespace, encoding: Encoding) -> list[bytes]:
    """A send request for each queue, as the options of `load_parser` say."""
    return [
        send_frame(options.topic, queue, options.body_bytes, encoding)
        for queue in range(options.queues)
    ]


def main() -> None:
    parser = load_parser(__doc__, connections=8, window=256, limit_s=120.0)
    parser.add_argument("--encoding", choices=["msgpack", "json", "rocketmq"], default="msgpack")
    parser.add_argument("--tls", action="store_true", help="encrypted")
    options = parser.parse_args()
    encoding = Encoding[options.encoding.upper()]
    frames = queue_frames(options, encoding)
    result = uvloop.run(
        load(
            options.address.split(";"),
            frames,
            options.connections,
            options.window,
            options.messages,
            options.limit_s,
            STORED.get(encoding),
            tls=options.tls,
        )
    )
    print(json.dumps(result))


if __name__ == "__main__":
    main()
