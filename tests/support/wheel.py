"""Our wheel, as `pip wheel .` makes it from a clone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def build_wheel(folder: Path) -> Path:
    """Build it; the file, which is the only wheel in that folder."""
    _pip("wheel", "--no-deps", "-w", str(folder), str(ROOT))
    (wheel,) = folder.glob("pocketmq-*.whl")
    return wheel


def install_wheel(wheel: Path, python: Path) -> None:
    """Install it alone, with its commands, into the environment of that Python."""
    _pip("--python", str(python), "install", "--no-deps", "--no-index", str(wheel))


def _pip(*words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
