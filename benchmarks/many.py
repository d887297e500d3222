"""Many connections, and many queues: what they cost a broker beside few.

    .venv/bin/python benchmarks/many.py [--rounds 5] [--scale 1.0] [--only sends] [--only start]

Sends: 1,000 connections with one request each beside 10 connections with 100. The main figure is
the broker's processor time a message, the second its rate. The load comes from plain sockets in a
process of its own (`many_load.py`), so that the client's cost does not hide the broker's. `bare`
(see `ceiling.py`) only cuts frames and answers with the same bytes: what it takes more for 1,000
connections than for 10 is the operating system's price of a read and a write each, which no broker
can get below. Hence the floor: what the broker takes with 10 connections, and that price.

Start: a broker with 1,000 topics of 4 queues, a message in each queue, beside an empty one; from
the start of the process to its READY line, in seconds and in processor seconds; stopped properly
before, or killed.

`--beside FOLDER` measures the broker of another checkout in turn with this one: what a change gave.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from figures import CONSOLE, Figures, judged, median_ratio, save, show_figures
from load import send_frame
from processes import HERE, Process, cluster, run_json, started
from rich.table import Table

from pocketmq.protocol.command import Encoding
from pocketmq.protocol.frame import FrameDecoder
from pocketmq.protocol.headers.topics import UpdateAndCreateTopicRequestHeader
from pocketmq.protocol.transport.remoting import RemotingClient, expect
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.addresses import split_address

Checkouts: TypeAlias = dict[str, str | None]
"""What a broker is called in the figures -> the checkout that it comes from."""

CPU = " | us of processor"
RATE = " | msg/s"
FEW, MANY = "10 x 100", "1,000 x 1"
LOADS = {
    FEW: ("--connections", "10", "--window", "100"),
    FEW + " singly": ("--connections", "10", "--window", "100", "--singly"),
    MANY: ("--connections", "1000", "--window", "1"),
    "1 x 1": ("--connections", "1", "--window", "1"),
}
"""`singly`: the client writes each request by itself, as RocketMQ's does."""

TOPICS, QUEUES = 1_000, 4
GOAL_SENDS, GOAL_START = 0.9, 1.5


def processor_us(process: Process) -> float:
    """Processor time of all its threads that still run."""
    tasks = Path(f"/proc/{process.popen.pid}/task")
    return sum(int((each / "schedstat").read_text().split()[0]) for each in tasks.iterdir()) / 1000


@contextlib.contextmanager
def code_of(checkout: str | None) -> Iterator[None]:
    """Processes that are started meanwhile run the code of a checkout; None: of this one."""
    if checkout is None:
        yield
        return
    folders = sorted(str(path.parent) for path in Path(checkout).glob("*/pocketmq"))
    if not folders:
        raise SystemExit(f"{checkout} is no checkout of PocketMQ")
    os.environ["PYTHONPATH"] = os.pathsep.join(folders)
    try:
        yield
    finally:
        del os.environ["PYTHONPATH"]


def send_rows(rounds: int, scale: float, body_bytes: int, checkouts: Checkouts) -> Figures:
    """Each load at the brokers, and at `bare`, in turn."""
    figures: Figures = {}
    messages = int(60_000 * scale)
    with contextlib.ExitStack() as stack:
        targets = {"bare": stack.enter_context(started(str(HERE / "ceiling.py"), "bare"))}
        for name, checkout in checkouts.items():
            folder = stack.enter_context(tempfile.TemporaryDirectory(dir=HERE))
            with code_of(checkout):
                _, [targets[name]] = stack.enter_context(cluster(Path(folder)))
        for number in range(rounds):
            for load, options in LOADS.items():
                for name, target in sorted(targets.items(), reverse=number % 2 == 0):
                    count = messages // (10 if load == "1 x 1" else 1)
                    before_us = processor_us(target)
                    result = run_json(
                        "many_load.py",
                        *("--address", target.address, "--messages", str(count)),
                        *("--body-bytes", str(body_bytes), *options),
                    )
                    if result["refused"]:
                        CONSOLE.print(f"[red]{load}: {result['refused']:,} sends were refused")
                    used_us = processor_us(target) - before_us
                    row = f"{load} | {name}"
                    figures.setdefault(row + CPU, []).append(used_us / result["sent"])
                    figures.setdefault(row + RATE, []).append(count / result["seconds"])
    return figures


async def fill(address: str, topics: int, queues: int) -> None:
    """Make topics, and put a message into each of their queues."""
    client = RemotingClient(TcpNetwork())
    for number in range(topics):
        header = UpdateAndCreateTopicRequestHeader(
            topic=f"topic-{number}", read_queue_nums=queues, write_queue_nums=queues, perm=6
        )
        expect(await client.call(address, header))
    await client.close()
    reader, writer = await asyncio.open_connection(*split_address(address))
    decoder = FrameDecoder()
    for number in range(topics):
        frames = [
            send_frame(f"topic-{number}", queue, 128, Encoding.MSGPACK) for queue in range(queues)
        ]
        writer.write(b"".join(frames))
        answered = 0
        while answered < queues:
            replies = decoder.feed(await reader.read(65536))
            if any(reply.code for reply in replies):
                raise RuntimeError(f"not stored: {replies}")
            answered += len(replies)
    writer.close()
    await writer.wait_closed()


def broker_on(folder: Path, nameserver: str) -> Process:
    """Start a broker on a store; it is ready when this returns."""
    return Process(
        *("-m", "pocketmq.broker", "--name", "b", "--port", "0"),
        *("--nameservers", nameserver, "--data", str(folder)),
    )


def start_rows(rounds: int, checkouts: Checkouts) -> Figures:
    """Starts of an empty broker and of one with many queues, in turn."""
    figures: Figures = {}
    with (
        tempfile.TemporaryDirectory(dir=HERE) as folder,
        started("-m", "pocketmq.nameserver", "--port", "0") as nameserver,
    ):
        stores = {"empty": Path(folder) / "empty", "many": Path(folder) / "many"}
        for store in stores.values():
            broker = broker_on(store, nameserver.address)
            if store == stores["many"]:
                asyncio.run(fill(broker.address, TOPICS, QUEUES))
            broker.stop()
        for _ in range(rounds):
            for ended in ("", ", killed before"):
                for name, checkout in checkouts.items():
                    for content, store in stores.items():
                        with code_of(checkout):
                            broker = broker_on(store, nameserver.address)
                            if ended:
                                broker.popen.kill()
                                broker.popen.wait()
                            else:
                                broker.stop()  # the next start finds what this code leaves
                            broker = broker_on(store, nameserver.address)
                        row = f"start, {content}{ended} | {name}"
                        figures.setdefault(row + " | s", []).append(broker.ready_s)
                        used_s = processor_us(broker) / 1e6
                        figures.setdefault(row + " | processor s", []).append(used_s)
                        broker.stop()
    return figures


def show(figures: Figures, checkouts: Checkouts) -> None:
    """Print the figures, and the ratios beside their goals."""
    show_figures(figures)
    table = Table("ratio of medians", "whose", "value", "to reach")
    for name in checkouts:
        many = f"{MANY} | {name}"
        for few in (FEW, FEW + " singly"):
            if many + CPU not in figures:
                continue
            value = median_ratio(figures, f"{few} | {name}{CPU}", many + CPU)
            reached = judged(value, reached=value >= GOAL_SENDS)
            table.add_row(f"{few} : {MANY}, processor time", name, reached, f">= {GOAL_SENDS}")
            own_us, of_few, of_many = (
                statistics.median(figures[row + CPU])
                for row in (f"{few} | {name}", f"{few} | bare", f"{MANY} | bare")
            )
            floor = own_us / (own_us + of_many - of_few)
            table.add_row("the same at the floor", name, f"{floor:.2f}", "the most there can be")
            value = median_ratio(figures, many + RATE, f"{few} | {name}{RATE}")
            reached = judged(value, reached=value >= GOAL_SENDS)
            table.add_row(f"{MANY} : {few}, rate", name, reached, f">= {GOAL_SENDS}")
        for ended in ("", ", killed before"):
            for unit in (" | s", " | processor s"):
                if (top := f"start, many{ended} | {name}{unit}") in figures:
                    value = median_ratio(figures, top, f"start, empty{ended} | {name}{unit}")
                    reached = judged(value, reached=value <= GOAL_START)
                    row = f"start{ended}, many : empty{unit}"
                    table.add_row(row, name, reached, f"<= {GOAL_START}")
    CONSOLE.print(table)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="1.0 = 60,000 messages a row")
    parser.add_argument("--body-bytes", type=int, default=1024)
    parser.add_argument("--only", choices=["sends", "start"], action="append")
    parser.add_argument("--beside", metavar="FOLDER", help="another checkout, measured in turn")
    options = parser.parse_args(arguments)
    checkouts: Checkouts = {"broker": None}
    if options.beside:
        checkouts["beside"] = options.beside
    wanted = options.only or ["sends", "start"]
    figures: Figures = {}
    if "sends" in wanted:
        figures |= send_rows(options.rounds, options.scale, options.body_bytes, checkouts)
    if "start" in wanted:
        figures |= start_rows(options.rounds, checkouts)
    show(figures, checkouts)
    save(figures, "many", options.only)


if __name__ == "__main__":
    main()
