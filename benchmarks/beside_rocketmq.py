"""PocketMQ's broker beside RocketMQ's own, loaded by the same Java client.

    .venv/bin/python benchmarks/beside_rocketmq.py               all rows, five rounds: half an hour
    .venv/bin/python benchmarks/beside_rocketmq.py --only batch "sync 1 KB" --rounds 3

Both brokers run at once and are loaded in turn, so that what disturbs one round disturbs both.
Before the first round each takes 200,000 messages, by which RocketMQ's is compiled. RocketMQ 5.3.3
comes from Maven Central and runs with the flags of its own `runbroker.sh`, its memory scaled to
this machine. A ratio above 1 is in PocketMQ's favour. Stop everything else first: figures of a
machine that does other work mean nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from figures import CONSOLE, Figures, save
from processes import HERE, started
from rich.progress import track
from rich.table import Table

sys.path.insert(0, str(HERE.parent / "tests"))

from support.java import build
from support.real_rocketmq import JavaServer, RealRocketMQ

WARM_UP = 200_000
LOAD_TIMEOUT_S = 300


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


@dataclass
class Side:
    """One of the two brokers."""

    name: str
    namesrv: str
    pid: int
    address: str
    groups: Iterator[int] = field(default_factory=lambda: iter(range(10**9)))

    @property
    def cpu_s(self) -> float:
        """Processor seconds of all its threads."""
        used = psutil.Process(self.pid).cpu_times()
        return used.user + used.system

    @property
    def memory_mib(self) -> float:
        """Resident memory that is its own, without mapped files."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("RssAnon"))
        return int(line.split()[1]) / 1024


def load(*arguments: object) -> dict[str, float]:
    """Run the Java client and return what it measured."""
    command = ["java", "-Xmx1g", f"@{build(server=True)}", str(HERE / "java" / "Load.java")]
    done = subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=LOAD_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"Load {arguments} failed:\n{done.stderr[-2000:]}")
    result: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def sends(how: str, size: int, messages: int, parallel: int) -> Callable[[Side], dict[str, float]]:
    """A row of sends: messages a second, processor time a message, refused."""

    def measure(side: Side) -> dict[str, float]:
        before = side.cpu_s
        result = load(how, side.namesrv, "load", size, messages, parallel)
        told = {"per second": result["messages"] / result["seconds"], "refused": result["refused"]}
        return told | {"us of processor": (side.cpu_s - before) / (messages * 1.2) * 1e6}

    return measure


def consume(messages: int) -> Callable[[Side], dict[str, float]]:
    """A backlog that a new group consumes: messages a second, seconds to the first."""

    def measure(side: Side) -> dict[str, float]:
        if next(side.groups) == 0:
            load("batch", side.namesrv, "backlog", 128, messages, 4)
        before = side.cpu_s
        group = f"group-{time.time_ns()}"
        result = load("consume", side.namesrv, "backlog", group, messages)
        return {
            "per second": result["messages"] / result["seconds"],
            "s to the first": result["first_s"],
            "us of processor": (side.cpu_s - before) / messages * 1e6,
        }

    return measure


def latency(rate: int, seconds: int) -> Callable[[Side], dict[str, float]]:
    """End to end, at a steady rate; a new topic each time, which the consumer reads as a whole."""
    return lambda side: load(
        "latency", side.namesrv, f"latency-{time.time_ns()}", 128, rate, seconds
    )


def connections(count: int) -> Callable[[Side], dict[str, float]]:
    """Memory that idle connections take."""

    def measure(side: Side) -> dict[str, float]:
        before = side.memory_mib
        host, port = side.address.rsplit(":", 1)
        with contextlib.ExitStack() as stack:
            for _ in range(count):
                stack.enter_context(socket.create_connection((host, int(port))))
            return {"MiB more": max(0.1, side.memory_mib - before), "MiB": side.memory_mib}

    return measure


ROWS: dict[str, Callable[[Side], dict[str, float]]] = {
    "sync 1 KB, 64 threads": sends("sync", 1024, 60_000, 64),
    "async 1 KB, 256 in flight": sends("async", 1024, 100_000, 256),
    "async 128 B, 256 in flight": sends("async", 128, 100_000, 256),
    "batch 32 x 128 B, 4 threads": sends("batch", 128, 320_000, 4),
    "consume a backlog": consume(300_000),
    "end to end at 2,000/s": latency(2_000, 8),
    "1,000 idle connections": connections(1_000),
}
SYNC_ROWS: dict[str, Callable[[Side], dict[str, float]]] = {
    "SYNC_FLUSH, 1 thread": sends("sync", 1024, 2_000, 1),
    "SYNC_FLUSH, 64 threads": sends("sync", 1024, 20_000, 64),
    "SYNC_FLUSH, 256 in flight": sends("async", 1024, 30_000, 256),
}
HIGHER_IS_BETTER = "per second"


@contextlib.contextmanager
def both(folder: Path, flush: str) -> Iterator[list[Side]]:
    """The two brokers, each with a nameserver of its own, warmed up."""
    with contextlib.ExitStack() as stack:
        real = Tuned(folder / "real", folder / "real.work", settings={"flushDiskType": flush})
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
            )
        )
        CONSOLE.print(f"PocketMQ's broker was ready after {ours.ready_s:.1f} s")
        assert real.broker is not None
        sides = [
            Side("PocketMQ", nameserver.address, ours.popen.pid, ours.address),
            Side("RocketMQ", real.namesrv_addr, real.broker.process.pid, real.broker_addr),
        ]
        for side in sides:
            CONSOLE.print(f"{side.name} takes {side.memory_mib:.0f} MiB idle")
            load("batch", side.namesrv, "load", 128, WARM_UP // 2, 4)
            load("async", side.namesrv, "load", 128, WARM_UP // 2, 256)
        yield sides


def measured(folder: Path, flush: str, rows: Sequence[str], rounds: int) -> Figures:
    """All figures of some rows, round by round."""
    table = ROWS | SYNC_ROWS
    figures: Figures = {}
    with both(folder, flush) as sides:
        for number in track(range(rounds), flush, console=CONSOLE):
            for row in rows:
                # Who comes first changes: the second finds the machine warmer.
                for side in sides if number % 2 == 0 else sides[::-1]:
                    for what, value in table[row](side).items():
                        figures.setdefault(f"{row} | {what} | {side.name}", []).append(value)
    return figures


def show(figures: Figures) -> None:
    """Medians with their range, and PocketMQ's favour as a ratio."""
    table = Table("row", "figure", "PocketMQ", "RocketMQ", "ratio", title="medians (least..most)")
    for name, ours in figures.items():
        row, what, side = name.split(" | ")
        theirs = figures.get(f"{row} | {what} | RocketMQ")
        if side != "PocketMQ" or theirs is None:
            continue
        mine, other = statistics.median(ours), statistics.median(theirs)
        ratio = (mine / other if what == HIGHER_IS_BETTER else other / mine) if mine * other else 0
        colour = "green" if ratio >= 1 else "red"
        cells = [
            f"{statistics.median(v):,.4g} ({min(v):,.4g}..{max(v):,.4g})" for v in (ours, theirs)
        ]
        table.add_row(row, what, *cells, f"[{colour}]{ratio:.2f}" if ratio else "")
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
    options = parser.parse_args()
    wanted = [
        row
        for row in ROWS | SYNC_ROWS
        if options.only is None or row.startswith(tuple(options.only))
    ]
    figures: Figures = {}
    for flush, table in (("ASYNC_FLUSH", ROWS), ("SYNC_FLUSH", SYNC_ROWS)):
        rows = [row for row in wanted if row in table]
        if rows:
            with tempfile.TemporaryDirectory(dir=HERE) as folder:
                figures |= measured(Path(folder), flush, rows, options.rounds)
    show(figures)
    save(figures, "beside_rocketmq", None)


if __name__ == "__main__":
    main()
