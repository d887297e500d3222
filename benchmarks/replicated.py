"""What replication costs a master's throughput, beside a pair of RocketMQ 5.3.3 in the same run.

    .venv/bin/python benchmarks/replicated.py        five rounds: a quarter of an hour
    .venv/bin/python benchmarks/replicated.py --rounds 1 --messages 3000 --warm-up 3000

Each of the two has three setups, all of which run at once and are loaded in turn by RocketMQ's own
client: a single broker; a master with a slave that nobody waits for (ASYNC_MASTER); and one that
answers when its slave has the message (SYNC_MASTER, `inSyncReplicas` 2). A round's figures stand
beside each other because what disturbs one disturbs all, so a setup's ratio is that of its round.
Before the next one is loaded its slave must have everything. What is not answered with SEND_OK
counts as refused. RocketMQ comes from Maven Central and runs with the flags of its `runbroker.sh`,
each broker with 1 GiB of heap. Client, master and slave share the machine's processors.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from beside_rocketmq import Tuned
from beside_rows import Side, sends
from figures import CONSOLE, Figures, judged, save
from processes import HERE, started
from rich.progress import track
from rich.table import Table

sys.path.insert(0, str(HERE.parent / "tests"))

from support.raw_remoting import ask
from support.real_rocketmq import free_port

HA_STATUS = 907
FOLLOW_LIMIT_S = 120.0
HEAP_MIB = 1024
SINGLE = "single"
GOALS = {"async": 0.7, "sync": 0.4}
"""Of a single broker's throughput."""

MASTERS = {SINGLE: "ASYNC_MASTER", "async": "ASYNC_MASTER", "sync": "SYNC_MASTER"}
LOADS = {"sync sends, 64 threads": ("sync", 64), "async sends, 256 in flight": ("async", 256)}
OURS, REAL = "PocketMQ", "RocketMQ"


class Small(Tuned):
    """RocketMQ with less heap: five brokers of it run at once."""

    heap = HEAP_MIB


def main() -> int:
    """Print medians and ratios; 1 when one of ours misses its goal."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=40_000, help="of each load, 1 KiB each")
    parser.add_argument("--warm-up", type=int, default=60_000, help="messages before round 1")
    parser.add_argument("--ours-only", action="store_true", help="without RocketMQ beside")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=HERE) as folder, contextlib.ExitStack() as stack:
        sides: dict[str, Side] = {}
        for setup in MASTERS:
            sides[f"{setup} | {OURS}"] = stack.enter_context(ours(Path(folder), setup))
            if not options.ours_only:
                sides[f"{setup} | {REAL}"] = stack.enter_context(real(Path(folder), setup))
        for name, side in track(sides.items(), "warm-up", console=CONSOLE):
            for how, parallel in LOADS.values():
                sends(how, 1024, options.warm_up // 2, parallel)(side)
            until_followed(name, side)
        figures = measured(sides, options.rounds, options.messages)
    show(figures)
    save(figures, "replicated", None)
    return 1 if missed(figures) else 0


def measured(sides: dict[str, Side], rounds: int, messages: int) -> Figures:
    """Messages a second of all setups, round by round; who comes first changes."""
    figures: Figures = {}
    for number in track(range(rounds), "rounds", console=CONSOLE):
        for row, (how, parallel) in LOADS.items():
            order = list(sides.items())
            for name, side in order if number % 2 == 0 else order[::-1]:
                told = sends(how, 1024, messages, parallel)(side)
                if told["refused"]:
                    CONSOLE.print(f"{row}, {name}: {told['refused']:,.0f} not answered SEND_OK")
                figures.setdefault(f"{row} | {name}", []).append(told["per second"])
                late_s = until_followed(name, side)
                figures.setdefault(f"{row} | {name} | s behind", []).append(late_s)
    return figures


# -- the two ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def ours(folder: Path, setup: str) -> Iterator[Side]:
    """A master of ours, with a slave unless it is single."""
    port = free_port((-2, 0, 1))
    with contextlib.ExitStack() as stack:
        nameserver = stack.enter_context(started("-m", "pocketmq.nameserver", "--port", "0"))
        common = ("-m", "pocketmq.broker", "--name", "broker-a")
        common += ("--nameservers", nameserver.address)
        master = stack.enter_context(
            started(
                *(*common, "--port", str(port), "--data", str(folder / f"ours-{setup}")),
                *("--broker-role", MASTERS[setup], "--in-sync-replicas", _replicas(setup)),
            )
        )
        if setup != SINGLE:
            stack.enter_context(
                started(
                    *(*common, "--port", str(free_port((-2, 0, 1)))),
                    *("--data", str(folder / f"ours-{setup}-slave")),
                    *("--broker-role", "SLAVE", "--broker-id", "1"),
                )
            )
        yield Side(OURS, nameserver.address, master.popen.pid, master.address)


@contextlib.contextmanager
def real(folder: Path, setup: str) -> Iterator[Side]:
    """The same of RocketMQ."""
    master = Small(
        folder / f"real-{setup}",
        folder / f"real-{setup}.work",
        settings={"brokerRole": MASTERS[setup], "inSyncReplicas": _replicas(setup)},
    )
    with contextlib.ExitStack() as stack:
        stack.callback(master.stop)
        master.start_namesrv()
        master.start_broker()
        if setup != SINGLE:
            namesrv_port = int(master.namesrv_addr.rpartition(":")[2])
            slave = Small(
                folder / f"real-{setup}-slave",
                folder / f"real-{setup}-slave.work",
                settings={"brokerRole": "SLAVE", "brokerId": 1},
                ports=(namesrv_port, free_port((-2, 0, 1))),
            )
            stack.callback(slave.stop)
            slave.start_broker()
        assert master.broker is not None
        yield Side(REAL, master.namesrv_addr, master.broker.process.pid, master.broker_addr)


def _replicas(setup: str) -> str:
    return "2" if setup == "sync" else "1"


def until_followed(name: str, side: Side) -> float:
    """Wait until the slave has everything; how many seconds that took.

    Raises:
        TimeoutError: it does not follow.
    """
    if name.startswith(SINGLE):
        return 0.0
    began = time.perf_counter()
    while time.perf_counter() - began < FOLLOW_LIMIT_S:
        status = json.loads(ask(side.address, HA_STATUS, {}).body)
        slaves = status["haConnectionInfo"]
        if slaves and slaves[0]["slaveAckOffset"] >= status["masterCommitLogMaxOffset"]:
            return time.perf_counter() - began
        time.sleep(0.05)
    raise TimeoutError(f"{name}: its slave does not follow")


# -- the result ------------------------------------------------------------------------------------


def ratios(figures: Figures, row: str, setup: str, who: str) -> list[float]:
    """To the single broker of the same round."""
    alone = figures.get(f"{row} | {SINGLE} | {who}", [])
    some = figures.get(f"{row} | {setup} | {who}", [])
    return [one / single for one, single in zip(some, alone, strict=True)]


def missed(figures: Figures) -> list[str]:
    """Rows of ours whose median ratio is below its goal."""
    return [
        f"{row}, {setup}"
        for row in LOADS
        for setup, goal in GOALS.items()
        if statistics.median(ratios(figures, row, setup, OURS)) < goal
    ]


def show(figures: Figures) -> None:
    """Medians with their range; ratios to the single broker of the same round."""
    table = Table("row", "setup", "of", "msg/s", "of a single broker", "s behind", "goal")
    for row in LOADS:
        for setup in MASTERS:
            for who in (OURS, REAL):
                values = figures.get(f"{row} | {setup} | {who}")
                if values is None:
                    continue
                share, goal = ratios(figures, row, setup, who), GOALS.get(setup)
                median = statistics.median(share)
                shown = judged(median, reached=median >= goal) if goal else ""
                table.add_row(
                    *(row, setup, who),
                    f"{statistics.median(values):,.0f} ({min(values):,.0f}..{max(values):,.0f})",
                    f"{shown} ({min(share):.2f}..{max(share):.2f})" if goal else "",
                    f"{max(figures[f'{row} | {setup} | {who} | s behind']):.1f}" if goal else "",
                    f"{goal}" if goal and who == OURS else "",
                )
    CONSOLE.print(table)
    for each in missed(figures):
        CONSOLE.print(f"[red]misses its goal: {each}")


if __name__ == "__main__":
    sys.exit(main())
