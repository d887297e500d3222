"""What survives: kills at every step, torn tails, damage, power cuts (S-60..S-66, A5 1-13)."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.broker.store import (
    FlushDiskType,
    GetStatus,
    MessageStore,
    PutStatus,
    StoreConfig,
    StoredMessage,
)
from pocketmq.broker.store.disk_worker import InlineWorker
from pocketmq.protocol.record import RECORD, decode_records
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.manual_clock import ManualClock
from pocketmq.runtime.profile import PROFILE_5_X
from support.disks import Killed, PowerCutDisk, SteppedDisk

HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
NOW_MS = 1_700_000_000_000
LOG_FILE = 4096
QUEUE_FILE = 20 * 20
IN_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory where the machine can: these tests copy a store a thousand times."""
    with TemporaryDirectory(dir=IN_MEMORY, prefix="store-recovery-") as path:
        yield Path(path)


KNOWN_FOLDERS = {"store", "flipped", "flipped-queue", "flipped-log"}


def store_at(root: Path, disk: SteppedDisk | None = None, **options: Any) -> MessageStore:
    config = StoreConfig(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=LOG_FILE,
        mapped_file_size_consume_queue=QUEUE_FILE,
        max_hash_slot_num=10,
        max_index_num=40,
        **options,
    )
    return MessageStore(config, disk or SteppedDisk(), ManualClock(NOW_MS), PROFILE_5_X)


def run_inline(store: MessageStore) -> None:
    """As `start` does, with flushing in the calls themselves and no timers."""
    worker = InlineWorker()
    store._log_flusher.start(worker)
    store._flush._queue_flusher.start(worker)


def text_message(number: int, topic: str = "T", queues: int = 2) -> StoredMessage:
    body = b"body-%04d-" % number + b"x" * (number * 7 % 60)
    return StoredMessage(
        topic,
        number % queues,
        body,
        b"UNIQ_KEY\x01U%d\x02KEYS\x01k%d\x02" % (number, number % 5),
        0,
        0,
        NOW_MS,
        HOST,
        HOST,
        uniq_key=f"U{number}",
        keys=f"k{number % 5}",
    )


def contents(store: MessageStore) -> dict[tuple[str, int, int], bytes]:
    """(topic, queue, offset) -> body, as consumers get them."""
    found = {}
    for topic, queue_id in store.queues():
        offset = store.min_offset(topic, queue_id)
        while offset < store.max_offset(topic, queue_id):
            result = store.get_message(topic, queue_id, offset, 32)
            assert result.next_begin_offset > offset, result
            for message in decode_records(b"".join(result.records)):
                found[topic, queue_id, message.queue_offset] = bytes(message.raw_body)
            offset = result.next_begin_offset
    return found


def files_of(root: Path, *folders: str) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for folder in folders
        for path in sorted((root / folder).rglob("*"))
        if path.is_file()
    }


def filled(root: Path, count: int = 60, disk: SteppedDisk | None = None) -> dict[Any, bytes]:
    """A store with `count` messages, closed; what it holds."""
    store = store_at(root, disk)
    store.load()
    run_inline(store)
    for number in range(count):
        assert store.put_messages([text_message(number)])[0].status is PutStatus.PUT_OK
    held = contents(store)
    assert len(held) == count
    store.close_files()
    return held


def mark_unclean(root: Path) -> None:
    (root / "abort").write_bytes(b"1")


def test_a_clean_store_is_opened_without_reading_it(tmp_path: Path) -> None:  # S-60
    held = filled(tmp_path)
    store = store_at(tmp_path)
    recovery = store.load()
    assert (recovery.clean, recovery.records, recovery.lost) == (True, 0, [])
    assert contents(store) == held
    store.close_files()


def test_queues_and_index_are_made_again_byte_for_byte(tmp_path: Path) -> None:  # I6
    held = filled(tmp_path)
    before = files_of(tmp_path, "consumequeue", "index")
    shutil.rmtree(tmp_path / "consumequeue")
    shutil.rmtree(tmp_path / "index")
    (tmp_path / "checkpoint").unlink()
    store = store_at(tmp_path)
    store.load()
    assert contents(store) == held
    store.close_files()
    after = files_of(tmp_path, "consumequeue", "index")
    assert {n: c for n, c in after.items() if "queue" in n} == {
        n: c for n, c in before.items() if "queue" in n
    }
    assert sorted(c for n, c in after.items() if "index" in n) == sorted(
        c for n, c in before.items() if "index" in n
    )


@pytest.mark.parametrize("power_cut", [False, True], ids=["kill", "power cut"])
def test_a_torn_tail_is_cut_wherever_it_tears(tmp_path: Path, *, power_cut: bool) -> None:  # A5 10
    root = tmp_path / "store"
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
    template = tmp_path / "template"
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


def damaged_once(root: Path, path: Path, at: int, flip: int) -> dict[Any, bytes] | None:
    """What a store serves after one byte of one of its files changed; None if it would not open."""
    content = bytearray(path.read_bytes())
    content[at] ^= flip
    path.write_bytes(content)
    store = store_at(root)
    try:
        store.load()
    except DiskError:
        return None
    served = contents(store)
    assert store.put_messages([text_message(999)])[0].status is PutStatus.PUT_OK
    store.close_files()
    return served


@pytest.fixture(scope="module")
def template() -> Iterator[tuple[Path, dict[Any, bytes]]]:
    with TemporaryDirectory(dir=IN_MEMORY, prefix="store-template-") as path:
        root = Path(path) / "store"
        yield root, filled(root, 60)


@pytest.mark.parametrize("unclean", [False, True], ids=["clean", "killed"])
@settings(max_examples=150 if not NIGHTLY else 3000)
@given(data=st.data())
def test_a_flipped_byte_in_the_log_costs_at_most_its_record(  # A5 12
    template: tuple[Path, dict[Any, bytes]], data: st.DataObject, *, unclean: bool
) -> None:
    source, held = template
    root = source.parent / "flipped"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(source, root)
    if unclean:
        mark_unclean(root)
    path = data.draw(st.sampled_from(sorted((root / "commitlog").iterdir())[:-1]))
    at = data.draw(st.integers(0, LOG_FILE - 1))
    served = damaged_once(root, path, at, data.draw(st.integers(1, 255)))
    assert served is not None
    for key, body in served.items():
        assert held[key] == body
    assert len(served) >= len(held) - 1


@pytest.mark.parametrize("number", [0, 6, 13, 28, 29])
@pytest.mark.parametrize("flip", [1, 2, 16])
def test_a_queue_offset_that_leaps_ahead_costs_its_own_message_and_none_behind_it(  # A5 12
    template: tuple[Path, dict[Any, bytes]], tmp_path: Path, number: int, flip: int
) -> None:
    source, held = template
    root = tmp_path / "store"
    shutil.copytree(source, root)
    store = store_at(root)
    store.load()
    queue = store.consume_queues.get("T", 1)
    entry = None if queue is None else queue.entry(number)
    assert entry is not None
    store.close_files()
    shutil.rmtree(root / "consumequeue")
    path = root / "commitlog" / f"{entry[0] // LOG_FILE * LOG_FILE:020d}"
    last_byte_of_the_queue_offset = entry[0] % LOG_FILE + RECORD.offset_of("QUEUEOFFSET") + 7
    served = damaged_once(root, path, last_byte_of_the_queue_offset, flip)
    assert served is not None
    assert held.keys() - served.keys() <= {("T", 1, number)}
    assert [key for key in held.keys() & served.keys() if held[key] != served[key]] in (
        [],
        [("T", 1, number ^ flip)],
    )


@settings(max_examples=150 if not NIGHTLY else 3000)
@given(data=st.data())
def test_queues_made_again_from_a_log_with_a_flipped_byte_lack_at_most_its_message(
    template: tuple[Path, dict[Any, bytes]], data: st.DataObject
) -> None:
    source, held = template
    root = source.parent / "flipped-log"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(source, root)
    shutil.rmtree(root / "consumequeue")
    path = data.draw(st.sampled_from(sorted((root / "commitlog").iterdir())[:-1]))
    at = data.draw(st.integers(0, LOG_FILE - 1))
    served = damaged_once(root, path, at, data.draw(st.integers(1, 255)))
    assert served is not None
    # The format guards no header: a flipped queue id moves a message to another queue's offset.
    wrong = [key for key, body in served.items() if held.get(key, body) != body]
    assert len(wrong) <= 1
    assert set(served.values()) <= set(held.values())
    assert len(served.keys() & held.keys()) >= len(held) - 1
    assert len(served) <= len(held)
    assert {p.name for p in root.parent.iterdir()} <= KNOWN_FOLDERS


@settings(max_examples=150 if not NIGHTLY else 3000)
@given(data=st.data())
def test_a_flipped_byte_in_a_queue_costs_nothing(  # A5 13
    template: tuple[Path, dict[Any, bytes]], data: st.DataObject
) -> None:
    source, held = template
    root = source.parent / "flipped-queue"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(source, root)
    path = data.draw(st.sampled_from(sorted((root / "consumequeue").rglob("0*"))))
    if path.is_dir():
        return
    at = data.draw(st.integers(0, QUEUE_FILE - 1))
    served = damaged_once(root, path, at, data.draw(st.integers(1, 255)))
    assert served is not None
    for key, body in served.items():
        assert held[key] == body
    assert len(served) == len(held)


def test_a_kill_at_any_step_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:  # A5 2, 3
    total = len(play(tmp_path / "count", SteppedDisk()).disk.steps)
    assert total > 60
    for number in range(1, total + 1):

        def kill(step: int, operation: str, path: str, number: int = number) -> None:
            if step == number:
                raise Killed(f"step {step}: {operation} {path}")

        root = tmp_path / f"kill-{number}"
        played = play(root, SteppedDisk(kill))
        store = store_at(root)
        store.load()
        served = contents(store)
        assert served.items() >= played.acknowledged.items(), f"killed at step {number}"
        offsets: dict[Any, list[int]] = {}
        for topic, queue_id, offset in served:
            offsets.setdefault((topic, queue_id), []).append(offset)
        assert all(found == list(range(len(found))) for found in offsets.values())
        assert store.put_messages([text_message(999)])[0].status is PutStatus.PUT_OK
        store.close_files()
        again = store_at(root)
        assert again.load().records == 0
        assert len(contents(again)) == len(served) + 1
        again.close_files()
        shutil.rmtree(root)


class Played:
    def __init__(self, disk: SteppedDisk) -> None:
        self.disk = disk
        self.acknowledged: dict[Any, bytes] = {}


def play(root: Path, disk: SteppedDisk) -> Played:
    """A short life: roll files, flush, close, open, write on. Ends early when killed."""
    played = Played(disk)

    def write(store: MessageStore, numbers: range) -> None:
        for number in numbers:
            message = text_message(number)
            result = store.put_messages([message])[0]
            if result.status is PutStatus.PUT_OK:
                key = ("T", message.queue_id, result.queue_offset)
                played.acknowledged[key] = bytes(message.body)
            if number % 10 == 9:
                store._log_flusher.flush()
                store._flush.confirm_soon()

    try:
        store = store_at(root, disk)
        store.load()
        run_inline(store)
        write(store, range(35))
        store.close_files()
        store = store_at(root, disk)
        store.load()
        run_inline(store)
        write(store, range(35, 55))
        store.close_files()
    except Killed:
        pass
    return played


@pytest.mark.parametrize("mode", list(FlushDiskType), ids=lambda mode: mode.name)
def test_after_a_power_cut_what_was_promised_is_there_without_a_hole(  # A5 6-9
    tmp_path: Path, mode: FlushDiskType
) -> None:
    chance = random.Random(7)
    root = tmp_path / "store"
    disk = PowerCutDisk(root)
    held: dict[Any, bytes] = {}
    flushed: dict[Any, bytes] = {}

    def wrote(key: Any, body: bytes) -> Callable[[PutStatus], None]:
        return lambda status: flushed.__setitem__(key, body)

    def cut_and_look() -> None:
        dirty = disk.dirty_pages()
        for _ in range(4):
            kept = [page for page in dirty if chance.random() < 0.5]
            disk.cut(tmp_path / "cut", kept)
            after = SteppedDisk()
            after.boot = b"next boot ......"
            found = store_at(tmp_path / "cut", after)
            found.load()
            served = contents(found)
            assert served.items() >= flushed.items()
            assert served.items() <= held.items()
            lost = [key for key in held if key not in served]
            assert lost == list(held)[len(held) - len(lost) :], "only a suffix may be lost"
            found.close_files()

    for life in (range(45), range(45, 70)):
        store = store_at(root, disk, flush_disk_type=mode)
        store.load()
        cut_and_look()
        run_inline(store)
        for number in life:
            message = text_message(number)
            result = store.put_messages([message])[0]
            key = ("T", message.queue_id, result.queue_offset)
            held[key] = bytes(message.body)
            if mode is FlushDiskType.SYNC_FLUSH:
                store.when_flushed(result.physical_offset + result.size, wrote(key, held[key]))
                assert key in flushed
            if number % 7 == 6 and mode is FlushDiskType.ASYNC_FLUSH:
                store._log_flusher.flush()
                flushed.update(held)
            if number % 20 == 19:
                store._flush.confirm_soon()
            cut_and_look()
        store.close_files()
        flushed.update(held)
        cut_and_look()


def test_a_batch_that_a_kill_tore_in_its_middle_is_cut_whole(tmp_path: Path) -> None:
    store = store_at(tmp_path)
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
    again = store_at(tmp_path)
    recovery = again.load()
    assert (recovery.end, recovery.lost) == (end, [])
    assert contents(again) == held
    again.close_files()


def test_a_missing_log_file_is_named(tmp_path: Path) -> None:  # A5 11
    filled(tmp_path)
    second = tmp_path / "commitlog" / f"{LOG_FILE:020d}"
    second.unlink()
    with pytest.raises(DiskError, match=second.name):
        store_at(tmp_path).load()


@pytest.mark.parametrize("length", [0, 1, 39, 4095])
@pytest.mark.parametrize("name", ["checkpoint", "abort"])
def test_cut_marks_cost_nothing(tmp_path: Path, name: str, length: int) -> None:  # A5 11
    held = filled(tmp_path)
    path = tmp_path / name
    content = path.read_bytes() if path.exists() else b"1"
    path.write_bytes(content[:length])
    store = store_at(tmp_path)
    store.load()
    assert contents(store) == held
    store.close_files()


@pytest.mark.parametrize("folder", ["consumequeue", "index"])
@pytest.mark.parametrize("length", [0, 1, 399])
def test_cut_queue_and_index_files_are_made_again(
    tmp_path: Path, folder: str, length: int
) -> None:  # A5 11
    held = filled(tmp_path)
    for path in sorted((tmp_path / folder).rglob("*")):
        if path.is_file():
            os.truncate(path, length)
    mark_unclean(tmp_path)
    store = store_at(tmp_path)
    store.load()
    assert contents(store) == held
    assert len(store.query("T", "k3", 32, 0, 1 << 62).records) == 12
    store.close_files()


def test_a_queue_directory_that_is_gone_is_noticed_after_a_clean_stop(tmp_path: Path) -> None:
    held = filled(tmp_path)
    shutil.rmtree(tmp_path / "consumequeue" / "T" / "1")
    store = store_at(tmp_path)
    store.load()
    assert contents(store) == held
    store.close_files()


def test_bytes_behind_a_cut_never_come_back(tmp_path: Path) -> None:
    filled(tmp_path, count=12)
    store = store_at(tmp_path)
    store.load()
    victim = store.consume_queues.get("T", 0)
    assert victim is not None
    at, size, _ = victim.entry(4) or (0, 0, 0)
    store.close_files()
    log_file = tmp_path / "commitlog" / f"{0:020d}"
    content = bytearray(log_file.read_bytes())
    content[at : at + size] = bytes(size)  # a page that a power cut lost; later ones survived
    log_file.write_bytes(content)
    mark_unclean(tmp_path)
    (tmp_path / "checkpoint").unlink()
    disk = SteppedDisk()
    disk.boot = b"another boot ..."
    store = store_at(tmp_path, disk)
    assert store.load().end == at
    store.put_messages([text_message(8)])  # exactly as long as the one that was lost
    assert store.commit_log.max_offset == at + size
    store.close_files()
    mark_unclean(tmp_path)
    (tmp_path / "checkpoint").unlink()
    store = store_at(tmp_path, disk)
    assert store.load().end == at + size
    assert store.get_message("T", 1, 4, 1).status is GetStatus.OFFSET_OVERFLOW_ONE
    store.close_files()
