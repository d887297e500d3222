"""A cluster with a proxy, which keeps nothing, is saved, loaded and wiped as one without."""

from __future__ import annotations

import asyncio
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


def test_two_first_watchers_at_once_are_told_by_one_task() -> None:
    with start_cluster() as cluster:

        async def both() -> int:
            events = cluster.control.events
            async with asyncio.TaskGroup() as group:
                entered = [asyncio.Event(), asyncio.Event()]

                async def watch(own: asyncio.Event) -> None:
                    async with events.watch():
                        own.set()
                        for each in entered:
                            await each.wait()
                        counted.append(
                            sum(task.get_name() == "event stream" for task in asyncio.all_tasks())
                        )

                counted: list[int] = []
                for own in entered:
                    group.create_task(watch(own))
            assert events.is_watched is False
            return max(counted)

        assert cluster.thread.result(both()) == 1
