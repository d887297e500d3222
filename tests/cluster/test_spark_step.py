"""The demo's last step around Spark: left out, failed, or one more equal table."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from pocketmq.cluster.demo import spark_step
from pocketmq.cluster.demo.report import DemoReport, render
from pocketmq.cluster.demo.spark_step import SparkStep, run_spark_step
from pocketmq.runtime.errors import MissingToolError
from support.eventually import eventually

MEANS = {"OO": None, "UA": Fraction(7, 3)}
PRINTS_A_TABLE = (
    'print(\'{"carrier": "OO", "flights": 1, "departed": 0, "minutes": 0}\');'
    'print(\'{"carrier": "UA", "flights": 4, "departed": 3, "minutes": 7}\')'
)


@pytest.fixture
def _spark_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_step, "check_spark", lambda: None)


async def step(folder: Path, code: str) -> SparkStep:
    job = (sys.executable, "-c", code)
    return await run_spark_step("127.0.0.1:1", "flights", folder / "spark.log", job=job)


def text_of(spark: SparkStep | None) -> tuple[str, bool]:
    """What is printed, and whether the run was good."""
    report = DemoReport(
        sent=5, stored=5, consumed=5, redelivered=0, lost=0, unread=0,
        means=dict(MEANS), csv_means=dict(MEANS), spark=spark,
    )  # fmt: skip
    console = Console(width=120, file=io.StringIO())
    render(report, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue(), report.is_good


def no_java() -> None:
    raise MissingToolError("Java 17 or later", "Spark", "no `java` was found")


def no_pyspark() -> None:
    raise MissingToolError("PySpark", "Spark", "pip install 'pocketmq[spark]'")


@pytest.mark.parametrize(("missing", "says"), [(no_java, "Java 17"), (no_pyspark, "PySpark")])
async def test_without_java_or_pyspark_one_line_says_so_and_the_run_is_good(
    missing: Callable[[], None], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_step, "check_spark", missing)
    text, is_good = text_of(await step(tmp_path, "raise SystemExit(9)"))
    assert is_good
    (line,) = [line for line in text.splitlines() if "Spark" in line]
    assert line.startswith(f"Spark is left out: Spark needs {says}")


@pytest.mark.usefixtures("_spark_is_there")
async def test_sparks_table_stands_beside_the_other_two(tmp_path: Path) -> None:
    found = await step(tmp_path, PRINTS_A_TABLE)
    assert (found.means, found.flights) == (MEANS, 5)
    text, is_good = text_of(found)
    assert is_good
    assert text.count("2.3333333333333335") == 3
    assert "by Spark" in text
    assert "Spark read 5 flights from the brokers in " in text


def test_a_table_that_differs_makes_the_run_bad() -> None:
    for spark, complaint in (
        (SparkStep("", {**MEANS, "UA": Fraction(7, 3) + Fraction(1, 10**30)}, 5), "differ from"),
        (SparkStep("", {"UA": Fraction(7, 3)}, 5), "differ from"),
        (SparkStep("", MEANS, 4), "Spark has read 4 of 5 stored messages"),
    ):
        text, is_good = text_of(spark)
        assert not is_good
        assert complaint in text


@pytest.mark.usefixtures("_spark_is_there")
async def test_when_spark_fails_its_last_word_is_told(tmp_path: Path) -> None:
    found = await step(tmp_path, "raise SystemExit('Java\\ncarriers: no memory')")
    text, is_good = text_of(found)
    assert not is_good
    assert f"Spark failed: carriers: no memory; see {tmp_path / 'spark.log'}" in text


@pytest.mark.usefixtures("_spark_is_there")
async def test_an_interrupted_step_leaves_no_process(tmp_path: Path) -> None:
    child = tmp_path / "child"
    code = (
        "import pathlib, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\n"
        f"pathlib.Path({str(child)!r}).write_text(str(child.pid))\n"
        "child.wait()\n"
    )
    running = asyncio.create_task(step(tmp_path, code))
    pid = int(await eventually(lambda: child.exists() and child.read_text(), "the child runs"))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    def is_gone() -> bool:
        return not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie"

    await eventually(is_gone, "the child is gone")
