"""Where a job runs, what it brings along, and that it says so; without Java.

`test_spark_jobs.py` has jobs in a real session.
"""

from __future__ import annotations

import importlib
import tarfile
from pathlib import Path
from typing import Any

import pytest

from pocketmq.cluster.cli.jobs import pipeline_spark
from pocketmq.runtime.errors import CallerError

pyspark_sql = pytest.importorskip("pyspark.sql")
module = importlib.import_module("pocketmq.pipeline.jobs.on_spark")


class Running:
    """A session that was started before, by the job or by whoever calls it."""

    def __init__(self) -> None:
        self.conf = {"spark.master": "local[4]"}


class Started:
    """Stands for Spark: what `session` was asked for, and whether one runs already."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.running: Running | None = None
        self.asked: dict[str, Any] = {}
        self.told: list[str] = []
        for name in ("SPARK_MASTER", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(module, "check_spark", lambda: None)
        monkeypatch.setattr(
            pyspark_sql.SparkSession, "getActiveSession", lambda: self.running, raising=True
        )
        monkeypatch.setattr(module, "session", self._start)

    def _start(self, name: str, **asked: Any) -> str:
        self.asked = {"name": name, **asked}
        return "made"

    def job(self, **asked: Any) -> Any:
        return module.job_session("latency", starting=self.told.append, **asked)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    return Started(monkeypatch)


def test_a_job_runs_on_two_cores_of_this_machine_and_says_that_spark_starts(
    started: Started,
) -> None:
    assert started.job() == "made"
    assert (started.asked["name"], started.asked["master"]) == ("latency", "local[2]")
    assert started.told == ["local[2]"]
    assert "spark.archives" not in started.asked["settings"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("SPARK_MASTER", "spark://there:7077"),
        ("PYSPARK_SUBMIT_ARGS", "--master spark://there:7077 pyspark-shell"),
    ],
)
def test_the_environment_says_where_it_runs_and_the_option_comes_before_it(
    name: str, words: str, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, words)
    started.job()
    assert started.asked["master"] == "spark://there:7077"
    started.job(master="local[1]")
    assert started.asked["master"] == "local[1]"


def test_on_a_cluster_a_job_brings_the_package_along(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    started.job(master="spark://there:7077", also=["fastavro"])
    settings = started.asked["settings"]
    code, archive = settings["spark.submit.pyFiles"], settings["spark.archives"]
    assert Path(code).is_file()
    with tarfile.open(archive.partition("#")[0]) as packed:
        assert "fastavro/__init__.py" in packed.getnames()
    assert settings["spark.executorEnv.PYTHONPATH"] == archive.partition("#")[2]
    given = "--master yarn --conf spark.archives=mine.tar.gz#mine pyspark-shell"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", given)
    started.job()
    assert "spark.archives" not in started.asked["settings"]  # whoever submits has packed it


def test_a_session_that_runs_is_used_and_not_moved(started: Started) -> None:
    started.running = Running()
    assert started.job() is started.running
    assert started.job(master="local[4]") is started.running
    assert started.told == []
    with pytest.raises(CallerError, match=r"Spark already runs in this process at local\[4\]"):
        started.job(master="spark://there:7077")


def test_a_command_says_on_a_terminal_only_that_spark_starts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline_spark.tell_starting("local[2]")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    pipeline_spark.tell_starting("local[2]")
    assert capsys.readouterr().err == "Spark starts at local[2], which takes some seconds\n"
