"""Around Spark: other processes, a clean environment, no Java, nothing heavy before its time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pocketmq.pipeline import check_java, session
from pocketmq.pipeline.spark.plainly import told_by_spark
from pocketmq.runtime.errors import MissingToolError

if TYPE_CHECKING:
    pass

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


def test_a_store_is_read_without_pandas_and_structlog(store: Path) -> None:
    # Each takes a worker of Spark longer to import than to read its first record batch.
    code = (
        "import sys\n"
        "from pocketmq.pipeline import read_store\n"
        "rows = sum(len(batch) for batch in read_store(sys.argv[1]))\n"
        "print(rows > 0, sorted({'pandas', 'structlog'} & set(sys.modules)))\n"
    )
    ran = python("-c", code, str(store))
    assert ran.stdout.strip() == "True []", ran.stdout + ran.stderr


def test_the_parent_of_workers_has_one_thread_when_it_forks() -> None:
    code = (
        "import os, sys\n"
        "from pocketmq.pipeline.spark_daemon import prepare\n"
        "prepare()\n"
        "threads = len(os.listdir('/proc/self/task'))\n"
        "print(threads, {'numpy', 'pandas', 'pyarrow', 'uvloop'} <= set(sys.modules))\n"
    )
    ran = python("-c", code)
    assert ran.stdout.strip() == "1 True", ran.stdout + ran.stderr


def test_a_worker_that_spark_has_left_ends_without_a_traceback() -> None:
    code = (  # as after each `LIMIT`: the pipe is closed, and something is left to be written
        "import socket, pyspark.daemon, pyspark.worker\n"
        "from pocketmq.pipeline.spark_daemon import leave_quietly\n"
        "def main(infile, outfile):\n"
        "    outfile.write(b'rows')\n"
        "    raise SystemExit(-1)\n"
        "pyspark.worker.main = main\n"
        "leave_quietly()\n"
        "ours, of_spark = socket.socketpair()\n"
        "of_spark.close()\n"
        "print(pyspark.daemon.worker(ours, True))\n"
    )
    ran = python("-c", code)
    assert (ran.stdout.strip(), ran.stderr) == ("-1", "")


LEFT = """
import io, json, struct, sys
import pyspark.sql.streaming.python_streaming_source_runner as runner
from pyspark_pocketmq import DefaultSource
from pyspark_pocketmq_store import DefaultSource as StoreSource

class Closed(io.BytesIO):
    def flush(self):
        if len(self.getvalue()) > 4:  # after the reader was made
            raise BrokenPipeError("Spark is gone")

sources = {
    "pocketmq": lambda: DefaultSource({"nameServer": "127.0.0.1:1", "topic": "T"}),
    "pocketmq-store": lambda: StoreSource({"path": "/nowhere"}),
}
source = sources[sys.argv[1]]()
runner.check_python_version = runner.setup_spark_files = lambda infile: None
runner.read_command = lambda serializer, infile: source
runner._parse_datatype_json_string = lambda text: runner.StructType()
calls = [int(each) for each in sys.argv[2:]]
infile = io.BytesIO(struct.pack(">i2s", 2, b"{}") + struct.pack(f">{1 + len(calls)}i", 100, *calls))
runner.main(infile, Closed())
"""


@pytest.mark.parametrize("source", ["pocketmq", "pocketmq-store"])
def test_a_stream_that_is_stopped_ends_its_offsets_process_without_a_traceback(source: str) -> None:
    ran = python("-c", LEFT, source)
    assert (ran.returncode, ran.stderr) == (1, "")
    wrong = python("-c", LEFT, source, "7")  # a call that there is not: no end of Spark's
    assert "BrokenPipeError: Spark is gone" in wrong.stderr


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
    java = "An error occurred while calling o6.f.\n: java.io.IOException: no\n\tat org.apache"
    assert str(told_by_spark(RuntimeError(java))) == "java.io.IOException: no"
