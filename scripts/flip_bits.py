"""Flips single bits anywhere in a store, and checks what it then serves.

    python scripts/flip_bits.py                 10,000 flips
    python scripts/flip_bits.py --flips 500 --seed 7

Each flip is in a new copy of one store, closed cleanly or killed, in any of its files: log, queues,
index, checkpoint, configuration. A wrong body may never be served; at most the record with the bit
may be lost, and its log offset must be reported. Exit status 1 otherwise.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support import damage, store_life

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
CHUNK = 100

_template: damage.Template
"""Inherited by the forked processes of the pool."""


def flip_once(chance: Random, folder: Path) -> tuple[str, int, str]:
    """(kind of file, messages lost, what is wrong) of one flip."""
    killed = chance.random() < 0.5
    root = _template.copy(folder / "store", killed=killed)
    files = _template.files()
    # Half of the flips are in the log, the others in any file.
    logs = [name for name in files if name.startswith("commitlog")]
    name = chance.choice(logs if chance.random() < 0.5 else files)
    content = bytearray((root / name).read_bytes())
    used = len(content.rstrip(b"\0")) + 64
    at = chance.randrange(min(used, len(content)))
    bit = chance.randrange(8)
    content[at] ^= 1 << bit
    (root / name).write_bytes(content)
    kind = name.split("/")[0]
    where = f"{name} byte {at} bit {bit}, {'killed' if killed else 'clean'}"
    try:
        served = damage.serve(root)
        lost = damage.lost_places(_template, served)
    except Exception as exc:  # noqa: BLE001 - any exception is a finding
        return kind, 0, f"{where}: {type(exc).__name__}: {exc}"
    if served.error is not None:
        return kind, 0, f"{where}: does not open: {served.error}"
    if kind != "commitlog":
        return kind, len(lost), f"{where}: lost {lost}" if lost else ""
    offset = int(Path(name).name) + at
    struck = [
        place
        for place, (start, size) in _template.records.items()
        if start <= offset < start + size
    ]
    if any(place not in struck for place in lost):
        return kind, len(lost), f"{where}: lost {lost}, the bit is in {struck}"
    if lost:
        start = _template.records[lost[0]][0]
        if not served.tells(lost[0], start):
            return kind, 1, f"{where}: {lost[0]} at log offset {start} is lost and nobody says so"
    return kind, len(lost), ""


def flip_many(seed: int) -> list[tuple[str, int, str]]:
    """Make a hundred flips."""
    chance = Random(seed)
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="flip-bits-") as folder:
        return [flip_once(chance, Path(folder)) for _ in range(CHUNK)]


def main(arguments: list[str] | None = None) -> int:
    """Make the flips; 1 when a check failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--flips", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=2013)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    store_life.silence("debug")  # each line is captured and searched
    began = time.perf_counter()
    global _template
    flips: Counter[str] = Counter()
    lost: Counter[int] = Counter()
    bad = 0
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="flip-bits-") as folder:
        _template = damage.make_template(Path(folder) / "template")
        seeds = range(options.seed, options.seed + -(-options.flips // CHUNK))
        with ProcessPoolExecutor(options.jobs, mp_context=get_context("fork")) as pool:
            for results in pool.map(flip_many, seeds):
                for kind, count, wrong in results:
                    flips[kind] += 1
                    lost[count] += 1
                    if wrong:
                        bad += 1
                        print(wrong, flush=True)
    counts = ", ".join(f"{kind} {count}" for kind, count in sorted(flips.items()))
    per_flip = ", ".join(f"{count}: {times}" for count, times in sorted(lost.items()))
    print(f"{flips.total()} flips ({counts}); messages lost per flip {{{per_flip}}};")
    print(f"{bad} bad, {time.perf_counter() - began:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
