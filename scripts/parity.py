"""Asks PocketMQ's broker and RocketMQ's own the same, as often as wanted.

    python scripts/parity.py --pairs 10000               seeds of today
    python scripts/parity.py --pairs 500 --seed mine     mine:0 to mine:499
    python scripts/parity.py --one mine:17               one sequence, with every difference
    python scripts/parity.py --straight                  no field is bent, as at night
    python scripts/parity.py --rough                     also what RocketMQ's decoders cannot read

Needs Java and Maven Central. Each kind of difference that tests/parity/ledger.toml does not explain
is shrunk to a short sequence and printed as a test to paste. Exit status 1 if there is one.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from parity.brokers import Sides, both_brokers
from parity.campaign import Report, compare_many, shortest
from parity.drawing import drawn, state
from parity.ledger import read
from parity.pairs import Runner
from pocketmq.runtime.clock import SystemClock


def main() -> int:
    """Run what the command line says; 1 if something differs that nothing explains."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--pairs", type=int, default=200)
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    parser.add_argument("--seed", default=today, help="begins the name of each seed")
    parser.add_argument("--one", help="run one seed and print all its differences")
    parser.add_argument("--rough", action="store_true")
    parser.add_argument("--straight", action="store_true", help="no field is bent, as at night")
    parser.add_argument("--shrink", type=int, default=8, help="how many kinds to shrink")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="parity-") as folder,
        both_brokers(Path(folder)) as sides,
    ):
        run = _one if options.one else _many
        return asyncio.run(run(sides, options))


async def _one(sides: Sides, options: argparse.Namespace) -> int:
    steps = drawn(options.one, rough=options.rough, bends=not options.straight)
    outcome = await Runner(sides).run(steps, state())
    for number, step in enumerate(steps):
        print(number, step)
    left = read().unexplained(outcome.found)
    for each in outcome.found:
        print("" if each in left else "(ledger) ", each, each.note)
    return bool(left)


async def _many(sides: Sides, options: argparse.Namespace) -> int:
    runner, ledger = Runner(sides), read()
    clock = SystemClock()
    began = clock.monotonic()

    def told(report: Report) -> None:
        if report.pairs % 100 == 0:
            rate = report.pairs / (clock.monotonic() - began)
            print(f"{report.pairs} pairs, {len(report.failed)} differ, {rate:.1f}/s", flush=True)

    seeds = (f"{options.seed}:{number}" for number in range(options.pairs))
    bends = not options.straight
    report = await compare_many(runner, ledger, seeds, rough=options.rough, bends=bends, told=told)
    print(f"{report.pairs} pairs of seeds {options.seed}:0 to :{options.pairs - 1}")
    print(f"{len(report.drawn_in)} codes; pairs that each was drawn in:")
    for code, count in sorted(report.drawn_in.items(), key=lambda each: -each[1]):
        met = Counter(answer for asked, answer in report.answered if asked == code)
        print(f"  {count:6} {code}: answers {sorted(met)}")
    print(f"differences that nothing explains: in {len(report.failed)} pairs")
    for kind, names in list(report.kinds().items()):
        print(f"  {len(names):4} {' '.join(kind)}: {report.failed[names[0]][0]}; {names[:3]}")
    for kind, names in list(report.kinds().items())[: options.shrink]:
        print(f"seed {names[0]}, {' '.join(kind)}:")
        steps = drawn(names[0], rough=options.rough, bends=bends)
        print(await shortest(runner, ledger, steps, kind))
    return bool(report.failed)


if __name__ == "__main__":
    sys.exit(main())
