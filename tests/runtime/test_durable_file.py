"""A file that is replaced as a whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pocketmq.runtime.durable_file import DurableFile
from pocketmq.runtime.errors import DiskError


async def both(file: DurableFile) -> tuple[bytes | None, bytes | None]:
    return await file.read(backup=False), await file.read(backup=True)


async def test_the_previous_content_stays_beside_the_present(tmp_path: Path) -> None:
    file = DurableFile(tmp_path / "new" / "x.json")
    assert await both(file) == (None, None)
    await file.replace(b"one")
    assert await both(file) == (b"one", None)
    await file.replace(b"two")
    assert await both(file) == (b"two", b"one")
    assert {path.name for path in file.path.parent.iterdir()} == {"x.json", "x.json.bak"}


async def test_an_empty_file_never_becomes_the_backup(tmp_path: Path) -> None:
    file = DurableFile(tmp_path / "x.json")
    await file.replace(b"one")
    await file.replace(b"two")
    file.path.write_bytes(b"")  # what a crash of somebody else may leave
    await file.replace(b"three")
    assert await both(file) == (b"three", b"one")


async def test_new_content_is_on_the_disk_before_it_gets_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, done = DurableFile(tmp_path / "x.json"), list[str]()
    fsync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        done.append("sync")
        fsync(descriptor)

    def renamed(source: Path, target: Path) -> None:
        done.append(Path(target).name)
        replace(source, target)

    await file.replace(b"one")
    monkeypatch.setattr("pocketmq.runtime.durable_file.os.fsync", synced)
    monkeypatch.setattr("aiofiles.os.replace", _async(renamed))
    monkeypatch.setattr("pocketmq.runtime.durable_file._fsync", _async(synced))
    await file.replace(b"two")
    assert done == ["sync", "x.json.bak", "x.json", "sync"]


async def test_a_folder_that_cannot_be_made_is_a_disk_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(DiskError):
        await DurableFile(tmp_path / "file" / "x.json").replace(b"one")


def _async(function):
    async def call(*arguments):
        return function(*arguments)

    return call
