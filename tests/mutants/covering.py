"""A pytest plugin that records which test runs which lines of some modules, and how long it takes.

    COVERING=map.json COVERED=modules.txt python -m pytest -p mutants.covering tests/client

`COVERED` names a file with one path below the current folder a line. The map is
`{"seconds": {test: s}, "files": {file: {line: [test, ...]}}, "imported": {file: [line, ...]}}`; a
test is a node id without parameters, its seconds are processor time. Lines that run when a module
is imported belong to no test and stand in `imported`. Tests that fail are left out.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path
from time import process_time

import coverage
import pytest


class _Covering:
    def __init__(self, target: Path, files: list[str]) -> None:
        self._target = target
        self._root = Path.cwd()
        self._seconds: dict[str, float] = defaultdict(float)
        self._began_at = 0.0
        self._failed: set[str] = set()
        self._coverage = coverage.Coverage(
            data_file=None,
            include=[f"{self._root}/{file}" for file in files],
            config_file=False,
        )
        self._coverage.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._began_at = process_time()
        self._coverage.switch_context(_function(nodeid))

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._coverage.switch_context("")
        self._seconds[_function(nodeid)] += process_time() - self._began_at

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(_function(report.nodeid))

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        files, imported = {}, {}
        for path in sorted(data.measured_files()):
            name = Path(path).relative_to(self._root).as_posix()
            by_line = {
                line: set(contexts) for line, contexts in data.contexts_by_lineno(path).items()
            }
            files[name] = {
                line: sorted(tests)
                for line, contexts in by_line.items()
                if (tests := contexts - self._failed - {""})
            }
            imported[name] = [line for line, contexts in by_line.items() if "" in contexts]
        seconds = {test: round(took, 3) for test, took in self._seconds.items()}
        found = {"seconds": seconds, "files": files, "imported": imported}
        self._target.write_text(json.dumps(found), encoding="utf-8")


def _function(node_id: str) -> str:
    return node_id.split("[")[0]


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Begin, where `COVERING` names the file to write; before a conftest imports any module."""
    if target := os.environ.get("COVERING"):
        files = Path(os.environ["COVERED"]).read_text(encoding="utf-8").split()
        early_config.pluginmanager.register(_Covering(Path(target), files), "covering")
