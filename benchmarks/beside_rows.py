"""The rows of `beside_rocketmq.py`: what is measured at one broker, whichever it is."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TypeAlias

import psutil
from processes import HERE, run_json

sys.path.insert(0, str(HERE.parent / "tests"))

from support.java import build

LOAD_TIMEOUT_S = 300
MANY_TOPICS = 1_000
ENCODED = "encoded"

Figures: TypeAlias = dict[str, float]
"""What was measured -> how much."""


@dataclass
class Side:
    """One of the two brokers."""

    name: str
    namesrv: str
    pid: int
    address: str
    filled: set[str] = field(default_factory=set)
    """Topics that have been filled already."""
    endpoints: str = ""
    """Of its proxy, once that runs."""
    proxy_pid: int | None = None
    home: Path = HERE
    """Where SDKs log that connect to it."""

    @property
    def cpu_s(self) -> float:
        """Processor seconds of all threads of its broker, and of its proxy."""
        pids = [self.pid] if self.proxy_pid is None else [self.pid, self.proxy_pid]
        used = [psutil.Process(pid).cpu_times() for pid in pids]
        return sum(each.user + each.system for each in used)

    @property
    def memory_mib(self) -> float:
        """Resident memory that is its own, without mapped files."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("RssAnon"))
        return int(line.split()[1]) / 1024


Row: TypeAlias = Callable[[Side], Figures]


def java(how: str, *arguments: object) -> list[str]:
    """The command line of the Java client, or of the sockets that need none."""
    program = "EncodedBatches.java" if how == ENCODED else "Load.java"
    path = str(HERE / "java" / program)
    return ["java", "-Xmx1g", f"@{build(server=True)}", path, how, *map(str, arguments)]


def load(how: str, *arguments: object) -> dict[str, float]:
    """Run the Java client and return what it measured."""
    return told_by(java(how, *arguments), LOAD_TIMEOUT_S)


def told_by(command: list[str], limit_s: float) -> dict[str, float]:
    """Run a Java client and return what it measured."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[-6:]} failed:\n{done.stderr[-2000:]}")
    result: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def sends(how: str, size: int, messages: int, parallel: int, *rest: int) -> Row:
    """Messages a second, processor time a message of broker and client, refused."""

    def measure(side: Side) -> Figures:
        before, client_before = side.cpu_s, _children_s()
        result = load(how, side.namesrv, "load", size, messages, parallel, *rest)
        told = {"per second": result["messages"] / result["seconds"], "refused": result["refused"]}
        if "readable_s" in result:
            told["s until all can be consumed"] = result["readable_s"]
        used = {"us of processor": side.cpu_s - before, "us of the client": _children_s()}
        used["us of the client"] -= client_before
        return told | {what: used_s / (messages * 1.2) * 1e6 for what, used_s in used.items()}

    return measure


def _children_s() -> float:
    """Processor seconds of programs that have run, and ended; the start of Java is in it."""
    used = os.times()
    return used.children_user + used.children_system


def sends_to_many_topics(messages: int, window: int) -> Row:
    """The same over many topics, all of which a first run has made, and the memory with them."""
    measure = sends("topics", 128, messages, window, MANY_TOPICS)

    def twice(side: Side) -> Figures:
        if "many topics" not in side.filled:
            measure(side)
            side.filled.add("many topics")
        return measure(side) | {"MiB": side.memory_mib}

    return twice


def sends_of_connections(count: int, window: int, messages: int) -> Row:
    """From plain sockets, which cost the machine little: the brokers' own price of connections."""

    def measure(side: Side) -> Figures:
        load("first", side.namesrv, "connections")
        before = side.cpu_s
        result = run_json(
            *("many_load.py", "--encoding", "json", "--address", side.address),
            *("--topic", "connections", "--connections", str(count), "--window", str(window)),
            *("--messages", str(messages), "--body-bytes", "128"),
        )
        told = {"per second": result["messages"] / result["seconds"], "refused": result["refused"]}
        return told | {"us of processor": (side.cpu_s - before) / result["sent"] * 1e6}

    return measure


def consume(how: str, messages: int) -> Row:
    """A backlog that a new group consumes: messages a second, seconds to the first."""

    def measure(side: Side) -> Figures:
        topic = f"{how}-backlog"
        if topic not in side.filled:
            load("batch", side.namesrv, topic, 128, messages, 4)
            side.filled.add(topic)
        before, client_before = side.cpu_s, _children_s()
        result = load(how, side.namesrv, topic, f"group-{time.time_ns()}", messages)
        return {
            "per second": result["messages"] / result["seconds"],
            "s to the first": result["first_s"],
            "us of processor": (side.cpu_s - before) / messages * 1e6,
            "us of the client": (_children_s() - client_before) / messages * 1e6,
            "pauses of the client": result["pauses"],
        }

    return measure


def latency(rate: int, seconds: int) -> Row:
    """End to end, at a steady rate; a new topic each time, which the consumer reads as a whole."""
    return lambda side: load(
        "latency", side.namesrv, f"latency-{time.time_ns()}", 128, rate, seconds
    )


def death(side: Side) -> Figures:
    """From the kill of one of two members until the other has a message of each queue."""
    name = f"death-{time.time_ns()}"
    with contextlib.ExitStack() as stack:

        def member(how: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                java(how, side.namesrv, name, name),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        survivor = member("survive")
        assert survivor.stdin is not None
        assert survivor.stdout is not None
        _until(survivor.stdout, "alone")
        victim = member("member")
        _until(survivor.stdout, "shared")
        victim.kill()
        survivor.stdin.write("\n")
        survivor.stdin.flush()
        result: Figures = json.loads(_until(survivor.stdout, "{"))
        return {"ms": result["ms"]}


def _until(output: IO[str], word: str) -> str:
    line = next((line for line in output if line.startswith(word)), None)
    if line is None:
        raise RuntimeError(f"Load ended before it said {word!r}")
    return line


def connections(count: int) -> Row:
    """Memory that idle connections take."""

    def measure(side: Side) -> Figures:
        before = side.memory_mib
        host, port = side.address.rsplit(":", 1)
        with contextlib.ExitStack() as stack:
            for _ in range(count):
                stack.enter_context(socket.create_connection((host, int(port))))
            return {"MiB more": max(0.1, side.memory_mib - before), "MiB": side.memory_mib}

    return measure


ROWS: dict[str, Row] = {
    "sync 1 KB, 64 threads": sends("sync", 1024, 60_000, 64),
    "async 1 KB, 256 in flight": sends("async", 1024, 100_000, 256),
    "async 128 B, 256 in flight": sends("async", 128, 100_000, 256),
    "batch 32 x 128 B, 4 threads": sends("batch", 128, 320_000, 4),
    "long batch row, 4 threads": sends("batch", 128, 1_280_000, 4),
    "batch 32 x 128 B, encoded before": sends(ENCODED, 128, 1_280_000, 4, 4),
    "transactions 1 KB, 64 threads": sends("transaction", 1024, 60_000, 64),
    "consume a backlog": consume("consume", 300_000),
    "pop a backlog": consume("pop", 100_000),
    "end to end at 2,000/s": latency(2_000, 8),
    "a member is killed": death,
    "2,000 idle connections": connections(2_000),
    "10 connections, 100 in flight each": sends_of_connections(10, 100, 100_000),
    "1,000 connections, 1 in flight each": sends_of_connections(1_000, 1, 60_000),
    "1,000 topics, 128 B, 256 in flight": sends_to_many_topics(100_000, 256),
}
SYNC_ROWS: dict[str, Row] = {
    "SYNC_FLUSH, 1 thread": sends("sync", 1024, 2_000, 1),
    "SYNC_FLUSH, 64 threads": sends("sync", 1024, 20_000, 64),
    "SYNC_FLUSH, 256 in flight": sends("async", 1024, 30_000, 256),
}
HIGHER_IS_BETTER = "per second"
