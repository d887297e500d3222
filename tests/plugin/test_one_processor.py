"""While clocks move, the threads that take turns stay on one processor."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from pocketmq.runtime.loop_thread import LoopThread
from pocketmq.testing.one_processor import on_one_processor

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a thread choose")


def processors_of(name: str) -> set[int]:
    """Where the thread of this name may run."""
    found = next(each.native_id for each in threading.enumerate() if each.name == name)
    assert found is not None
    return os.sched_getaffinity(found)


def test_loops_share_a_processor_and_are_free_afterwards() -> None:
    free = os.sched_getaffinity(0)
    ended = threading.Event()
    other = threading.Thread(target=ended.wait, name="of somebody else")
    other.start()
    loops = [LoopThread("a role"), LoopThread("its clients")]
    try:
        with on_one_processor():
            here = processors_of("MainThread")
            assert len(here) == 1
            assert processors_of("a role") == processors_of("its clients") == here
            assert processors_of("of somebody else") == free
            loops.append(LoopThread("started meanwhile"))
        for name in ("MainThread", "a role", "its clients", "started meanwhile"):
            assert processors_of(name) == free
    finally:
        ended.set()
        other.join()
        for loop in loops:
            loop.stop()


async def test_a_system_that_forbids_it_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread_id: int, _processors: set[int]) -> None:
        raise PermissionError(1, "Operation not permitted")

    free = os.sched_getaffinity(0)
    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    with on_one_processor():
        assert os.sched_getaffinity(0) == free
