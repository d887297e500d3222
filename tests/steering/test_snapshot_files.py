"""The data of a snapshot in place of what roles have."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pocketmq.cluster.steering import snapshots
from pocketmq.cluster.steering.roles import Roles
from pocketmq.cluster.steering.snapshots import Snapshots, end_cut_off_load
from pocketmq.runtime.errors import DiskError

NAMES = ["nameserver-1", "broker-a", "broker-b"]
FILES = {
    "nameserver-1": ["kvConfig.json"],
    "broker-a": ["commitlog/0", "config/topics.json"],
    "broker-b": ["commitlog/0"],
}


def fill(data: Path, text: str) -> None:
    for name, files in FILES.items():
        for file in files:
            path = data / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def contents(data: Path) -> set[str]:
    return {(data / name / file).read_text() for name, files in FILES.items() for file in files}


async def test_a_snapshot_that_cannot_be_copied_leaves_the_roles_what_they_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[str] = []

    async def stop_role(name: str) -> None:
        stopped.append(name)

    async def start(name: str) -> None:
        stopped.remove(name)

    data = tmp_path / "data"
    roles = SimpleNamespace(
        data=data,
        names=NAMES,
        role=lambda name: name.partition("-")[0],
        state=lambda _name: "running",
        stop_role=stop_role,
    )
    of_cluster = Snapshots(cast(Roles, roles), start)
    fill(data, "saved")
    folder = of_cluster.folder("before")
    await of_cluster.save(folder, time_ms=1)
    fill(data, "present")
    copy, copied = snapshots.copy_sparse, list[Path]()

    def full(source: Path, target: Path) -> None:
        copied.append(target)
        if len(copied) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        copy(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(snapshots, "copy_sparse", full)
        with pytest.raises(DiskError, match="No space"):
            await of_cluster.load(folder)
    assert contents(data) == {"present"}
    assert await of_cluster.load(folder) == snapshots.read_info(folder)
    assert contents(data) == {"saved"}
    assert sorted(path.name for path in data.iterdir()) == sorted([*NAMES, "snapshots"])
    assert not stopped


def test_a_start_says_what_a_kill_left_of_a_load(tmp_path: Path) -> None:
    fill(tmp_path, "old")
    (tmp_path / "broker-a").rename(tmp_path / ".broker-a.replaced")
    (tmp_path / ".loading-1").mkdir()
    of_broker, of_load = end_cut_off_load(tmp_path)
    assert of_broker.startswith("broker-a has its data of before")
    assert "load it again" in of_load
    assert contents(tmp_path) == {"old"}
