"""`pocketmq up` as pages show it, and the verbs of its control address for each kind of cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.console import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

POCKETMQ = [sys.executable, "-m", "pocketmq"]
SEEDS = """
[[topics]]
name = "planted"
queues = 1
[[messages]]
topic = "planted"
body = "a seed"
"""


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
        ran = self.tried(typed)
        assert ran.returncode == 0, f"{typed}: {ran.stdout}{ran.stderr}"
        return ran.stdout

    def tried(self, typed: str) -> subprocess.CompletedProcess[str]:
        """Type a command that may fail."""
        return subprocess.run(
            [*POCKETMQ, *typed.split()],
            capture_output=True,
            text=True,
            timeout=200,
            env=self._environment,
            cwd=self._folder,
        )

    def stored(self, topic: str = "orders") -> int:
        """How many messages of a topic there are."""
        found = self(rf"message tail {topic} --from start --no-follow -f %s\n")
        return len(found.splitlines())

    def fail_over(self) -> None:
        """Make another replica of broker-a the master, once one is in sync."""

        def said() -> str:
            ran = self.tried("failover --broker broker-a -o json")
            assert "no controller leads" not in ran.stderr, "it looks where `ps` does"
            return ran.stdout

        told = json.loads(until(said, "a replica can be chosen"))
        assert told["master"] != told["before"]


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
                type_in("clock run --speed 60")
                type_in("clock freeze")
                assert second in type_in("clock show")
            if "controllers" in typed:
                type_in.fail_over()
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
            (tmp_path / "seeds.toml").write_text(SEEDS)
            type_in("seed seeds.toml")
            assert type_in.stored("planted") == 1
            type_in("group create billing")
            type_in("group reset billing planted --to end")
            assert "no dead letters" in type_in.tried("message resend billing").stderr
            type_in("topic delete planted --yes")
            assert "planted" not in type_in("topic list")
            type_in("wipe --yes")
            assert "orders" not in type_in("topic list")
            type_in("topic create orders --queues 1")
            type_in("send orders four")
            assert type_in.stored() == 1
            type_in("ready")
            assert {first, second} <= set(type_in("ps -o tsv").split())
            type_in("down")
        finally:
            if up.poll() is None:
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
