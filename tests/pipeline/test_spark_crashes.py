"""Exactly once into tables, whatever is killed; `scripts/spark_crashes.py` does it at full size.

Name servers are away for a second here and a minute there; brokers take ten seconds more until they
are known again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.forgetful import forgetful
from support.spark_cluster import SparkCluster, spark_cluster
from support.spark_crashes import Crashes

pytestmark = [pytest.mark.java, pytest.mark.cluster, pytest.mark.timeout(3600)]
"""Beside four busy loops 20 minutes were too few."""

FILE_BYTES = 16 * 1024


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[SparkCluster]:
    arguments = (*forgetful(FILE_BYTES), "--register-nameserver-period-ms", "10000")
    with spark_cluster(tmp_path / "cluster", broker_arguments=arguments) as cluster:
        yield cluster


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(("driver", "broker", "overtaken"), id="once each"),
        pytest.param(
            (
                *("driver", "grow", "retention", "driver", "broker"),
                *("overtaken", "driver", "nameservers", "driver"),
            ),
            id="five drivers",
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_tables_have_every_message_once_though_drivers_are_killed_and_retention_overtakes(
    mortal: SparkCluster, tmp_path: Path, events: tuple[str, ...]
) -> None:
    """`overtaken` kills the driver too."""
    Crashes(mortal, tmp_path, 2000, events, away_s=1.0, body_bytes=500).run()


def test_tables_have_every_message_once_though_an_executor_is_killed(
    mortal: SparkCluster, tmp_path: Path
) -> None:
    """The executors are processes of their own."""
    Crashes(mortal, tmp_path, 400, ["executor"], "local-cluster[2,1,512]", batches=4).run()
