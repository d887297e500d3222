"""Runs suites of others, libraries that RocketMQ's users have, against PocketMQ.

    python scripts/compat.py                                 all of them
    python scripts/compat.py --list                          what there is, and what is known of it
    python scripts/compat.py --only spring,java              some suites
    python scripts/compat.py --only java --version 4.9.4     another version; not written down
    python scripts/compat.py --only spring --broker 5.3.3    with RocketMQ's broker: whose fault?
    python scripts/compat.py --resume                        without what passed today already

Each suite is a program with rows, such as `orderly` or `transaction`. docs/compat_suites.toml says
which rows pass and why others fail. A suite that is as it says gets today's date there, and
`make docs` shows it in docs/compatibility.md. A suite that is not does not stop the others.

A row that fails and should not: mend it, or run with --broker 5.3.3. If it fails there too, write a
line under the suite's version in docs/compat_suites.toml:

    [spring."2.3.5".failed]
    request = "why it fails, and what users can do"

Of `mqadmin` the reasons come from tests/parity/mqadmin/ledger.toml.

Exit status: 0 if all is as the file says, 1 if a row failed that is not in it, a failure in it
passes, a row that passed is absent, or a suite could not run, 2 for wrong options. Needs Java,
Maven and Go.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from compat import ledger
from compat.ledger import Known, Ledger
from compat.suites import BROKERS, HERE, OURS, SUITES, Suite, Told, told_by
from pocketmq.runtime import logs
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import PocketMQError

LOGS = HERE / "target"

Run = Callable[[Suite, str, str], Told]
"""Runs a suite in a version against someone's broker."""


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What the command line says; names that do not exist end the program."""
    head, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        description=head, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help="suites, by comma", metavar="SUITE,...")
    parser.add_argument("--version", help="another version of that one suite")
    parser.add_argument(
        "--broker", choices=BROKERS, default=OURS, help="5.3.3 needs 300 MB of Maven Central"
    )
    parser.add_argument("--resume", action="store_true", help="leave out what passed today")
    parser.add_argument("--list", action="store_true", help="print the table and run nothing")
    parser.add_argument("--results", type=Path, default=ledger.FILE, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    names = [suite.name for suite in SUITES]
    options.suites = list(SUITES)
    if options.only:
        wanted = [each.strip() for each in options.only.split(",") if each.strip()]
        if unknown := [each for each in wanted if each not in names]:
            parser.error(f"no suite {', '.join(unknown)}; there are {', '.join(names)}")
        options.suites = [suite for suite in SUITES if suite.name in wanted]
    if options.version and len(options.suites) != 1:
        parser.error("--version is of one suite: add --only SUITE")
    return options


def today() -> str:
    """The date that a result gets."""
    now = datetime.datetime.fromtimestamp(SystemClock().time_ms() / 1000, tz=datetime.UTC)
    return now.date().isoformat()


def chosen(options: argparse.Namespace, known: Ledger) -> Iterator[tuple[Suite, str]]:
    """The suites and versions to run."""
    for suite in options.suites:
        for version in [options.version] if options.version else suite.versions:
            entry = known.get(suite.name, {}).get(version, Known())
            if not (options.resume and entry.date == today()):
                yield suite, version


def really_run(suite: Suite, version: str, broker: str) -> Told:
    """Run it with a cluster of its own."""
    logs.configure("warning")
    with tempfile.TemporaryDirectory(prefix="compat-") as folder:
        return asyncio.run(told_by(suite, version, Path(folder), brokers=broker))


def table(known: Ledger, suites: Sequence[Suite] = SUITES) -> str:
    """What is known, a line for each version and for each row that fails."""
    lines = []
    for suite in suites:
        for version in suite.versions:
            entry = known.get(suite.name, {}).get(version, Known())
            counts = f"{len(entry.passed):3} pass, {len(entry.failed)} fail"
            lines.append(f"{suite.name:12} {version:16} {counts}  {entry.date or 'never run'}")
            lines += [f"    {row}: {why}" for row, why in entry.failed.items()]
    return "\n".join(lines)


def run_all(options: argparse.Namespace, run: Run) -> int:
    """Run what was chosen; the exit status."""
    path: Path = options.results
    clock = SystemClock()
    status = 0
    pairs = list(chosen(options, ledger.read(path)))
    for number, (suite, version) in enumerate(pairs, 1):
        name = f"[{number}/{len(pairs)}] {suite.name} {version}"
        if missing := suite.missing(options.broker):
            print(f"{name}: NOT RUN: {missing}")
            status = 1
            continue
        print(f"{name} ...", flush=True)
        began = clock.monotonic()
        try:
            told = run(suite, version, options.broker)
        except (AssertionError, OSError, PocketMQError, subprocess.SubprocessError) as exc:
            told = Told({}, str(exc))
        known = ledger.read(path)
        entry = known.get(suite.name, {}).get(version, Known())
        if told.explained:
            entry = replace(entry, failed=told.explained)
        wrong = ledger.objections(suite.rows, told.rows, entry)
        seconds = clock.monotonic() - began
        passed = sum(said == ledger.OK for said in told.rows.values())
        verdict = "NOT AS EXPECTED" if wrong else "as expected"
        counts = f"{passed} rows pass, {len(entry.failed)} known to fail"
        print(f"{name}: {verdict}: {counts}, {seconds:.0f} s")
        if wrong:
            status = 1
            LOGS.mkdir(exist_ok=True)
            log = LOGS / f"{suite.name}-{version}.log"
            log.write_text(told.story, encoding="utf-8")
            for line in wrong if told.rows else [f"it did not run: {told.story[:600]}"]:
                print(f"    {line}")
            print(f"    what it printed: {log}")
        elif options.broker == OURS and not options.version:
            renewed = ledger.renewed(entry, told.rows, title=suite.title, date=today())
            known.setdefault(suite.name, {})[version] = renewed
            path.write_text(ledger.written(known), encoding="utf-8")
    return status


def main(arguments: Sequence[str] | None = None, run: Run = really_run) -> int:
    """Run the suites; the exit status."""
    options = options_of(arguments)
    status = 0 if options.list else run_all(options, run)
    print(table(ledger.read(options.results), options.suites))
    return status


if __name__ == "__main__":
    sys.exit(main())
