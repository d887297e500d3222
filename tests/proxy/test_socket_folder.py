"""The folder of a proxy's Unix sockets does not outlive it for long."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pocketmq.proxy.edge.socket_folder import SocketFolder

KILLED = """
import os, signal
from pocketmq.proxy.edge.socket_folder import SocketFolder
folder = SocketFolder()
(folder.path / "grpc").touch()
print(folder.path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def short_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("pocketmq.proxy.edge.socket_folder._MOST_PATH", 1000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.mark.cluster
def test_the_folder_of_a_killed_proxy_is_removed_by_the_next_one() -> None:
    code = f"import tempfile; tempfile.tempdir = {tempfile.gettempdir()!r}\n" + KILLED
    code = code.replace("\nfolder =", "\nimport pocketmq.proxy.edge.socket_folder as own\n"
                        "own._MOST_PATH = 1000\nfolder =")  # fmt: skip
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    left = Path(ran.stdout.strip())
    assert (left / "grpc").exists()
    next_one = SocketFolder()
    assert not left.exists()
    next_one.remove()


def test_the_folder_of_a_proxy_that_runs_stays() -> None:
    one, other = SocketFolder(), SocketFolder()
    assert one.path.exists()
    assert one.path != other.path
    other.remove()
    other.remove()
    one.remove()
    assert not one.path.exists()
    assert not other.path.exists()


def test_a_folder_that_is_being_made_stays(tmp_path: Path) -> None:
    begun = tmp_path / "pmq-begun"
    begun.mkdir()
    (begun / "begun").touch()
    SocketFolder().remove()
    assert begun.exists()
