"""The driver processes of `spark_crashes`, as seen from outside: how far they are, how they are
killed."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from pocketmq.runtime.clock import SystemClock

PATIENCE_S = 600.0
"""Real seconds without a step forward."""
LINE_S = 300.0
"""Real seconds without a line from any driver: even a JVM that starts is sooner there."""


class Drivers:
    """A driver for each table, all in one process group.

    Each has a Spark of its own: of two queries in one, either may end with `IllegalStateException:
    Illegal size`, when Spark serializes a collection that the other one's thread changes.

    Args:
        commands: By table.
    """

    def __init__(self, commands: Mapping[str, Sequence[str]]) -> None:
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
        self._lines: queue.SimpleQueue[tuple[str, str | None]] = queue.SimpleQueue()
        self._clock = SystemClock()
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._readers: list[threading.Thread] = []
        self._at = dict.fromkeys(commands, 0)
        self._lost = dict.fromkeys(commands, 0)
        self._group = 0
        for table, command in commands.items():
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=env,
                process_group=self._group,
            )
            self._group = self._group or process.pid
            self._processes[table] = process
            reader = threading.Thread(
                target=self._read, args=(table, process), name=f"output of {table}", daemon=True
            )
            reader.start()
            self._readers.append(reader)

    @property
    def at(self) -> int:
        """Messages that all queries have come past."""
        return min(self._at.values())

    def _read(self, table: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._lines.put((table, line))
        self._lines.put((table, None))

    def wait_for(self, rows: int) -> None:
        """Until all queries have come past so many messages."""
        self._wait(lambda: self.at >= rows, f"all have come to {rows}")

    def wait_for_losses(self, lost: Mapping[str, int]) -> None:
        """Until so many messages are counted as lost, by table."""
        self._wait(lambda: self._lost == lost, f"{lost} are counted as lost", 300.0)

    def finish(self, rows: int) -> dict[str, list[int]]:
        """Have the queries read all and end; what Spark reads back, by table."""
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.write(f"{rows}\n")
            process.stdin.flush()
        found: dict[str, list[int]] = {}

        def is_done() -> bool:
            return found.keys() == self._processes.keys()

        self._wait(is_done, "all have ended", found=found)
        for process in self._processes.values():
            process.wait(PATIENCE_S)
        return found

    def deaths(self, rows: int) -> dict[str, str]:
        """Why each query has ended, by its table; returns when all have.

        Raises:
            AssertionError: One has come past so many messages instead.
        """
        found: dict[str, str] = {}

        def is_done() -> bool:
            at = max(self._at.values())
            assert at < rows, f"a query has come to {at}, of {rows}"
            return found.keys() == self._processes.keys()

        self._wait(is_done, "all queries have ended", deaths=found)
        return found

    def _wait(
        self,
        is_done: Callable[[], bool],
        what: str,
        limit_s: float = PATIENCE_S,
        *,
        deaths: dict[str, str] | None = None,
        found: dict[str, list[int]] | None = None,
    ) -> None:
        """Take what the drivers print until `is_done`.

        Args:
            is_done: Asked after each line.
            what: Completes "in vain until".
            limit_s: Real seconds without a step forward.
            deaths: Takes why a query has ended; None: none may.
            found: Takes what Spark reads back.
        """
        ends_at, at = self._clock.monotonic() + limit_s, sum(self._at.values())
        while not is_done():
            table, line = self._lines.get(timeout=LINE_S)
            word, _, rest = (line or "").strip().partition(" ")
            if word == "AT":
                self._at[table], self._lost[table] = map(int, rest.split())
            elif word == "READ" and found is not None:
                found[table] = json.loads(rest)
            elif word == "DIED":
                assert deaths is not None, f"{table}: {rest}"
                deaths[table] = rest
            elif line is None:
                has_ended = table in (deaths or {}) or table in (found or {})
                assert has_ended, f"the driver of {table} has ended by itself"
            if sum(self._at.values()) > at:
                ends_at, at = self._clock.monotonic() + limit_s, sum(self._at.values())
            if self._clock.monotonic() > ends_at:
                self._tell_stacks()
                raise AssertionError(f"in vain until {what}: {self._at} read, {self._lost} lost")

    def _tell_stacks(self) -> None:
        """What the drivers do now, on standard error: their Python's threads and their JVM's."""
        for process in self._processes.values():
            with contextlib.suppress(OSError):
                process.send_signal(signal.SIGUSR1)
            for each in psutil.Process(process.pid).children(recursive=True):
                if each.name() == "java" and shutil.which("jstack"):
                    subprocess.run(["jstack", str(each.pid)], stdout=sys.stderr, check=False)

    def kill(self) -> None:
        """SIGKILL to the whole group; its pipes are closed."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._group, signal.SIGKILL)
        for process, reader in zip(self._processes.values(), self._readers, strict=True):
            process.wait()
            reader.join()
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            process.stdout.close()

    def executors(self) -> dict[str, list[psutil.Process]]:
        """Executors in processes of their own, as of `local-cluster`; by table."""
        found: dict[str, list[psutil.Process]] = {table: [] for table in self._processes}
        for table, process in self._processes.items():
            for each in psutil.Process(process.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
                    if "CoarseGrainedExecutorBackend" in " ".join(each.cmdline()):
                        found[table].append(each)
        return found
