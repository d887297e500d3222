"""Each recipe is a project that passes on its own, and is as short as it says; one is a page."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support import typed_page
from support.nested_pytest import pytest_command
from support.typed_page import own_network

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
LIMIT_S = 900.0  # a first run of Maven or Go downloads the client
PAGE_ONLY = "rocketmq-proxy"
"""No test of its own: the commands of its page, and a program for each reader to change."""
NO_TEST = (PAGE_ONLY, "compose")
"""Programs that are no tests. `tests/distribution/` runs those with containers."""

pytestmark = pytest.mark.cluster


def copied(name: str, tmp_path: Path) -> Path:
    """The project, where nothing of this repository lies above it."""
    return Path(shutil.copytree(RECIPES / name, tmp_path / name))


def run(command: list[str], folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # for `pocketmq`
    done = subprocess.run(
        command, cwd=folder, env=os.environ | {"PATH": path},
        capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", ["pytest", "pytest-asyncio", "threaded-app"])
def test_a_pytest_recipe_passes(name: str, tmp_path: Path) -> None:
    project = copied(name, tmp_path)
    command = pytest_command(project, "-W", "error")
    if "asyncio" not in name:
        command += ["-p", "no:asyncio"]  # as if it were not installed
    said = run(command, project)
    assert "1 passed" in said


def test_the_unittest_recipe_passes(tmp_path: Path) -> None:
    said = run([sys.executable, "-W", "error", "-m", "unittest"], copied("unittest", tmp_path))
    assert "Ran 1 test" in said


@pytest.mark.java
@pytest.mark.timeout(LIMIT_S)
def test_the_junit_recipe_passes(tmp_path: Path) -> None:
    said = run(["mvn", "-B", "-ntp", "test"], copied("junit5", tmp_path))
    assert "Tests run: 1, Failures: 0, Errors: 0, Skipped: 0" in said


@pytest.mark.go
@pytest.mark.timeout(LIMIT_S)
def test_the_go_recipe_passes(tmp_path: Path) -> None:
    # Neither vet nor cgo: on a new machine, compiling for them takes longer than the test.
    go = ["env", "CGO_ENABLED=0", "go", "test", "-count=1", "-vet=off", "./..."]
    said = run(go, copied("go", tmp_path))
    assert re.match(r"ok\s+example/orders", said)


@pytest.mark.java
@pytest.mark.timeout(LIMIT_S)
def test_rocketmqs_sdk_sends_and_receives_through_its_proxy(tmp_path: Path) -> None:
    # Issue 38: what its page shows, typed: a NORMAL and a FIFO message, by RocketMQ's proxy 5.3.3.
    project = copied(PAGE_ONLY, tmp_path)
    page = project / "README.md"
    downloads, *_ = typed_page.blocks(page.read_text())
    for line in downloads.replace("$ ", "").splitlines():  # the network below reaches nothing
        run(line.split(), project)
    network = own_network()
    reader = [sys.executable, typed_page.__file__, str(page), str(tmp_path / "reader")]
    ran = subprocess.run(
        [*network, *reader, "--files", str(project), *(["--own-network"] if network else [])],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_each_recipe_is_short_does_all_steps_and_is_on_the_page() -> None:
    page = (RECIPES / "README.md").read_text()
    names = sorted(path.name for path in RECIPES.iterdir() if path.is_dir())
    assert re.findall(r"^\| `([\w-]+)/`", page, re.MULTILINE) == sorted(
        names, key=lambda name: page.index(f"`{name}/`")
    )
    for name in names:
        files = [
            path for path in (RECIPES / name).rglob("*") if path.suffix in (".py", ".go", ".java")
        ]
        texts = [path.read_text() for path in files]
        assert all(len(text.splitlines()) < 40 for text in texts), name
        if name in NO_TEST:
            continue
        assert any("kill" in text and "restart" in text and "advance" in text for text in texts)
