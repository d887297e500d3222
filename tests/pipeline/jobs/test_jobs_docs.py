"""`docs/jobs.md` does what it says: each block is run in the page's order, where only what the page
installs is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.reader import Reader, installed_by, pieces, shown
from support.readers_python import distributions

PAGE = Path(__file__).resolve().parents[3] / "docs" / "jobs.md"

pytestmark = [pytest.mark.java, pytest.mark.cluster, pytest.mark.timeout(900)]


def test_every_block_runs(wheel: Path, tmp_path: Path) -> None:
    page = PAGE.read_text()
    names = {found.name for found in distributions(installed_by(page))}
    assert "pyarrow" in names
    assert not names & {"polars", "duckdb"}
    printed: dict[str, str] = {}
    program = ""
    with Reader(tmp_path, wheel) as reader:
        (schemas,) = (text for language, text in pieces(page) if language == "json")
        (reader.folder / "schemas.json").write_text(schemas)
        for language, text in pieces(page):
            if language == "install":
                reader.install(text)
            elif language == "console":
                printed |= reader.commands(text)
            elif language == "python":
                program = reader.python(text)
            elif language == "text":
                assert shown(program) == shown(text)
    assert program
    assert reader.errors == ""
    of = {line.split()[2]: text for line, text in printed.items() if " pipeline " in line}
    latencies = [line.split("\t") for line in of["latency"].splitlines()]
    assert ["latency in ms", "born-to-store", "orders"] in [line[:3] for line in latencies]
    assert ["sum", "2", "0"] in [line[:3] for line in latencies]
    assert of["audit"].splitlines()[0] == "audit\t0"
    assert of["replay"].split("\t")[:2] == ["2", "11"]
    assert of["trace"].count("\twas stored\t") == 2
    assert of["trace"].count("replayed from orders/broker-a/") == 2
    assert "consistent-hash" in of["rebalance"]
    assert of["schema"].splitlines()[0] == "1\t0"
    for name in (
        *("latency.svg", "latency.parquet", "latency-groups.parquet", "latency-queues.parquet"),
        *("latency-keys.parquet", "findings.json", "replay.json", "replayed.json"),
        *("misfits.parquet", "decoded.parquet", "decoded-reasons.parquet", "groups.parquet"),
    ):
        assert (reader.folder / name).exists(), name
