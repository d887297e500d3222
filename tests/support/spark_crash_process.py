"""The driver process of `spark_crashes`, as seen from outside: how far it is, how it is killed."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from pocketmq.runtime.clock import SystemClock

PATIENCE_S = 600.0
"""Real seconds without a word from the driver, or without a step forward."""


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
        self._clock = SystemClock()
        self.at = 0
        """Messages that both queries have come past."""
        self.lost = (0, 0)
        """Messages that Parquet's query and Delta's have counted as lost."""

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def wait_for(self, rows: int) -> None:
        """Until both queries have come past so many messages."""
        self._wait(lambda: self.at >= rows, f"both have come to {rows}")

    def wait_for_losses(self, lost: tuple[int, int]) -> None:
        """Until so many messages are counted as lost."""
        self._wait(lambda: self.lost == lost, f"Parquet and Delta count {lost} as lost", 60.0)

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

    def deaths(self, rows: int) -> dict[str, str]:
        """Why each query has ended, by its table; returns when both have.

        Raises:
            AssertionError: One has come past so many messages instead.
        """
        found: dict[str, str] = {}
        ends_at = self._clock.monotonic() + PATIENCE_S
        while (line := self._lines.get(timeout=PATIENCE_S)) is not None:
            word, *others = line.split(" ", 2)
            if word == "DIED":
                found[others[0]] = others[1]
            elif word == "AT":
                at = [int(each) for each in line.split()[1:3]]
                assert max(at) < rows, f"Parquet and Delta have come to {at}, of {rows}"
            assert self._clock.monotonic() < ends_at, f"only these have ended: {found}"
        return found

    def _wait(self, is_done: Callable[[], bool], what: str, limit_s: float = PATIENCE_S) -> None:
        ends_at, at = self._clock.monotonic() + limit_s, self.at
        while not is_done():
            self._next()
            if self.at > at:
                ends_at, at = self._clock.monotonic() + limit_s, self.at
            is_late = self._clock.monotonic() > ends_at
            assert not is_late, f"in vain until {what}: {self.at} read, {self.lost} lost"

    def _next(self) -> list[str]:
        line = self._lines.get(timeout=PATIENCE_S)
        assert line is not None, "the driver has ended by itself"
        words = line.strip().split(" ", 1)
        assert words[0] != "DIED", line
        if words[0] == "AT":
            *at, lost_of_parquet, lost_of_delta = map(int, words[1].split())
            self.at, self.lost = min(at), (lost_of_parquet, lost_of_delta)
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
