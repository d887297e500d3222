"""The teaching scripts run, show what they promise, and stay short."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


def run(name: str) -> str:
    done = subprocess.run(
        [sys.executable, SCRIPTS / name], capture_output=True, text=True, timeout=200, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.cluster
def test_quickstart_sends_ten_messages_and_gets_them_back() -> None:
    lines = run("quickstart.py").splitlines()
    assert sum(line.startswith("sent ") for line in lines) == 10
    received = {line for line in lines if line.startswith("received ")}
    assert received == {f"received 'hello {number}' key k{number}" for number in range(10)}


@pytest.mark.cluster
def test_watch_rebalance_shows_the_shares_after_each_change() -> None:
    shares = [line.split(None, 2)[2] for line in run("watch_rebalance.py").splitlines()]
    assert shares[0] == "ann: [0, 1, 2, 3, 4, 5, 6, 7]"
    assert shares[2] == "ann: [0, 1, 2]   bob: [3, 4, 5]   cat: [6, 7]"
    assert shares[3] == "bob: [0, 1, 2, 3]   cat: [4, 5, 6, 7]"


@pytest.mark.cluster
def test_broker_expiry_shows_the_route_go_and_come_back() -> None:
    routes = [line.split(" is on ")[1] for line in run("broker_expiry.py").splitlines()]
    both = "broker-a, broker-b"
    assert routes == [both, both, both, "broker-b", both]


@pytest.mark.parametrize("name", ["quickstart.py", "watch_rebalance.py", "broker_expiry.py"])
def test_a_teaching_script_has_under_80_lines_and_uses_the_public_api_only(name: str) -> None:
    lines = (SCRIPTS / name).read_text().splitlines()
    assert len(lines) < 80
    imported = {line.split()[1] for line in lines if line.startswith("from pocketmq")}
    assert imported <= {"pocketmq.client", "pocketmq.cluster", "pocketmq.runtime"}


def test_watch_failover_plays_two_elections_step_by_step() -> None:
    lines = run("watch_failover.py").splitlines()
    shown = [line.partition("broker-a: ")[2] for line in lines if "broker-a: master" in line]
    assert shown == [
        "master 1, epoch 1, in sync [1], set 1",
        "master 1, epoch 1, in sync [1, 2, 3], set 2",
        "master 3, epoch 2, in sync [3], set 3",
        "master 3, epoch 2, in sync [2, 3], set 4",
        "master 2, epoch 3, in sync [2], set 5",
        "master 2, epoch 3, in sync [1, 2], set 6",
    ]
    assert any("is leader in term 2" in line for line in lines)
