"""A pytest that a test runs, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def pytest_command(folder: Path, *arguments: str, python: str = sys.executable) -> list[str]:
    """The words that run pytest in `folder`.

    It gets a temporary folder of its own: with the common one it would delete at its end what
    earlier runs left there, which took minutes on a machine with a slow disk.
    """
    temporary = f"--basetemp={folder / 'nested-pytest'}"
    return [python, "-m", "pytest", "-q", temporary, *arguments]


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the tests in a folder, with an ini file as the pages advise."""
    (folder / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
    )
    command = pytest_command(folder, *arguments)
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=200, check=False
    )
