"""The page about Arrow does what it says where only what it installs is installed.

`test_jobs_docs.py` has docs/jobs.md; Spark's pages are in `test_spark_docs.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.reader import Reader, installed_by, pieces
from support.readers_python import distributions

DOCS = Path(__file__).resolve().parents[2] / "docs"

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

OTHERS = """
from importlib.util import find_spec
import pocketmq.pipeline, pyarrow, numpy
from pocketmq.pipeline import read_store, read_topic
others = ("pyspark", "pandas", "polars", "duckdb", "deltalake", "pytest")
print([name for name in others if find_spec(name)])
"""
"""Which packages are there that nothing has installed."""


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
