"""Plain sockets that send prepacked frames: the load of `many.py`, as cheap as Python can make it.

Runs in its own process (`python many_load.py --address H:P --connections 1000 --window 1`): one
epoll, no event loop and no framework, one `recv` and one `send` for each connection that has
answers. Each connection keeps `--window` requests in flight; several addresses take turns. Prints
one JSON line: `{"messages": n, "seconds": s, "refused": 0, "turns": n, "sent": n, "cpu_s": s}`;
`turns` counts calls of epoll; `sent` has the messages that warmed up too, which are not timed;
`cpu_s` is the processor time of this load, the warm-up's included. A rate with refusals is invalid.
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import struct
import time

from load import STORED, load_parser, queue_frames

from pocketmq.protocol.command import Encoding
from pocketmq.runtime.addresses import split_address

_LENGTH = struct.Struct(">i")
_READ_BYTES = 1 << 18


class Connections:
    """The sockets, with how much each has read of an answer that is not whole yet."""

    def __init__(self, options: argparse.Namespace, frames: list[bytes], stored: bytes) -> None:
        addresses = [split_address(each) for each in options.address.split(";")]
        count, window = options.connections, options.window
        self._stored = stored
        self.poll = select.epoll()
        self.sockets: dict[int, socket.socket] = {}
        self.rests: dict[int, bytes] = {}
        for number in range(count):
            each = socket.create_connection(addresses[number % len(addresses)])
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sockets[each.fileno()] = each
            self.poll.register(each.fileno(), select.EPOLLIN)
        runs = [[frames[i % len(frames)] for i in range(count)] for count in range(window + 1)]
        self._runs = runs if options.singly else [[b"".join(run)] for run in runs]
        """What is sent for so many answers, each part by a call of `send`."""

    def run(self, total: int, window: int, limit_s: float) -> dict[str, float]:
        """Send `total` requests, each connection `window` at first and one for each answer."""
        rests, runs = self.rests, self._runs
        receive = {fd: each.recv for fd, each in self.sockets.items()}
        send = {fd: each.sendall for fd, each in self.sockets.items()}
        unpack, stored_mark = _LENGTH.unpack_from, self._stored
        left, waiting, stored, turns = total, total, 0, 0
        began = time.perf_counter()
        for each in self.sockets:
            count = min(window, left)
            left -= count
            if count:
                for part in runs[count]:
                    send[each](part)
        while waiting:
            turns += 1
            ready = self.poll.poll(limit_s, len(receive))
            if not ready:
                raise TimeoutError(f"no answer for {limit_s} s, {waiting} are missing")
            for fd, _ in ready:
                data = receive[fd](_READ_BYTES)
                if not data:
                    raise ConnectionError("the server closed a connection")
                if fd in rests:
                    data = rests.pop(fd) + data
                at, end, done = 0, len(data), 0
                while end - at >= 4:
                    stop = at + 4 + unpack(data, at)[0]
                    if stop > end:
                        break
                    at = stop
                    done += 1
                if at < end:
                    rests[fd] = data[at:]
                waiting -= done
                stored += data.count(stored_mark, 0, at)
                count = min(done, left)
                if count:
                    left -= count
                    for part in runs[count]:
                        send[fd](part)
        seconds = time.perf_counter() - began
        return {"messages": total, "seconds": seconds, "refused": total - stored, "turns": turns}


def main() -> None:
    parser = load_parser(__doc__, connections=10, window=100, limit_s=60.0)
    parser.add_argument("--singly", action="store_true", help="a `send` for each request")
    parser.add_argument("--encoding", choices=["msgpack", "json"], default="msgpack")
    options = parser.parse_args()
    encoding = Encoding[options.encoding.upper()]
    connections = Connections(options, queue_frames(options, encoding), STORED[encoding])
    began_s = time.process_time()
    warm_up = options.connections * options.window * 2
    connections.run(warm_up, options.window, options.limit_s)
    result = connections.run(options.messages, options.window, options.limit_s)
    used = {"sent": warm_up + options.messages, "cpu_s": time.process_time() - began_s}
    print(json.dumps(result | used))


if __name__ == "__main__":
    main()
