"""A broker whose address is a name, as in compose files (B-1): by option and by variable."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.console import until

pytestmark = pytest.mark.cluster

POCKETMQ = [sys.executable, "-m", "pocketmq"]


def type_in(*words: str, nameservers: str) -> str:
    ran = subprocess.run(
        [*POCKETMQ, *words, "-n", nameservers], capture_output=True, text=True, timeout=200
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@contextmanager
def running(*words: str, **env: str) -> Iterator[str]:
    """A role in the foreground; yields the port of its ready line."""
    command = [*POCKETMQ, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | env) as role:
        assert role.stdout is not None
        try:
            yield dict(each.split("=") for each in role.stdout.readline().split()[1:])["port"]
        finally:
            role.send_signal(signal.SIGINT)
            role.communicate(timeout=100)
    assert role.returncode == 0


@pytest.mark.parametrize("by", ["option", "variable"])
def test_a_name_is_told_as_typed(tmp_path: Path, by: str) -> None:
    words = ["broker", "--port", "0", "--data", str(tmp_path)]
    words += ["--broker-ip1", "localhost"] if by == "option" else []
    env = {"POCKETMQ_BROKER_BROKER_IP1": "localhost"} if by == "variable" else {}
    with running("nameserver", "--port", "0") as name_port:
        at = f"127.0.0.1:{name_port}"
        with running(*words, "--nameservers", at, **env) as port:
            listed = until(
                lambda: type_in("cluster", "show", "-o", "tsv", nameservers=at),
                "the broker has registered",
            )
            assert f"localhost:{port}" in listed
            type_in("topic", "create", "orders", nameservers=at)
            sent = type_in("send", "orders", "hello", "-o", "json", nameservers=at)
            assert "SEND_OK" in sent
