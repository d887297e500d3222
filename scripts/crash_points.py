"""Tests every crash point of a short-lived store: SIGKILL, EIO, ENOSPC at each call of its disk.

    python scripts/crash_points.py                          all of them, in both flush modes
    python scripts/crash_points.py --kind kill --sample 60  60 points, evenly spread
    python scripts/crash_points.py --kind enospc+           full from the N-th call on

Each point is a separate process. The store that it leaves is opened, compared with what had been
acknowledged and saved, and verified (tests/support/store_life.py). Exit status 1 on any difference.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from pocketmq.broker.store import FlushDiskType
from pocketmq.broker.store.disk.fault_disk import Fault
from support import store_life

KINDS = ("kill", "eio", "enospc", "eio+", "enospc+")


def run_point(point: tuple[str, int, FlushDiskType]) -> str:
    """Run to the N-th call and check the store; returns an empty string or the problem."""
    kind, number, mode = point
    fault = Fault(kind.rstrip("+"), number, kind.endswith("+"))
    with tempfile.TemporaryDirectory(dir=_memory(), prefix="crash-point-") as folder:
        root = Path(folder) / "store"
        status, lines = store_life.in_child(root, fault, mode)
        where = f"{mode.name} {kind}@{number}"
        if status not in ((-9,) if kind == "kill" else (0, 3)):
            return f"{where}: ended with status {status}"
        try:
            store_life.judge(root, lines, mode)
        except Exception as exc:  # noqa: BLE001 - one bad point must not hide the others
            return f"{where}: {type(exc).__name__}: {exc}"
    return ""


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def main(arguments: list[str] | None = None) -> int:
    """Run the points; 1 when one has a problem."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--mode", nargs="+", choices=[m.name for m in FlushDiskType])
    parser.add_argument("--sample", type=int, help="points of each kind and mode; all without it")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    store_life.silence()
    began = time.perf_counter()
    points: list[tuple[str, int, FlushDiskType]] = []
    for mode in [FlushDiskType[name] for name in options.mode] if options.mode else FlushDiskType:
        with tempfile.TemporaryDirectory(dir=_memory()) as folder:
            calls = store_life.count_calls(Path(folder) / "store", mode)
        step = max(1.0, calls / options.sample) if options.sample else 1.0
        numbers = sorted({1 + int(n * step) for n in range(calls) if int(n * step) < calls})
        points += [(kind, number, mode) for kind in options.kind for number in numbers]
        print(f"{mode.name}: {calls} calls of the disk, {len(numbers)} of them for each kind")
    bad = 0
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("fork")) as pool:
        for wrong in pool.map(run_point, points, chunksize=4):
            if wrong:
                bad += 1
                print(wrong, flush=True)
    took = time.perf_counter() - began
    print(f"{len(points)} crash points, {bad} bad, {took:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
