"""What tests of a process share: one Spark session, as a second JVM would cost half a minute, the
brokers that it reads from, and a store directory."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.groups import JOBS, SPARK, group_of
from support.spark_cluster import SparkCluster, spark_cluster
from support.spark_store import MESSAGES, mixed, open_store, pulled, put, row_of
from support.wheel import build_wheel

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever uses the session needs Java, and time."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            if group_of(item.nodeid) not in (SPARK, JOBS):
                raise pytest.UsageError(f"{item.nodeid}: a second JVM; see tests/support/groups.py")
            item.add_marker(pytest.mark.java)
            item.add_marker(pytest.mark.cluster)
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What readers of the pages install."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def spark_programs(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where Spark is, for tests that start programs of it."""
    from support.spark_home import use_spark_home

    use_spark_home(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def spark(spark_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The shared session: two cores, little memory."""
    from pocketmq.pipeline import session

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark leaves sockets and subprocesses to the collector
        spark = session(
            "tests",
            master="local[2]",
            settings={
                "spark.driver.memory": "1g",
                "spark.sql.shuffle.partitions": "2",
                "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            },
        )
    yield spark
    spark.stop()


@pytest.fixture(scope="session")
def spark_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A nameserver and two brokers; tests take topics of their own."""
    with spark_cluster(tmp_path_factory.mktemp("spark-brokers")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store whose log and queues have rolled; tests that change it take `copy`."""
    root = tmp_path_factory.mktemp("spark") / "store"
    with open_store(root) as store:
        put(store, mixed(MESSAGES))
    return root


@pytest.fixture(scope="session")
def expected(store: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The rows of `store`, as a consumer would get them."""
    copy = tmp_path_factory.mktemp("oracle") / "store"
    shutil.copytree(store, copy)
    with open_store(copy) as opened:
        return [row_of(message, str(store)) for message in pulled(opened)]


@pytest.fixture
def copy(store: Path, tmp_path: Path) -> Path:
    """A store of one's own."""
    target = tmp_path / "copy"
    shutil.copytree(store, target)
    return target
