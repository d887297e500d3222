"""A pytest plugin that records which test runs which lines of the packages, and how long it takes.

    COVERING=map.json python -m pytest -p mutants.covering tests/client

The map is `{"seconds": {test: s}, "files": {file: {line: [test, ...]}}}`; a test is a node id
without parameters, a file lies below the current folder. Lines that run when a module is imported
belong to no test and are left out, and so are tests that fail.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path

import coverage
import pytest


class _Covering:
    def __init__(self, target: Path) -> None:
        self._target = target
        self._root = Path.cwd()
        self._seconds: dict[str, float] = defaultdict(float)
        self._failed: set[str] = {""}
        self._coverage = coverage.Coverage(
            data_file=None,
            include=[f"{self._root}/*/pocketmq/*"],
            config_file=False,
        )
        self._coverage.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._coverage.switch_context(_function(nodeid))

    def pytest_runtest_logfinish(self) -> None:
        self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[_function(report.nodeid)] += report.duration
        if report.failed:
            self._failed.add(_function(report.nodeid))

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        files = {}
        for name in sorted(data.measured_files()):
            lines = {
                line: sorted(tests)
                for line, contexts in data.contexts_by_lineno(name).items()
                if (tests := set(contexts) - self._failed)
            }
            if lines:
                files[Path(name).relative_to(self._root).as_posix()] = lines
        seconds = {test: round(took, 3) for test, took in self._seconds.items()}
        self._target.write_text(json.dumps({"seconds": seconds, "files": files}), encoding="utf-8")


def _function(node_id: str) -> str:
    return node_id.split("[")[0]


def pytest_configure(config: pytest.Config) -> None:
    """Begin, where `COVERING` names the file to write."""
    if target := os.environ.get("COVERING"):
        config.pluginmanager.register(_Covering(Path(target)), "covering")
