"""PocketMQ's broker beside RocketMQ's own, loaded by the same Java client.

    .venv/bin/python benchmarks/beside_rocketmq.py               all rows, five rounds: half an hour
    .venv/bin/python benchmarks/beside_rocketmq.py --only batch "sync 1 KB" --rounds 3

Both brokers run at once and are loaded in turn, so that what disturbs one round disturbs both.
Before the first round each takes 200,000 messages, by which RocketMQ's is compiled; 20,000 before
rows through proxies, which take 20,000 more. RocketMQ 5.3.3
comes from Maven Central and runs with the flags of its own `runbroker.sh`, its memory scaled to
this machine. A ratio above 1 is in PocketMQ's favour. Stop everything else first: figures of a
machine that does other work mean nothing.

Rows that begin with `grpc` go through a proxy of each: PocketMQ's, and RocketMQ's in cluster mode,
both without TLS and loaded by RocketMQ's Java SDK 5.2.0 (`beside_grpc.py`).

`--ceiling` adds a third server to rows of sends: `ceiling.py java` answers at once and stores
nothing. What the client reaches with it is the most that any broker could reach on this machine.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
from beside_grpc import GRPC_ROWS, proxies
from beside_rows import HIGHER_IS_BETTER, ROWS, SYNC_ROWS, Side, load
from figures import CONSOLE, Figures, judged, save
from load import STORED, send_frame
from processes import HERE, started
from rich.progress import track
from rich.table import Table

sys.path.insert(0, str(HERE.parent / "tests"))

from pocketmq.protocol.command import Encoding
from pocketmq.runtime.addresses import split_address
from support.java import build
from support.real_rocketmq import JavaServer, RealRocketMQ

WARM_UP = 200_000
GRPC_WARM_UP = 20_000
"""Of a broker whose proxy, the slower part, is warmed up by as many again."""
LIMIT_S = 30.0
COLD = "cold start to the first acknowledged send"
NOTHING = "no broker"
"""The third server's name in tables."""
ASSIGNED = {"defaultMessageRequestMode": "POP", "timerWheelEnable": "true"}
"""Consumers that have their queues assigned by the broker pop; all others pull as ever. RocketMQ
refuses pops without timers."""


def heap_mib() -> int:
    """A quarter of the memory, 4 GiB at most: as RocketMQ's scripts do for a small machine."""
    return min(4096, psutil.virtual_memory().total // 4 >> 20)


def broker_flags(heap: int) -> tuple[str, ...]:
    """RocketMQ's `runbroker.sh`, with so many MiB of memory."""
    return (
        *("-server", f"-Xms{heap}m", f"-Xmx{heap}m", "-XX:+UseG1GC", "-XX:G1HeapRegionSize=16m"),
        *("-XX:G1ReservePercent=25", "-XX:InitiatingHeapOccupancyPercent=30"),
        *("-XX:SoftRefLRUPolicyMSPerMB=0", "-XX:-OmitStackTraceInFastThrow"),
        *("-XX:+AlwaysPreTouch", f"-XX:MaxDirectMemorySize={heap}m", "-XX:-UseLargePages"),
    )


class Tuned(RealRocketMQ):
    """RocketMQ as it is run for work, and not for the seconds of a test."""

    heap = heap_mib()
    """MiB of its broker."""

    def _start(self, name: str, main: str, config: Path, jvm: tuple[str, ...]) -> JavaServer:
        flags = broker_flags(self.heap) if name == "broker" else ("-Xmx256m",)
        command = [
            "java",
            *flags,
            f"-Duser.home={self.work_dir / name}",
            "-Drocketmq.log.level=warn",
            f"@{build(server=True)}",
            "pocketmq.interop.Guarded",
            *(main, "-c", str(config)),
        ]
        env = {"ROCKETMQ_HOME": str(self.work_dir), "PATH": "/usr/bin:/bin"}
        return JavaServer(name, command, self.work_dir / f"{name}.out", env)


@contextlib.contextmanager
def both(folder: Path, flush: str, *, ceiling: bool, warm_up: int) -> Iterator[list[Side]]:
    """The two brokers, each with a nameserver of its own, warmed up; a third that does nothing."""
    with contextlib.ExitStack() as stack:
        settings = {"flushDiskType": flush} | ASSIGNED
        real = Tuned(folder / "real", folder / "real.work", settings=settings)
        stack.callback(real.stop)
        real.start_namesrv()
        began = time.perf_counter()
        real.start_broker()
        CONSOLE.print(f"RocketMQ's broker registered after {time.perf_counter() - began:.1f} s")
        nameserver = stack.enter_context(started("-m", "pocketmq.nameserver", "--port", "0"))
        ours = stack.enter_context(
            started(
                *("-m", "pocketmq.broker", "--port", "0", "--nameservers", nameserver.address),
                *("--data", str(folder / "ours"), "--flush-disk-type", flush),
                *("--default-message-request-mode", "POP"),
            )
        )
        CONSOLE.print(f"PocketMQ's broker was ready after {ours.ready_s:.1f} s")
        assert real.broker is not None
        sides = [
            Side("PocketMQ", nameserver.address, ours.popen.pid, ours.address),
            Side("RocketMQ", real.namesrv_addr, real.broker.process.pid, real.broker_addr),
        ]
        if ceiling:
            idle = stack.enter_context(started(str(HERE / "ceiling.py"), "java"))
            sides.append(Side(NOTHING, idle.address, idle.popen.pid, idle.address))
        for side in sides:
            CONSOLE.print(f"{side.name} takes {side.memory_mib:.0f} MiB idle")
            load("batch", side.namesrv, "load", 128, warm_up // 2, 4)
            load("async", side.namesrv, "load", 128, warm_up // 2, 256)
        yield sides


def measured(
    folder: Path, flush: str, rows: Sequence[str], rounds: int, *, ceiling: bool
) -> Figures:
    """All figures of some rows, round by round."""
    table = ROWS | SYNC_ROWS | GRPC_ROWS
    figures: Figures = {}
    with contextlib.ExitStack() as stack:
        has_proxies = any(row in GRPC_ROWS for row in rows)
        warm_up = GRPC_WARM_UP if has_proxies else WARM_UP
        sides = stack.enter_context(both(folder, flush, ceiling=ceiling, warm_up=warm_up))
        # Not beside rows without proxies: two more processes would take memory and time.
        if has_proxies:
            stack.enter_context(proxies(sides, folder))
        for number in track(range(rounds), flush, console=CONSOLE):
            for row in rows:
                # Who comes first changes: the second finds the machine warmer.
                for side in sides if number % 2 == 0 else sides[::-1]:
                    for what, value in table[row](side).items():
                        figures.setdefault(f"{row} | {what} | {side.name}", []).append(value)
    return figures


def cold_starts(folder: Path, rounds: int) -> Figures:
    """From the start of a broker's process, with an empty store, to its first acknowledged send.

    Nameservers run already. RocketMQ's is said to be ready when its nameserver knows it, which is
    asked every 0.1 s.
    """
    figures: Figures = {}
    for number in range(rounds):
        with contextlib.ExitStack() as stack:
            real = Tuned(folder / f"real-{number}", folder / f"real-{number}.work")
            stack.callback(real.stop)
            real.start_namesrv()
            began = time.perf_counter()
            real.start_broker()
            send_first(real.broker_addr)
            figures.setdefault(f"{COLD} | s | RocketMQ", []).append(time.perf_counter() - began)
        with started("-m", "pocketmq.nameserver", "--port", "0") as nameserver:
            began = time.perf_counter()
            with started(
                *("-m", "pocketmq.broker", "--port", "0", "--nameservers", nameserver.address),
                *("--data", str(folder / f"ours-{number}")),
            ) as ours:
                send_first(ours.address)
                took_s = time.perf_counter() - began
            figures.setdefault(f"{COLD} | s | PocketMQ", []).append(took_s)
    return figures


def send_first(address: str) -> None:
    """One send to a topic that is made by it."""
    with socket.create_connection(split_address(address), LIMIT_S) as connection:
        connection.sendall(send_frame("first", 0, 1, Encoding.JSON))
        answer = connection.recv(4096)
    if STORED[Encoding.JSON] not in answer:
        raise RuntimeError(f"{address} did not store the first message: {answer!r}")


def show(figures: Figures) -> None:
    """Medians with their range, and PocketMQ's favour as a ratio."""
    has_ceiling = any(name.endswith(NOTHING) for name in figures)
    table = Table("row", "figure", "PocketMQ", "RocketMQ", "ratio", title="medians (least..most)")
    if has_ceiling:
        table.add_column(f"{NOTHING}, beside RocketMQ")
    for name, ours in figures.items():
        row, what, side = name.split(" | ")
        theirs = figures.get(f"{row} | {what} | RocketMQ")
        if side != "PocketMQ" or theirs is None:
            continue
        mine, other = statistics.median(ours), statistics.median(theirs)
        ratio = (mine / other if what == HIGHER_IS_BETTER else other / mine) if mine * other else 0
        shown = judged(ratio, reached=ratio >= 1) if ratio else ""
        cells = [row, what, told(ours), told(theirs), shown]
        if least := figures.get(f"{row} | {what} | {NOTHING}"):
            ratio = statistics.median(least) / other if other else 0.0
            cells.append(f"{told(least)}, {ratio:.2f}")
        table.add_row(*cells)
    CONSOLE.print(table)


def told(values: Sequence[float]) -> str:
    """Median, least and most."""
    return f"{statistics.median(values):,.4g} ({min(values):,.4g}..{max(values):,.4g})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", help="rows whose names begin so")
    parser.add_argument(
        "--ceiling", action="store_true", help="also a server that stores nothing; rows of sends"
    )
    options = parser.parse_args()
    wanted = [
        row
        for row in ROWS | SYNC_ROWS | GRPC_ROWS
        if options.only is None or row.startswith(tuple(options.only))
    ]
    figures: Figures = {}
    runs = (("ASYNC_FLUSH", ROWS), ("SYNC_FLUSH", SYNC_ROWS), ("ASYNC_FLUSH", GRPC_ROWS))
    for flush, table in runs:
        rows = [row for row in wanted if row in table]
        if rows:
            with tempfile.TemporaryDirectory(dir=HERE) as folder:
                figures |= measured(
                    Path(folder),
                    flush,
                    rows,
                    options.rounds,
                    ceiling=options.ceiling and table is not GRPC_ROWS,
                )
    if options.only is None or COLD.startswith(tuple(options.only)):
        with tempfile.TemporaryDirectory(dir=HERE) as folder:
            figures |= cold_starts(Path(folder), options.rounds)
    show(figures)
    save(figures, "beside_rocketmq", options.only)


if __name__ == "__main__":
    main()
