"""RocketMQ's official Python SDK as it is published, in an environment of its own.

It brings OpenTelemetry and a grpcio of its choice, which nothing of ours should depend on.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
VERSION: Final = "5.1.2"
INSTALL_LIMIT_S: Final = 600.0


def sdk_python() -> Path:
    """The interpreter that has it; the first call on a machine installs it, in half a minute."""
    home = Path(sys.prefix) / f"rocketmq-sdk-{VERSION}"
    python, done = home / "bin" / "python", home / ".installed"
    with home.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not done.exists():
            _run(sys.executable, "-m", "venv", home)
            wanted = f"rocketmq-python-client=={VERSION}"
            _run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", wanted)
            done.touch()
    return python


def run_sdk(code: str, *arguments: str, limit_s: float = 120.0) -> str:
    """What a program prints, with the SDK and our `proxy/` to import; it must end with 0."""
    done = subprocess.run(
        [sdk_python(), "-W", "error", "-c", code, *arguments],
        env={"PYTHONPATH": str(ROOT / "proxy"), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=limit_s,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _run(*words: str | Path) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=INSTALL_LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
