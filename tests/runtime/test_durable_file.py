"""A file that is replaced as a whole."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest

from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.files.durable_file import DamagedFileError, DurableFile
from pocketmq.runtime.files.text_files import OsTextFiles
from support.eventually import eventually


class NotedFiles(OsTextFiles):
    """The real file system; notes what makes something durable, and refuses what it is told to."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.refused: dict[str, OSError] = {}

    def _note(self, operation: str, path: str) -> None:
        self.done.append(f"{operation} {Path(path).name}")
        if operation in self.refused:
            raise DiskError(path, "refused") from self.refused[operation]

    async def write_text(self, path: str, text: str) -> None:
        self._note("write", path)
        await super().write_text(path, text)

    async def rename(self, source: str, target: str) -> None:
        self._note("rename", target)
        await super().rename(source, target)

    def sync_directory(self, path: str) -> None:
        self._note("sync", path)
        super().sync_directory(path)


def as_it_is(text: str) -> str | None:
    if text == "broken":
        raise ValueError("it is broken")
    return text or None


def at(path: Path) -> DurableFile:
    return DurableFile(path, OsTextFiles())


def contents(file: DurableFile) -> list[str | None]:
    paths = (file.path, file.backup_path)
    return [path.read_text() if path.exists() else None for path in paths]


async def test_the_previous_content_stays_beside_the_present(tmp_path: Path) -> None:
    file = at(tmp_path / "new" / "x.json")
    assert await file.load(as_it_is) is None
    await file.replace("one")
    assert contents(file) == ["one", None]
    await file.replace("two")
    assert contents(file) == ["two", "one"]
    assert {path.name for path in file.path.parent.iterdir()} == {"x.json", "x.json.bak"}


async def test_an_empty_file_never_becomes_the_backup(tmp_path: Path) -> None:
    file = at(tmp_path / "x.json")
    await file.replace("one")
    await file.replace("two")
    file.path.write_text("")  # what a crash of somebody else may leave
    await file.replace("three")
    assert contents(file) == ["three", "one"]


async def test_a_damaged_file_does_not_take_the_place_of_its_backup(tmp_path: Path) -> None:
    await at(tmp_path / "x.json").replace("one")
    await at(tmp_path / "x.json").replace("two")
    (tmp_path / "x.json").write_text("broken")
    file = at(tmp_path / "x.json")
    await file.load(as_it_is)
    await file.replace("three")  # a crash between its two renames would have left no whole content
    assert contents(file) == ["three", "one"]
    await file.replace("four")
    assert contents(file) == ["four", "three"]


async def test_new_content_is_on_the_disk_before_it_gets_the_name(tmp_path: Path) -> None:
    files = NotedFiles()
    file = DurableFile(tmp_path / "config" / "x.json", files)
    await file.replace("one")
    await file.replace("two")
    # The directory's own name is made durable once; each rename syncs the directory.
    assert files.done == [
        f"sync {tmp_path.name}",
        *("write x.json.tmp", "rename x.json", "sync config"),
        *("write x.json.tmp", "rename x.json.bak", "sync config", "rename x.json", "sync config"),
    ]


@pytest.mark.parametrize("content", ["broken", "", b"\xff"], ids=["broken", "empty", "no text"])
async def test_what_cannot_be_used_gives_way_to_the_backup(
    tmp_path: Path, content: str | bytes
) -> None:
    file = at(tmp_path / "x.json")
    await file.replace("one")
    await file.replace("two")
    file.path.write_bytes(content if isinstance(content, bytes) else content.encode())
    loaded = await file.load(as_it_is)
    assert loaded is not None
    assert (loaded.value, loaded.is_backup) == ("one", True)


async def test_when_neither_can_be_used_the_error_names_both(tmp_path: Path) -> None:
    file = at(tmp_path / "x.json")
    file.path.write_text("broken")
    file.backup_path.write_bytes(b"\xff")
    with pytest.raises(DamagedFileError, match=r"x\.json: it is broken; x\.json\.bak: .*UTF-8"):
        await file.load(as_it_is)


async def test_what_is_made_is_for_its_user_alone(tmp_path: Path) -> None:
    file = at(tmp_path / "new" / "x.json")
    await file.replace("one")
    assert file.path.parent.stat().st_mode & 0o777 == 0o700
    assert file.path.stat().st_mode & 0o777 == 0o600


async def test_a_folder_that_cannot_be_made_is_a_disk_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(DiskError):
        await at(tmp_path / "file" / "x.json").replace("one")


def test_a_file_that_cannot_be_looked_at_is_a_disk_error(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="too long"):
        OsTextFiles().file_size(str(tmp_path / ("x" * 300)))


async def test_a_relative_path_is_below_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    await at(Path("new/x.json")).replace("one")
    assert (tmp_path / "new" / "x.json").read_text() == "one"


async def test_the_folder_above_may_be_closed_to_us_but_not_fail(tmp_path: Path) -> None:
    files = NotedFiles()
    files.refused["sync"] = PermissionError(errno.EACCES, "not yours")  # `/home` may have mode 0711
    file = DurableFile(tmp_path / "a" / "x.json", files)
    with pytest.raises(DiskError):
        await file.replace("one")  # the rename has to sync its own folder
    assert files.done[:2] == [f"sync {tmp_path.name}", "write x.json.tmp"]
    files.refused["sync"] = OSError("a medium that fails")
    files.done.clear()
    with pytest.raises(DiskError):
        await DurableFile(tmp_path / "b" / "x.json", files).replace("one")
    assert files.done == [f"sync {tmp_path.name}"]


async def test_a_write_that_nobody_waits_for_any_more_is_done_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A broker that stopped gave up a file while a thread opened it: nobody closed it then.
    opening, goes_on = threading.Event(), threading.Event()

    class SlowFiles:
        @staticmethod
        def open(path: str, flags: int) -> int:
            opening.set()
            goes_on.wait()
            return os.open(path, flags)

    monkeypatch.setattr("pocketmq.runtime.files.text_files.FOR_FILES", SlowFiles)
    path = tmp_path / "x.json"
    write = asyncio.create_task(OsTextFiles().write_text(str(path), "one"))
    await asyncio.to_thread(opening.wait)
    write.cancel()
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await write
    await eventually(lambda: path.exists() and path.read_text() == "one", "it is written")
