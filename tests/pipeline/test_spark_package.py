"""On a cluster whose executors lack the package, with what `pocketmq pipeline package` writes; and
through Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pocketmq.client import Message
from pocketmq.pipeline.package import package
from support.spark_cluster import SparkCluster
from support.spark_standalone import connect_server, standalone

pytestmark = pytest.mark.timeout(600)
SUPPORT = Path(__file__).resolve().parents[1] / "support"
JOB = SUPPORT / "spark_cluster_job.py"
CONNECT_JOB = SUPPORT / "spark_connect_job.py"


def test_the_same_code_makes_the_same_files_and_a_zip_that_python_imports_from(
    tmp_path: Path,
) -> None:
    packed, again = package(tmp_path / "one"), package(tmp_path / "two")
    assert packed.code.read_bytes() == again.code.read_bytes()
    assert packed.dependencies.read_bytes() == again.dependencies.read_bytes()
    names = zipfile.ZipFile(packed.code).namelist()
    assert "pocketmq/" in names
    assert not [name for name in names if name.endswith(".so")]
    code = (
        "import sys\n"
        f"sys.path[:0] = [{str(packed.code)!r}]\n"
        "import importlib.util\n"
        "print(importlib.util.find_spec('pocketmq.pipeline').origin)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False
    )
    assert ran.stdout.startswith(str(packed.code)), ran.stdout + ran.stderr


@pytest.mark.java
@pytest.mark.cluster
def test_executors_of_a_standalone_cluster_need_no_installation(
    spark_programs: None, spark_brokers: SparkCluster, tmp_path: Path
) -> None:
    for topic in ("Far", "FarCopy"):
        spark_brokers.create_topic(topic)
    spark_brokers.send([Message("Far", str(n).encode(), keys=str(n)) for n in range(400)])
    packed = package(tmp_path / "package")
    with standalone(tmp_path / "standalone") as cluster:
        printed = cluster.submit(
            JOB, spark_brokers.nameservers, "Far", "FarCopy", options=packed.arguments
        )
    line = next(line for line in printed.splitlines() if line.startswith("FOUND "))
    found = json.loads(line.removeprefix("FOUND "))
    assert found["topic"] == found["copy"] == list(range(400))
    for place in found["places"]:
        code, compiled = place.split(" ")
        assert "/pocketmq-spark.zip/" in code
        assert "/pocketmq-deps/" in compiled


@pytest.mark.java
@pytest.mark.cluster
def test_spark_connect_reads_writes_and_follows_topics(
    spark_programs: None, spark_brokers: SparkCluster, tmp_path: Path
) -> None:
    """Server and client are two processes; only the server's side needs the package."""
    for topic in ("Connect", "ConnectCopy"):
        spark_brokers.create_topic(topic)
    spark_brokers.send([Message("Connect", str(n).encode()) for n in range(400)])
    with connect_server(tmp_path) as port:
        ran = subprocess.run(
            [
                *(sys.executable, str(CONNECT_JOB), str(port), spark_brokers.nameservers),
                *("Connect", "ConnectCopy", str(tmp_path)),
            ],
            capture_output=True,
            text=True,
            timeout=500,
            env={**os.environ, "JAVA_HOME": "/nowhere"},
            check=False,
        )
    line = next((each for each in ran.stdout.splitlines() if each.startswith("FOUND ")), None)
    assert line is not None, ran.stdout + ran.stderr
    found = json.loads(line.removeprefix("FOUND "))
    assert found["session"] == "pyspark.sql.connect.session"
    assert found["topic"] == 400
    assert found["rows"] == list(range(400))
