"""A topic that was deleted and made again keeps its new messages, whatever has to be rebuilt."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from pocketmq.broker.store import MessageStore, OsDisk, StoreConfig
from pocketmq.broker.store.disk.disk_worker import DiskWorker, InlineWorker
from pocketmq.broker.store.tools.rebuild import Rebuild
from pocketmq.broker.store.tools.verify import verify_store
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import PROFILE_5_X
from support.store_life import messages_of, numbered

SHAPE: dict[str, Any] = {
    "mapped_file_size_commit_log": 4096,
    "mapped_file_size_consume_queue": 400,
    "max_hash_slot_num": 25,
    "max_index_num": 100,
}


class OtherBoot(OsDisk):
    def boot_id(self) -> bytes:
        return b"another boot ..."

    def start_worker(self, name: str) -> DiskWorker:
        return InlineWorker()


def open_store(root: Path, disk: OsDisk | None = None) -> MessageStore:
    config = StoreConfig(store_path_root_dir=str(root), **SHAPE)
    store = MessageStore(
        config, disk or OsDisk(), ManualClock(1_700_000_000_000), PROFILE_5_X.broker
    )
    store.load()
    return store


def put(store: MessageStore, numbers: range, topic: str = "T") -> None:
    store.put_messages([numbered(number, topic) for number in numbers])


def contents(store: MessageStore) -> dict[tuple[str, int, int], bytes]:
    return {
        (topic, queue, offset): body
        for topic, queue in store.reads.queues()
        for offset, body in messages_of(store, topic, queue)
    }


@pytest.fixture(params=[1, 2, 5, 40], ids=lambda count: f"{count} new")
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """20 messages of T, T deleted, another topic's, then new messages of T."""
    root = tmp_path / "store"
    store = open_store(root)
    put(store, range(20))
    store.delete_topic("T")
    put(store, range(5), "Other")
    put(store, range(100, 100 + request.param))
    store.close_files()
    return root


def expected(root: Path, folder: Path) -> dict[tuple[str, int, int], bytes]:
    shutil.copytree(root, folder)
    store = open_store(folder)
    found = contents(store)
    store.close_files()
    assert found["T", 0, 0].startswith(b"100.")
    return found


def test_a_rebuild_finds_where_the_topic_began_anew(root: Path, tmp_path: Path) -> None:
    want = expected(root, tmp_path / "copy")
    Rebuild(OsDisk(), str(root), ManualClock(0), PROFILE_5_X.broker).run()
    store = open_store(root)
    found = contents(store)
    # The old queue 1 comes back when nothing new went there: its records are all that is left.
    assert {key: body for key, body in found.items() if key in want} == want
    assert all(key[:2] == ("T", 1) for key in found.keys() - want.keys())
    store.close_files()
    assert verify_store(OsDisk(), str(root)).problems == []


def test_a_power_cut_brings_no_deleted_message_back(root: Path, tmp_path: Path) -> None:
    want = expected(root, tmp_path / "copy")
    (root / "abort").write_bytes(b"1")
    store = open_store(root, OtherBoot())  # the index that was written is made again from all
    assert contents(store) == want
    assert len(store.query("Other", "U000003", 9, 0, 1 << 62).records) == 1
    store.close_files()


def test_a_queue_that_is_lost_is_made_again_as_it_was(root: Path, tmp_path: Path) -> None:
    want = expected(root, tmp_path / "copy")
    shutil.rmtree(root / "consumequeue" / "T" / "0")
    store = open_store(root)
    found = contents(store)
    assert {key: body for key, body in found.items() if key in want} == want
    store.close_files()


def test_a_flipped_queue_offset_is_no_beginning(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put(store, range(40))
    entry = store.consume_queues.get("T", 0)
    assert entry is not None
    physical, _, _ = entry.entry(8) or (0, 0, 0)
    store.close_files()
    path = tmp_path / "commitlog" / f"{physical // 4096 * 4096:020d}"
    content = bytearray(path.read_bytes())
    content[physical % 4096 + 27] = 0  # queue offset 8 becomes 0
    path.write_bytes(content)
    shutil.rmtree(tmp_path / "consumequeue")
    store = open_store(tmp_path)
    found = sorted(offset for _, queue, offset in contents(store) if queue == 0)
    assert found == [offset for offset in range(20) if offset != 8]
    store.close_files()
