"""Plugin of pytest: what a test that failed leaves behind is taken away before the next one begins.

A traceback keeps the variables of a failed test: streams, loops, open files. Python drops it when
the next test begins, which then meets what closing them says. And a process that it started goes on
and holds its ports. Here the traceback goes in the failed test's own tear-down, with all that is
then garbage, and what that says is told of this test; processes of ours that it started are killed.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Generator
from pathlib import Path

import psutil
import pytest
from _pytest.unraisableexception import collect_unraisable

NAME = "leavings"
_HAS_FAILED = pytest.StashKey[bool]()
_BEFORE = pytest.StashKey[set[int]]()
_TASKS = Path("/proc/self/task")
_TOLD = Path("/proc/thread-self/children")
_OF_PYTHON = ("last_exc", "last_type", "last_value", "last_traceback")
"""Where Python keeps the last error; pytest sets it for debuggers."""


class Leavings:
    """Registered in each process that runs tests."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Note which processes fixtures have started: these end with their fixtures."""
        item.stash[_BEFORE] = _children()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note that a test failed."""
        report = yield
        if report.failed:
            item.stash[_HAS_FAILED] = True
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """Take away what a failed test has left, when its fixtures have ended."""
        try:
            return (yield)
        finally:
            if item.stash.get(_HAS_FAILED, False):
                _kill_started(item.stash.get(_BEFORE, None))
                for name in _OF_PYTHON:
                    vars(sys).pop(name, None)
                gc.collect()
                collect_unraisable(item.config)


def _children() -> set[int]:
    """Ids of the processes that this one started; Linux tells them in 0.02 ms, psutil in 3 ms."""
    if not _TOLD.exists():
        return {each.pid for each in psutil.Process().children()}
    found: set[int] = set()
    for thread in _TASKS.iterdir():
        with contextlib.suppress(OSError):  # the thread has ended
            found.update(map(int, (thread / "children").read_text().split()))
    return found


def _kill_started(before: set[int] | None) -> None:
    """End processes of ours that the test itself started."""
    for number in () if before is None else _children() - before:
        with contextlib.suppress(psutil.Error):
            each = psutil.Process(number)
            if any("pocketmq" in word for word in each.cmdline()):
                each.kill()
                each.wait(timeout=60)
