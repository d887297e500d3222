"""A cluster with a proxy, which keeps nothing, is saved, loaded and wiped as one without."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.testing import start_cluster

pytest.importorskip("grpc")


def test_a_load_and_a_reset_leave_no_journal_and_nothing_to_finish(tmp_path: Path) -> None:
    with start_cluster(proxy=True, data=tmp_path / "data") as cluster:
        cluster.sync.create_topic("orders")
        cluster.sync.save_snapshot(tmp_path / "saved")
        cluster.sync.load_snapshot(tmp_path / "saved")
        cluster.sync.reset()
        left = [each.name for each in cluster.data.iterdir() if each.name.startswith(".")]
        assert left == []
    assert not (tmp_path / "saved" / "proxy-1").exists()
