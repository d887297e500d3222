"""`--out FILE` of jobs: Parquet, JSON or JSON lines with what the job has found.

Those of jobs by Spark are in `tests/pipeline/test_spark_*.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pocketmq.cluster.cli.main import main
from pocketmq.pipeline.jobs import KeyRow, LatencyRow, write_rows
from support.spark_store import open_store, put, stored

SCHEMAS = """{"orders": [
  {"type": "JSON", "schema": {"properties": {"id": {"type": "integer"}}, "required": ["id"]}},
  {"type": "JSON", "schema": {"properties": {"id": {"type": "string"}}, "required": ["id"]}}
]}"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three messages, two of them with one key and no JSON; a retry and a dead letter."""
    root = tmp_path_factory.mktemp("store") / "broker-a"
    with open_store(root) as store:
        put(store, [stored(b'{"id":"1"}', topic="orders")])
        put(store, [stored(b"x", topic="orders", keys="often") for _ in range(2)])
        put(store, [stored(b"x", topic="%RETRY%billing"), stored(b"x", topic="%DLQ%billing")])
    return root


def run(*words: str | Path, status: int = 0) -> None:
    assert main(["pipeline", *map(str, words)]) == status


def rows_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        return rows
    text = path.read_text()
    return json.loads(text) if path.suffix == ".json" else [*map(json.loads, text.splitlines())]


def test_schema_check_writes_the_misfits(tmp_path: Path) -> None:
    registry, out = tmp_path / "schemas.json", tmp_path / "misfits.jsonl"
    registry.write_text(SCHEMAS)
    run("schema-check", "orders", "--registry", registry, "--out", out, status=1)
    (row,) = rows_of(out)
    assert (row["reader"], row["writer"], row["verdict"]) == (2, 1, "does not fit")
    assert "id" in row["what"]


def test_schema_check_shows_what_cannot_be_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry = tmp_path / "schemas.json"
    plain, longer = {"type": "string"}, {"type": "string", "pattern": "^a"}
    versions = [{"type": "JSON", "schema": each} for each in (plain, longer)]
    registry.write_text(json.dumps({"orders": versions}))
    words = ("schema-check", "orders", "--registry", registry, "-o", "table")
    run(*words, status=1)
    shown = capsys.readouterr().out
    assert "2 versions of orders: 0 misfits, 1 that cannot be told" in shown
    assert "cannot tell" in shown
    run(*words, "--mode", "forward")
    assert "all forward compatible" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ("latency", "store:{root}"),
        ("replay", "store:{root}", "again", "--dry-run"),
        ("export", "orders", "--store", "{root}", "--to", "parquet:{folder}/table"),
        ("schema", "store:{root}", "{folder}/tables", "--envelope"),
        ("schema-check", "orders", "--registry", "{folder}/none.json"),
        ("audit", "{root}"),
        ("trace", "often", "store:{root}"),
        ("rebalance",),
    ],
)
def test_a_name_that_means_no_format_is_refused_before_the_job(
    words: tuple[str, ...], root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(*(word.format(root=root, folder=tmp_path) for word in words), "--out", "x.csv", status=1)
    assert (
        "x.csv: the file's name must end with one of .parquet, .json, .jsonl"
        in capsys.readouterr().err
    )
    assert list(tmp_path.iterdir()) == []


def test_a_table_without_rows_has_the_columns_of_one_with_rows(tmp_path: Path) -> None:
    write_rows([], tmp_path / "none.parquet", LatencyRow)
    write_rows([], tmp_path / "keys.parquet", KeyRow)
    write_rows([KeyRow("orders", "often", 2, 1.0)], tmp_path / "key.parquet", KeyRow)
    none = pq.read_schema(tmp_path / "none.parquet")
    assert none.field("minute_ms").type == pa.int64()
    assert pq.read_schema(tmp_path / "keys.parquet") == pq.read_schema(tmp_path / "key.parquet")
