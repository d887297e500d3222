"""What a worker has imported is not searched for garbage after each task; elsewhere it is."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from pyspark import TaskContext

from pocketmq.pipeline import worker_memory


@pytest.fixture(autouse=True)
def thawed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(worker_memory, "_is_kept", False)
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


def test_outside_of_tasks_nothing_changes() -> None:
    before = gc.get_freeze_count()
    worker_memory.keep_loaded()
    assert gc.get_freeze_count() == before
