"""PocketMQ's broker beside NATS JetStream and Redis Streams: publish and consume.

    .venv/bin/python benchmarks/beside_others.py [--rounds 5] [--scale 1.0]

Both come as Debian's packages (`apt-get download`, unpacked into `benchmarks/results/packages`;
nothing is installed), unless they are on the PATH. All three write to files and sync them now and
then: PocketMQ with ASYNC_FLUSH, JetStream with its default (every two minutes), Redis with its
`appendonly` (every second). Each round starts new servers, stores messages through one connection
with 256 in flight, and consumes them in batches of 32 that are acknowledged. The load is
`others_load.py`, a Python program with a plain socket; it bounds the rates, so the processor
time of the server is the figure to look at.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
from figures import CONSOLE, Figures, save
from processes import HERE, cluster, run_json
from rich.table import Table

PACKAGES = HERE / "results" / "packages"
DEBIAN = {
    "nats-server": ["nats-server"],
    "redis-server": [
        *("redis-server", "redis-tools", "libjemalloc2", "liblzf1", "liblua5.1-0"),
        *("lua-cjson", "lua-bitop", "libhiredis0.14"),
    ],
}
BATCH = 32
START_TIMEOUT_S = 30.0
LIMIT_S = 600.0


def program(name: str) -> str:
    """Where a server's program is; fetched from Debian if it is nowhere."""
    found = shutil.which(name)
    if found is not None:
        return found
    for folder in ("usr/bin", "usr/sbin"):
        if (PACKAGES / folder / name).exists():
            return str(PACKAGES / folder / name)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["apt-get", "download", *DEBIAN[name]], cwd=folder, check=True, capture_output=True
        )
        PACKAGES.mkdir(parents=True, exist_ok=True)
        for each in Path(folder).glob("*.deb"):
            subprocess.run(["dpkg", "-x", str(each), str(PACKAGES)], check=True)
    return program(name)


def free_port() -> int:
    """A port that nobody listens at just now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@contextlib.contextmanager
def running(port: int, *command: str) -> Iterator[tuple[str, int]]:
    """A server during a block: its address and process id."""
    libraries = os.pathsep.join(map(str, PACKAGES.glob("usr/lib/*-linux-gnu")))
    env = os.environ | {"LD_LIBRARY_PATH": libraries}
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=quiet, stderr=quiet, env=env)
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port)).close()
                break
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} did not start")
            time.sleep(0.05)
        yield f"127.0.0.1:{port}", process.pid
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def pocketmq(folder: Path) -> Iterator[tuple[str, int]]:
    patient = ("--wait-time-mills-in-send-queue", "60000")  # a busy machine: nothing is refused
    with cluster(folder, 1, *patient) as (_, [broker]):
        yield broker.address, broker.popen.pid


@contextlib.contextmanager
def nats(folder: Path) -> Iterator[tuple[str, int]]:
    port = free_port()
    options = ("-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder))
    with running(port, program("nats-server"), *options) as server:
        yield server


@contextlib.contextmanager
def redis(folder: Path) -> Iterator[tuple[str, int]]:
    port = free_port()
    folder.mkdir()
    options = ("--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder))
    kept = ("--appendonly", "yes", "--save", "")
    with running(port, program("redis-server"), *options, *kept) as server:
        yield server


SERVERS: dict[str, Callable[[Path], contextlib.AbstractContextManager[tuple[str, int]]]] = {
    "pocketmq": pocketmq,
    "nats": nats,
    "redis": redis,
}


def measured(server: str, body_bytes: int, messages: int) -> dict[str, float]:
    """One server, new, filled and drained: rates, and its processor time a message."""
    told = {}
    with (
        tempfile.TemporaryDirectory(dir=HERE) as folder,
        SERVERS[server](Path(folder) / server) as (address, pid),
    ):
        for how in ("publish", "consume"):
            before = psutil.Process(pid).cpu_times()
            result = run_json(
                "others_load.py",
                *(server, how, "--address", address),
                *("--messages", str(messages), "--body-bytes", str(body_bytes)),
                timeout_s=LIMIT_S,
            )
            after = psutil.Process(pid).cpu_times()
            used_s = after.user + after.system - before.user - before.system
            row = f"{how} {body_bytes:,} B"
            told[f"{row} | msg/s"] = messages / result["seconds"]
            told[f"{row} | us of processor"] = used_s / messages * 1e6
    return told


def show(figures: Figures, servers: Sequence[str]) -> None:
    """Medians with their range, one column for each server."""
    table = Table("row", "figure", *servers, title="medians (least..most)")
    rows = dict.fromkeys(name.rsplit(" | ", 1)[0] for name in figures)
    for row in rows:
        cells = []
        for server in servers:
            values = figures[f"{row} | {server}"]
            middle = statistics.median(values)
            cells.append(f"{middle:,.4g} ({min(values):,.4g}..{max(values):,.4g})")
        table.add_row(*row.split(" | "), *cells)
    CONSOLE.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="1.0 = 102,400 messages a row")
    parser.add_argument("--only", nargs="+", choices=list(SERVERS))
    options = parser.parse_args()
    wanted = options.only or list(SERVERS)
    messages = int(102_400 * options.scale) // (4 * BATCH) * 4 * BATCH
    figures: Figures = {}
    for number in range(options.rounds):
        for body_bytes in (128, 1024):
            for server in wanted if number % 2 == 0 else wanted[::-1]:
                for what, value in measured(server, body_bytes, messages).items():
                    figures.setdefault(f"{what} | {server}", []).append(value)
    show(figures, wanted)
    save(figures, "beside_others", options.only)


if __name__ == "__main__":
    main()
