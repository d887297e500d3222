"""Pages about Arrow and jobs do what they say where only what they install is installed.

`test_jobs_docs.py` has docs/jobs.md; Spark's pages are in `test_spark_docs.py`.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pocketmq.client import Message
from support.reader import Reader, blocks, distributions, installed_by, readers_python, shown
from support.spark_cluster import spark_cluster

DOCS = Path(__file__).resolve().parents[2] / "docs"

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

BEFORE = """
from pathlib import Path
cluster = {"nameServer": "127.0.0.1:9876"}
work = Path("work")
work.mkdir()
"""
"""What the pages before docs/spark-tables.md have defined for its export."""


def section(page: str, title: str) -> str:
    return page.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_polars_duckdb_and_pandas_read_as_the_page_says(tmp_path: Path) -> None:
    page = (DOCS / "arrow.md").read_text()
    names = {found.name for found in distributions(installed_by(page))}
    assert {"pyarrow", "numpy", "polars", "duckdb", "pandas"} <= names
    assert not names & {"pyspark", "deltalake", "pyiceberg", "matplotlib"}
    programs = 0
    with spark_cluster(tmp_path / "cluster", brokers=1) as cluster:
        reader = Reader(page, tmp_path, cluster.nameservers)
        printed = ""
        for language, text in blocks(page):
            if language == "console":
                reader.commands(text)
            elif language == "python":
                printed = reader.program(text)
                programs += 1
            else:
                assert shown(printed) == shown(text)
    assert programs


def test_tables_are_exported_as_the_page_says_without_spark(tmp_path: Path) -> None:
    page = (DOCS / "spark-tables.md").read_text()
    names = {found.name for found in distributions(installed_by(page))}
    assert {"pyarrow", "numpy", "deltalake", "pyiceberg"} <= names
    assert "pyspark" not in names
    code, expected = BEFORE, ""
    for language, text in blocks(section(page, "An export without Spark")):
        if language == "python":
            code += text
        else:
            expected += text
    with spark_cluster(tmp_path / "cluster", brokers=1) as cluster:
        reader = Reader(page, tmp_path, cluster.nameservers)
        cluster.create_topic("orders", queues=2)
        tags = ("new", "new", "paid", "paid")
        cluster.send([Message("orders", b"body", tags=tag) for tag in tags])
        assert shown(reader.program(code)) == shown(expected)


def test_what_a_page_does_not_install_is_not_there(tmp_path: Path) -> None:
    python = readers_python(tmp_path, ["pocketmq[arrow]"])
    code = (
        "from importlib.util import find_spec\n"
        "import pocketmq.pipeline, pyarrow, numpy\n"
        "from pocketmq.pipeline import read_store\n"
        "print([name for name in ('pyspark', 'pandas', 'polars', 'deltalake', 'pytest')"
        " if find_spec(name)])\n"
    )
    ran = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False)
    assert (ran.stdout.strip(), ran.stderr) == ("[]", "")
