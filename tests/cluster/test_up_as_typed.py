"""`pocketmq up` as pages show it, and the verbs of its control address for each kind of cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

POCKETMQ = [sys.executable, "-m", "pocketmq"]


class Typist:
    """Who has started a cluster in one terminal, and types commands into a second one."""

    def __init__(self, up: subprocess.Popen[str], folder: Path) -> None:
        assert up.stdout is not None
        told = [up.stdout.readline().strip() for _ in range(2)]
        assert told[0].startswith("NAMESRV_ADDR="), "it did not get ready"
        self._environment = os.environ | dict(each.split("=", 1) for each in told)
        self._folder = folder

    def __call__(self, typed: str) -> str:
        """Type a command; what it printed."""
        ran = subprocess.run(
            [*POCKETMQ, *typed.split()],
            capture_output=True,
            text=True,
            timeout=200,
            env=self._environment,
            cwd=self._folder,
        )
        assert ran.returncode == 0, f"{typed}: {ran.stdout}{ran.stderr}"
        return ran.stdout

    def stored(self) -> int:
        """How many messages of `orders` there are."""
        found = self(r"message tail orders --from start --no-follow -f %s\n")
        return len(found.splitlines())


@pytest.mark.parametrize(
    ("typed", "first", "second"),
    [
        ("up", "nameserver-1", "broker-a"),
        ("up --controllers 3 --replicas 3", "broker-a", "broker-a-2"),
        ("up --controllers 3 --replicas 2 --clock manual", "controller-1", "broker-a"),
        ("up --slaves 1", "broker-a", "broker-a-s1"),
        ("up --brokers 2 --slaves 1 --acting-master", "broker-a-s1", "broker-a"),
    ],
    ids=["one", "replicas", "manual", "slaves", "acting"],
)
def test_every_verb_works(typed: str, first: str, second: str, tmp_path: Path) -> None:
    command = [*POCKETMQ, *typed.split(), "--any-port", "--control-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as up:
        try:
            type_in = Typist(up, tmp_path)
            type_in("topic create orders --queues 1")
            type_in("send orders one")
            type_in(f"partition {first} {second}")
            type_in(f"partition {second} clients")
            type_in(f"fault add delay --role {first} --code GET_BROKER_CONFIG --delay-ms 1")
            assert len(type_in("fault list -o tsv").splitlines()) >= 3
            type_in("fault clear")
            if "manual" in typed:
                type_in("clock advance 5")
                type_in("clock next")
                assert second in type_in("clock show")
            for role in (first, second):
                type_in(f"freeze {role}")
                type_in(f"thaw {role}")
                type_in(f"kill {role}")
                type_in(f"restart {role}")
                if "manual" in typed:  # if it led the controllers, none does while time stands
                    type_in("clock advance 10")
                type_in(f"logs {role}")
            type_in("snapshot save one")
            type_in("send orders two")
            type_in("snapshot load one")
            assert type_in.stored() == 1, "what was sent after the snapshot is gone"
            type_in("send orders three")
            type_in("wipe --yes")
            assert "orders" not in type_in("topic list")
            type_in("topic create orders --queues 1")
            type_in("send orders four")
            assert type_in.stored() == 1
            type_in("ready")
            assert {first, second} <= set(type_in("ps -o tsv").split())
        finally:
            up.send_signal(signal.SIGINT)
            up.communicate(timeout=100)
    assert up.returncode == 0


def test_a_cluster_without_brokers_says_that_nothing_can_be_sent(tmp_path: Path) -> None:
    command = [*POCKETMQ, "up", "--brokers", "0", "--any-port", "--data", str(tmp_path / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as up:
        try:
            assert up.stdout is not None
            said = [next(up.stdout) for _ in range(4)]
            assert said[3].startswith("no broker: nothing can be sent; write --brokers 1, or"), said
        finally:
            up.send_signal(signal.SIGINT)
            up.communicate(timeout=100)
    assert up.returncode == 0
