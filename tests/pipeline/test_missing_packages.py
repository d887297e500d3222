"""What needs a package that is not installed says so in one line, with the line that installs it.

A fresh interpreter has no such package: an import of it fails there as if it were not installed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.spark_store import open_store, put, stored

ROOT = Path(__file__).parents[2]

ARROW = "pip install 'pocketmq[arrow]'"
LAKE = "pip install 'pocketmq[lake]'"
SCHEMA = "pip install 'pocketmq[schema]'"
SPARK = "pip install 'pocketmq[spark]'"

BY_SPARK = ("export", "latency", "replay", "schema", "trace")
"""Jobs that run on Spark."""

CALLS = {
    "read_topic": "read_topic('T', nameServer='127.0.0.1:1')",
    "read_store": "read_store(root)",
    "export": "jobs.export('T', 'parquet:table', stores=root)",
    "latency": "jobs.latency('store:' + root)",
    "sample": "jobs.sample('looks.jsonl', nameservers='127.0.0.1:1', every_s=1, rounds=1)",
    "replay": "jobs.replay('store:' + root, 'again', nameservers='127.0.0.1:1', dry_run=True)",
    "trace": "jobs.trace('often', ['store:' + root])",
    "schema": "jobs.schema('store:' + root, '', 'tables', envelope=True)",
    "write_rows": "jobs.write_rows([], Path('rows.parquet'), jobs.Step)",
}
"""What a user calls."""

COMMANDS = {
    "latency": ["latency", "store:{root}"],
    "latency --sample": ["latency", "--sample", "looks.jsonl"],
    "export": ["export", "T", "--store", "{root}", "--to", "parquet:table"],
    "replay": ["replay", "store:{root}", "again", "--dry-run"],
    "trace": ["trace", "often", "store:{root}"],
    "schema": ["schema", "store:{root}", "tables", "--envelope"],
    "audit": ["audit", "{root}", "--out", "found.parquet"],
    "rebalance": ["rebalance", "--out", "found.parquet"],
}
"""What a user types behind `pocketmq pipeline`."""

PROGRAM = """
import contextlib, io, json, sys, traceback
from pathlib import Path

missing, root, calls, commands = json.loads(sys.argv[1])
for name in missing:
    sys.modules[name] = None

from pocketmq.cluster.cli.main import main
from pocketmq.pipeline import jobs, read_store, read_topic
from pocketmq.pipeline.lake import DeltaTarget, IcebergTarget
from pocketmq.runtime.errors import MissingToolError

said = {}
for name, call in calls.items():
    try:
        said[name] = repr(eval(call))
    except MissingToolError as exc:
        said[name] = str(exc)
    except BaseException:
        said[name] = traceback.format_exc()
for name, words in commands.items():
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        try:
            main(["pipeline", *(word.format(root=root) for word in words)])
        except BaseException:
            errors.write(traceback.format_exc())
    said["pocketmq pipeline " + name] = errors.getvalue()
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("store") / "broker-a"
    with open_store(root) as store:
        put(store, [stored(keys="often")])
    return root


def without(
    missing: Sequence[str],
    root: Path,
    calls: dict[str, str],
    commands: dict[str, list[str]] | None = None,
) -> dict[str, str]:
    """What each call and command says where these modules are missing."""
    told = json.dumps([list(missing), str(root), calls, commands or {}])
    code = PROGRAM.replace("eval(call)", "eval(call, globals() | {'root': root})")
    ran = subprocess.run(
        [sys.executable, "-c", code, told],
        capture_output=True,
        text=True,
        cwd=root.parent,
        env=os.environ | {"NAMESRV_ADDR": "127.0.0.1:1"},  # no cluster of this machine
        timeout=200,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    said: dict[str, str] = json.loads(ran.stdout)
    return said


def test_readers_and_jobs_without_pyarrow_say_what_brings_it(root: Path) -> None:
    said = without(["pyarrow", "numpy", "pyspark"], root, CALLS, COMMANDS)
    assert len(said) == len(CALLS) + len(COMMANDS)
    for name, text in said.items():
        extra = SCHEMA if "schema" in name else ARROW
        wanted = f" needs PyArrow, which is not installed; {extra}"
        if name.split()[-1] in BY_SPARK:
            wanted = f"Spark needs PySpark, which is not installed; {SPARK}"
        assert wanted in text, f"{name}: {text}"
        assert len(text.splitlines()) == 1, f"{name}: {text}"
    assert [path.name for path in root.parent.iterdir()] == [root.name]


def test_numpy_alone_is_missed_too(root: Path) -> None:
    for name, text in without(["numpy"], root, {"read_store": CALLS["read_store"]}).items():
        assert text == f"{name} needs NumPy, which is not installed; {ARROW}"


def test_tables_say_which_package_brings_them(root: Path) -> None:
    said = without(
        ["deltalake", "pyiceberg"],
        root,
        {
            "deltalake": "DeltaTarget('table')",
            "pyiceberg": "IcebergTarget.local('table', 'shop.orders')",
        },
        {
            "deltalake": ["export", "T", "--store", "{root}", "--to", "delta:table"],
            "pyiceberg": ["export", "T", "--store", "{root}", "--to", "iceberg:table/shop.orders"],
        },
    )
    for name, text in said.items():
        package = name.split()[-1]
        assert f" needs {package}, which is not installed; {LAKE}" in text, f"{name}: {text}"


def test_comparing_avro_schemas_says_what_compares_them(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "schemas.json"
    file.write_text(json.dumps({"T": [{"type": "AVRO", "schema": "int"}] * 2}))
    words = ["schema-check", "T", "--registry", str(file)]
    (text,) = without(["avro"], root, {}, {"schema-check": words}).values()
    assert f"Comparing Avro schemas needs avro, which is not installed; {SCHEMA}" in text
    assert len(text.splitlines()) == 1


def test_a_chart_says_which_package_draws_it(root: Path) -> None:
    words = ["latency", "store:{root}", "--chart", "latency.svg"]  # before Spark starts
    (text,) = without(["matplotlib"], root, {}, {"latency": words}).values()
    assert "the picture needs matplotlib, which is not installed; pip install matplotlib" in text


def test_what_draws_spark_results_asks_for_spark_first(root: Path) -> None:
    (text,) = without(["pyspark", "matplotlib"], root, {}, {"flights": ["flights"]}).values()
    assert "Spark needs PySpark, which is not installed; pip install 'pocketmq[spark]'" in text


def test_what_needs_none_of_them_works_without(root: Path) -> None:
    missing = ["pyarrow", "numpy", "pandas", "pyspark", "deltalake", "pyiceberg", "matplotlib"]
    said = without(
        missing,
        root,
        {
            "audit": "jobs.audit([root]).count",
            "rebalance": "len(jobs.rebalance(jobs.Fleet(1, 2, 2, steps=0), ['circle']))",
        },
        {"audit": ["audit", "{root}", "--out", "../none.json"]},
    )
    assert list(said.values()) == ["0", "1", ""]


def extras() -> dict[str, list[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found: dict[str, list[str]] = project["optional-dependencies"]
    return found


@pytest.mark.parametrize("extra", ["lake", "schema", "spark"])
def test_every_extra_that_reads_messages_brings_arrow(extra: str) -> None:
    assert "pocketmq[arrow]" in extras()[extra]
    assert [each.split(">")[0] for each in extras()["arrow"]] == ["pyarrow", "numpy"]
