"""RocketMQ's `mqadmin` 5.3.3 is told the same beside PocketMQ and beside RocketMQ: each subcommand
ends with the same exit status, and shows the same fields."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path

import pytest

from parity.brokers import both_nameservers
from parity.mqadmin.fields import fields_of
from parity.mqadmin.suite import sample, whole
from parity.mqadmin.tool import STARTUP, started
from support.java import run_java

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.timeout(1200),  # a first run downloads RocketMQ
]

ADVICE = "tests/parity/README.md says what to do"
SUBCOMMANDS = 89
"""Those of 5.3.3."""


async def test_a_sample_of_subcommands_shows_the_same(tmp_path: Path) -> None:
    report = await sample(tmp_path)
    assert report.unexplained == [], ADVICE


@pytest.mark.nightly
async def test_every_subcommand_shows_the_same(tmp_path: Path) -> None:
    report = await whole(tmp_path)
    assert report.unexplained == [], ADVICE
    assert report.stale == [], "these do not differ any more: take them out of ledger.toml"
    assert len(report.passed) + len(report.explained) == len(report.commands) == SUBCOMMANDS


@pytest.mark.nightly
async def test_one_process_for_all_runs_shows_what_a_process_of_its_own_does(
    tmp_path: Path,
) -> None:
    with both_nameservers(tmp_path / "nameservers") as sides:
        async with started(tmp_path) as tool:
            for line in ("", "help topicRoute", "topicRoute", "noSuch", "clusterList -n {n}",
                         "topicRoute -n {n} -t NoTopic", "clusterList -h"):  # fmt: skip
                words = shlex.split(line.format(n=sides.theirs.nameserver))
                shared = await tool.run(words, 60.0)
                own = await asyncio.to_thread(run_java, STARTUP, *words, server=True, check=False)
                assert shared.status == str(own.returncode), line
                assert fields_of(shared.printed, {}) == fields_of(own.stdout + own.stderr, {}), line
