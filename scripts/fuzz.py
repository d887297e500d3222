"""Fuzzes the decoders with mutated inputs, guided by the code that they reach (fault 29).

Frames, headers of each encoding, bodies, stored records, batches, SQL92 filters and other texts: a
decoder may only raise the errors that its docstring names, and must be quick.

examples:
  python scripts/fuzz.py                       100,000 inputs for each decoder
  python scripts/fuzz.py sql --runs 1000000    one of them, longer
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from random import Random

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path.insert(0, str(TESTS))

from support.fuzzing import TARGETS, fuzz, seeds_of  # noqa: E402 - tests first


def main() -> int:
    """Fuzz; 1 when a fault was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*", help=f"some of {', '.join(TARGETS)}")
    parser.add_argument("--runs", type=int, default=100_000, help="inputs for each")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    faults = 0
    for name in options.targets or TARGETS:
        began = time.process_time()
        seeds = seeds_of(name, TESTS / "golden")
        found = fuzz(TARGETS[name], seeds, runs=options.runs, chance=Random(options.seed))
        took = time.process_time() - began
        print(
            f"{name:7} {found.runs:9,} inputs, {found.steps:6,} steps of code reached,"
            f" {found.kept:5,} inputs kept, slowest {1000 * found.slowest_s:.1f} ms,"
            f" {len(found.faults)} faults, {took:.0f} s"
        )
        for data, reason in found.faults[:5]:
            print(f"  {reason}\n    {data!r}")
        faults += len(found.faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
