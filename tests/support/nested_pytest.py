"""A pytest that a test runs, in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path


def pytest_command(folder: Path, *arguments: str, python: str = sys.executable) -> list[str]:
    """The words that run pytest in `folder`.

    It gets a temporary folder of its own: with the common one it would delete at its end what
    earlier runs left there, which took minutes on a machine with a slow disk.
    """
    temporary = f"--basetemp={folder / 'nested-pytest'}"
    return [python, "-m", "pytest", "-q", temporary, *arguments]
