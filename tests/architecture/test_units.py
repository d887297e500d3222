"""How `make test` shares the tests out over its processes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support.groups import (
    LONG_S,
    ONE_PROCESS,
    durations_text,
    group_of,
    recorded_seconds,
    seconds_of,
    unit_of,
)
from support.nested_pytest import pytest_command

ROOT = Path(__file__).parents[2]
LONG = "tests/cluster/test_crash_loop.py::test_nothing_acknowledged_is_lost_over_thirty_kills"


def test_short_tests_run_with_their_file_and_long_ones_alone() -> None:
    assert unit_of("tests/a/test_b.py::test_c[x::y]") == "tests/a/test_b.py"
    assert unit_of(LONG) == LONG
    assert seconds_of(LONG) >= LONG_S > seconds_of("tests/a/test_b.py") == 0


def test_a_new_file_that_starts_processes_does_not_begin_last() -> None:
    # It began when all others were done: a minute in which one process waited for RocketMQ's tools.
    assert seconds_of("tests/interop/test_new.py") > LONG_S
    assert seconds_of("tests/protocol/test_new.py") == 0


def test_what_shares_a_session_stays_together_however_long_it_takes() -> None:
    for start, group in ONE_PROCESS:
        assert unit_of(f"{start}::test_x") == group_of(f"{start}::test_x") == group


def test_durations_are_written_by_unit_the_longest_first() -> None:
    text = durations_text(
        {
            "tests/a/test_b.py::test_long": 9.0,
            "tests/a/test_b.py::test_c": 3.0,
            "tests/a/test_b.py::test_d": 2.0,
            "tests/a/test_e.py::test_short": 3.0,
            "tests/pipeline/test_spark_x.py::test_y": 30.0,
        }
    )
    assert text.splitlines()[1:] == [
        "30\tspark",
        "9\ttests/a/test_b.py::test_long",
        "5\ttests/a/test_b.py",
    ]


def test_every_recorded_unit_is_there() -> None:
    groups = {group for _, group in ONE_PROCESS}
    for unit in recorded_seconds():
        assert unit in groups or (ROOT / unit.split("::")[0]).is_file(), f"{unit} is gone"


DYING = """
import os, pytest

@pytest.mark.parametrize("n", range(3))
def test_it(n):
    if {dies} and n == 1:
        os._exit(1)
"""


LATE = """
def pytest_runtest_logreport(report):
    worker = getattr(report, "node", None)  # only in the process that hands out
    if worker and report.when == "teardown" and report.nodeid.endswith("test_1.py::test_it[0]"):
        worker.gateway._io.popen.wait()
"""
"""It hears that a test is done when the worker has died at the next one, as on a busy machine."""


@pytest.mark.slow
@pytest.mark.parametrize("conftest", ["", LATE], ids=["in time", "late"])
def test_a_worker_that_dies_costs_the_test_at_which_it_died(tmp_path: Path, conftest: str) -> None:
    # A unit that was done before was handed out again, and its new worker waited for ever. And
    # what was handed out to the dead one, before its death was known, ended the whole run.
    (tmp_path / "late.py").write_text(conftest)
    for number in range(6):
        (tmp_path / f"test_{number}.py").write_text(DYING.format(dies=number == 1))
    run = subprocess.run(
        pytest_command(
            tmp_path,
            *("-p", "conftest", "-p", "late", "-p", "no:cacheprovider"),
            *("-n", "2", "--dist", "loadgroup", str(tmp_path)),
        ),
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'tests'}{os.pathsep}{ROOT}{os.pathsep}{tmp_path}",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed, 17 passed" in run.stdout, run.stdout + run.stderr
