"""Measures the store, with upper bounds from the same run; medians. Part of `make bench`.

    python benchmarks/store.py                             all rows, 1 GiB logs: 10 to 20 minutes
    python benchmarks/store.py --only append --scale 0.1   one row, a tenth of the bytes

Rows that only compute are compared by processor time, which other load hardly changes; rows that
wait for disk or network by wall time. Saved as benchmarks/results/store.json.
"""

from __future__ import annotations

import argparse
import itertools
import os
import socket
import statistics
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from figures import CONSOLE, Figures, judged, median_ratio, save, show_figures
from load import send_frame
from processes import HERE, Process, cluster, run_json, started
from rich.table import Table
from store_child import BATCH, messages, open_store

from pocketmq.broker.store import OsDisk
from pocketmq.protocol.command import Encoding
from pocketmq.runtime import logs
from pocketmq.runtime.addresses import split_address

CHILD = str(HERE / "store_child.py")
MIB = 1 << 20
MANY_QUEUES = 10_000
_LENGTH = struct.Struct(">i")


class Rows:
    """Measures the rows; stores that several rows read are filled once."""

    def __init__(self, folder: Path, rounds: int, scale: float) -> None:
        self.figures: Figures = {}
        self.rounds = rounds
        self.scale = scale
        self.log_bytes = int(1024 * MIB * scale)
        self._folder = folder

    def note(self, name: str, value: float) -> None:
        self.figures.setdefault(name, []).append(value)

    def median(self, name: str) -> float:
        return statistics.median(self.figures[name])

    @contextmanager
    def fresh(self) -> Iterator[str]:
        """A directory during a block."""
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            yield folder

    def filled(self, name: str, *options: str, kill: bool = False) -> str:
        """A store with a full log, made on first use: stopped cleanly, or killed."""
        root = self._folder / name
        if not root.exists():
            size = str(self.log_bytes)
            with started(CHILD, "fill", "--data", str(root), "--bytes", size, *options) as child:
                self.note(f"RssAnon MiB | {name}", child.rss_anon_mib)
                if kill:
                    child.popen.kill()
                    child.popen.wait()
        return str(root)

    # -- append ------------------------------------------------------------------------------

    def append(self) -> None:
        """Batches of 64 records of 1 KiB bodies into a fresh log, and the same bytes assigned."""
        count = max(16, int(400 * self.scale))
        batches = list(itertools.islice(messages(4), count))
        for _ in range(3 * self.rounds):  # many short ones: a machine's speed drifts
            with self.fresh() as root:
                store = open_store(root)
                store.load()
                queues = [
                    [store.consume_queues.get_or_create(m.topic, m.queue_id) for m in batch]
                    for batch in batches
                ]
                now_ms = 1_700_000_000_000
                append = store.commit_log.append
                with self.timed("append | log", count * BATCH):
                    for batch, of_batch in zip(batches, queues, strict=True):
                        append(batch, of_batch, now_ms)
                size = store.commit_log.max_offset
                first = store.commit_log.read(0, size // count)
                assert first is not None
                record_bytes = bytes(first)
                store.close_files()
            with self.fresh() as root:
                store = open_store(root)
                store.load()
                with self.timed("append | log, queues and index", count * BATCH):
                    for batch in batches:
                        store.put_messages(batch)
                store.close_files()
            with self.fresh() as root:
                assign(os.path.join(root, "plain"), record_bytes, count, self.timed)

    @contextmanager
    def timed(self, name: str, items: int) -> Iterator[None]:
        """Note the items per second of processor time of a block."""
        began = time.process_time()
        yield
        self.note(name, items / (time.process_time() - began))

    # -- flush -------------------------------------------------------------------------------

    def sync(self) -> None:
        """Sends that wait for the disk, sends that do not, and plain calls of `fdatasync`."""
        sync = ("--flush-disk-type", "SYNC_FLUSH")
        with (
            self.fresh() as folder,
            cluster(Path(folder) / "async") as (_, (quick,)),
            cluster(Path(folder) / "sync", 1, *sync) as (_, (safe,)),
        ):
            for broker in (quick, safe):
                send(broker, 1, 4000)
            for _ in range(self.rounds):
                for name, broker in (("ASYNC_FLUSH", quick), ("SYNC_FLUSH", safe)):
                    count = max(1000, int(30_000 * self.scale))
                    used_s = broker.cpu_s
                    self.note(f"64 connections | {name}", send(broker, 64, count))
                    used_s = broker.cpu_s - used_s
                    self.note(
                        f"64 connections, broker CPU us a message | {name}", used_s / count * 1e6
                    )
                count = max(100, int(1000 * self.scale))
                means = one_by_one(quick, safe, os.path.join(folder, "synced"), count)
                for name, seconds in means.items():
                    self.note(f"1 connection | {name}", 1 / seconds)
                floor = 1 / (means["fdatasync"] + means["ASYNC_FLUSH"])
                self.note("1 connection | fdatasync + round trip", floor)

    # -- restart -----------------------------------------------------------------------------

    def restart(self) -> None:
        """Loading after a clean stop and after a kill, and the first READY of a whole broker."""
        clean = self.filled("clean")
        killed = self.filled("killed", kill=True)
        unread = self.filled("never confirmed", "--unconfirmed", kill=True)
        for _ in range(self.rounds):
            result = run_json("store_child.py", "load", "--data", clean)
            self.note("load s | clean stop", result["seconds"])
            for name, root in (("killed", killed), ("never confirmed", unread)):
                result = run_json("store_child.py", "load", "--kill", "--data", root)
                self.note(f"load s | {name}", result["seconds"])
                if name == "never confirmed":
                    crc = result["crc"]
                    self.note("scan MiB/s | recovery", result["bytes"] / MIB / result["cpu_s"])
                    self.note("scan MiB/s | crc32", result["bytes"] / MIB / crc["cpu_s"])
            with self.fresh() as root:
                self.note("start s | broker, empty", broker_start_s(root))
            self.note("start s | broker, clean stop", broker_start_s(clean))

    # -- memory ------------------------------------------------------------------------------

    def memory(self) -> None:
        """Anonymous memory by length of the log, and by number of queues."""
        self.filled("clean")
        for name, size, queues in (
            ("short log", 64 * MIB, 4),
            (f"{MANY_QUEUES} queues", 64 * MIB, MANY_QUEUES),
        ):
            with self.fresh() as root:
                command = (CHILD, "fill", "--data", root, "--bytes", str(size))
                with started(*command, "--queues", str(queues)) as child:
                    self.note(f"RssAnon MiB | {name}", child.rss_anon_mib)
        short, many = (
            self.median(f"RssAnon MiB | {name}") for name in ("short log", f"{MANY_QUEUES} queues")
        )
        self.note("RssAnon KiB by queue", (many - short) * 1024 / MANY_QUEUES)
        self.note("RssAnon MiB by long log", self.median("RssAnon MiB | clean") - short)

    # -- verify ------------------------------------------------------------------------------

    def verify(self) -> None:
        """`store verify`, and `crc32` over the same bytes."""
        roots = {"tags": self.filled("clean"), "tags and keys": self.filled("keyed", "--keyed")}
        workers = os.cpu_count() or 1
        mib = self.log_bytes / MIB
        for _ in range(self.rounds):
            for name, root in roots.items():
                where = ("verify", "--data", root, "--bytes", str(self.log_bytes))
                result = run_json("store_child.py", *where)
                self.note(f"verify MiB/s | {name}", mib / result["cpu_s"])
                self.note(f"verify MiB/s | {name}, crc32", mib / result["crc"]["cpu_s"])
            result = run_json("store_child.py", *where, "--workers", str(workers))
            name = "as the command does"
            self.note(f"verify MiB/s | {name}", mib / result["seconds"])
            self.note(f"verify MiB/s | {name}, crc32", mib / result["crc"]["seconds"])


def assign(
    path: str, data: bytes, count: int, timed: Callable[[str, int], AbstractContextManager[None]]
) -> None:
    """The floor of an append: `count` slice assignments to a fresh mapped file with its blocks."""
    disk = OsDisk()
    size = len(data) * count
    disk.create_file(path, size)
    file = disk.open_file(path)
    view = disk.map_file(path, size)
    with timed("append | slice assignment", count * BATCH):
        file.reserve(0, size)
        for at in range(0, size, len(data)):
            view[at : at + len(data)] = data
    file.close()


def send(broker: Process, connections: int, count: int) -> float:
    """Messages per second, each connection with one request in flight."""
    result = run_json(
        "load.py",
        *("--address", broker.address, "--window", "1"),
        *("--connections", str(connections), "--messages", str(max(count, connections))),
    )
    return float(result["messages"] / result["seconds"])


def one_by_one(quick: Process, safe: Process, path: str, count: int) -> dict[str, float]:
    """Mean seconds of a send to each broker and of a sync, in turn: a disk's speed changes fast."""
    disk = OsDisk()
    record = b"x" * 1200
    disk.create_file(path, len(record) * count)
    file = disk.open_file(path)
    file.reserve(0, len(record) * count)
    file.sync()
    view = disk.map_file(path, len(record) * count)
    frame = send_frame("bench", 0, 1024, Encoding.MSGPACK)
    total_s = {"ASYNC_FLUSH": 0.0, "SYNC_FLUSH": 0.0, "fdatasync": 0.0}
    with (
        socket.create_connection(split_address(quick.address)) as to_quick,
        socket.create_connection(split_address(safe.address)) as to_safe,
    ):
        for at in range(0, len(view), len(record)):
            for name, connection in (("ASYNC_FLUSH", to_quick), ("SYNC_FLUSH", to_safe)):
                began = time.perf_counter()
                connection.sendall(frame)
                (length,) = _LENGTH.unpack(connection.recv(4, socket.MSG_WAITALL))
                connection.recv(length, socket.MSG_WAITALL)
                total_s[name] += time.perf_counter() - began
            began = time.perf_counter()
            view[at : at + len(record)] = record
            file.sync()
            total_s["fdatasync"] += time.perf_counter() - began
    file.close()
    disk.remove_file(path)
    return {name: seconds / count for name, seconds in total_s.items()}


def broker_start_s(root: str) -> float:
    """Seconds from a broker's start to its READY; its nameserver is not there."""
    with started(
        *("-m", "pocketmq.broker", "--name", "b", "--port", "0"),
        *("--nameservers", "127.0.0.1:1", "--data", root),
    ) as broker:
        return broker.ready_s


RATIOS = [
    ("append | log", "append | slice assignment", 0.15),
    ("64 connections | SYNC_FLUSH", "64 connections | ASYNC_FLUSH", 0.6),
    (
        "64 connections, broker CPU us a message | ASYNC_FLUSH",
        "64 connections, broker CPU us a message | SYNC_FLUSH",
        0.6,
    ),
    ("1 connection | SYNC_FLUSH", "1 connection | fdatasync + round trip", 0.8),
    ("scan MiB/s | recovery", "scan MiB/s | crc32", 0.3),
    *(
        (f"verify MiB/s | {name}", f"verify MiB/s | {name}, crc32", 0.25)
        for name in ("tags", "tags and keys", "as the command does")
    ),
]
LIMITS = [
    ("load s | clean stop", 0.5),
    ("load s | killed", 0.5),
    ("RssAnon MiB by long log", 1.0),
    ("RssAnon KiB by queue", 4.0),
]
"""Figures that are to stay below a bound of their own."""


def show(figures: Figures) -> None:
    """Print all figures, and beside their goals those that have one."""
    show_figures(figures)
    goals = Table("ratio or figure", "median", "to reach", title="goals")
    for top, bottom, goal in RATIOS:
        if top in figures and bottom in figures:
            value = median_ratio(figures, top, bottom)
            goals.add_row(f"{top} : {bottom}", judged(value, reached=value >= goal), f">= {goal}")
    for name, limit in LIMITS:
        if name in figures:
            value = statistics.median(figures[name])
            goals.add_row(name, judged(value, reached=value <= limit), f"<= {limit}")
    CONSOLE.print(goals)


ROWS = {
    "append": Rows.append,
    "sync": Rows.sync,
    "restart": Rows.restart,
    "memory": Rows.memory,
    "verify": Rows.verify,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="1.0 = logs of 1 GiB")
    parser.add_argument("--only", choices=list(ROWS), action="append")
    options = parser.parse_args()
    logs.configure("warning")
    with tempfile.TemporaryDirectory(dir=HERE, prefix="tmp-store-") as folder:
        rows = Rows(Path(folder), options.rounds, options.scale)
        for name in options.only or ROWS:
            ROWS[name](rows)
    show(rows.figures)
    save(rows.figures, "store", options.only)


if __name__ == "__main__":
    main()
