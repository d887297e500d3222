"""What a cluster for tests costs: `make bench`.

    python benchmarks/desk.py                    all rows
    python benchmarks/desk.py --only idle-hour

Processor seconds of long advances (all roles and clients live in this process), and real time until
a cluster can be used. Saved as benchmarks/results/desk.json, one row as desk-only-ROW.json.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psutil
from figures import save

GOALS = {
    "idle-hour": ("processor s, 1 h with a consumer", 0.6),
    "idle-day": ("processor s, 24 h of 1+1 without clients", 1.0),
    "dead-letter": ("processor s, 16 retries to the DLQ, 4 h 46 min", 4.0),
    "fixture": ("s until an in-process cluster is ready, after imports", 0.1),
    "processes": ("s until a cluster of processes is ready, after imports", 0.4),
    "plugin": ("s to import the plugin", 0.03),
    "up": ("s from `pocketmq up` to /readyz", 1.0),
    "memory": ("MiB of anonymous memory, idle 1+1 with its supervisor", 100.0),
    "idle": ("% of a core, idle 1+1 with its supervisor on real time", 1.0),
}
IDLE_S = 10.0
"""How long an idle cluster is watched."""


def idle_hour() -> float:
    """An hour in which nothing is sent."""
    from pocketmq.testing import start_cluster

    with start_cluster(clock="manual") as cluster:
        sync = cluster.sync
        sync.create_topic("orders")
        with sync.consumer("billing", "orders"):
            sync.group("billing").assigned()
            sync.advance(60)
            return _processor_s(lambda: sync.advance(hours=1))


def idle_day() -> float:
    """A day of a nameserver and a broker alone."""
    from pocketmq.testing import start_cluster

    with start_cluster(clock="manual") as cluster:
        cluster.sync.advance(60)
        return _processor_s(lambda: cluster.sync.advance(hours=24))


def dead_letter() -> float:
    """A message that fails until it is a dead letter."""
    import asyncio

    from pocketmq.client import Message, PushConsumer
    from pocketmq.testing import start_cluster

    tries: list[int] = []

    def fail(message: object) -> None:
        tries.append(1)
        raise ValueError(message)

    with start_cluster(clock="manual") as cluster:
        cluster.sync.create_topic("orders")

        async def consume() -> None:
            consumer = PushConsumer("billing", nameservers=cluster.nameservers)
            consumer.subscribe("orders")
            consumer.listen(fail)
            async with consumer:
                await cluster.group("billing").assigned()
                with cluster.sync.producer() as producer:
                    producer.send(Message("orders", b"x"))
                await cluster.advance(hours=4.8)

        found = _processor_s(lambda: asyncio.run(consume()))
        assert len(tries) == 17, len(tries)
        return found


def fixture() -> float:
    """From `start_cluster` to the first route, the second time."""
    from pocketmq.testing import start_cluster

    for _ in range(2):
        began = time.perf_counter()
        with start_cluster():
            took = time.perf_counter() - began
    return took


def processes() -> float:
    """From `start_cluster` to the first route, with each role as a process; the second time."""
    from pocketmq.testing import start_cluster

    for _ in range(2):
        began = time.perf_counter()
        with start_cluster(mode="processes"):
            took = time.perf_counter() - began
    return took


def plugin() -> float:
    """In a fresh interpreter that has pytest."""
    code = (
        "import pytest, time; t = time.perf_counter(); import pocketmq.testing.plugin; "
        "print(time.perf_counter() - t)"
    )
    return min(
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(5)
    )


class UpCost(NamedTuple):
    """What one `pocketmq up` took."""

    ready_s: float
    memory_mib: float
    idle_percent: float


def up() -> float:
    """From the start of the command."""
    return _up().ready_s


def memory() -> float:
    """All processes of `pocketmq up` together."""
    return _up().memory_mib


def idle() -> float:
    """All processes of `pocketmq up` together, while nothing is asked of them."""
    return _up(IDLE_S).idle_percent


def _up(watched_s: float = 0.0) -> UpCost:
    with tempfile.TemporaryDirectory() as folder:
        ports = Path(folder) / "ports.json"
        command = [sys.executable, "-m", "pocketmq.cluster.cli.main", "up", "--any-port"]
        command += ["--control-port", "0", "--ports-file", str(ports), "--data", f"{folder}/data"]
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            while not ports.exists():
                time.sleep(0.005)
            url = json.loads(ports.read_text())["control"]
            urllib.request.urlopen(f"{url}/readyz").read()
            took = time.perf_counter() - began
            everybody = [psutil.Process(process.pid), *psutil.Process(process.pid).children()]
            held = sum(each.memory_full_info().uss for each in everybody)
            before = _cpu_s(everybody)
            time.sleep(watched_s)
            idle_s = _cpu_s(everybody) - before
        finally:
            os.kill(process.pid, signal.SIGINT)
            process.wait(30)
    return UpCost(took, held / 2**20, 100 * idle_s / watched_s if watched_s else 0.0)


def _cpu_s(processes: list[psutil.Process]) -> float:
    return sum(each.cpu_times().user + each.cpu_times().system for each in processes)


def _processor_s(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


ROWS: dict[str, Callable[[], float]] = {
    "idle-hour": idle_hour,
    "idle-day": idle_day,
    "dead-letter": dead_letter,
    "fixture": fixture,
    "processes": processes,
    "plugin": plugin,
    "up": up,
    "memory": memory,
    "idle": idle,
}


def main() -> None:
    """Print each row beside its goal."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--only", choices=ROWS, default=None, help="One row.")
    only = parser.parse_args().only
    found = {}
    for name, measure in ROWS.items():
        if only in (None, name):
            what, goal = GOALS[name]
            found[name] = measure()
            verdict = "reached" if found[name] <= goal else "missed"
            print(f"{name:12} {found[name]:8.3f}  goal {goal:g} {verdict}: {what}", flush=True)
    save(found, "desk", only and [only])


if __name__ == "__main__":
    from pocketmq.runtime import logs

    logs.configure("error")
    main()
