"""`pocketmq up` as pages show it, and each verb of its control address with several per name."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

POCKETMQ = [sys.executable, "-m", "pocketmq"]


def run(data: Path, *arguments: str) -> str:
    """Run a command at the control address of a data folder; what it printed."""
    ran = subprocess.run(
        [*POCKETMQ, *arguments, "--data", str(data)], capture_output=True, text=True, timeout=200
    )
    assert ran.returncode == 0, f"{arguments}: {ran.stdout}{ran.stderr}"
    return ran.stdout


@pytest.mark.parametrize(
    ("typed", "second"),
    [
        ("up --controllers 3 --replicas 3", "broker-a-2"),
        ("up --slaves 1", "broker-a-s1"),
    ],
    ids=["replicas", "slaves"],
)
def test_it_gets_ready_and_every_verb_works(typed: str, second: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    command = [*POCKETMQ, *typed.split(), "--any-port", "--data", str(data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as up:
        try:
            assert up.stdout is not None
            assert up.stdout.readline().startswith("NAMESRV_ADDR="), "it did not get ready"
            run(data, "freeze", second)
            run(data, "thaw", second)
            run(data, "kill", second)
            run(data, "restart", second)
            run(data, "snapshot", "save", "one")
            run(data, "snapshot", "load", "one")
            if "--controllers" not in typed:  # a reset with controllers does not end
                run(data, "reset")
            assert second in run(data, "ps")
        finally:
            up.send_signal(signal.SIGINT)
            up.communicate(timeout=100)
    assert up.returncode == 0
