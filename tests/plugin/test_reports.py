"""The plugin in projects of their own: what it shows, what it costs, and the pages' examples."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.nested_pytest import pytest_command

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "testing.md"

INI = "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text(INI)
    return subprocess.run(
        pytest_command(folder, *arguments),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=110,
    )


@pytest.mark.cluster
def test_every_example_of_the_page_passes_in_a_project_of_its_own(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 7
    for number, block in enumerate(blocks):
        assert len(block.splitlines()) < 40
        (tmp_path / f"test_example_{number}.py").write_text(block)
    ran = run_pytest(tmp_path, "-n", "2", "-W", "error")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "7 passed" in ran.stdout


@pytest.mark.cluster
def test_a_failed_test_shows_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "test_failing.py").write_text(
        "async def test_it(pocketmq_clock):\n"
        "    await pocketmq_clock.create_topic('orders')\n"
        "    await pocketmq_clock.advance(5)\n"
        "    await pocketmq_clock.group('billing').assigned(members=2, limit_s=0.1)\n"
    )
    ran = run_pytest(tmp_path)
    assert ran.returncode == 1
    assert "group billing: 0 of 2 members connected" in ran.stdout
    assert "PocketMQ cluster" in ran.stdout
    assert "create topic orders, 4 queues on each broker" in ran.stdout
    assert "broker.registered broker=broker-a" in ran.stdout
    kept = re.search(r"stores and logs: (\S+)", ran.stdout)
    assert kept is not None
    assert (Path(kept[1]) / "broker-a").is_dir()


def test_a_wrong_option_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test_it(pocketmq): pass\n")
    ran = run_pytest(tmp_path, "--pocketmq-mode", "docker")
    assert ran.returncode != 0
    assert "pocketmq_mode is 'docker'; write in-process or processes" in ran.stdout + ran.stderr


def test_the_plugin_imports_nothing_until_a_fixture_asks() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import pocketmq.testing.plugin; "
        "print(sorted(set(sys.modules) - before))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = ran.stdout
    assert "pocketmq.testing.plugin" in loaded
    for heavy in ("uvloop", "pyspark", "pocketmq.broker", "pocketmq.client", "structlog"):
        assert f"'{heavy}" not in loaded


def test_starting_a_cluster_prints_nothing() -> None:
    code = (
        "from pocketmq.testing import start_cluster\n"
        "with start_cluster() as cluster:\n"
        "    cluster.sync.create_topic('orders')\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=110)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
