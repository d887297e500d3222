"""What `session()` sets, by where it runs; without Java. test_spark_package.py has a cluster."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pyspark_sql = pytest.importorskip("pyspark.sql")
module = importlib.import_module("pocketmq.pipeline.spark.session")

HERE = ["local", "local[*]", "local[2]", "local[2,3]", "local-cluster[2,1,512]"]
ELSEWHERE = ["spark://master:7077", "yarn", "k8s://https://host:6443", "local-host:7077"]
LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
OF_WORKERS = ("PYSPARK_PYTHON", "SPARK_LOCAL_IP")

Started = Callable[..., dict[str, str]]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """Calls `session`; the settings with which it would have started Spark."""
    monkeypatch.setenv("PATH", os.environ["PATH"])
    for name in (*OF_WORKERS, "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, "")  # so that what is set is taken back after the test
        monkeypatch.delenv(name)
    for name in ("SPARK_MASTER", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(module, "check_spark", lambda: None)
    monkeypatch.setattr(
        pyspark_sql.SparkSession.Builder, "getOrCreate", lambda self: dict(self._options)
    )
    monkeypatch.setattr("pocketmq.pipeline.spark.stream_figures.figures", lambda _spark: None)
    made: Started = module.session
    return made


@pytest.mark.parametrize("master", HERE)
def test_a_session_of_this_machine_listens_on_loopback_with_this_python(
    master: str, started: Started
) -> None:
    settings = started(master=master)
    assert settings.items() >= LOOPBACK.items()
    assert settings["spark.master"] == master
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"


@pytest.mark.parametrize("master", ELSEWHERE)
def test_executors_of_a_cluster_reach_the_driver_and_take_a_python_of_their_own(
    master: str, started: Started
) -> None:
    settings = started(master=master)
    assert settings["spark.master"] == master
    assert not [name for name in settings if name.startswith("spark.driver.")]
    assert not [name for name in (*OF_WORKERS, "PYSPARK_DRIVER_PYTHON") if name in os.environ]
    # Where nothing is said, Spark starts `python3`: this one here, their own on the executors.
    assert os.environ["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)
    # Four partitions are for one machine, and a cluster's user wants Spark's pages.
    assert not {"spark.sql.shuffle.partitions", "spark.ui.enabled"} & settings.keys()
    # What makes the sources work as documented stays.
    assert settings["spark.sql.session.timeZone"] == "UTC"
    assert settings["spark.sql.python.filterPushdown.enabled"] == "true"


def test_without_a_word_it_is_this_machine_and_the_environment_says_otherwise(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert started()["spark.master"] == "local[*]"
    del os.environ["PYSPARK_PYTHON"], os.environ["SPARK_LOCAL_IP"]
    monkeypatch.setenv("SPARK_MASTER", "spark://master:7077")
    assert started()["spark.master"] == "spark://master:7077"
    assert "PYSPARK_PYTHON" not in os.environ
    assert started(master="local[1]").items() >= LOOPBACK.items()


@pytest.mark.parametrize(
    "words",
    [
        "--master spark://master:7077 pyspark-shell",
        "'--master=spark://master:7077' pyspark-shell",
        "--conf spark.master=spark://master:7077 pyspark-shell",
        "--conf 'spark.master=spark://master:7077' --conf spark.ui.enabled=true pyspark-shell",
    ],
)
def test_the_words_for_spark_submit_say_where_it_runs(
    words: str, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", words)
    settings = started()
    assert "spark.master" not in settings
    assert not LOOPBACK.keys() & settings.keys()


def test_what_spark_submit_was_given_stays_and_what_the_caller_gives_comes_before_it(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "--conf spark.sql.session.timeZone=CET -c spark.log.level=INFO --name x pyspark-shell"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", words)
    settings = started(settings={"spark.log.level": "WARN"})
    assert "spark.sql.session.timeZone" not in settings
    assert settings["spark.log.level"] == "WARN"
    assert settings["spark.master"] == "local[*]"


def test_the_caller_may_give_the_master_among_the_settings(started: Started) -> None:
    settings = started(settings={"spark.master": "spark://master:7077"})
    assert settings["spark.master"] == "spark://master:7077"
    assert not LOOPBACK.keys() & settings.keys()


@pytest.mark.parametrize("master", ["local-cluster[2,1,512]", *ELSEWHERE])
def test_the_parent_of_workers_is_ours_only_where_workers_have_the_package(
    master: str, started: Started
) -> None:
    assert "spark.python.daemon.module" not in started(master=master)
    if sys.platform == "linux":
        assert "spark.python.daemon.module" in started(master="local[2]")
