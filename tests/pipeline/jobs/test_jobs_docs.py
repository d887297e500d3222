"""`docs/jobs.md` does what it says: each command is run, in the page's order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.spark_cluster import spark_cluster

PAGE = Path(__file__).resolve().parents[3] / "docs" / "jobs.md"

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


def commands() -> list[str]:
    blocks = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]


def test_every_command_runs(tmp_path: Path) -> None:
    (schemas,) = re.findall(r"^```json\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "schemas.json").write_text(schemas)
    shown: dict[str, str] = {}
    with spark_cluster(tmp_path / "cluster", brokers=1) as cluster:
        for line in commands():
            words = line.split()
            if words[0] == "pocketmq":
                words = [sys.executable, "-m", "pocketmq.cluster.cli.main", *words[1:]]
            done = subprocess.run(
                words,
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
                env=os.environ | {"NAMESRV_ADDR": cluster.nameservers},
            )
            assert (done.returncode, done.stderr) == (0, ""), (line, done.stdout, done.stderr)
            shown[line] = done.stdout
    of = {
        line.split()[2] + ("-table" if "-o table" in line else ""): text
        for line, text in shown.items()
        if " pipeline " in line
    }
    latencies = [line.split("\t") for line in of["latency"].splitlines()]
    assert ["latency in ms", "born-to-store", "orders"] in [line[:3] for line in latencies]
    assert ["sum", "2", "0"] in [line[:3] for line in latencies]
    (heading,) = [line for line in of["latency-table"].splitlines() if "p999" in line]
    assert heading.split()[:4] == ["measure", "topic", "group", "minute"]
    assert "born-to-store of orders: p99 by minute" in of["latency-table"]
    assert of["audit"].splitlines()[0] == "audit\t0"
    assert of["replay"].split("\t")[:2] == ["2", "11"]
    assert of["trace"].count("\twas stored\t") == 2
    assert of["trace"].count("replayed from orders/broker-a/") == 2
    assert "consistent-hash" in of["rebalance"]
    assert of["schema"].splitlines()[0] == "1\t0"
    for name in ("latency.svg", "latency.parquet", "findings.json", "replay.json"):
        assert (tmp_path / name).exists(), name
