"""Tests a store with SIGKILL and EIO at each fdatasync, fsync, rename and fallocate, by strace.

    python scripts/crash_syscalls.py               every one, in both flush modes
    python scripts/crash_syscalls.py --sample 3    three of each call

`crash_points.py` stops at calls of the `Disk` seam, this one at system calls. Each point
is one run of a store (tests/support/store_life.py) in a process under strace, which traces only
the store's files; the store that it leaves is opened, compared and verified.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from pocketmq.broker.store import FlushDiskType
from support import store_life

LIFE = [sys.executable, store_life.__file__]
CALLS = ("fdatasync", "fsync", "rename", "fallocate")
FAULTS = {
    "fdatasync": ("signal=KILL", "error=EIO"),
    "fsync": ("signal=KILL", "error=EIO"),
    "rename": ("signal=KILL", "error=EIO"),
    "fallocate": ("signal=KILL", "error=ENOSPC"),
}


class Point(NamedTuple):
    """A fault, and the call at which it happens."""

    mode: FlushDiskType
    call: str
    fault: str
    number: int
    paths: tuple[str, ...]
    """Relative paths that a run touches; strace takes exact paths only."""


def trace(root: Path, paths: tuple[str, ...], *expressions: str, output: str) -> list[str]:
    """The command for one run at `root` under strace."""
    looked_at = [word for path in paths for word in ("-P", str(root / path))]
    events = [word for expression in expressions for word in ("-e", expression)]
    return ["strace", "-f", "-qq", "-o", output, *looked_at, *events, *LIFE]


def touched_paths(root: Path, mode: FlushDiskType) -> tuple[str, ...]:
    """Every path below `root` that a run passes to the system."""
    log = root.with_name("paths.strace")
    command = ["strace", "-f", "-qq", "-e", "trace=file,desc", "-y", "-o", str(log), *LIFE]
    subprocess.run([*command, str(root), mode.name], check=True, capture_output=True)
    found = set(re.findall(re.escape(str(root)) + r'([^">,]*)', log.read_text()))
    return tuple(sorted(path.lstrip("/") or "." for path in found))


def count_calls(folder: Path, mode: FlushDiskType, paths: tuple[str, ...]) -> dict[str, int]:
    """Number of each of the calls in a complete run."""
    root, log = folder / "count", folder / "count.strace"
    command = trace(root, paths, f"trace={','.join(CALLS)}", output=str(log))
    subprocess.run([*command, str(root), mode.name], check=True, capture_output=True)
    text = log.read_text()
    return {call: len(re.findall(rf"\b{call}\(", text)) for call in CALLS}


def run_point(point: Point) -> str:
    """Run to the call and check the store; returns an empty string or the problem."""
    where = f"{point.mode.name} {point.fault} at {point.call} {point.number}"
    with tempfile.TemporaryDirectory(prefix="crash-syscall-") as folder:
        root = Path(folder) / "store"
        inject = f"inject={point.call}:{point.fault}:when={point.number}"
        command = trace(
            root, point.paths, f"trace={point.call}", inject, output=os.path.join(folder, "log")
        )
        ran = subprocess.run(
            [*command, str(root), point.mode.name], capture_output=True, text=True, timeout=60
        )
        if "KILL" in point.fault and ran.returncode not in (-9, 137):
            return f"{where}: it was not killed (status {ran.returncode})"
        if "KILL" not in point.fault and ran.returncode not in (0, 3):
            return f"{where}: ended with status {ran.returncode}: {ran.stderr[-300:]}"
        try:
            store_life.judge(root, ran.stdout.splitlines(), point.mode)
        except Exception as exc:  # noqa: BLE001 - one bad point must not hide the others
            return f"{where}: {type(exc).__name__}: {exc}"
    return ""


def main(arguments: list[str] | None = None) -> int:
    """Run the points; 1 when one has a problem."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mode", nargs="+", choices=[m.name for m in FlushDiskType])
    parser.add_argument("--sample", type=int, help="points of each call; all without it")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    store_life.silence()
    began = time.perf_counter()
    points: list[Point] = []
    for mode in [FlushDiskType[name] for name in options.mode] if options.mode else FlushDiskType:
        with tempfile.TemporaryDirectory(prefix="crash-syscall-") as folder:
            paths = touched_paths(Path(folder) / "paths", mode)
            counts = count_calls(Path(folder), mode, paths)
        print(f"{mode.name}: {counts}", flush=True)
        for call, count in counts.items():
            step = max(1.0, count / options.sample) if options.sample else 1.0
            numbers = sorted({1 + int(n * step) for n in range(count) if int(n * step) < count})
            points += [
                Point(mode, call, fault, number, paths)
                for fault in FAULTS[call]
                for number in numbers
            ]
    bad = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for wrong in pool.map(run_point, points):
            if wrong:
                bad += 1
                print(wrong, flush=True)
    print(f"{len(points)} points, {bad} bad, {time.perf_counter() - began:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
