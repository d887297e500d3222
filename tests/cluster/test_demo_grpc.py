"""`pocketmq demo --grpc`: RocketMQ's Python SDK, a proxy, and three kills."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pocketmq.cluster.cli.main import main
from pocketmq.cluster.demo import grpc_director
from pocketmq.cluster.demo.data import find_csv
from pocketmq.cluster.demo.grpc_director import SDK_PYTHON, sdk_python
from pocketmq.runtime.errors import MissingToolError
from support import official_sdk

POCKETMQ = [sys.executable, "-m", "pocketmq.cluster.cli.main"]


def run_demo(*words: str) -> str:
    """What it prints; nothing may be lost."""
    try:
        find_csv()
    except MissingToolError as exc:
        pytest.skip(str(exc))
    done = subprocess.run(
        [*POCKETMQ, "demo", "--grpc", *words],
        capture_output=True,
        text=True,
        env=os.environ | {SDK_PYTHON: str(official_sdk.sdk_python())},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert re.search(r"lost .* 0 ", done.stdout)
    assert "nothing was lost, and the figures are those of the CSV" in done.stdout
    return done.stdout


@pytest.mark.cluster
@pytest.mark.timeout(1_500)  # a first run installs the SDK
def test_nothing_is_lost_while_proxy_broker_and_consumer_are_killed(tmp_path: Path) -> None:
    printed = run_demo("--flights", "2000", "--data", str(tmp_path / "kept"))
    for fact in (
        r"proxy-1 is killed: [\d,]+ flights are consumed",
        r"broker-a is killed: [\d,]+ flights are consumed",
        r"broker-a has started again",
        r"consumer-[123] is killed: [\d,]+ flights are consumed",
        r"proxy-1 and broker-a were killed with SIGKILL and started again",
        r"sent .* 2,000 ",
        r"consumed, distinct .* 2,000 ",
    ):
        assert re.search(fact, printed), printed
    assert not (tmp_path / "kept" / "consumed" / "consumer-4.csv").exists()


@pytest.mark.cluster
@pytest.mark.nightly
@pytest.mark.timeout(7_200)
def test_nothing_is_lost_of_all_flights() -> None:
    assert "336,776" in run_demo()


def test_what_is_missing_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(SDK_PYTHON, "/opt/sdk/bin/python")
    assert sdk_python() == "/opt/sdk/bin/python"
    monkeypatch.delenv(SDK_PYTHON)
    monkeypatch.setattr(grpc_director, "find_spec", lambda _name: None)
    assert main(["demo", "--grpc", "--flights", "10"]) == 1
    assert "pip install rocketmq-python-client" in capsys.readouterr().err
    monkeypatch.setattr(grpc_director, "find_spec", lambda _name: object())
    assert sdk_python() == sys.executable


@pytest.mark.parametrize("word", [["--pop"], ["--replicas", "3"], ["--record", "demo.jsonl"]])
def test_it_goes_with_no_other_mode(word: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--grpc", *word]) == 1
    assert "--grpc" in capsys.readouterr().err
