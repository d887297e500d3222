"""Nothing leaves this machine: every address that a cluster, its console and its clients bind to,
connect to or send to is a loopback address, as the system calls of all their processes show."""

from __future__ import annotations

import ipaddress
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.root]

ADDRESS = re.compile(
    r'sin_addr=inet_addr\("(?P<four>[^"]+)"\)|inet_pton\(AF_INET6, "(?P<six>[^"]+)"'
)
CALLS = "trace=connect,bind,sendto,sendmsg,sendmmsg"

A_DAY = """
set -e
trap 'pocketmq down --data ./cluster' EXIT
pocketmq up --any-port --control-port 0 --wait-ready --data ./cluster >addresses
export $(grep -E '^(NAMESRV_ADDR|POCKETMQ_CONTROL)=' addresses)
pocketmq --version
pocketmq topic create orders
pocketmq send orders hello
pocketmq consume orders --group billing --count 1
pocketmq group show billing
pocketmq ps
pocketmq watch --record recording.jsonl --seconds 1
"""
"""What README.md shows, in a shell."""

A_TEST = """
def test_an_order_is_billed(pocketmq):
    from pocketmq.client import Message

    topic = pocketmq.sync.create_topic("orders")
    with pocketmq.sync.producer() as shop, pocketmq.sync.consumer("billing", topic) as billing:
        shop.send(Message(topic, b"order 17"))
        assert billing.receive().body == b"order 17"
"""


def addresses(trace: str) -> set[str]:
    """Every IP address that a traced call names."""
    return {found["four"] or found["six"] for found in ADDRESS.finditer(trace)}


def others(trace: str) -> set[str]:
    """Those that are not this machine's own."""
    return {each for each in addresses(trace) if not ipaddress.ip_address(each).is_loopback}


def traced(command: list[str], folder: Path) -> str:
    """The network calls of a command and of all processes that it starts."""
    trace = folder / "trace"
    programs = Path(sys.executable).parent
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith("POCKETMQ_")
    } | {"PATH": f"{programs}:{os.environ['PATH']}"}
    ran = subprocess.run(
        ["strace", "-f", "-qq", "-e", CALLS, "-o", str(trace), *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return trace.read_text(encoding="utf-8", errors="replace")


def test_a_cluster_and_the_commands_of_the_readme_talk_to_this_machine_alone(
    tmp_path: Path,
) -> None:
    calls = traced(["bash", "-c", A_DAY], tmp_path)
    assert "127.0.0.1" in addresses(calls)
    assert others(calls) == set()


def test_a_test_with_the_fixture_talks_to_this_machine_alone(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(A_TEST)
    calls = traced([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], tmp_path)
    assert "127.0.0.1" in addresses(calls)
    assert others(calls) == set()


def test_a_call_to_another_machine_would_be_seen(tmp_path: Path) -> None:
    elsewhere = (
        "import socket; socket.socket(type=socket.SOCK_DGRAM).connect(('192.0.2.1', 9)); "
        "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).connect_ex(('2001:db8::1', 9))"
    )
    calls = traced([sys.executable, "-c", elsewhere], tmp_path)
    assert {"192.0.2.1", "2001:db8::1"} <= others(calls)
