"""The same load in three protocols: PocketMQ's, NATS JetStream's and Redis Streams'.

    python others_load.py nats publish --address H:P --messages 100000 --body-bytes 1024
    python others_load.py redis consume --address H:P --messages 100000

One plain socket. `publish` keeps a window of requests in flight, each message with an answer of its
own. `consume` asks for 32 messages, waits for them, acknowledges them together (PocketMQ: commits
its offset), and asks again. Prints one JSON line: `{"messages": n, "seconds": s}`. Bodies are made
of the letter x, so that the end of a body is found without a parser.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import time
from typing import Protocol

from load import STORED, send_frame

from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.frame import FrameDecoder, encode_frame
from pocketmq.protocol.headers.pull import PullMessageRequestHeader
from pocketmq.protocol.scalars import PullSysFlag
from pocketmq.runtime.addresses import split_address

BATCH = 32
QUEUES = 4
END = b"x\r\n"
"""Of each body, in the two protocols of lines."""
_READ_BYTES = 1 << 18
_LIMIT_S = 60.0


class Wire(Protocol):
    """How one server is talked to."""

    stored: bytes
    """What occurs once in the answer to each message that is stored."""

    def prepare(self, how: str) -> None:
        """Make the stream, or the group that consumes it."""

    def publish(self, body_bytes: int) -> list[bytes]:
        """Requests that store a message each, to be sent in turn."""

    def take(self) -> None:
        """Receive and acknowledge 32 messages."""


class PocketMQ:
    """A topic of four queues, which are pulled in turn."""

    stored = STORED[Encoding.MSGPACK]

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._decoder = FrameDecoder()
        self._taken = 0

    def prepare(self, how: str) -> None:
        """The first send makes the topic."""

    def publish(self, body_bytes: int) -> list[bytes]:
        return [send_frame("bench", queue, body_bytes, Encoding.MSGPACK) for queue in range(QUEUES)]

    def take(self) -> None:
        turn, queue = divmod(self._taken, QUEUES)
        self._taken += 1
        header = PullMessageRequestHeader(
            consumer_group="TOOLS_CONSUMER",
            topic="bench",
            queue_id=queue,
            queue_offset=turn * BATCH,
            commit_offset=turn * BATCH,
            max_msg_nums=BATCH,
            sys_flag=PullSysFlag.SUBSCRIPTION | PullSysFlag.COMMIT_OFFSET,
            subscription="*",
        )
        command = Command(header.CODE, header, b"", opaque=7, encoding=Encoding.MSGPACK)
        self._socket.sendall(b"".join(encode_frame(command)))
        while not (replies := self._decoder.feed(self._socket.recv(_READ_BYTES))):
            pass
        if replies[0].code != 0:
            raise RuntimeError(f"pull refused: {replies[0]}")


class Nats:
    """A stream in files, and a durable pull consumer that acknowledges all before."""

    stored = b'"seq":'

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._socket.sendall(b'CONNECT {"verbose":false,"pedantic":false}\r\nSUB in 1\r\n')

    def _ask(self, subject: str, content: dict[str, object]) -> None:
        self._socket.sendall(self._request(subject, json.dumps(content).encode()))
        answer = b""
        while b"MSG in 1" not in answer or not answer.endswith(b"}\r\n"):
            answer += self._socket.recv(_READ_BYTES)
        if b'"error"' in answer:
            raise RuntimeError(answer.decode())

    @staticmethod
    def _request(subject: str, content: bytes) -> bytes:
        return b"PUB %s in %d\r\n%s\r\n" % (subject.encode(), len(content), content)

    def prepare(self, how: str) -> None:
        if how == "publish":
            self._ask("$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["bench"]})
        else:
            config = {"durable_name": "c", "ack_policy": "all", "max_ack_pending": -1}
            content = {"stream_name": "S", "config": config}
            self._ask("$JS.API.CONSUMER.DURABLE.CREATE.S.c", content)

    def publish(self, body_bytes: int) -> list[bytes]:
        return [self._request("bench", b"x" * body_bytes)]

    def take(self) -> None:
        content = b'{"batch":%d}' % BATCH
        self._socket.sendall(self._request("$JS.API.CONSUMER.MSG.NEXT.S.c", content))
        data = b""
        while data.count(END) < BATCH:
            data += self._socket.recv(_READ_BYTES)
            if b"PING\r\n" in data:
                self._socket.sendall(b"PONG\r\n")
                data = data.replace(b"PING\r\n", b"")
        last = data[data.rindex(b"MSG bench") :].split(b" ", 4)[3]
        self._socket.sendall(b"PUB %s 4\r\n+ACK\r\n" % last)


class Redis:
    """A stream, and a group of one consumer."""

    stored = b"$"
    _ID = re.compile(rb"\$\d+\r\n(\d+-\d+)\r\n")

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    @staticmethod
    def _request(*words: bytes) -> bytes:
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)

    def prepare(self, how: str) -> None:
        if how == "consume":
            self._socket.sendall(self._request(b"XGROUP", b"CREATE", b"bench", b"g", b"0"))
            if (answer := self._socket.recv(_READ_BYTES)) != b"+OK\r\n":
                raise RuntimeError(answer.decode())

    def publish(self, body_bytes: int) -> list[bytes]:
        return [self._request(b"XADD", b"bench", b"*", b"b", b"x" * body_bytes)]

    def take(self) -> None:
        self._socket.sendall(
            self._request(
                *(b"XREADGROUP", b"GROUP", b"g", b"c", b"COUNT", b"%d" % BATCH),
                *(b"STREAMS", b"bench", b">"),
            )
        )
        data = b""
        while data.count(END) < BATCH:
            data += self._socket.recv(_READ_BYTES)
        self._socket.sendall(self._request(b"XACK", b"bench", b"g", *self._ID.findall(data)))
        answer = self._socket.recv(_READ_BYTES)
        if answer != b":%d\r\n" % BATCH:
            raise RuntimeError(answer.decode())


WIRES: dict[str, type[PocketMQ] | type[Nats] | type[Redis]] = {
    "pocketmq": PocketMQ,
    "nats": Nats,
    "redis": Redis,
}


def publish(wire: Wire, connection: socket.socket, total: int, size: int, window: int) -> None:
    """Store messages, with so many in flight."""
    requests = wire.publish(size)
    sent = answered = 0
    tail = b""
    keep = len(wire.stored) - 1
    while answered < total:
        count = min(window - (sent - answered), total - sent)
        if count:
            run = [requests[(sent + i) % len(requests)] for i in range(count)]
            connection.sendall(b"".join(run))
            sent += count
        data = connection.recv(_READ_BYTES)
        if not data:
            raise ConnectionError("the server closed the connection")
        data = tail + data
        answered += data.count(wire.stored)
        tail = data[len(data) - keep :] if keep else b""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server", choices=sorted(WIRES))
    parser.add_argument("how", choices=["publish", "consume"])
    parser.add_argument("--address", required=True)
    parser.add_argument("--messages", type=int, default=102_400)
    parser.add_argument("--body-bytes", type=int, default=1024)
    parser.add_argument("--window", type=int, default=256)
    options = parser.parse_args()
    connection = socket.create_connection(split_address(options.address), _LIMIT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    wire = WIRES[options.server](connection)
    wire.prepare(options.how)
    began = time.perf_counter()
    if options.how == "publish":
        publish(wire, connection, options.messages, options.body_bytes, options.window)
    else:
        for _ in range(options.messages // BATCH):
            wire.take()
    print(json.dumps({"messages": options.messages, "seconds": time.perf_counter() - began}))


if __name__ == "__main__":
    main()
