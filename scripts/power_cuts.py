"""Cuts the power of a model disk at every point of a store's run, with every possible outcome.

    python scripts/power_cuts.py                      all subsets of up to 12 unsynced items
    python scripts/power_cuts.py --most 16 --every 8  a sample

An item is an unsynced 4 KiB page, file length or directory entry; each may have reached the medium
or not (tests/support/model_disk.py). After each cut the store is recovered and compared with what
SYNC_FLUSH and ASYNC_FLUSH guarantee (tests/support/power_cut.py). Exit status 1 if one is broken.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from pocketmq.broker.store import FlushDiskType
from support import power_cut, store_life

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None

_cuts: Sequence[power_cut.Cut] = ()
"""The recorded run; inherited by the forked processes of the pool."""


def run_moment(task: tuple[int, int, FlushDiskType]) -> tuple[int, int, list[str]]:
    """Cut at one point with many outcomes; returns their number, most losses, and problems."""
    index, most, mode = task
    cut = _cuts[index]
    tried = most_lost = 0
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="power-cut-") as folder:
        for chosen in cut.moment.choices(most, Random(index)):
            tried += 1
            try:
                lost = power_cut.judge_cut(cut, chosen, Path(folder) / "store", mode)
                most_lost = max(most_lost, lost)
            except Exception as exc:  # noqa: BLE001 - one bad cut must not hide the others
                ends = sorted(chosen)
                wrong.append(f"{mode.name} {cut.name}: {type(exc).__name__}: {exc}; kept {ends}")
    return tried, most_lost, wrong


def main(arguments: list[str] | None = None) -> int:
    """Run the cuts; 1 when a guarantee was broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mode", nargs="+", choices=[m.name for m in FlushDiskType])
    parser.add_argument("--most", type=int, default=1 << 12, help="maximum cuts at one point")
    parser.add_argument("--every", type=int, default=1, help="take only every N-th point")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    store_life.silence()
    global _cuts
    bad = 0
    for mode in [FlushDiskType[name] for name in options.mode] if options.mode else FlushDiskType:
        began = time.perf_counter()
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            _cuts = power_cut.record(Path(folder) / "store", mode)
        tasks = [(n, options.most, mode) for n in range(0, len(_cuts), options.every)]
        whole = sum(1 << len(_cuts[n].moment.loose) <= options.most for n, _, _ in tasks)
        tried = most_lost = 0
        with ProcessPoolExecutor(options.jobs, mp_context=get_context("fork")) as pool:
            for count, lost, wrong in pool.map(run_moment, tasks):
                tried += count
                most_lost = max(most_lost, lost)
                bad += len(wrong)
                for line in wrong[:3]:
                    print(line, flush=True)
        took = time.perf_counter() - began
        print(
            f"{mode.name}: {len(tasks)} moments ({whole} with every subset), {tried} cuts,"
            f" at most {most_lost} acknowledged messages lost, {took:.0f} s",
            flush=True,
        )
    print(f"{bad} bad")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
