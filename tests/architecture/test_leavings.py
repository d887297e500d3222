"""A test that failed leaves nothing behind that the next one meets."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
OURS = """
from support.leavings import NAME, Leavings

def pytest_configure(config):
    config.pluginmanager.register(Leavings(), NAME)
"""
TESTS = """
import gc, socket, subprocess, sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-c", "import time; time.sleep(600)", "pocketmq"]

class Stream:
    def __del__(self):
        raise RuntimeError("the loop is closed")

@pytest.fixture(scope="module")
def shared():
    with subprocess.Popen(COMMAND) as process:
        yield process
        process.kill()

def test_leaves_what_complains_at_its_end(shared):
    stream, sock = Stream(), socket.socket()
    assert stream is None

def test_leaves_a_process(shared):
    process = subprocess.Popen(COMMAND)
    Path("pid").write_text(str(process.pid))
    assert process is None

def test_meets_nothing(shared):
    gc.collect()
    assert shared.poll() is None, "it ends with its fixture"
    assert not hasattr(sys, "last_value")
"""


@pytest.fixture
def nested(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Tests of another pytest, which is as strict as ours."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'tests'}{os.pathsep}{ROOT}")
    pytester.makeini("[pytest]\nfilterwarnings = error")
    pytester.makepyfile(test_it=TESTS)
    return pytester


def test_what_a_failed_test_leaves_is_told_of_that_test_and_gone(nested: pytest.Pytester) -> None:
    nested.makeconftest(OURS)
    ran = nested.runpytest_subprocess("-p", "no:pocketmq", "-p", "no:asyncio")
    ran.assert_outcomes(passed=1, failed=2, errors=2)
    text = ran.stdout.str()
    assert "ERROR at teardown of test_leaves_what_complains_at_its_end" in text
    assert "the loop is closed" in text
    assert "ERROR at teardown of test_meets_nothing" not in text
    assert not psutil.pid_exists(int((nested.path / "pid").read_text()))
