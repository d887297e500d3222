"""The main job, small: 5,000 flights through 2+2 processes, with a join and a kill."""

from __future__ import annotations

import io
import re
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from pocketmq.cluster.demo.allocation import QueueName, Rebalance
from pocketmq.cluster.demo.data import find_csv
from pocketmq.cluster.demo.report import DemoReport, ProcessFigures, render
from pocketmq.runtime.errors import MissingToolError

POCKETMQ = [sys.executable, "-m", "pocketmq.cluster.cli.main"]


@pytest.fixture(scope="module", autouse=True)
def _flights_are_installed() -> None:
    try:
        find_csv()
    except MissingToolError as exc:
        pytest.skip(str(exc))


@pytest.mark.cluster
@pytest.mark.java
@pytest.mark.timeout(800)
@pytest.mark.parametrize(
    "locks", [(), pytest.param(("--secure",), marks=pytest.mark.nightly)], ids=["open", "secure"]
)
def test_the_demo_loses_nothing_and_says_what_happened(
    tmp_path: Path, locks: tuple[str, ...]
) -> None:
    data = tmp_path / "kept"
    done = subprocess.run(
        [*POCKETMQ, "demo", "--flights", "5000", "--seed", "7", "--data", str(data), *locks],
        capture_output=True,
        text=True,
        timeout=780,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    out = done.stdout
    assert len(re.findall(r"listens on 127\.0\.0\.1:\d+ \(pid \d+\)", out)) == 4
    assert re.search(r"rebalance 1: 3 consumers started; settled in \d+ ms; 8 queues moved", out)
    assert re.search(r"rebalance 2: consumer-4 joined; settled in \d+ ms", out)
    assert re.search(r"rebalance 3: consumer-[123] was killed with SIGKILL; settled in \d+ ms", out)
    assert re.search(r"sent .* 5,000 ", out)
    assert re.search(r"stored .* 5,000 ", out)
    assert re.search(r"consumed, distinct .* 5,000 ", out)
    assert re.search(r"lost .* 0 ", out)
    assert re.search(r"\n│ UA +│ (-?\d+\.\d+) +│ \1 +│ \1 +│ yes", out)
    assert re.search(r"\nSpark read 5,000 flights from the brokers in \d+\.\d s", out)
    assert "nothing was lost, and the figures are those of the CSV" in out
    assert (data / "broker-a" / "commitlog" / "00000000000000000000").exists()
    assert len(list((data / "consumed").glob("consumer-*.csv"))) == 4
    verified = subprocess.run(
        [*POCKETMQ, "store", "verify", str(data)], capture_output=True, text=True, check=False
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "broker-b" in verified.stdout


@pytest.mark.cluster
@pytest.mark.timeout(800)
@pytest.mark.parametrize(
    "locks", [("--secure",), pytest.param((), marks=pytest.mark.nightly)], ids=["secure", "open"]
)
def test_the_demo_loses_nothing_when_the_master_of_three_replicas_is_killed(
    locks: tuple[str, ...],
) -> None:
    # behaviour 45: B-152
    command = [*POCKETMQ, "demo", "--replicas", "3", "--kill-master", "--flights", "3000", *locks]
    done = subprocess.run(command, capture_output=True, text=True, timeout=780, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert re.search(
        r"(broker-a\S*) was master and was killed with SIGKILL; \d+ ms later broker-a\S* was"
        r" elected, in epoch 2; \1 came back and is in sync again",
        done.stdout,
    )
    assert re.search(r"the longest time without an acknowledgement was \d+ ms", done.stdout)
    assert re.search(r"lost .* 0 ", done.stdout)
    assert "nothing was lost, and the figures are those of the CSV" in done.stdout


@pytest.mark.cluster
def test_a_master_is_not_killed_where_too_few_are_left() -> None:
    command = [*POCKETMQ, "demo", "--replicas", "2", "--kill-master"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 1
    assert "add --replicas 3" in done.stderr


@pytest.mark.cluster
def test_the_demo_starts_with_new_stores_only(tmp_path: Path) -> None:
    (tmp_path / "something").touch()
    done = subprocess.run(
        [*POCKETMQ, "demo", "--flights", "10", "--data", str(tmp_path)],
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == (
        f"pocketmq: {tmp_path} is not empty, but the demo starts with new stores; choose an "
        "empty folder\n"
    )


@pytest.mark.cluster
def test_an_interrupted_demo_leaves_no_process_and_is_no_success() -> None:
    command = [*POCKETMQ, "demo", "--no-spark", "--flights", "5000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:
        assert p.stdout is not None
        next(line for line in p.stdout if "consumed" in line)
        children = psutil.Process(p.pid).children(recursive=True)
        assert len(children) == 10  # one of them is the fork server
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=100)
        assert p.returncode == 130
        assert not any(child.is_running() for child in children)


def report(**changes: object) -> DemoReport:
    means = {"UA": Fraction(7, 3), "OO": None}
    facts: dict[str, object] = {
        "sent": 3, "stored": 3, "consumed": 3, "redelivered": 1, "lost": 0, "unread": 0,
        "means": means, "csv_means": dict(means),
    }  # fmt: skip
    return DemoReport(**(facts | changes))  # type: ignore[arg-type]


def text_of(each: DemoReport) -> str:
    console = Console(width=120, file=io.StringIO())
    render(each, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"lost": 1}, "1 flights were lost"),
        ({"unread": 2}, "2 stored messages were not consumed"),
        ({"means": {"UA": Fraction(7, 3)}}, "the mean delays differ"),
        ({"means": {"UA": Fraction(7, 3) + Fraction(1, 10**30), "OO": None}}, "differ"),
    ],
)
def test_a_run_is_good_only_if_nothing_was_lost_and_every_mean_is_exact(
    changes: dict[str, object], complaint: str
) -> None:
    assert report().is_good
    bad = report(**changes)
    assert not bad.is_good
    assert complaint in text_of(bad)


def test_the_report_shows_owners_reasons_and_all_digits() -> None:
    queue = QueueName("broker-a", 3)
    text = text_of(
        report(
            consumers=["consumer-1", "consumer-2"],
            rebalances=[
                Rebalance("2 consumers started", 100, 350, {queue: "consumer-2"}, 1),
                Rebalance("consumer-2 was killed", 900, None, {queue: "consumer-1"}, 1),
            ],
            processes=[ProcessFigures("broker-a", 3, 1.5, 0.2, 20 * 2**20, 30 * 2**20)],
            send_s=1.0,
        )
    )
    assert "rebalance 1: 2 consumers started; settled in 250 ms; 1 queue moved" in text
    assert "consumer-2 was killed; not settled before the next event" in text
    assert re.search(r"consumer-1 +│ - +│ broker-a/3", text)
    assert "2.3333333333333335" in text
    assert re.search(r"broker-a +│ +3 │ +2 │ +0.2 │ +20 │ +30", text)
