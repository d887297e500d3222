"""`make bench`: broker and client compared with upper bounds, interleaved, medians of five.

Only ratios within one run are meaningful, because the machine's speed varies. Saved as JSON under
benchmarks/results/.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import CONSOLE, Figures, judged, median_ratio, save, show_figures
from processes import HERE, Process, cluster, run_json, started
from rich.table import Table

from pocketmq.protocol.bodies.route import ClusterInfo
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.headers.pull import PullMessageRequestHeader
from pocketmq.protocol.headers.route import GetClusterInfoRequestHeader
from pocketmq.protocol.scalars import PullSysFlag
from pocketmq.protocol.transport.remoting import RemotingClient, expect
from pocketmq.protocol.transport.tcp import TcpNetwork

CEILING = str(HERE / "ceiling.py")


def rate(result: dict[str, float]) -> float:
    return result["messages"] / result["seconds"]


SEND_ROWS = {"pipelined": (8, 256, 150_000), "one at a time": (64, 1, 60_000)}
"""Connections, requests in flight on each, messages."""


CPU = " CPU us/message"
"""Suffix of rows with the processor time of the measured server or client per message. Other
processes on the machine change it less than the rate."""


def note(figures: Figures, name: str, result: dict[str, float]) -> None:
    """Add the rate and the processor time of one run."""
    figures.setdefault(name, []).append(rate(result))
    if result.get("refused"):
        CONSOLE.print(
            f"[red]{name}: {result['refused']:,} sends were refused; is the machine busy?"
        )
    used_us = result["cpu_s"] / result["messages"] * 1e6
    figures.setdefault(name + CPU, []).append(used_us)


def send_rows(rounds: int, scale: float, encoding: str) -> Figures:
    """Rates of sends to a broker with and without index, `floor` and `bare`, in turn."""
    rates: Figures = {}
    with (
        tempfile.TemporaryDirectory(dir=HERE) as folder,
        cluster(Path(folder) / "indexed") as (_, (indexed,)),
        cluster(Path(folder) / "plain", 1, "--no-message-index-enable") as (_, (plain,)),
        started(CEILING, "floor", "--encoding", encoding) as floor,
        started(CEILING, "bare") as bare,
    ):
        targets = {"broker": plain, "broker with index": indexed, "floor": floor, "bare": bare}
        warm_up(plain, encoding)
        warm_up(indexed, encoding)
        for _ in range(rounds):
            for row, (connections, window, messages) in SEND_ROWS.items():
                for name, target in targets.items():
                    used_s = target.cpu_s
                    result = run_json(
                        "load.py",
                        *("--address", target.address, "--encoding", encoding),
                        *("--connections", str(connections), "--window", str(window)),
                        *("--messages", str(int(messages * scale))),
                    )
                    result["cpu_s"] = target.cpu_s - used_s
                    note(rates, f"{row} | {name}", result)
        rates["RssAnon MiB after sends | broker"] = [plain.rss_anon_mib]
    return rates


TLS_ROWS = {"sync, 64 in flight": (1, 64), "sync, 64 connections": (64, 1)}
"""Connections, requests in flight on each: 64 threads that share a producer, and 64 producers."""

TLS_GOAL = 2.2
"""A sync send of 1 KB over TLS takes at most so many times the broker's processor time."""


def tls_rows(rounds: int, scale: float, encoding: str) -> Figures:
    """Sends of 1 KB over TLS and plaintext to one broker in turn; each round swaps the order.

    Processor time is that of the broker's process, handshakes of the connections included.
    """
    figures: Figures = {}
    messages = int(60_000 * scale)
    with tempfile.TemporaryDirectory(dir=HERE) as folder, cluster(Path(folder)) as (_, (broker,)):
        kinds = {"plaintext": (), "TLS": ("--tls",)}
        for number in range(rounds + 1):
            for row, (connections, window) in TLS_ROWS.items():
                for kind in sorted(kinds, reverse=number % 2 == 0):
                    before_s = broker.cpu_s
                    result = run_json(
                        "load.py",
                        *("--address", broker.address, "--encoding", encoding, *kinds[kind]),
                        *("--connections", str(connections), "--window", str(window)),
                        *("--messages", str(messages)),
                    )
                    result["cpu_s"] = broker.cpu_s - before_s
                    if number:  # the first makes the topic, the certificate and the machine warm
                        note(figures, f"{row} | {kind}", result)
    return figures


def warm_up(broker: Process, encoding: str) -> None:
    run_json(
        "load.py",
        *("--address", broker.address, "--encoding", encoding),
        *("--connections", "1", "--window", "16", "--messages", "4000"),
    )


def pull_rows(rounds: int, scale: float) -> Figures:
    """Pull rates at the broker and at a server with one prebuilt reply."""
    messages = int(100_000 * scale)
    rates: Figures = {}
    with (
        tempfile.TemporaryDirectory(dir=HERE) as folder,
        cluster(Path(folder)) as (_, (broker,)),
    ):
        run_json("load.py", "--address", broker.address, "--messages", str(messages))
        records = Path(folder) / "records.bin"
        records.write_bytes(first_records(broker.address))
        with started(CEILING, "pull", "--records", str(records)) as ceiling:
            for _ in range(rounds):
                for name, target, options in (
                    ("broker", broker, ()),
                    ("ceiling", ceiling, ("--fixed",)),
                ):
                    result = run_json(
                        "client_load.py",
                        *("pull", "--address", target.address),
                        *("--messages", str(messages), *options),
                    )
                    rates.setdefault(f"pull x32 | {name}", []).append(rate(result))
    return rates


def first_records(address: str) -> bytes:
    """Fetch 32 records from a broker."""

    async def fetch() -> bytes:
        client = RemotingClient(TcpNetwork())
        header = PullMessageRequestHeader(
            consumer_group="TOOLS_CONSUMER",
            topic="bench",
            queue_id=0,
            queue_offset=0,
            max_msg_nums=32,
            sys_flag=PullSysFlag.SUBSCRIPTION,
            subscription="*",
        )
        body = bytes(expect(await client.call(address, header)).body_view)
        await client.close()
        return body

    return asyncio.run(fetch())


def client_rows(rounds: int, scale: float) -> Figures:
    """`Producer` with one broker, to compare with row 1; and to `PushConsumer` over two brokers."""
    rates: Figures = {}
    messages = str(int(50_000 * scale))
    with (
        tempfile.TemporaryDirectory(dir=HERE) as one,
        tempfile.TemporaryDirectory(dir=HERE) as two,
        cluster(Path(one)) as (nameserver, (broker,)),
        cluster(Path(two), 2) as (nameserver_of_two, brokers_of_two),
    ):
        for each in (broker, *brokers_of_two):
            warm_up(each, "msgpack")
        for i in range(rounds):
            result = run_json(
                "client_load.py", "produce", "--nameserver", nameserver, "--messages", messages
            )
            note(rates, "producer, 64 coroutines | client", result)
            result = run_json(
                "client_load.py",
                *("end-to-end", "--nameserver", nameserver_of_two),
                *("--messages", messages, "--topic", f"flow{i}"),
            )
            rates.setdefault("producer to consumer | client", []).append(rate(result))
    return rates


def start_rows(rounds: int) -> Figures:
    """Seconds from start to READY, and idle anonymous memory."""
    figures: Figures = {}
    for _ in range(rounds):
        with (
            tempfile.TemporaryDirectory(dir=HERE) as folder,
            started("-m", "pocketmq.nameserver", "--port", "0") as nameserver,
            started(
                *("-m", "pocketmq.broker", "--name", "b", "--port", "0"),
                *("--nameservers", nameserver.address, "--data", folder),
            ) as broker,
        ):
            figures.setdefault("start s | nameserver", []).append(nameserver.ready_s)
            figures.setdefault("start s | broker", []).append(broker.ready_s)
            figures.setdefault("idle RssAnon MiB | nameserver", []).append(nameserver.rss_anon_mib)
            figures.setdefault("idle RssAnon MiB | broker", []).append(broker.rss_anon_mib)
    return figures


def up_rows(rounds: int) -> Figures:
    """Seconds from `pocketmq up` with two nameservers and two brokers to its first line."""
    seconds = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(dir=HERE) as folder:
            began = time.perf_counter()
            command = [
                *(sys.executable, "-m", "pocketmq.cluster.cli.main", "up", "--any-port"),
                *("--nameservers", "2", "--brokers", "2", "--data", folder),
            ]
            up = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            assert up.stdout is not None
            if not up.stdout.readline().startswith("NAMESRV_ADDR="):
                raise RuntimeError("`pocketmq up` did not come up")
            seconds.append(time.perf_counter() - began)
            up.terminate()
            up.wait(20)
            up.stdout.close()
    return {"start s | up with 2+2": seconds}


def foreign_rows(nameserver: str, rounds: int, scale: float, encoding: str) -> Figures:
    """The send rows with the brokers of a running nameserver, PocketMQ's or RocketMQ's."""
    addresses = asyncio.run(brokers_of(nameserver, encoding))
    rates: Figures = {}
    for _ in range(rounds):
        for row, (connections, window, messages) in SEND_ROWS.items():
            result = run_json(
                "load.py",
                *("--address", ";".join(addresses), "--encoding", encoding),
                *("--connections", str(connections), "--window", str(window)),
                *("--messages", str(int(messages * scale))),
            )
            rates.setdefault(f"{row} | {nameserver}", []).append(rate(result))
    return rates


async def brokers_of(nameserver: str, encoding: str) -> list[str]:
    """Addresses of all masters that a nameserver knows."""
    client = RemotingClient(TcpNetwork(), encoding=Encoding[encoding.upper()])
    response = expect(await client.call(nameserver, GetClusterInfoRequestHeader()))
    info = decode_body(response.body_view, ClusterInfo, response.encoding)
    await client.close()
    return [
        address for data in info.broker_addr_table.values() if (address := data.master_address())
    ]


ALL_ROWS = ["send", "tls", "pull", "client", "start"]

RATIOS = [
    ("pipelined | broker", "pipelined | floor", 0.5),
    ("one at a time | broker", "one at a time | floor", 0.5),
    ("pipelined | broker with index", "pipelined | broker", 0.6),
    ("one at a time | broker with index", "one at a time | broker", 0.6),
    ("pull x32 | broker", "pull x32 | ceiling", 0.5),
    ("producer, 64 coroutines | client", "pipelined | broker", 0.4),
]


def show(figures: Figures) -> None:
    show_figures(figures)
    ratios = Table("ratio", "of medians", "median of rounds", "by CPU", "to reach", title="ratios")
    for top, bottom, goal in RATIOS:
        if top in figures and bottom in figures:
            value = median_ratio(figures, top, bottom)
            ratios.add_row(
                f"{top} : {bottom}",
                judged(value, reached=value >= goal),
                median_of_rounds(figures, top, bottom),
                median_of_rounds(figures, bottom + CPU, top + CPU),
                f">= {goal}",
            )
    CONSOLE.print(ratios)
    costs = Table("processor time", "of medians", "median of rounds", "to reach")
    for row in TLS_ROWS:
        top, bottom = f"{row} | TLS{CPU}", f"{row} | plaintext{CPU}"
        if top in figures:
            value = median_ratio(figures, top, bottom)
            costs.add_row(
                f"{row}, TLS : plaintext",
                judged(value, reached=value <= TLS_GOAL),
                median_of_rounds(figures, top, bottom),
                f"<= {TLS_GOAL}",
            )
    if costs.row_count:
        CONSOLE.print(costs)


def median_of_rounds(figures: Figures, top: str, bottom: str) -> str:
    """Median of the ratios of neighbouring runs, which had the same disturbance."""
    rounds = zip(figures.get(top, ()), figures.get(bottom, ()), strict=False)
    ratios = [over / under for over, under in rounds if under]
    return f"{statistics.median(ratios):.2f}" if ratios else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="1.0 = 150,000 messages a row")
    parser.add_argument("--encoding", choices=["msgpack", "json"], default="msgpack")
    parser.add_argument("--only", choices=ALL_ROWS, action="append")
    parser.add_argument(
        "--address", help="host:port of a running nameserver, RocketMQ's too: only its send rows"
    )
    options = parser.parse_args()
    if options.address:
        show(foreign_rows(options.address, options.rounds, options.scale, options.encoding))
        return
    wanted = options.only or ALL_ROWS
    figures: Figures = {}
    if "send" in wanted:
        figures |= send_rows(options.rounds, options.scale, options.encoding)
    if "tls" in wanted:
        figures |= tls_rows(options.rounds, options.scale, options.encoding)
    if "pull" in wanted:
        figures |= pull_rows(options.rounds, options.scale)
    if "client" in wanted:
        figures |= client_rows(options.rounds, options.scale)
    if "start" in wanted:
        figures |= start_rows(options.rounds) | up_rows(options.rounds)
    show(figures)
    save(figures, "bench", options.only)


if __name__ == "__main__":
    main()
