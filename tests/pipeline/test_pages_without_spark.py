"""Pages about Arrow and jobs do what they say where only what they install is installed.

`test_jobs_docs.py` has docs/jobs.md; Spark's pages are in `test_spark_docs.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.reader import Reader, installed_by, pieces
from support.readers_python import distributions

DOCS = Path(__file__).resolve().parents[2] / "docs"

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

BEFORE = """
from pathlib import Path
cluster = {"nameServer": "127.0.0.1:9876"}
work = Path("work")
work.mkdir()
"""
CLUSTER = """
$ pocketmq up --data ./cluster
$ pocketmq topic create orders --queues 2
$ pocketmq send orders body --tag new --count 2
$ pocketmq send orders body --tag paid --count 2
"""
"""What the pages before docs/spark-tables.md have defined for its export, and done."""


OTHERS = """
from importlib.util import find_spec
import pocketmq.pipeline, pyarrow, numpy
from pocketmq.pipeline import read_store, read_topic
others = ("pyspark", "pandas", "polars", "duckdb", "deltalake", "pytest")
print([name for name in others if find_spec(name)])
"""
"""Which packages are there that nothing has installed."""


def section(page: str, title: str) -> str:
    return page.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_polars_duckdb_and_pandas_read_where_nothing_else_is(wheel: Path, tmp_path: Path) -> None:
    page = (DOCS / "arrow.md").read_text()
    names = {found.name for found in distributions(installed_by(page))}
    assert {"pyarrow", "numpy", "polars", "duckdb", "pandas"} <= names
    assert not names & {"pyspark", "deltalake", "pyiceberg", "matplotlib"}
    assert any(piece.language == "python" for piece in pieces(page))
    with Reader(tmp_path, wheel) as reader:
        reader.install("pocketmq[arrow]")
        assert reader.python(OTHERS).strip() == "[]"
        reader.follow(page)
    assert reader.errors == ""


def test_tables_are_exported_as_the_page_says_without_spark(wheel: Path, tmp_path: Path) -> None:
    page = (DOCS / "spark-tables.md").read_text()
    names = {found.name for found in distributions(installed_by(page))}
    assert {"pyarrow", "numpy", "deltalake", "pyiceberg"} <= names
    assert "pyspark" not in names
    with Reader(tmp_path, wheel) as reader:
        for wanted in installed_by(page):
            reader.install(wanted)
        reader.commands(CLUSTER)
        reader.python(BEFORE)
        reader.follow(section(page, "An export without Spark"))
    assert reader.errors == ""
