"""What a send costs a broker by the way in which it is read: one process, no sockets.

    .venv/bin/python benchmarks/many_reads.py [--rounds 10] [--body-bytes 1024]

The same sends go into the same broker as `few`: 10 connections whose reads bring 100 requests each;
`apart`: 10 connections whose reads bring one; `many`: 1,000 connections whose reads bring one.
From `few` to `apart` is the work for each read and each answer that stands alone; from `apart` to
`many` is that the same work meets the objects of 1,000 connections, which no cache of the processor
holds together. Nothing here calls the system, but for the store's files. What `many.py` measures
beyond it is a `read` and a `write` for each request; its `bare` tells what these cost.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog
import uvloop
from figures import CONSOLE, Figures, save
from load import STORED, send_frame
from processes import HERE
from rich.table import Table

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.server import Broker
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.tcp import TcpListener, TcpNetwork
from pocketmq.runtime.clock import SystemClock

WAYS = {"few": (10, 100), "apart": (10, 1), "many": (1_000, 1)}
"""Connections, and how many requests a read of each brings."""
TURN = 1_000
"""Requests of one turn of the loop."""


class Listening(TcpNetwork):
    """Keeps the listener, whose channels can be opened without a socket."""

    def __init__(self) -> None:
        self.listeners: list[TcpListener] = []

    async def serve(self, *args: Any, **options: Any) -> TcpListener:
        listener = await super().serve(*args, **options)
        self.listeners.append(listener)
        return listener


class Answers(asyncio.Transport):
    """Counts the answers that a socket would get."""

    def __init__(self, number: int, channel: Channel) -> None:
        super().__init__()
        self.number = number
        self.channel = channel
        self.stored = 0
        self.first = asyncio.Event()

    def write(self, data: Any) -> None:
        self.stored += bytes(data).count(STORED[Encoding.MSGPACK])
        self.first.set()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 10_000 + self.number) if name == "peername" else ("127.0.0.1", 1)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There is no buffer."""

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        asyncio.get_running_loop().call_soon(self.channel.connection_lost, None)

    def abort(self) -> None:
        self.close()


async def measured(rounds: int, messages: int, body_bytes: int) -> Figures:
    """Processor time a message of each way, round by round."""
    figures: Figures = {}
    frames = [send_frame("bench", queue, body_bytes, Encoding.MSGPACK) for queue in range(4)]
    network = Listening()
    with tempfile.TemporaryDirectory(dir=HERE) as folder:
        config = replace(
            BrokerConfig(),
            data=Path(folder),
            host="127.0.0.1",
            port=0,
            nameservers=(),
            wait_time_mills_in_send_queue=60_000,
        )
        broker = Broker(config, SystemClock(), network)
        await broker.start()
        opened: list[tuple[Channel, Answers]] = []
        for number in range(max(count for count, _ in WAYS.values())):
            channel = network.listeners[0].channels.accept()
            answers = Answers(number, channel)
            channel.connection_made(answers)
            opened.append((channel, answers))
        opened[0][0].data_received(frames[0])
        await opened[0][1].first.wait()  # that made the topic
        for number in range(rounds + 1):
            for way, (connections, per_read) in WAYS.items():
                read = b"".join(frames[i % 4] for i in range(per_read))
                reads = [(opened[i % connections][0], read) for i in range(TURN // per_read)]
                before = sum(answers.stored for _, answers in opened)
                began_s = time.process_time()
                for _ in range(messages // TURN):
                    for channel, data in reads:
                        channel.data_received(data)
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
                used_s = time.process_time() - began_s
                stored = sum(answers.stored for _, answers in opened) - before
                if stored != messages // TURN * TURN:
                    raise RuntimeError(f"{stored} of {messages} messages were stored")
                if number:  # the first warms up
                    figures.setdefault(way, []).append(used_s / stored * 1e6)
        await broker.stop()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--messages", type=int, default=20_000, help="of each way and round")
    parser.add_argument("--body-bytes", type=int, default=1024)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    figures = uvloop.run(measured(options.rounds, options.messages, options.body_bytes))
    table = Table("way", "connections", "requests a read", "us a message: least", "median")
    for way, values in figures.items():
        told = (min(values), statistics.median(values))
        table.add_row(way, *map(str, WAYS[way]), *(f"{each:.2f}" for each in told))
    CONSOLE.print(table)
    save(figures, "many_reads", None)


if __name__ == "__main__":
    main()
