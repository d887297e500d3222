"""How `pytest -n 4 --dist loadgroup` shares the tests out: what stays together, what begins first.

A *unit* is what one process runs in one go: a group below, a long test, or a file without its long
tests. `tests/durations.tsv` has the seconds of each unit that takes some; a test that it names is
a unit of its own. The longest unit begins first, so that the end waits for none.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

DURATIONS = Path(__file__).parents[1] / "durations.tsv"
LONG_S = 4.0
"""Seconds from which a test is a unit of its own, and a unit is written down."""

STARTS_PROCESSES = (
    "tests/cluster/",
    "tests/compat/",
    "tests/distribution/",
    "tests/interop/",
    "tests/parity/",
    "tests/pipeline/",
    "tests/recipes/",
)
"""Where most tests wait for processes that they start."""
NEW_S = 20.0
"""What a unit of those folders that is not written down may take, as a new one does: begun last, it
would be waited for while all other processes are done."""

SPARK = "spark"
JOBS = "spark jobs"
"""Jobs by Spark, in a session of their own: with the others they would take longest of all."""
APART = "spark apart"
"""Tests that start JVMs of their own; they need not wait for those of the shared session."""
ONE_PROCESS = (
    ("tests/pipeline/test_spark_package.py", APART),
    ("tests/pipeline/test_spark_crashes.py", "spark crashes"),
    ("tests/pipeline/test_spark_docs.py", APART),
    ("tests/cluster/test_demo.py::test_the_demo_loses_nothing", APART),
    ("tests/pipeline/test_spark_export.py", JOBS),
    ("tests/pipeline/test_spark_jobs.py", JOBS),
    ("tests/pipeline/test_spark_latency.py", JOBS),
    ("tests/pipeline/test_spark_replay", JOBS),
    ("tests/pipeline/test_spark_schema.py", JOBS),
    ("tests/pipeline/test_spark_trace.py", JOBS),
    ("tests/pipeline/test_spark", SPARK),
    ("tests/pipeline/test_topic_reading.py", "topic"),
    ("tests/pipeline/test_stream_reading.py", "stream"),
    ("tests/distribution/", "distribution"),
    ("tests/cluster/test_cli.py", "cli"),
    ("tests/control_address/test_requests.py", "requests"),
    ("tests/watching/test_live_cluster.py", "live cluster"),
    ("tests/interop/test_real_rocketmq.py", "real RocketMQ"),
    ("tests/parity/test_parity.py", "parity"),
    ("tests/interop/test_client_against_rocketmq.py", "against RocketMQ"),
)
"""How a test's id begins, and its group: those of one share a Spark session, a cluster, an image.

Marks `xdist_group` would say it too, but with pytest 9.2 xdist 3.8 does not see them.
"""


def group_of(test_id: str) -> str:
    """The group of a test, or itself."""
    return next((group for start, group in ONE_PROCESS if test_id.startswith(start)), test_id)


def unit_of(test_id: str) -> str:
    """What a test is run together with."""
    group = group_of(test_id)
    if group != test_id or test_id in recorded_seconds():
        return group
    return test_id.split("::")[0]


def seconds_of(unit: str) -> float:
    """How long a unit takes, about; 0 for one that is short, or new and starts no process."""
    return recorded_seconds().get(unit, NEW_S if unit.startswith(STARTS_PROCESSES) else 0.0)


@cache
def recorded_seconds(path: Path = DURATIONS) -> dict[str, float]:
    """The recorded seconds by unit."""
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return {unit: float(seconds) for seconds, unit in rows}


def durations_text(seconds_of_test: dict[str, float]) -> str:
    """`tests/durations.tsv` for the tests of a run."""
    units: Counter[str] = Counter()
    for test_id, seconds in seconds_of_test.items():
        group = group_of(test_id)
        is_own = group == test_id and seconds < LONG_S
        units[test_id.split("::")[0] if is_own else group] += seconds
    rows = [f"{seconds:.0f}\t{unit}" for unit, seconds in units.most_common() if seconds >= LONG_S]
    head = "# Seconds of tests, files and groups: `make test DURATIONS=tests/durations.tsv`"
    return "\n".join([head, *rows, ""])
