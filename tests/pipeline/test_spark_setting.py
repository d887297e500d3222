"""Around Spark: other processes, a clean environment, no Java, nothing heavy before its time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pocketmq.client import Message
from pocketmq.pipeline import check_java, session
from pocketmq.pipeline.plainly import told_by_spark
from pocketmq.runtime.errors import MissingToolError
from support.spark_cluster import SparkCluster
from support.spark_store import open_store, put, stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
TWO_EXECUTORS = ROOT / "tests" / "support" / "spark_two_executors.py"


def python(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        timeout=500,
        check=False,
    )


# -- nothing heavy ------------------------------------------------------------------------------


@pytest.mark.parametrize("module", ["pyspark_pocketmq", "pyspark_pocketmq_store"])
def test_what_spark_finds_by_its_name_imports_nothing_heavy_of_ours(module: str) -> None:
    code = (
        "import sys, pyspark.sql.datasource\n"
        "before = set(sys.modules)\n"
        f"import {module}\n"
        "heavy = {'numpy', 'pyarrow', 'pandas', 'asyncio', 'uvloop', 'msgspec', 'structlog'}\n"
        "print(sorted(heavy & (set(sys.modules) - before)))\n"
    )
    ran = python("-c", code)
    assert ran.stdout.strip() == "[]", ran.stdout + ran.stderr


def test_the_facade_and_the_command_line_import_no_spark() -> None:
    code = (
        "import sys, pocketmq.pipeline, pocketmq.cluster.cli.main\n"
        "print([name for name in ('pyspark', 'pyarrow', 'numpy') if name in sys.modules])\n"
    )
    ran = python("-c", code)
    assert ran.stdout.strip() == "[]", ran.stdout + ran.stderr


# -- Java ---------------------------------------------------------------------------------------


def fake_java(folder: Path, says: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    return folder


def test_without_java_there_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        MissingToolError, match=r"Spark needs Java 17 or later.*no `java`"
    ) as caught:
        session()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("says", "version"),
    [('openjdk version "11.0.2" 2019-01-15', 11), ('java version "1.8.0_202"', 8)],
)
def test_a_java_that_is_too_old_is_named(
    says: str, version: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", says)))
    with pytest.raises(MissingToolError, match=f"old/bin/java is Java {version}; install one"):
        check_java()


def test_a_new_enough_java_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, 'openjdk version "21" 2023-09-19')))
    check_java()


def test_an_error_inside_sparks_is_told_in_one_line() -> None:
    text = "[X] Failed: Traceback\n  File\npocketmq.pipeline.errors.OptionError: pocketmq: no\n SQL"
    assert str(told_by_spark(RuntimeError(text))) == "pocketmq: no"
    assert str(told_by_spark(RuntimeError("first\nsecond"))) == "first"


# -- other processes ----------------------------------------------------------------------------


def test_two_executors_in_processes_of_their_own(
    spark: SparkSession, spark_brokers: SparkCluster, tmp_path: Path
) -> None:
    for topic in ("Apart", "ApartCopy"):
        spark_brokers.create_topic(topic)
    spark_brokers.send([Message("Apart", str(n).encode(), keys=str(n)) for n in range(400)])
    with open_store(tmp_path / "s") as store:
        put(store, [stored(str(number).encode(), topic="Apart") for number in range(50)])
    ran = python(str(TWO_EXECUTORS), spark_brokers.nameservers, str(tmp_path / "s"))
    line = next((each for each in ran.stdout.splitlines() if each.startswith("FOUND ")), None)
    assert line is not None, ran.stdout + ran.stderr
    found = json.loads(line.removeprefix("FOUND "))
    assert found == {
        "topic": list(range(400)),
        "copy": list(range(400)),
        "store": 50,
        "executors": 2,
    }


def test_the_wheel_alone_is_enough_for_spark_to_find_the_sources(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A new environment with nothing of this checkout in it; PySpark is lent to it."""
    built = python("-m", "pip", "wheel", "--no-deps", "--quiet", "-w", str(tmp_path), str(ROOT))
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("pocketmq-*.whl")
    clean = tmp_path / "clean"
    venv.create(clean, with_pip=False)
    (packages,) = (clean / "lib").glob("python*/site-packages")
    installed = python(
        "-m", "pip", "install", "--no-deps", "--quiet", "--target", str(packages), str(wheel)
    )
    assert installed.returncode == 0, installed.stderr
    # A path in a .pth file is searched, but its own .pth files, such as our editable one, are not.
    (packages / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    with open_store(tmp_path / "s") as store:
        put(store, [stored(str(number).encode()) for number in range(5)])
    code = (
        "import pocketmq.pipeline as p, sys\n"
        "assert 'clean' in p.__file__, p.__file__\n"
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false')"
        ".config('spark.driver.host', '127.0.0.1').config('spark.driver.memory', '512m')"
        ".getOrCreate()\n"
        "read = spark.read.format\n"
        f"print('ROWS', read('pocketmq-store').load({str(tmp_path / 's')!r}).count())\n"
        "try:\n"
        "    read('pocketmq').option('nameServer', 'a:1').load()\n"
        "except Exception as exc:\n"
        "    print('SAYS', str(exc).replace(chr(10), ' '))\n"
        "spark.stop()\n"
    )
    ran = subprocess.run(
        [clean / "bin" / "python", "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYSPARK_PYTHON": str(clean / "bin" / "python"), "PYTHONPATH": ""},
        cwd=tmp_path,
        timeout=500,
        check=False,
    )
    assert "ROWS 5" in ran.stdout, ran.stdout + ran.stderr
    assert "option 'topic': must be given" in ran.stdout
