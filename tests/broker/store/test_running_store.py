"""A store is looked into while its broker works: nothing is changed, or taken for damage."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import sys
from pathlib import Path

import pytest

from pocketmq.broker.store import OsDisk
from pocketmq.broker.store.disk.disk import ReadOnlyDisk
from pocketmq.broker.store.tools.running_store import RunningStore, open_store
from pocketmq.broker.store.tools.verify import verify_store
from pocketmq.client import Message, Producer
from pocketmq.cluster import local_cluster
from pocketmq.runtime.errors import DiskError
from support.golden import unpack_store

STORE = [sys.executable, "-m", "pocketmq.cluster.cli.main", "store"]
SMALL_FILES = (
    "--mapped-file-size-commit-log",
    "262144",
    "--mapped-file-size-consume-queue",
    "2000",
)


async def ask(*words: str | Path) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *STORE, *map(str, words), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


def bring_to_disk(root: Path) -> None:
    """Write what the system still would, which takes blocks for the places of what is written."""
    for path in root.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)


def blocks(folder: Path) -> dict[Path, tuple[int, int]]:
    """Size and allocated blocks of each file."""
    found = {path: path.stat() for path in folder.rglob("*") if path.is_file()}
    return {path: (each.st_size, each.st_blocks) for path, each in found.items()}


@pytest.mark.cluster
async def test_a_broker_under_load_is_verified_inspected_and_read(tmp_path: Path) -> None:
    async with local_cluster(data=tmp_path, broker_arguments=SMALL_FILES) as cluster:
        root = tmp_path / "broker-a"
        sent = 0
        ended = False

        async def load() -> None:
            nonlocal sent
            async with Producer("load", nameservers=cluster.namesrv_addr) as producer:
                while not ended:
                    message = Message("orders", os.urandom(400), keys=f"k{sent}", tags="a")
                    await producer.send(message)
                    sent += 1

        loading = asyncio.create_task(load())
        checked = []
        try:
            while len(checked) < 2:
                before = sent
                status, output = await ask("verify", root)
                found = re.search(r"all right: ([\d,]+) records", output)
                assert (status, found is not None) == (0, True), output
                assert "note: a broker has it open; checked up to log offset" in output
                assert "queue ends" not in output
                assert found is not None
                checked.append(int(found[1].replace(",", "")))
                assert checked[-1] >= before
            status, output = await ask("inspect", root)
            assert (status, "a broker has it open" in output) == (0, True)
            assert "orders" in output
            status, output = await ask("cat", root, "--topic", "orders", "--count", "3")
            assert (status, len(output.splitlines())) == (0, 3)
        finally:
            ended = True
            await loading
        assert checked == sorted(checked)

        await cluster["broker-a"].freeze()  # whatever changes now, the tools changed
        bring_to_disk(root)
        quiet = blocks(root)
        assert (await ask("verify", root))[0] == (await ask("inspect", root))[0] == 0
        assert blocks(root) == quiet
        cluster["broker-a"].thaw()
        async with Producer("after", nameservers=cluster.namesrv_addr) as producer:
            await producer.send(Message("orders", b"it goes on"))
    after = verify_store(OsDisk(), str(root))
    assert (after.problem_count, after.records) == (0, sent + 1)


def test_what_comes_later_is_not_looked_at(tmp_path: Path) -> None:
    root = unpack_store("clean", tmp_path) / "store"
    whole = verify_store(OsDisk(), str(root))
    store = RunningStore(str(root))
    end = store.log.files[-1].end
    assert end <= whole.log_end
    for queue in store.queues:
        assert all(file.end <= queue.end * 20 for file in queue.row.files)
    assert sum(file.next_entry - 1 for file in store.index_files()) == whole.index_entries
    assert store.index_files() is store.index_files()


def test_the_disk_of_a_running_store_refuses_whatever_would_change_it(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    Path(path).write_bytes(b"abcd")
    disk = ReadOnlyDisk()
    assert bytes(disk.map_for_reading(path, 4)) == b"abcd"
    assert disk.map_file(path, 4).readonly
    for change in (
        lambda: disk.create_file(path, 1),
        lambda: disk.resize_file(path, 1),
        lambda: disk.write_file(path, b""),
        lambda: disk.remove_file(path),
        lambda: disk.remove_directory(path),
        lambda: disk.open_file(path),
        lambda: disk.lock(path),
    ):
        with pytest.raises(DiskError, match="stop that broker first"):
            change()
    assert Path(path).read_bytes() == b"abcd"


def test_a_store_that_nobody_has_open_is_locked_as_before(tmp_path: Path) -> None:
    root = unpack_store("clean", tmp_path) / "store"
    with open_store(OsDisk(), str(root)) as store:
        assert not store.is_running


def test_a_store_on_a_medium_that_cannot_be_written_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = unpack_store("clean", tmp_path) / "store"
    (root / "lock").touch()
    whole = verify_store(OsDisk(), str(root))
    really_open = os.open

    def refuse_writing(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and str(path).startswith(str(root)):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return really_open(path, flags, mode)

    monkeypatch.setattr(os, "open", refuse_writing)
    with open_store(OsDisk(), str(root)) as store:
        assert not store.is_running
    assert verify_store(OsDisk(), str(root)) == whole
    monkeypatch.setattr(os, "open", really_open)
    (root / "lock").unlink()
    (root / "lock").mkdir()  # any other failure is told
    with pytest.raises(DiskError, match="lock"):
        open_store(OsDisk(), str(root))
