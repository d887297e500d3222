"""Measures what many or hostile connections cost other connections: faults 21 to 24, 50, 51.

    python benchmarks/hostile.py                      5,000 slow-loris, 500 slow readers, ...
    python benchmarks/hostile.py --rows 50 51         some of them

The broker is a separate process. Single sends of healthy connections are measured alternately with
and without the hostile connections, and the broker's resident memory before and at its maximum. Not
part of `make bench`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import resource
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from load import send_frame
from processes import HERE, Process, cluster, processor_us, run_json
from rich.console import Console

from pocketmq.protocol.bodies.clients import ConsumerData, HeartbeatData
from pocketmq.protocol.body import encode_body
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.frame import encode_frame
from pocketmq.protocol.headers.clients import HeartbeatRequestHeader
from pocketmq.protocol.headers.pull import PullMessageRequestHeader
from pocketmq.protocol.messages.subscription import SubscriptionData
from pocketmq.protocol.scalars import PullSysFlag
from pocketmq.runtime.addresses import split_address

CONSOLE = Console()
MESSAGES = 30_000


def healthy_rate(broker: Process) -> float:
    """Messages per second over 8 connections, 64 in flight on each."""
    result = run_json(
        "load.py",
        *("--address", broker.address, "--connections", "8", "--window", "64"),
        *("--messages", str(MESSAGES)),
    )
    rate: float = result["messages"] / result["seconds"]
    return rate


def memory_mib(broker: Process, name: str = "RssAnon") -> float:
    status = Path(f"/proc/{broker.popen.pid}/status").read_text()
    match = re.search(rf"{name}:\s+(\d+)", status)
    return int(match.group(1)) / 1024 if match else 0.0


async def core_share(broker: Process, seconds: float = 4.0) -> float:
    """The broker's share of one core; other load on the machine changes it less than a rate."""
    began, began_us = time.perf_counter(), processor_us(broker)
    await asyncio.sleep(seconds)
    return (processor_us(broker) - began_us) / 1e6 / (time.perf_counter() - began)


def open_files(broker: Process) -> int:
    return len(os.listdir(f"/proc/{broker.popen.pid}/fd"))


@contextlib.asynccontextmanager
async def connections(
    broker: Process, count: int, *, receive_bytes: int | None = None
) -> AsyncIterator[list[tuple[Any, Any]]]:
    """Open raw connections that do not read."""
    made = []
    host, port = split_address(broker.address)
    for _ in range(count):
        reader, writer = await asyncio.open_connection(host, port, limit=receive_bytes or 2**16)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        made.append((reader, writer))
    try:
        yield made
    finally:
        for _, writer in made:
            writer.transport.abort()


async def slow_loris(broker: Process, count: int, rounds: int) -> None:
    """Row 23: each sends a byte of a frame every second."""
    frame = send_frame("bench", 0, 10_000, Encoding.MSGPACK)
    ratios, shares, worst = [], [], memory_mib(broker)
    before = worst
    for _ in range(rounds):
        alone = await asyncio.to_thread(healthy_rate, broker)
        async with connections(broker, count) as slow:
            dripping = asyncio.create_task(_drip(slow, frame))
            shares.append(await core_share(broker))
            beside = await asyncio.to_thread(healthy_rate, broker)
            worst = max(worst, memory_mib(broker))
            dripping.cancel()
        ratios.append(beside / alone)
    began = time.perf_counter()
    async with connections(broker, count) as slow:
        dripping = asyncio.create_task(_drip(slow, frame))
        idle_files = open_files(broker) - count
        while open_files(broker) > idle_files + count // 100:  # noqa: ASYNC110 - of a process
            await asyncio.sleep(0.2)
        closed_s = time.perf_counter() - began
        dripping.cancel()
    CONSOLE.print(
        f"row 23: {count:,} connections of 1 byte a second: healthy throughput "
        f"{_listed(ratios)} of that alone; "
        f"they alone take {_listed(shares)} of a core; "
        f"RssAnon {before:.0f} -> {worst:.0f} MiB; all closed after {closed_s:.0f} s"
    )


async def _drip(slow: list[tuple[Any, Any]], frame: bytes) -> None:
    for at in range(len(frame)):
        began = time.perf_counter()
        for _, writer in slow:
            if not writer.transport.is_closing():
                writer.write(frame[at : at + 1])
        await asyncio.sleep(max(0.0, 1.0 - (time.perf_counter() - began)))


async def slow_readers(broker: Process, count: int, rounds: int) -> None:
    """Row 24: each repeatedly pulls everything, and reads nothing."""
    await asyncio.to_thread(_fill, broker)
    header = PullMessageRequestHeader(
        consumer_group="TOOLS_CONSUMER", topic="large", queue_id=0, queue_offset=0,
        max_msg_nums=32, sys_flag=PullSysFlag.SUBSCRIPTION, subscription="*",
    )  # fmt: skip
    frame = b"".join(encode_frame(Command(RequestCode.PULL_MESSAGE, header, b"", opaque=1)))
    ratios, shares, before, worst = [], [], memory_mib(broker), 0.0
    for _ in range(rounds):
        alone = await asyncio.to_thread(healthy_rate, broker)
        async with connections(broker, count) as deaf:
            for _ in range(20):
                for _, writer in deaf:
                    writer.write(frame)
                await asyncio.sleep(0.05)
            shares.append(await core_share(broker))
            beside = await asyncio.to_thread(healthy_rate, broker)
            worst = max(worst, memory_mib(broker))
        ratios.append(beside / alone)
    CONSOLE.print(
        f"row 24: {count} connections that ask for large pulls and read nothing: healthy "
        f"throughput {_listed(ratios)} of that alone; "
        f"they alone take {_listed(shares)} of a core; RssAnon {before:.0f} -> {worst:.0f} MiB"
    )


def _listed(ratios: list[float]) -> str:
    each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    return f"{statistics.median(ratios):.2f} ({each})"


def _fill(broker: Process) -> None:
    """Store messages of 100 KB, so that answers to pulls have the maximum size."""
    run_json(
        "load.py",
        *("--address", broker.address, "--topic", "large", "--connections", "1", "--window", "4"),
        *("--messages", "400", "--body-bytes", "100000"),
    )


async def resets(broker: Process) -> None:
    """Row 21: a reset after every byte of a frame."""
    frame = send_frame("bench", 0, 10, Encoding.MSGPACK)
    before = open_files(broker)
    for cut in range(len(frame)):
        async with connections(broker, 1) as [(_, writer)]:
            writer.write(frame[:cut])
            await asyncio.sleep(0)
    for _ in range(100):
        if open_files(broker) == before:
            break
        await asyncio.sleep(0.05)
    CONSOLE.print(
        f"row 21: {len(frame)} resets, one after each byte of a frame: "
        f"{open_files(broker) - before} descriptors left behind"
    )


async def backlog(broker: Process, bursts: int) -> None:
    """Row 50: nothing consumes while producers send; messages may only take page cache."""
    after = []
    for _ in range(bursts):
        await asyncio.to_thread(healthy_rate, broker)
        after.append(memory_mib(broker))
    sent = MESSAGES * (bursts - 1)
    slope_bytes = (after[-1] - after[0]) * 2**20 / sent
    CONSOLE.print(
        f"row 50: {sent:,} messages of 1 KiB more, nobody consumes: RssAnon "
        f"{', '.join(f'{mib:.1f}' for mib in after)} MiB, {slope_bytes:.1f} bytes a message"
    )


async def idle_clients(broker: Process, count: int, rounds: int) -> None:
    """Row 51: consumers of a group that only are connected and send heartbeats."""
    frames = [heartbeat(number) for number in range(count)]
    before, ratios, shares = memory_mib(broker), [], []
    for _ in range(rounds):
        alone = await asyncio.to_thread(cost_us, broker)
        async with connections(broker, count) as idle:
            for (_, writer), frame in zip(idle, frames, strict=True):
                writer.write(frame)
            shares.append(await core_share(broker))
            grown = memory_mib(broker) - before
            shares.append(await core_share(broker, 10.0))
            beside = await asyncio.to_thread(cost_us, broker)
        ratios.append(beside / alone)
        for _ in range(200):
            if open_files(broker) < 200:
                break
            await asyncio.sleep(0.1)
    CONSOLE.print(
        f"row 51: {count:,} idle consumers: {grown * 1024 / count:.1f} KiB of RssAnon each; a "
        f"healthy send costs the broker {_listed(ratios)} of the processor time that it does "
        f"alone; they take {_listed(shares)} of a core, heartbeats first; "
        f"{open_files(broker)} descriptors left"
    )


def cost_us(broker: Process) -> float:
    """Processor time of the broker for one healthy send; other load changes it little."""
    before = processor_us(broker)
    healthy_rate(broker)
    return (processor_us(broker) - before) / MESSAGES


def heartbeat(number: int) -> bytes:
    """A consumer's heartbeat; ten consumers are in each group."""
    data = HeartbeatData(
        client_id=f"127.0.0.1@{number}",
        consumer_data_set=[
            ConsumerData(
                group_name=f"idle-{number // 10}",
                subscription_data_set=[SubscriptionData(topic="bench")],
            )
        ],
    )
    body = encode_body(data, Encoding.MSGPACK)
    command = Command(RequestCode.HEART_BEAT, HeartbeatRequestHeader(), body, opaque=1)
    return b"".join(encode_frame(command))


async def run(options: argparse.Namespace) -> None:
    rows = set(options.rows)
    with (
        tempfile.TemporaryDirectory(dir=HERE, prefix="tmp-") as folder,
        cluster(Path(folder)) as (_, (broker,)),
    ):
        healthy_rate(broker)  # warm
        if 21 in rows:
            await resets(broker)
        if 23 in rows:
            await slow_loris(broker, options.slow, options.rounds)
        if 50 in rows:
            await backlog(broker, 2 + 2 * options.rounds)
        if 51 in rows:
            await idle_clients(broker, options.idle, options.rounds)
        if 24 in rows:  # the last one, because its memory is freed late
            await slow_readers(broker, options.deaf, options.rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slow", type=int, default=5_000, help="connections of row 23")
    parser.add_argument("--deaf", type=int, default=500, help="connections of row 24")
    parser.add_argument("--idle", type=int, default=10_000, help="connections of row 51")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, nargs="+", default=[21, 23, 24, 50, 51])
    options = parser.parse_args()
    needed = max(options.slow, options.idle) + 1_000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(needed, hard), hard))
    asyncio.run(run(options))


if __name__ == "__main__":
    main()
