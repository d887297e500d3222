"""Asks PocketMQ's broker and RocketMQ's own the same, as often as wanted.

    python scripts/parity.py --pairs 10000               seeds of today
    python scripts/parity.py --pairs 500 --seed mine     mine:0 to mine:499
    python scripts/parity.py --minutes 70                  what 70 minutes allow
    python scripts/parity.py --one mine:17               one sequence, with every difference
    python scripts/parity.py --nameserver                nameservers instead of brokers
    python scripts/parity.py --controller                controllers, each alone in its group
    python scripts/parity.py --nameserver --with supportActingMaster=true   both with an option
    python scripts/parity.py --release 5.5.1             another release, and our profile for it
    python scripts/parity.py --log                       also both logs, record by record
    python scripts/parity.py --straight                  no field is bent, as at night
    python scripts/parity.py --rough                     also what RocketMQ's decoders cannot read

Needs Java and Maven Central. Each kind of difference that tests/parity/ledger.toml does not explain
is shrunk to a short sequence and printed as a test to paste. Exit status 1 if there is one, or if
the logs of a pair differ.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import itertools
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from parity import controller, drawing, nameserver
from parity.brokers import (
    Sides,
    both_brokers,
    both_controllers,
    both_nameservers,
    profile_of,
)
from parity.campaign import Report, compare_many, shortest
from parity.compare import Difference
from parity.ledger import Ledger, read
from parity.logs import log_differences, records_of
from parity.pairs import Runner
from parity.rules import Pair
from parity.steps import Step
from pocketmq.runtime.clock import SystemClock

FRESH_AFTER = 1_000
"""Pairs after which both start anew, with empty stores.

RocketMQ writes all its topics whenever one is made, so each pair takes longer than the one before.
"""
SETTLE_S = 10.0
"""Seconds after the last pair in which both logs get what comes late: delayed copies, retries."""


class Role(NamedTuple):
    """Who is asked: both of them, the sequence of a seed, and the state after it."""

    start: Callable[[Path, Mapping[str, object], str], AbstractContextManager[Sides]]
    drawn: Callable[..., list[Step]]
    state: Callable[[], list[Step]]


ROLES = {
    "broker": Role(both_brokers, drawing.drawn, drawing.state),
    "nameserver": Role(both_nameservers, nameserver.drawn, nameserver.state),
    "controller": Role(both_controllers, controller.drawn, controller.state),
}


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What the command line says; pairs of options that say nothing together end the program."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--pairs", type=int, help="200 by default; with --minutes, no limit")
    parser.add_argument("--minutes", type=float, help="draw no more pairs after this time")
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    parser.add_argument("--seed", default=today, help="begins the name of each seed")
    parser.add_argument("--one", help="run one seed and print all its differences")
    parser.add_argument("--rough", action="store_true")
    asked = parser.add_mutually_exclusive_group()
    for name in ("nameserver", "controller"):
        asked.add_argument(
            f"--{name}", action="store_const", const=name, default="broker", dest="role",
            help=f"ask {name}s",
        )  # fmt: skip
    parser.add_argument("--with", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--release", default="", help="5.3.3 by default")
    parser.add_argument("--straight", action="store_true", help="no field is bent, as at night")
    parser.add_argument("--log", action="store_true", help="also compare both logs at the end")
    parser.add_argument("--shrink", type=int, default=8, help="how many kinds to shrink")
    options = parser.parse_args(arguments)
    if options.log and options.role != "broker":
        parser.error("--log: only brokers have a log to compare")
    if options.release and options.role == "controller":
        parser.error("--release: controllers are compared with 5.3.3 alone")
    if options.log and options.one:
        parser.error("--log: logs are compared after many pairs, not with --one")
    return options


def numbers_of(options: argparse.Namespace) -> Iterator[int]:
    """The numbers of the seeds to draw, as far as time allows."""
    if options.pairs is None and options.minutes is not None:
        return itertools.count()
    return iter(range(200 if options.pairs is None else options.pairs))


def main() -> int:
    """Run what the command line says; 1 if something differs that nothing explains."""
    options = options_of(None)
    if options.one:
        with started(options) as sides:
            return asyncio.run(one(sides, options))
    return many(started, options)


@contextmanager
def started(options: argparse.Namespace) -> Iterator[Sides]:
    """Both, with empty stores."""
    with (
        tempfile.TemporaryDirectory(prefix="parity-") as folder,
        ROLES[options.role].start(
            Path(folder),
            dict(each.split("=", 1) for each in options.settings),
            options.release,
        ) as sides,
    ):
        yield sides


def _sequence(options: argparse.Namespace, seed: str) -> list[Step]:
    return ROLES[options.role].drawn(seed, rough=options.rough, bends=not options.straight)


def _state(options: argparse.Namespace) -> list[Step]:
    return ROLES[options.role].state()


def _ledger(options: argparse.Namespace) -> Ledger:
    return read(of=options.role, profile=profile_of(options.release))


async def one(sides: Sides, options: argparse.Namespace) -> int:
    """Run one seed and print all its differences; 1 if there is one that nothing explains."""
    steps, state = _sequence(options, options.one), _state(options)
    outcome = await Runner(sides).run(steps, state)
    for number, step in enumerate(steps):
        print(number, step)
    left = _ledger(options).unexplained(outcome.found)
    for each in outcome.found:
        print("" if each in left else "(ledger) ", each, each.note)
    return bool(left)


def many(
    start: Callable[[argparse.Namespace], AbstractContextManager[Sides]],
    options: argparse.Namespace,
) -> int:
    """Run many seeds; 1 if an answer differs that nothing explains, or a log.

    Args:
        start: Starts both with empty stores, again after `FRESH_AFTER` pairs.
        options: Of the command line.
    """
    report, ledger, logs_differ = Report(), _ledger(options), 0
    began = SystemClock().monotonic()

    def sequences() -> Iterator[tuple[str, list[Step]]]:
        for number in numbers_of(options):
            now = SystemClock().monotonic()
            if options.minutes is not None and now - began > options.minutes * 60:
                return
            seed = f"{options.seed}:{number}"
            yield seed, _sequence(options, seed)

    left = sequences()
    while (first := next(left, None)) is not None:
        batch = itertools.chain([first], itertools.islice(left, FRESH_AFTER - 1))
        with start(options) as sides:
            part, in_logs = asyncio.run(_compared(sides, options, ledger, batch, report, began))
        report.add(part)
        logs_differ += in_logs
    print(f"{report.pairs} pairs of seeds from {options.seed}:0 on")
    print(f"{len(report.drawn_in)} codes; pairs that each was drawn in:")
    for code, count in sorted(report.drawn_in.items(), key=lambda each: -each[1]):
        met = Counter(answer for asked, answer in report.answered if asked == code)
        print(f"  {count:6} {code}: answers {sorted(met)}")
    differ = f"in {len(report.failed)} pairs, {len(report.once)} once"
    print(f"differences that nothing explains: {differ}")
    kinds = report.kinds()
    for kind, names in kinds.items():
        print(f"  {len(names):4} {' '.join(kind)}: {report.failed[names[0]][0]}; {names[:3]}")
    if kinds and options.shrink:
        with start(options) as sides:
            asyncio.run(_shrink(sides, options, ledger, kinds))
    return bool(report.failed or logs_differ)


async def _compared(
    sides: Sides,
    options: argparse.Namespace,
    ledger: Ledger,
    sequences: Iterator[tuple[str, list[Step]]],
    before: Report,
    began: float,
) -> tuple[Report, int]:
    """Run sequences, after those that `before` reports; also in how many logs something differs."""
    clock = SystemClock()
    began_ms = clock.time_ms()

    def told(report: Report) -> None:
        pairs = before.pairs + report.pairs
        if pairs % 100 == 0:
            rate = pairs / (clock.monotonic() - began)
            failed = len(before.failed) + len(report.failed)
            once = len(before.once) + len(report.once)
            print(f"{pairs} pairs, {failed} differ ({once} once), {rate:.1f}/s", flush=True)

    def differs(seed: str, found: list[Difference]) -> None:
        for each in found[:3]:
            print(f"  {seed}: {each} ({each.note})", flush=True)

    runner, state = Runner(sides), _state(options)
    report = await compare_many(runner, ledger, sequences, state, told=told, differs=differs)
    if not options.log:
        return report, 0
    await clock.sleep(SETTLE_S)
    return report, _compare_logs(sides, report, (began_ms, clock.time_ms()))


async def _shrink(
    sides: Sides,
    options: argparse.Namespace,
    ledger: Ledger,
    kinds: Mapping[tuple[str, str], list[str]],
) -> None:
    """Print the shortest sequence of each kind, as far as the command line wants."""
    runner, state = Runner(sides), _state(options)
    for kind, names in list(kinds.items())[: options.shrink]:
        print(f"seed {names[0]}, {' '.join(kind)}:")
        print(await shortest(runner, ledger, [*_sequence(options, names[0]), *state], kind))


def _compare_logs(sides: Sides, report: Report, times: tuple[int, int]) -> int:
    """Print where the records of pairs differ that were answered alike; how many do."""
    ours, theirs = records_of(sides.ours.store), records_of(sides.theirs.store)
    if not (ours and theirs):
        print("logs: no record of a client was found")
        return 1
    differ = 0
    for seed, suffix in report.suffixes.items():
        if seed in report.failed:
            continue
        found = log_differences(ours.get(suffix, []), theirs.get(suffix, []), Pair(suffix, *times))
        differ += bool(found)
        for each in found[:3] if differ <= 10 else []:
            print(f"  {seed}: {each}")
    print(f"logs: {sum(map(len, theirs.values()))} records of clients; differ in {differ} pairs")
    return differ


if __name__ == "__main__":
    sys.exit(main())
