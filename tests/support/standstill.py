"""Plugin of pytest: a test that failed while the machine stood still is run once more, and listed.

A paused machine, or one that swaps, breaks what a test says about time: connections are given up,
leases end. A process (`ticking.py`) notes when nothing ran for half a second. A test that failed
then is set up anew with all its fixtures, those of its module and session included, and its second
run counts. Nothing else is ever run again, and nothing twice.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from support import ticking

NAME = "standstill"
_FIRST_RUN = pytest.StashKey[str]()
"""How the first run of a test that is run again failed."""
_LOOK_S = 0.02
_LOOKS = 500
"""How often to look for a tick: one who waits while the machine stands still looks as often."""


class Standstills:
    """Registered in the process that hands tests out, and in each that runs them."""

    def __init__(self, config: pytest.Config) -> None:
        handed = getattr(config, "workerinput", {}).get(NAME)
        self._path = Path(handed) if handed else None
        self._ticking: subprocess.Popen[bytes] | None = None
        self._listed: list[tuple[str, str, str]] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Begin to tick, before workers are started."""
        if self._path is None:
            number, name = tempfile.mkstemp(prefix="standstills-")
            os.close(number)
            self._path = Path(name)
            self._ticking = subprocess.Popen(
                [sys.executable, "-S", ticking.__file__, name, str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker of pytest-xdist where standstills are noted."""
        node.workerinput[NAME] = str(self._path)

    def pytest_unconfigure(self) -> None:
        """Tick no longer."""
        if self._ticking is not None and self._path is not None:
            self._ticking.kill()
            self._ticking.wait()
            self._path.unlink(missing_ok=True)

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """As pytest does it, but reports are handed on when it is known whether they count."""
        first_run = item.stash.get(_FIRST_RUN, None)
        if first_run is None:
            item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        began = time.monotonic()  # noqa: TID251 - as the ticks
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        failed = "\n".join(report.longreprtext for report in reports if report.failed)
        ends = item.session.shouldstop or item.session.shouldfail
        if failed and first_run is None and not ends and self.stood_still_since(began):
            item.stash[_FIRST_RUN] = failed + _tear_all_down(item.session)
            # The time limit of pytest-timeout begins anew: its hook is a wrapper of this one.
            if item.config.pluginmanager.hasplugin("timeout"):
                item.config.hook.pytest_timeout_cancel_timer(item=item)
            item.ihook.pytest_runtest_protocol(item=item, nextitem=nextitem)
            return True
        if first_run is not None:
            second_run = "failed again" if failed else reports[-2].outcome
            vars(reports[-1]).update(first_run=first_run, second_run=second_run)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def stood_still_since(self, moment: float) -> bool:
        """Whether the machine did until now, of which the next tick tells."""
        assert self._path is not None
        now = time.monotonic()  # noqa: TID251
        for _ in range(_LOOKS):
            last, standstills = ticking.noted(self._path)
            if last > now:
                return any(began < now and ended > moment for began, ended in standstills)
            time.sleep(_LOOK_S)  # noqa: TID251
        return False  # somebody has ended what ticks

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember what was run again, in whichever process."""
        if first_run := getattr(report, "first_run", None):
            self._listed.append((report.nodeid, getattr(report, "second_run", ""), first_run))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List what was run again, with what the first run said."""
        if not self._listed:
            return
        terminalreporter.section("run again, as the machine stood still")
        for test, outcome, first_run in self._listed:
            terminalreporter.write_line(f"AGAIN {test}: {outcome}; its first run:")
            terminalreporter.write_line(first_run)


def _tear_all_down(session: pytest.Session) -> str:
    """End the fixtures that the next test would have got too; what they said, if they failed."""
    try:
        session._setupstate.teardown_exact(None)
    except Exception as exc:  # noqa: BLE001 - fixtures of a failed test, which are made anew
        return f"\nand at the end of its fixtures: {exc!r}"
    return ""
