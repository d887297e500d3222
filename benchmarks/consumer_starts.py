"""How long a Java consumer takes from its start to its first message, many times.

    .venv/bin/python benchmarks/consumer_starts.py                      200 starts at each broker
    .venv/bin/python benchmarks/consumer_starts.py --starts 20 --logs DIR

Each start is a process and a group of its own: RocketMQ's push consumer of 5.3.3, on a topic that
holds messages. PocketMQ's broker and RocketMQ's run at once and have their turns in each round.
`--logs` keeps the client's log of each start that took over `SLOW_S`: it says what it waited for.

Why some take 20 s more is in the client. 1,000 ms after its start two of its threads come to the
same lock, with `tryLock`: the first periodic heartbeat, and the first rebalance, whose least
interval is 1,000 ms too. The rebalance has just given the subscription a new version, and wants to
tell the broker. If the other one holds the lock, it does not ("lock heartBeat, but failed"); the
broker refuses each pull with SUBSCRIPTION_NOT_LATEST (25) until the next rebalance, 20 s later,
adds the queue of the retry topic, and with that sends a heartbeat. The column "not told" counts
such starts.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from beside_rows import load
from figures import CONSOLE, Figures, save
from processes import HERE, started
from rich.table import Table

sys.path.insert(0, str(HERE.parent / "tests"))

from support.java import build
from support.real_rocketmq import real_rocketmq

SLOW_S = 10.0
"""Half an interval of the client's rebalance (20 s): a start above it has waited for one."""
TOPIC, MESSAGES = "started", 64
START_TIMEOUT_S = 120


@contextlib.contextmanager
def both(folder: Path) -> Iterator[dict[str, str]]:
    """The two brokers, each with messages; yields the addresses of their nameservers."""
    with contextlib.ExitStack() as stack:
        real = stack.enter_context(real_rocketmq(folder / "real", folder / "real.work"))
        nameserver = stack.enter_context(started("-m", "pocketmq.nameserver", "--port", "0"))
        stack.enter_context(
            started(
                *("-m", "pocketmq.broker", "--port", "0", "--nameservers", nameserver.address),
                *("--data", str(folder / "ours")),
            )
        )
        sides = {"PocketMQ": nameserver.address, "RocketMQ": real.namesrv_addr}
        for namesrv in sides.values():
            load("sync", namesrv, TOPIC, 128, MESSAGES, 1)
        yield sides


def compiled(folder: Path) -> Path:
    """`Load.java`, compiled once, else each start would; a file of arguments for `java`."""
    source = HERE / "java" / "Load.java"
    command = ["javac", "-d", str(folder), f"@{build(server=True)}", str(source)]
    subprocess.run(command, check=True, capture_output=True)
    path = build(server=True).read_text().split('"')[1]
    arguments = folder / "arguments"
    arguments.write_text(f'-cp "{folder}{os.pathsep}{path}"\n')
    return arguments


def start(arguments: Path, namesrv: str, home: Path) -> float | None:
    """Start a consumer in a process; the seconds from its `start()` to its first message.

    None when it gave up: on a machine that does much else, its first request may time out.
    """
    command = [
        *("java", "-Xmx256m", f"-Duser.home={home}", f"@{arguments}", "Load"),
        *("consume", namesrv, TOPIC, f"group-{time.time_ns()}", "1"),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        CONSOLE.print(f"a start failed: {done.stderr.strip()[:300]}")
        return None
    result: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return result["first_s"]


def is_not_told(home: Path) -> bool:
    """Whether the client's rebalance did not send its heartbeat."""
    logs = (path.read_text(errors="replace") for path in home.rglob("*.log"))
    return any("WithLockV2 lock heartBeat, but failed" in text for text in logs)


def show(figures: Figures, not_told: Counter[str]) -> None:
    """The distribution of each side, and how many starts waited for a rebalance."""
    table = Table("broker", "starts", "least", "median", "90 %", "99 %", "most", "slow", "not told")
    for side, values in figures.items():
        ordered = sorted(values)
        at = [ordered[min(len(ordered) - 1, int(len(ordered) * part))] for part in (0.9, 0.99)]
        seconds = (ordered[0], statistics.median(ordered), *at, ordered[-1])
        slow = sum(value > SLOW_S for value in values)
        counts = (str(slow), str(not_told[side]))
        table.add_row(side, str(len(values)), *(f"{each:.2f}" for each in seconds), *counts)
    CONSOLE.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--starts", type=int, default=200, help="at each broker")
    parser.add_argument("--logs", type=Path, help="where the logs of slow starts are kept")
    options = parser.parse_args()
    figures: Figures = {}
    not_told: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(dir=HERE) as name:
        folder = Path(name)
        arguments = compiled(folder / "classes")
        with both(folder) as sides:
            for number in range(options.starts):
                for side, namesrv in sides.items():
                    home = folder / f"home-{side}-{number}"
                    seconds = start(arguments, namesrv, home)
                    if seconds is None:
                        continue
                    figures.setdefault(side, []).append(seconds)
                    is_held = is_not_told(home)
                    not_told[side] += is_held
                    if seconds > SLOW_S or is_held:
                        held = ", not told" if is_held else ""
                        CONSOLE.print(f"start {number + 1} at {side} took {seconds:.1f} s{held}")
                        if options.logs is not None:
                            shutil.copytree(home, options.logs / home.name, dirs_exist_ok=True)
                    shutil.rmtree(home, ignore_errors=True)
                if (number + 1) % 20 == 0:
                    show(figures, not_told)
    show(figures, not_told)
    save(figures, "consumer_starts", None)


if __name__ == "__main__":
    main()
