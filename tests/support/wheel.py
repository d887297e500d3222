"""An environment with nothing of this checkout in it: our wheel, and the packages that it needs."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def environment_of_the_wheel(folder: Path) -> Path:
    """Build the wheel and install it alone; everything else is lent. The folder of programs."""
    build = ["wheel", "--no-deps", "--quiet", "-w", str(folder), str(ROOT)]
    _pip(build)
    (wheel,) = folder.glob("pocketmq-*.whl")
    clean = folder / "clean"
    venv.create(clean, with_pip=False)
    (packages,) = (clean / "lib").glob("python*/site-packages")
    _pip(["install", "--no-deps", "--quiet", "--target", str(packages), str(wheel)])
    # A path in a .pth file is searched, but its own .pth files, such as our editable one, are not.
    (packages / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return clean / "bin"


def _pip(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
