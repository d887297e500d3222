"""Starts the processes of a measurement, and ends them even after an error."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


class Process:
    """A child process that has printed its ready line."""

    def __init__(self, *command: str) -> None:
        began = time.perf_counter()
        self.popen = subprocess.Popen(
            [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.popen.stdout is not None
        line = self.popen.stdout.readline()
        self.ready_s = time.perf_counter() - began
        match = re.search(r"port=(\d+)", line)
        if match is None:
            raise RuntimeError(f"{' '.join(command)} said {line!r} instead of READY")
        self.port = int(match.group(1))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def rss_anon_mib(self) -> float:
        """Anonymous resident memory, which excludes mapped files."""
        status = Path(f"/proc/{self.popen.pid}/status").read_text()
        match = re.search(r"RssAnon:\s+(\d+)", status)
        return int(match.group(1)) / 1024 if match else 0.0

    @property
    def cpu_s(self) -> float:
        """Processor seconds used so far."""
        fields = Path(f"/proc/{self.popen.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def stop(self) -> None:
        self.popen.terminate()
        try:
            self.popen.wait(60)  # a stop brings all to the disk
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
        if self.popen.stdout is not None:
            self.popen.stdout.close()


@contextlib.contextmanager
def started(*command: str) -> Iterator[Process]:
    """Run a child process during a block."""
    process = Process(*command)
    try:
        yield process
    finally:
        process.stop()


@contextlib.contextmanager
def cluster(data: Path, brokers: int = 1, *options: str) -> Iterator[tuple[str, list[Process]]]:
    """Run a nameserver and brokers during a block; yields its address and the brokers."""
    with contextlib.ExitStack() as stack:
        nameserver = stack.enter_context(started("-m", "pocketmq.nameserver", "--port", "0"))
        yield (
            nameserver.address,
            [
                stack.enter_context(
                    started(
                        *("-m", "pocketmq.broker", "--name", f"broker-{i}", "--port", "0"),
                        *("--nameservers", nameserver.address, "--data", str(data / f"broker-{i}")),
                        *options,
                    )
                )
                for i in range(brokers)
            ],
        )


def run_json(
    script: str, *options: str, timeout_s: float = 180.0, working_copy: Path | None = None
) -> dict[str, Any]:
    """Run a script beside this file and return the JSON object it printed last.

    Args:
        script: Its name.
        options: Its arguments.
        timeout_s: After which it is killed.
        working_copy: Whose packages it imports, in place of the installed ones.
    """
    environment = dict(os.environ)
    if working_copy is not None:
        packages = [str(each.parent) for each in working_copy.glob("*/pocketmq")]
        environment["PYTHONPATH"] = os.pathsep.join(packages)
    done = subprocess.run(
        [sys.executable, str(HERE / script), *options],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env=environment,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{script} failed:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def processor_us(process: Process) -> float:
    """Processor time of its main thread in us, with a finer resolution than /proc/PID/stat."""
    return int(Path(f"/proc/{process.popen.pid}/schedstat").read_text().split()[0]) / 1000
