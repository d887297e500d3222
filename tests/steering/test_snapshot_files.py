"""The data of a snapshot in place of what roles have."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import cast

import pytest

from pocketmq.cluster.steering import snapshots
from pocketmq.cluster.steering.roles import Roles
from pocketmq.cluster.steering.snapshots import Snapshots
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.files.replaced_together import (
    JOURNAL,
    coming_folder,
    commit,
    finish_together,
    take_own,
)
from support.kills import KilledError, kill_at
from support.tiny_store import IN_MEMORY

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
    """Of all files that are there."""
    paths = [data / name / file for name, files in FILES.items() for file in files]
    texts = {path.read_text() if path.exists() else "" for path in paths}
    return set() if texts == {""} else texts  # a file that is missing beside others is told


def cluster(data: Path) -> Snapshots:
    """Of roles that are started again by themselves, as processes are: each takes its own data."""
    stopped: set[str] = set()

    async def stop_role(name: str) -> None:
        stopped.add(name)

    async def start(name: str) -> None:
        stopped.remove(name)
        take_own(data / name)

    async def wait_for_controllers() -> None: ...

    roles = SimpleNamespace(
        data=data,
        names=NAMES,
        role=lambda name: name.partition("-")[0],
        state=lambda name: "ended" if name in stopped else "running",
        stop_role=stop_role,
        wait_for_controllers=wait_for_controllers,
    )
    return Snapshots(cast(Roles, roles), start)


async def test_a_snapshot_that_cannot_be_copied_leaves_the_roles_what_they_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    of_cluster = cluster(data)
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


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """In memory where the machine can, for a hundred clusters that are synced all the time."""
    with TemporaryDirectory(dir=IN_MEMORY, prefix="cluster-") as path:
        yield Path(path)


def all_at_once(data: Path) -> None:
    finish_together(data)
    assert not [path for path in data.iterdir() if path.name.startswith(".pocketmq")]


def each_by_itself(data: Path) -> None:
    """As `pocketmq broker --data` and the like are started on the folders, in another order."""
    for name in reversed(NAMES):
        take_own(data / name)


@pytest.mark.parametrize("how", ["load", "reset"])
@pytest.mark.parametrize("start", [all_at_once, each_by_itself])
async def test_a_kill_at_any_step_leaves_the_whole_cluster_old_or_new(
    memory_path: Path, how: str, start: Callable[[Path], None]
) -> None:
    tmp_path = memory_path
    saved = tmp_path / "saved"
    fill(saved, "saved")
    await cluster(saved).save(tmp_path / "snapshot", time_ms=1)
    new = {"saved"} if how == "load" else set[str]()
    found: list[set[str]] = []
    for step in range(1, 300):
        data = tmp_path / f"{step}"
        fill(data, "present")
        (data / "nameserver-1" / "kvConfig.json.bak").write_text("present")
        of_cluster = cluster(data)
        with pytest.MonkeyPatch.context() as patch:
            kill_at(step, patch, data)
            try:
                await (
                    of_cluster.load(tmp_path / "snapshot") if how == "load" else of_cluster.reset()
                )
                is_done = True
            except KilledError:
                is_done = False
        if not is_done:
            start(data)
        found.append(contents(data))
        assert found[-1] in ({"present"}, new), step
        assert (found[-1] == {"present"}) == (data / "nameserver-1/kvConfig.json.bak").exists()
        shutil.rmtree(data)
        if is_done:
            break
    else:
        pytest.fail("it was never done")
    assert found[0] == {"present"}
    assert found.count(new) > 5


async def test_a_load_after_one_that_could_not_be_ended_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    of_cluster = cluster(data)
    for text in ("one", "two"):
        fill(data, text)
        await of_cluster.save(tmp_path / text, time_ms=1)
    rename, renamed = Path.rename, list[Path]()

    def broken(source: Path, target: Path) -> Path:
        renamed.append(target)
        if target == data / "broker-b" and source.parent != data:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", broken)
        with pytest.raises(DiskError, match="Input/output"):
            await of_cluster.load(tmp_path / "one")
    await cluster(data).load(tmp_path / "two")
    assert contents(data) == {"two"}
    assert sorted(path.name for path in data.iterdir()) == sorted(NAMES)


def test_a_start_says_what_a_kill_left_of_a_load(tmp_path: Path) -> None:
    fill(tmp_path, "old")
    (tmp_path / "broker-a").rename(tmp_path / ".broker-a.replaced")
    (tmp_path / ".loading-1").mkdir()
    of_broker, of_load = finish_together(tmp_path)
    assert of_broker.startswith("broker-a has its data of before")
    assert "before it changed anything" in of_load
    assert contents(tmp_path) == {"old"}


def test_a_role_that_is_started_by_itself_says_what_it_found(tmp_path: Path) -> None:
    fill(tmp_path, "old")
    assert take_own(tmp_path / "broker-a") == ""
    (tmp_path / "broker-a").rename(tmp_path / ".broker-a.replaced")
    assert "data of before" in take_own(tmp_path / "broker-a")
    coming = coming_folder(tmp_path)
    fill(coming, "new")
    commit(coming)
    for name in NAMES:
        assert "the data of a snapshot load" in take_own(tmp_path / name)
        assert take_own(tmp_path / name) == ""
    assert contents(tmp_path) == {"new"}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(NAMES)


@pytest.mark.parametrize("text", ["", "[]", '{"folder": "../x"}', '{"folder": ".loading-1/x"}'])
def test_a_decision_that_cannot_be_read_stops_a_start(tmp_path: Path, text: str) -> None:
    (tmp_path / JOURNAL).write_text(text)
    for start in (lambda: finish_together(tmp_path), lambda: take_own(tmp_path / "broker-a")):
        with pytest.raises(DiskError):
            start()


def test_a_decision_of_another_user_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # such as one in /tmp
    fill(tmp_path, "old")
    coming = coming_folder(tmp_path)
    fill(coming, "new")
    commit(coming)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert take_own(tmp_path / "broker-a") == ""
    assert contents(tmp_path) == {"old"}
