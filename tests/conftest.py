"""What holds for every test: both event loops, hypothesis profiles, tools, nothing unhandled."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import sys
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import structlog

from support import leavings, own_copies, standstill, surroundings
from support.groups import durations_text
from support.leavings import Leavings
from support.standstill import Standstills

_LOWER_LIMITS = surroundings.set_known()
own_copies.renew_own()

IN_CI = os.environ.get("CI", "").lower() in ("true", "1")

TOOLS_OF_MARKER = {
    "java": ("java", "mvn"),
    "root": ("strace",),
    "browser": ("chromium",),
    "go": ("go",),
}
NEVER_SKIPPED_IN_CI = {"java": "the Java tests", "browser": "the tests in Chromium", "go": "Go"}

_unhandled: list[str] = []
_seconds_of_test: dict[str, float] = {}

# Its checks of time would fail tests on a machine that is busy or stands still.
_ANY_TIME = hypothesis.settings(
    deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile("quick", _ANY_TIME, max_examples=20)
hypothesis.settings.register_profile("dev", _ANY_TIME, max_examples=50)
hypothesis.settings.register_profile("ci", _ANY_TIME, max_examples=100, derandomize=True)
hypothesis.settings.register_profile("nightly", _ANY_TIME, max_examples=2000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if IN_CI else "dev"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector: what is imported and found stays, so it finds nothing.

    Walking it again and again took a tenth of the processor time, and a third where asserts are
    rewritten.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Thousands of tests stay as they are: the garbage collector need not walk them again."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--loops one`: what `make quick` asks for."""
    parser.addoption(
        "--loops",
        choices=("both", "one"),
        default="both",
        help="run each async test on both event loops, or on one of them drawn by its name",
    )
    parser.addoption("--durations-to", help="write here how long the tests took")
    parser.addoption(
        "--nightly",
        action="store_true",
        help="also run the tests marked `nightly`: `make nightly` does",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without `--nightly` the bigger cases are left out; `make test` has the smallest of a kind."""
    if config.getoption("nightly"):
        return
    left_out = [item for item in items if item.get_closest_marker("nightly")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("nightly")]


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """By now pytest has seen whether its terminal has colours."""
    surroundings.forget_terminal()
    config.pluginmanager.register(Standstills(config), standstill.NAME)
    config.pluginmanager.register(Leavings(), leavings.NAME)


def pytest_report_header() -> list[str]:
    """Limits of this shell that are too low, which tests may fail by."""
    return [f"limits lower than the tests expect: {each}" for each in _LOWER_LIMITS]


# -- loops --------------------------------------------------------------------------------------


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Each async test runs on asyncio and on uvloop; the long ones on the loop that users get.

    With `--loops one` each runs on one of the two, half of them on either.
    """
    factories = {"asyncio": _watched(asyncio.new_event_loop)}
    try:
        import uvloop
    except ImportError:
        return factories
    factories["uvloop"] = _watched(uvloop.new_event_loop)
    long = item.get_closest_marker("cluster") or item.get_closest_marker("slow")
    if long:
        return {"uvloop": factories["uvloop"]}
    if config.getoption("loops") == "one":
        drawn = sorted(factories)[zlib.crc32(item.nodeid.encode()) % 2]
        return {drawn: factories[drawn]}
    return factories


def _watched(
    factory: Callable[[], asyncio.AbstractEventLoop],
) -> Callable[[], asyncio.AbstractEventLoop]:
    def new_loop() -> asyncio.AbstractEventLoop:
        loop = factory()
        loop.set_exception_handler(_remember)
        return loop

    return new_loop


def _remember(_loop: asyncio.AbstractEventLoop, facts: dict[str, Any]) -> None:
    culprit = facts.get("task") or facts.get("future") or facts.get("handle") or ""
    _unhandled.append(f"{facts.get('message')}: {facts.get('exception')!r} {culprit}")


@pytest.fixture(autouse=True)
def nothing_unhandled_on_the_loop(request: pytest.FixtureRequest) -> Iterator[None]:
    """An error that reached a loop's exception handler fails the test in which it showed."""
    _unhandled.clear()
    yield
    if "_asyncio_loop_factory" in request.fixturenames:
        gc.collect(1)  # "exception was never retrieved" is said when the task is collected
    if _unhandled:
        found = "\n".join(_unhandled)
        _unhandled.clear()
        pytest.fail(f"unhandled on the event loop:\n{found}", pytrace=False)


# -- processes ----------------------------------------------------------------------------------


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadgroup`, as `make test` calls it, units are handed out longest first."""
    if config.getoption("dist") != "loadgroup":
        return None
    from support.by_unit import ByUnit

    return ByUnit(config, log)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up set-up, test and tear-down."""
    _seconds_of_test[report.nodeid] = _seconds_of_test.get(report.nodeid, 0.0) + report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """`--durations-to`: what the next runs order their tests by."""
    path = session.config.getoption("durations_to")
    if path and not hasattr(session.config, "workerinput"):
        Path(path).write_text(durations_text(_seconds_of_test), encoding="utf-8")


# -- tools --------------------------------------------------------------------------------------


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that needs a missing tool is skipped with a reason; in CI nothing may be missing."""
    for marker, tools in TOOLS_OF_MARKER.items():
        if item.get_closest_marker(marker) is None:
            continue
        missing = [tool for tool in tools if shutil.which(tool) is None]
        if marker == "root" and os.geteuid() != 0:
            pytest.skip("needs root")
        if missing:
            # pytest_runtest_makereport turns this into a failure in CI, but for `root`.
            pytest.skip(f"{' and '.join(missing)} not installed; `make setup` as root brings it")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With CI=true a test with Java, Go or Chromium that skips, for whatever reason, has failed."""
    report = yield
    for marker, which in NEVER_SKIPPED_IN_CI.items():
        if IN_CI and report.skipped and item.get_closest_marker(marker) is not None:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            report.outcome = "failed"
            report.longrepr = f"CI must run {which}, but: {reason}"
    return report


@pytest.fixture(autouse=True)
def _pages_do_not_complain() -> Iterator[None]:
    """What a page says in its console fails the test in which it said it, not the last of many."""
    yield
    browser = sys.modules.get("support.browser")
    if browser is not None and (said := browser.fresh_complaints()):
        pytest.fail("\n".join(said), pytrace=False)


@pytest.fixture(autouse=True)
def _logs_unfiltered() -> None:
    """Every test sees all log events: a client made by another test must not have quieted them."""
    structlog.reset_defaults()
    structlog.configure()
