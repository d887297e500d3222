"""Rows of `beside_rocketmq.py` through a gRPC proxy: PocketMQ's, and RocketMQ's in cluster mode.

Both are loaded by the same SDK, RocketMQ's for Java. The processor time is that of proxy and broker
together: what one of them saves the other may spend.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
from beside_rows import LOAD_TIMEOUT_S, Figures, Row, Side, told_by
from figures import CONSOLE
from processes import HERE, started

sys.path.insert(0, str(HERE.parent / "tests"))

from pocketmq.client import Admin
from support.real_proxy import real_proxy
from support.real_rocketmq import free_port
from support.sdk_programs import java_command

WARM_UP = 20_000


def heap_mib() -> int:
    """Of RocketMQ's proxy: a sixteenth of the memory, 4 GiB at most, as `mqproxy` takes."""
    return min(4096, psutil.virtual_memory().total // 16 >> 20)


@contextlib.contextmanager
def proxies(sides: Sequence[Side], folder: Path) -> Iterator[None]:
    """Start the proxy of each side in front of its broker, and warm it up."""
    heap = heap_mib()
    with contextlib.ExitStack() as stack:
        for side in sides:
            began = time.perf_counter()
            side.home = folder / side.name
            side.home.mkdir()
            if side.name == "PocketMQ":
                port = free_port()
                ours = stack.enter_context(
                    started(
                        *("-m", "pocketmq.proxy", "--nameservers", side.namesrv, "--port", "0"),
                        *("--grpc-port", str(port), "--encoding", "msgpack"),
                    )
                )
                side.proxy_pid = ours.popen.pid
            else:
                flags = ("-server", f"-Xms{heap}m", f"-Xmx{heap}m", "-XX:+UseG1GC")
                port, server = stack.enter_context(real_proxy(folder, side.namesrv, flags=flags))
                side.proxy_pid = server.process.pid
            side.endpoints = f"127.0.0.1:{port}"
            CONSOLE.print(
                f"{side.name}'s proxy was ready after {time.perf_counter() - began:.1f} s"
            )
            topic = _topic(side)
            _sdk("send", side, topic, 1024, WARM_UP, 64)
            _sdk("receive", side, topic, topic, WARM_UP // 2, 8)
        yield


def _topic(side: Side) -> str:
    """A new topic: no send through a proxy makes one."""
    name = f"grpc-{time.time_ns()}"

    async def make() -> None:
        async with Admin(nameservers=side.namesrv, encoding="json") as admin:
            await admin.create_topic(name, queues=8, message_type="NORMAL")

    asyncio.run(make())
    return name


def _sdk(how: str, side: Side, *arguments: object) -> Figures:
    program = java_command(HERE / "java" / "GrpcLoad.java", side.home)
    words = [*map(str, program), how, side.endpoints, *map(str, arguments)]
    return told_by(words, LOAD_TIMEOUT_S)


def sends(size: int, messages: int, window: int) -> Row:
    """Messages a second through a proxy, and what proxy and broker spend on one."""

    def measure(side: Side) -> Figures:
        topic = _topic(side)
        before = side.cpu_s
        result = _sdk("send", side, topic, size, messages, window)
        return _figures(side, before, result, messages * 1.2)

    return measure


def receives(size: int, messages: int, receivers: int) -> Row:
    """Messages a second that a new group receives and acknowledges, of a topic made before."""

    def measure(side: Side) -> Figures:
        topic = _topic(side)
        # A fifth more is sent than is said, as a warm-up, and stays there.
        _sdk("send", side, topic, size, messages, 64)
        before = side.cpu_s
        result = _sdk("receive", side, topic, topic, messages, receivers)
        return _figures(side, before, result, messages)

    return measure


def _figures(side: Side, before: float, result: Figures, messages: float) -> Figures:
    return {
        "per second": result["messages"] / result["seconds"],
        "refused": result["refused"],
        "us of proxy and broker": (side.cpu_s - before) / messages * 1e6,
    }


GRPC_ROWS: dict[str, Row] = {
    "grpc: send 1 KB, 64 in flight": sends(1024, 10_000, 64),
    "grpc: receive and acknowledge 1 KB": receives(1024, 10_000, 8),
}
