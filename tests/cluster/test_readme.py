"""What the README shows is what happens."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pocketmq.client import Admin
from pocketmq.cluster import local_cluster
from support.eventually import PATIENCE_MS

pytestmark = pytest.mark.cluster

README = (Path(__file__).parents[2] / "README.md").read_text()

VARYING = {"broker-a/0": r"broker-a/\d", "7F000001...": r"\w+"}
"""Which queue a message lands in, and its id, differ from run to run."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def run(command: list[str], nameservers: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=200, check=False,
        env=os.environ | {"NAMESRV_ADDR": nameservers},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


async def test_the_readmes_commands_and_its_program_do_what_it_says() -> None:
    session = next(block for block in blocks("console") if "topic create" in block)
    async with local_cluster() as cluster:
        address = cluster.namesrv_addr
        for step in re.findall(r"^\$ pocketmq (.*)\n(.*)", session, re.MULTILINE):
            words = [word.strip('"') for word in step[0].split()]
            out = run([sys.executable, "-m", "pocketmq.cluster.cli.main", *words], address)
            pattern = re.escape(step[1])
            for example, any_value in VARYING.items():
                pattern = pattern.replace(re.escape(example), any_value)
            assert re.match(pattern, out), step[0]
        shown = run([sys.executable, "-m", "pocketmq.cluster.cli.main", "group", "show", "billing"],
                    address)  # fmt: skip
        assert "queue\torders\tbroker-a/" in shown
        program = next(block for block in blocks("python") if "PushConsumer" in block)
        out = run([sys.executable, "-c", program.replace("127.0.0.1:9876", address)], address)
        assert "b'hello' order-17" in out


async def test_the_readmes_test_snippet_shows_a_broker_expire() -> None:
    snippet = next(block for block in blocks("python") if "local_cluster(" in block)
    body = snippet[snippet.index("async with") :]
    assert 'cluster["broker-a"].freeze()' in body
    assert "cluster.advance(seconds=126)" in body
    async with local_cluster(brokers=2, clock="manual") as cluster:
        await cluster["broker-a"].freeze()
        await cluster.advance(seconds=126)
        async with Admin(nameservers=cluster.namesrv_addr, api_timeout_ms=PATIENCE_MS) as admin:
            assert list(await admin.brokers()) == ["broker-b"]
