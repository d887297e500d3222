"""What a worker has imported is not searched for garbage after each task; elsewhere it is."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from pyspark import TaskContext

from pocketmq.pipeline.workers import worker_memory


@pytest.fixture(autouse=True)
def thawed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(worker_memory, "_is_kept", False)
    monkeypatch.setattr(worker_memory, "_planned", 0)
    yield
    gc.unfreeze()


def test_in_a_task_the_collector_passes_over_what_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TaskContext, "get", staticmethod(object))
    worker_memory.keep_loaded()
    kept = gc.get_freeze_count()
    assert kept > 0
    made: list[list[int]] = [[]]  # of a later task: it is collected
    worker_memory.keep_loaded()
    assert gc.get_freeze_count() <= kept
    assert any(each is made for each in gc.get_objects())


def test_a_worker_that_plans_batches_keeps_what_its_first_one_has_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    daemon = ["daemon.py", "pyspark.sql.worker.write_into_data_source"]
    monkeypatch.setattr("sys.argv", daemon)
    before = gc.get_freeze_count()
    worker_memory.keep_planner_loaded()
    assert gc.get_freeze_count() == before  # it has not imported all yet
    worker_memory.keep_planner_loaded()
    kept = gc.get_freeze_count()
    assert kept > before
    made: list[list[int]] = [[]]
    worker_memory.keep_planner_loaded()
    assert gc.get_freeze_count() <= kept
    assert any(each is made for each in gc.get_objects())


def test_outside_of_tasks_nothing_changes() -> None:
    before = gc.get_freeze_count()
    worker_memory.keep_loaded()
    for _ in range(2):
        worker_memory.keep_planner_loaded()
    assert gc.get_freeze_count() == before
