"""A stream into Parquet and Delta while its driver, executors, brokers and name servers are killed.

In the end both tables have every message exactly once. `scripts/spark_crashes.py` runs it at any
size, tests/pipeline/test_spark_crashes.py at a small one.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from deltalake import DeltaTable

from pocketmq.runtime.clock import SystemClock
from support.spark_cluster import SparkCluster
from support.spark_home import use_spark_home
from support.spark_query import send

TOPIC = "Crashes"
EVENTS = ("driver", "broker", "nameservers", "grow", "executor")
PATIENCE_S = 600.0
"""Real seconds without a word from the driver."""


class Driver:
    """The process that runs the queries, in a process group of its own."""

    def __init__(self, command: Sequence[str]) -> None:
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
            start_new_session=True,
        )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="driver-output", daemon=True)
        self._reader.start()
        self.at = 0

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def wait_for(self, rows: int) -> None:
        """Until both tables have so many rows."""
        while self.at < rows:
            self._next()

    def finish(self, rows: int) -> list[int]:
        """Have the queries read all and end; what Spark reads back."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{rows}\n")
        self.process.stdin.flush()
        while True:
            words = self._next()
            if words[0] == "READ":
                found: list[int] = json.loads(words[1])
                self.process.wait(PATIENCE_S)
                return found

    def _next(self) -> list[str]:
        line = self._lines.get(timeout=PATIENCE_S)
        assert line is not None, "the driver has ended by itself"
        words = line.strip().split(" ", 1)
        assert words[0] != "DIED", line
        if words[0] == "AT":
            self.at = min(map(int, words[1].split()))
        return words

    def kill(self) -> None:
        """SIGKILL to the whole group; its pipes are closed."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()

    def executors(self) -> list[psutil.Process]:
        """Executors in processes of their own, as of `local-cluster`."""
        found = []
        for each in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
                if "CoarseGrainedExecutorBackend" in " ".join(each.cmdline()):
                    found.append(each)
        return found


@dataclass
class Crashes:
    """One run.

    Args:
        cluster: Two brokers.
        folder: Where the tables and checkpoints go.
        messages: How many in all.
        events: What happens, in order; of `EVENTS`.
        master: Where Spark runs; `executor` needs `local-cluster[...]`.
        away_s: How long name servers stay away.
        batches: How many there are at least.
        seed: Chooses the moments.
        tell: Gets a line for each step.
    """

    cluster: SparkCluster
    folder: Path
    messages: int
    events: Sequence[str]
    master: str = "local[2]"
    away_s: float = 0.0
    batches: int = 20
    seed: int = 1
    tell: Callable[[str], None] = lambda _: None

    def run(self) -> None:
        """Let it happen.

        Raises:
            AssertionError: A table lacks a message, or has one twice, or a query has ended.
        """
        use_spark_home(self.folder)
        rng = random.Random(self.seed)
        self.cluster.create_topic(TOPIC, queues=4)
        parts = len(self.events) + 1
        cuts = [self.messages * number // parts for number in range(parts + 1)]
        driver = self._driver()
        try:
            for number, event in enumerate(self.events):
                send(self.cluster, TOPIC, range(cuts[number], cuts[number + 1]))
                moment = rng.randint(cuts[number] + 1, cuts[number + 1])
                driver.wait_for(moment)
                self.tell(f"{event} at {driver.at} of {cuts[number + 1]} rows")
                driver = self._do(event, driver, rng)
            send(self.cluster, TOPIC, range(cuts[-2], cuts[-1]))
            read = driver.finish(self.messages)
        finally:
            driver.kill()
        check("Parquet, read by Spark", read, self.messages)
        table = DeltaTable(self.folder / "delta")
        rows = table.to_pyarrow_dataset().to_table(columns=["body"]).column("body").to_pylist()
        check("Delta, read by deltalake", sorted(map(int, rows)), self.messages)

    def _driver(self) -> Driver:
        script = Path(__file__).with_name("spark_crash_driver.py")
        rows = str(max(1, self.messages // self.batches))
        where = (self.cluster.nameservers, TOPIC, str(self.folder), self.master, rows)
        return Driver([sys.executable, str(script), *where])

    def _do(self, event: str, driver: Driver, rng: random.Random) -> Driver:
        cluster = self.cluster
        match event:
            case "driver":
                driver.kill()
                return self._driver()
            case "broker":
                name = rng.choice(["broker-a", "broker-b"])
                cluster.kill(name)
                cluster.restart(name)
            case "nameservers":
                names = [each.name for each in cluster.supervisor.of_role("nameserver")]
                for name in names:
                    cluster.kill(name)
                cluster.run(SystemClock().sleep(self.away_s))
                for name in names:
                    cluster.run(cluster.supervisor.restart(name))
                cluster.wait_until_known(TOPIC)
            case "grow":
                cluster.shape_topic(TOPIC, 8)
            case "executor":
                rng.choice(driver.executors()).kill()
            case _:
                raise ValueError(event)
        return driver


def check(table: str, found: Sequence[int], messages: int) -> None:
    """Every number once."""
    missing = sorted(set(range(messages)) - set(found))
    assert not missing, f"{table}: {len(missing)} messages are missing, such as {missing[:5]}"
    assert len(found) == messages, f"{table}: {len(found) - messages} messages are there twice"
