"""A failing cluster test tells the story of its processes."""

from __future__ import annotations

import sys
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Append the tail of each process's log to the report of a failure."""
    report = yield
    support = sys.modules.get("support.cluster")  # tests without processes never load it
    clusters = support.running_clusters if support is not None else []
    if report.failed:
        for cluster in clusters:
            report.sections.append(("logs of the cluster", cluster.story()))
    if call.when == "teardown":
        clusters.clear()
    return report
