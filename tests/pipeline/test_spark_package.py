"""On a cluster whose executors lack the package, with what `pocketmq pipeline package` writes; and
through Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from pocketmq.client import Message
from pocketmq.pipeline.spark.package import UNPACKED, package
from support.remade_store import write
from support.schemas import PAYMENT, PROTO
from support.spark_cluster import SparkCluster
from support.spark_standalone import Standalone, connect_server, standalone
from support.spark_store import open_store, put, stored

pytestmark = pytest.mark.timeout(600)
SUPPORT = Path(__file__).resolve().parents[1] / "support"
JOB = SUPPORT / "spark_cluster_job.py"
BARE_DRIVER_JOB = SUPPORT / "spark_bare_driver_job.py"
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


@pytest.fixture(scope="module")
def cluster(spark_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("standalone")) as started:
        yield started


FROM_PYTHON = """
import json, sys
from pathlib import Path
from pocketmq.pipeline import session
from pocketmq.pipeline.spark.package import package

small = {f"spark.{role}.memory": "512m" for role in ("driver", "executor")}
packed = package(Path(sys.argv[2]))
spark = session("from Python", master=sys.argv[1], settings={**packed.settings, **small})

def where(_):
    import msgspec, pocketmq.client
    return [pocketmq.client.__file__, msgspec.__file__]

context = spark.sparkContext
read = spark.read.format("pocketmq").options(nameServer=sys.argv[3], topic="Session").load()
rows = sorted(int(row.body) for row in read.select("body").collect())
print(
    "FOUND",
    json.dumps([context.master, context.parallelize([0], 1).map(where).collect(), rows]),
)
spark.stop()
"""


def found_by(printed: str) -> Any:
    """What a job says that it has found."""
    line = next(line for line in printed.splitlines() if line.startswith("FOUND "))
    return json.loads(line.removeprefix("FOUND "))


@pytest.mark.java
@pytest.mark.cluster
def test_executors_of_a_standalone_cluster_need_no_installation(
    cluster: Standalone, spark_brokers: SparkCluster, tmp_path: Path
) -> None:
    for topic in ("Far", "FarCopy"):
        spark_brokers.create_topic(topic)
    spark_brokers.send([Message("Far", str(n).encode(), keys=str(n)) for n in range(400)])
    packed = package(tmp_path / "package")
    before = cluster.started.read_text() if cluster.started.exists() else ""
    printed = cluster.submit(
        JOB, spark_brokers.nameservers, "Far", "FarCopy", options=packed.arguments
    )
    assert cluster.started.read_text() != before, "executors ran their own Python"
    found = found_by(printed)
    assert found["topic"] == found["copy"] == list(range(400))
    for place in found["places"]:
        code, compiled = place.split(" ")
        assert "/pocketmq-spark.zip/" in code
        assert "/pocketmq-deps/" in compiled


@pytest.mark.java
@pytest.mark.cluster
def test_a_driver_that_lacks_the_package_too_registers_the_sources(
    cluster: Standalone, spark_brokers: SparkCluster, tmp_path: Path
) -> None:
    """As in cluster mode; `session()` there takes what spark-submit says."""
    spark_brokers.create_topic("Bare")
    spark_brokers.send([Message("Bare", str(n).encode()) for n in range(400)])
    packed = package(tmp_path / "package")
    with tarfile.open(packed.dependencies) as archive:
        archive.extractall(tmp_path / UNPACKED, filter="data")
    printed = cluster.submit(
        BARE_DRIVER_JOB,
        *(spark_brokers.nameservers, "Bare"),
        options=[*packed.arguments, "--conf", "spark.sql.shuffle.partitions=7"],
        unpacked_in=tmp_path,
    )
    found = found_by(printed)
    assert found["topic"] == list(range(400))
    assert (found["master"], found["partitions"]) == (cluster.master, "7")
    code, compiled = found["driver"]
    assert "/pocketmq-spark.zip/" in code
    assert compiled.startswith(str(tmp_path / UNPACKED))


def run_job(cluster: Standalone, *words: str) -> subprocess.CompletedProcess[str]:
    """`pocketmq pipeline` on a cluster, with what it brings along itself."""
    small = "--conf spark.executor.memory=512m --conf spark.driver.memory=512m pyspark-shell"
    local = {"PYSPARK_SUBMIT_ARGS": f"--conf spark.driver.host=127.0.0.1 {small}"}
    return subprocess.run(
        [
            *(str(cluster.driver_python), "-m", "pocketmq.cluster.cli.main", "pipeline"),
            *(*words, "--master", cluster.master),
        ],
        capture_output=True,
        text=True,
        env={**cluster.driver_env, **local},
        timeout=500,
        check=False,
    )


@pytest.mark.java
@pytest.mark.cluster
def test_a_job_brings_to_a_cluster_what_its_executors_lack(
    cluster: Standalone, tmp_path: Path
) -> None:
    root, table = tmp_path / "broker-a", tmp_path / "table"
    write(root, range(300))
    before = cluster.started.read_text() if cluster.started.exists() else ""
    ran = run_job(cluster, "export", "T", "--store", str(root), "--to", f"parquet:{table}")
    assert (ran.returncode, ran.stdout) == (0, "300\t1\t0\n"), ran.stdout + ran.stderr
    assert cluster.started.read_text() != before, "executors ran their own Python"
    rows = ds.dataset(table, format="parquet").to_table(columns=["body"]).to_pylist()
    assert sorted(int(row["body"]) for row in rows) == list(range(300))


@pytest.mark.java
@pytest.mark.cluster
def test_a_job_brings_to_a_cluster_what_decodes_bodies(cluster: Standalone, tmp_path: Path) -> None:
    """Protobuf, whose compiler is a process of its own on executors too."""
    root, tables, registry = (tmp_path / name for name in ("broker-a", "tables", "schemas.json"))
    registry.write_text(json.dumps({"payments": {"type": "PROTOBUF", "schema": PROTO}}))
    with open_store(root) as store:
        put(store, [stored(PAYMENT, topic="payments"), stored(b"?", topic="payments")])
    words = ("schema", f"store:{root}", str(tables), "--registry", str(registry))
    ran = run_job(cluster, *words)
    found = ran.returncode, ran.stdout.splitlines()
    assert found == (1, ["1\t1", "1\tno shop.Payment"]), ran.stdout + ran.stderr
    (row,) = ds.dataset(tables / "topics/payments", format="parquet").to_table().to_pylist()
    assert (row["id"], row["state"]) == (7, "PAID")


@pytest.mark.java
@pytest.mark.cluster
def test_session_starts_on_a_cluster_from_python_with_the_packed_files(
    cluster: Standalone, spark_brokers: SparkCluster, tmp_path: Path
) -> None:
    """Neither is the driver's Python on its PATH, nor can executors start it by its path."""
    spark_brokers.create_topic("Session")
    spark_brokers.send([Message("Session", str(n).encode()) for n in range(40)])
    ran = subprocess.run(
        [
            *(str(cluster.driver_python), "-c", FROM_PYTHON, cluster.master),
            *(str(tmp_path / "package"), spark_brokers.nameservers),
        ],
        capture_output=True,
        text=True,
        timeout=500,
        env=dict(cluster.strange_env),
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    master, [[code, compiled]], rows = found_by(ran.stdout)
    assert rows == list(range(40))
    assert master == cluster.master
    assert "pocketmq-spark.zip/" in code
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
