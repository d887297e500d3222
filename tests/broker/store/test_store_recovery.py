"""What a store is after its files were torn, cut, or lost (S-60..S-66, faults 10, 11)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pocketmq.broker.store import GetStatus, PutStatus
from pocketmq.runtime.errors import DiskError
from support.disks import SteppedDisk
from support.tiny_store import (
    LOG_FILE,
    NOW_MS,
    contents,
    filled,
    mark_unclean,
    run_inline,
    store_at,
    text_message,
)


def files_of(root: Path, *folders: str) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for folder in folders
        for path in sorted((root / folder).rglob("*"))
        if path.is_file()
    }


# -- nothing is lost ----------------------------------------------------------------------------


def test_a_clean_store_is_opened_without_reading_it(memory_path: Path) -> None:  # S-60
    held = filled(memory_path)
    store = store_at(memory_path)
    recovery = store.load()
    assert (recovery.clean, recovery.records, recovery.lost) == (True, 0, [])
    assert contents(store) == held
    store.close_files()


def test_queues_and_index_are_made_again_byte_for_byte(memory_path: Path) -> None:  # I6
    held = filled(memory_path)
    before = files_of(memory_path, "consumequeue", "index")
    shutil.rmtree(memory_path / "consumequeue")
    shutil.rmtree(memory_path / "index")
    (memory_path / "checkpoint").unlink()
    store = store_at(memory_path)
    store.load()
    assert contents(store) == held
    store.close_files()
    after = files_of(memory_path, "consumequeue", "index")
    assert {n: c for n, c in after.items() if "queue" in n} == {
        n: c for n, c in before.items() if "queue" in n
    }
    assert sorted(c for n, c in after.items() if "index" in n) == sorted(
        c for n, c in before.items() if "index" in n
    )


@pytest.mark.parametrize("length", [0, 1, 39, 4095])
@pytest.mark.parametrize("name", ["checkpoint", "abort"])
def test_cut_marks_cost_nothing(memory_path: Path, name: str, length: int) -> None:  # fault 11
    held = filled(memory_path)
    path = memory_path / name
    content = path.read_bytes() if path.exists() else b"1"
    path.write_bytes(content[:length])
    store = store_at(memory_path)
    store.load()
    assert contents(store) == held
    store.close_files()


@pytest.mark.parametrize("folder", ["consumequeue", "index"])
@pytest.mark.parametrize("length", [0, 1, 399])
def test_cut_queue_and_index_files_are_made_again(
    memory_path: Path, folder: str, length: int
) -> None:  # fault 11
    held = filled(memory_path)
    for path in sorted((memory_path / folder).rglob("*")):
        if path.is_file():
            os.truncate(path, length)
    mark_unclean(memory_path)
    store = store_at(memory_path)
    store.load()
    assert contents(store) == held
    assert len(store.query("T", "k3", 32, 0, 1 << 62).records) == 12
    store.close_files()


def test_a_queue_directory_that_is_gone_is_noticed_after_a_clean_stop(memory_path: Path) -> None:
    held = filled(memory_path)
    shutil.rmtree(memory_path / "consumequeue" / "T" / "1")
    store = store_at(memory_path)
    store.load()
    assert contents(store) == held
    store.close_files()


# -- the log itself -----------------------------------------------------------------------------


@pytest.mark.parametrize("power_cut", [False, True], ids=["kill", "power cut"])
def test_a_torn_tail_is_cut_wherever_it_tears(
    memory_path: Path, *, power_cut: bool
) -> None:  # fault 10
    root = memory_path / "store"
    filled(root, count=20)
    store = store_at(root)
    store.load()
    ends = [store.consume_queues.get("T", q).entry(9) for q in (0, 1)]  # type: ignore[union-attr]
    (first, size, _), (second, last_size, _) = sorted(e for e in ends if e is not None)
    assert first + size == second
    held = contents(store)
    store.close_files()
    log_file = root / "commitlog" / f"{first // LOG_FILE * LOG_FILE:020d}"
    whole = log_file.read_bytes()
    template = memory_path / "template"
    shutil.copytree(root, template)
    for torn_at in range(first % LOG_FILE, second % LOG_FILE + last_size, 1):
        shutil.rmtree(root)
        shutil.copytree(template, root)
        log_file.write_bytes(whole[:torn_at].ljust(LOG_FILE, b"\0"))
        mark_unclean(root)
        (root / "checkpoint").unlink()  # nothing was ever confirmed
        disk = SteppedDisk()
        disk.boot = b"another boot ..." if power_cut else disk.boot
        store = store_at(root, disk)
        recovery = store.load()
        kept = 18 + (torn_at >= second % LOG_FILE)
        expected_end = second if torn_at >= second % LOG_FILE else first
        # A record whose last bytes were zeros anyway is whole.
        assert recovery.end >= expected_end
        assert len(contents(store)) >= kept
        assert contents(store).items() <= held.items()
        put = store.put_messages([text_message(100)])[0]
        assert put.status is PutStatus.PUT_OK
        assert put.physical_offset == recovery.end
        assert len(contents(store)) in (kept + 1, kept + 2)
        store.close_files()


def test_a_batch_that_a_kill_tore_in_its_middle_is_cut_whole(memory_path: Path) -> None:
    store = store_at(memory_path)
    store.load()
    run_inline(store)
    store.put_messages([text_message(n) for n in range(4)])
    held = contents(store)
    end = store.commit_log.max_offset
    store.commit_log.append(  # killed before dispatching, with the first bytes not yet copied
        [text_message(n) for n in range(4, 8)],
        [store.consume_queues.get_or_create("T", n % 2) for n in range(4, 8)],
        NOW_MS,
    )
    store.commit_log.files.files[0].view()[end : end + 64] = bytes(64)
    again = store_at(memory_path)
    recovery = again.load()
    assert (recovery.end, recovery.lost) == (end, [])
    assert contents(again) == held
    again.close_files()


def test_bytes_behind_a_cut_never_come_back(memory_path: Path) -> None:
    filled(memory_path, count=12)
    store = store_at(memory_path)
    store.load()
    victim = store.consume_queues.get("T", 0)
    assert victim is not None
    at, size, _ = victim.entry(4) or (0, 0, 0)
    store.close_files()
    log_file = memory_path / "commitlog" / f"{0:020d}"
    content = bytearray(log_file.read_bytes())
    content[at : at + size] = bytes(size)  # a page that a power cut lost; later ones survived
    log_file.write_bytes(content)
    mark_unclean(memory_path)
    (memory_path / "checkpoint").unlink()
    disk = SteppedDisk()
    disk.boot = b"another boot ..."
    store = store_at(memory_path, disk)
    assert store.load().end == at
    store.put_messages([text_message(8)])  # exactly as long as the one that was lost
    assert store.commit_log.max_offset == at + size
    store.close_files()
    mark_unclean(memory_path)
    (memory_path / "checkpoint").unlink()
    store = store_at(memory_path, disk)
    assert store.load().end == at + size
    assert store.reads.get_message("T", 1, 4, 1).status is GetStatus.OFFSET_OVERFLOW_ONE
    store.close_files()


def test_a_missing_log_file_is_named(memory_path: Path) -> None:  # fault 11
    filled(memory_path)
    second = memory_path / "commitlog" / f"{LOG_FILE:020d}"
    second.unlink()
    with pytest.raises(DiskError, match=second.name):
        store_at(memory_path).load()


# -- what a kill left in the page cache ---------------------------------------------------------


def killed(root: Path) -> tuple[list[str], SteppedDisk]:
    """A store that was killed before any sync, loaded anew; its queue files, and the disk then."""
    store = store_at(root)
    store.load()
    for number in range(10):
        assert store.put_messages([text_message(number)])[0].status is PutStatus.PUT_OK
    store._opening._lock.close()  # type: ignore[union-attr]
    return [str(path) for path in sorted((root / "consumequeue").rglob("0" * 20))], SteppedDisk()


def test_queue_entries_that_a_kill_left_unsynced_are_synced_before_they_are_confirmed(
    memory_path: Path,
) -> None:
    # S-54. Found by seed 26 of the simulation: kill, restart, power cut, and entries were missing
    # below the offset that the checkpoint had confirmed.
    queues, disk = killed(memory_path)
    assert len(queues) == 2
    store = store_at(memory_path, disk)
    store.load()
    run_inline(store)
    disk.steps.clear()
    store._flush.flush_queues()
    store._flush.confirm_soon()
    checkpoint = disk.steps.index(("sync", str(memory_path / "checkpoint")))
    for path in queues:
        assert disk.steps.index(("sync", path)) < checkpoint
        assert disk.steps.index(("verify", path)) < checkpoint, "a sync may have failed before"
        assert disk.steps.index(("sync_directory", os.path.dirname(path))) < checkpoint
    store.close_files()


@pytest.mark.parametrize("same_boot", [True, False])
def test_a_restart_writes_the_unconfirmed_log_once_more_and_reads_it_back(
    memory_path: Path, same_boot: bool
) -> None:
    # S-50. A sync may have failed before the kill; the system takes its pages for clean since, and
    # another sync succeeds without having written them (seed 212 of the simulation).
    _, disk = killed(memory_path)
    if not same_boot:
        disk.boot = b"another-boot-now"
    store = store_at(memory_path, disk)
    store.load()
    log = str(memory_path / "commitlog" / f"{0:020d}")
    assert (("verify", log) in disk.steps) is same_boot
    assert ("sync", log) in disk.steps
    store.close_files()
