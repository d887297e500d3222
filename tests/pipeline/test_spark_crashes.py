"""Exactly once into tables, whatever is killed; `scripts/spark_crashes.py` does it at full size.

The executors are processes of their own. The script also stops all name servers for a minute, after
which brokers take half a minute to be known again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.spark_cluster import SparkCluster, spark_cluster
from support.spark_crashes import Crashes

pytestmark = [pytest.mark.java, pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path / "cluster") as cluster:
        yield cluster


def test_tables_have_every_message_once_whatever_is_killed_and_with_more_queues(
    mortal: SparkCluster, tmp_path: Path
) -> None:
    events = ["grow", "executor", "broker", "driver"]
    master = "local-cluster[2,1,512]"
    Crashes(mortal, tmp_path, 600, events, master, batches=6).run()
