"""A test that failed while the machine stood still is run once more and listed, and no other."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from support import ticking

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
OURS = """
import os, signal, time
from collections import Counter
from pathlib import Path

import pytest

from support import ticking
from support.standstill import NAME, Standstills

RUNS = Path(__file__).with_name("runs")

def pytest_configure(config):
    config.pluginmanager.register(Standstills(config), NAME)

def nth(name):
    '''How often that was run, or made.'''
    with RUNS.open("a") as file:
        file.write(name + chr(10))
    return Counter(RUNS.read_text().split())[name]

@pytest.fixture
def run(request):
    return nth(request.function.__name__)

@pytest.fixture(scope="session")
def of_session():
    yield nth("session_made")
    nth("session_ended")

@pytest.fixture
def stand_still(request):
    plugin = request.config.pluginmanager.get_plugin(NAME)
    def noted():
        ticking.note(plugin._path, time.monotonic() - 0.001, time.monotonic())
    return noted
"""
TESTS = """
import pytest
from conftest import nth

@pytest.fixture(scope="module")
def of_module(of_session):
    yield nth("module_made")
    nth("module_ended")

@pytest.fixture
def fragile(run, stand_still):
    if run == 1:
        stand_still()
        raise ValueError("fragile")

@pytest.fixture
def ends_badly(run, stand_still):
    yield
    if run == 1:
        stand_still()
        raise ValueError("ends badly")

def test_passes(run, of_module):
    assert of_module == 1

def test_broken_by_it(run, stand_still, of_module, of_session):
    if run == 1:
        stand_still()
    assert of_module == of_session == 2, "cut off"

def test_next_shares_what_was_made_anew(run, of_module):
    assert of_module == 2

@pytest.mark.parametrize("case", ["a"])
def test_fails_each_time(run, stand_still, case):
    stand_still()
    raise ValueError(f"run {run}")

def test_fails_without(run):
    raise ValueError(f"run {run}")

def test_passes_in_spite_of_it(run, stand_still):
    stand_still()

def test_set_up(fragile, run):
    pass

def test_tear_down(ends_badly, run):
    pass

async def test_awaits(run, stand_still):
    if run == 1:
        stand_still()
    assert run == 2
"""
AGAIN = {
    "test_broken_by_it": "passed",
    "test_fails_each_time[a]": "failed again",
    "test_set_up": "passed",
    "test_tear_down": "passed",
    "test_awaits": "passed",
}


@pytest.fixture
def nested(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'tests'}{os.pathsep}{ROOT}")
    pytester.makeconftest(OURS)
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function")
    return pytester


@pytest.mark.parametrize("workers", [(), ("-n", "2", "--dist", "loadfile")], ids=["one", "xdist"])
def test_what_fails_in_a_standstill_is_run_once_more_with_new_fixtures(
    nested: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    nested.makepyfile(test_it=TESTS)
    ran = nested.runpytest_subprocess("-p", "no:pocketmq", *workers)
    ran.assert_outcomes(passed=7, failed=2)

    runs = Counter((nested.path / "runs").read_text().split())
    tests = {name: count for name, count in runs.items() if name.startswith("test_")}
    twice = {name.split("[")[0] for name in AGAIN}
    assert {name for name, count in tests.items() if count == 2} == twice
    assert {name for name, count in tests.items() if count == 1} == {
        *("test_passes", "test_next_shares_what_was_made_anew"),
        *("test_fails_without", "test_passes_in_spite_of_it"),
    }
    assert runs["session_made"] == runs["session_ended"] >= 2
    assert runs["module_made"] == runs["module_ended"] >= 2

    listed = [line for line in ran.outlines if line.startswith("AGAIN ")]
    assert len(listed) == len(AGAIN)
    for name, outcome in AGAIN.items():
        assert any(f"::{name}" in line and f": {outcome};" in line for line in listed), name
    ran.stdout.fnmatch_lines(["*run again, as the machine stood still*", "*cut off*"])
    assert "run 1" in (text := ran.stdout.str()), "how the first run failed"
    assert "run 2" in text


STOPPED = """
import os, signal, time, psutil

def test_it(run):
    if run == 1:
        handing_out = psutil.Process().parent()  # of this worker
        [ticks] = [p for p in handing_out.children() if "ticking.py" in " ".join(p.cmdline())]
        ticks.suspend()
        since = time.monotonic()
        while time.monotonic() - since < 0.7:
            time.sleep(0.1)
        ticks.resume()
    assert run == 2

def test_other(run):
    assert run == 2
"""


def test_a_process_that_was_stopped_has_noted_it(nested: pytest.Pytester) -> None:
    nested.makepyfile(test_it=STOPPED)
    ran = nested.runpytest_subprocess("-p", "no:pocketmq", "-n", "1", "--dist", "loadgroup")
    ran.assert_outcomes(passed=1, failed=1)
    ran.stdout.fnmatch_lines(["AGAIN *test_it.py::test_it: passed; its first run:"])
    assert (nested.path / "runs").read_text().split() == ["test_it", "test_it", "test_other"]


def test_without_a_standstill_nothing_is_listed(nested: pytest.Pytester) -> None:
    nested.makepyfile("def test_it(run):\n    assert run == 2")
    ran = nested.runpytest_subprocess("-p", "no:pocketmq")
    ran.assert_outcomes(failed=1)
    ran.stdout.no_fnmatch_line("*stood still*")


def test_the_process_ends_with_its_parent(tmp_path: Path, pytester: pytest.Pytester) -> None:
    file = tmp_path / "ticks"
    file.touch()
    command = [sys.executable, ticking.__file__, str(file), str(os.getppid())]
    assert pytester.run(*command).ret == 0, "not of that parent, so it ends at once"
    assert ticking.noted(file) == (0.0, [])
