"""A store that RocketMQ wrote through DLedger: read as its client read it, and never opened."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pocketmq.broker.store import MessageStore, OsDisk, StoreConfig
from pocketmq.broker.store.tools.dump import read_queue
from pocketmq.broker.store.tools.inspect import inspect_store
from pocketmq.broker.store.tools.rebuild import Rebuild
from pocketmq.broker.store.tools.stopped_store import Problem, StoppedStore, find_stores
from pocketmq.broker.store.tools.verify import verify_store
from pocketmq.protocol.store_layout import LEDGER_ENTRY
from pocketmq.protocol.stored.ledger import REST_OF_FILE, record_place
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import PROFILE_5_X
from support.golden import unpack_store

LEDGER_BEGIN = 131072
"""Where the plain log ends that the broker wrote before (D-235)."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return unpack_store("dledger", tmp_path) / "store"


@pytest.fixture
def expected(root: Path) -> list[dict[str, Any]]:
    lines = (root.parent / "expected.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_every_queue_reads_as_the_client_read_it(
    root: Path, expected: list[dict[str, Any]]
) -> None:
    read: dict[tuple[str, int, int], Any] = {}
    with StoppedStore(OsDisk(), str(root)) as store:
        for queue in store.queues:
            for message in read_queue(store, queue.topic, queue.queue_id):
                assert not isinstance(message, Problem)
                read[message.topic, message.queue_id, message.queue_offset] = (
                    message.commit_log_offset,
                    message.store_size,
                    message.body_crc,
                    message.store_timestamp_ms,
                )
    wanted = {
        (each["topic"], each["queueId"], each["queueOffset"]): (
            each["commitLogOffset"],
            each["storeSize"],
            each["bodyCRC"],
            each["storeTimestamp"],
        )
        for each in expected
    }
    assert read == wanted
    in_ledger = [place for place, *_ in read.values() if place >= LEDGER_BEGIN]
    assert len(in_ledger) == 520
    assert min(in_ledger) == LEDGER_BEGIN + 48  # D-222


def test_inspect_says_who_wrote_it_and_where_its_records_end(
    root: Path, expected: list[dict[str, Any]]
) -> None:
    assert find_stores(OsDisk(), str(root.parent)) == [str(root)]
    with StoppedStore(OsDisk(), str(root)) as store:
        facts = inspect_store(store)
    last = max(expected, key=lambda each: each["commitLogOffset"])
    assert facts.is_ledger
    assert facts.max_physical == last["commitLogOffset"] + last["storeSize"]
    assert [file.path for file in facts.log_files][1:] == [
        "dledger-n0/data/00000000000000131072",
        "dledger-n0/data/00000000000000262144",
    ]


def test_verify_checks_each_record_of_both_logs(root: Path) -> None:
    found = verify_store(OsDisk(), str(root))
    assert (found.problems, found.records, found.entries) == ([], 620, 620)
    path = root / "dledger-n0" / "data" / f"{LEDGER_BEGIN:020d}"
    content = bytearray(path.read_bytes())
    content[48 + 100] ^= 1
    path.write_bytes(content)
    [problem, *_] = verify_store(OsDisk(), str(root)).problems
    assert (problem.path, problem.position) == (str(path), 48)
    assert "BODYCRC" in problem.what


def test_no_broker_opens_it_and_nothing_is_rebuilt(root: Path) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    config = StoreConfig(store_path_root_dir=str(root))
    store = MessageStore(config, OsDisk(), ManualClock(0), PROFILE_5_X.broker)
    with pytest.raises(DiskError, match=r"can read but not write.*give the broker an empty store"):
        store.load()
    with pytest.raises(DiskError, match="can read but not write"):
        Rebuild(OsDisk(), str(root), ManualClock(0), PROFILE_5_X.broker)
    assert before == {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_two_logs_for_the_same_offsets_are_refused(root: Path) -> None:
    shutil.copytree(root / "dledger-n0", root / "dledger-n1")
    with pytest.raises(
        DiskError,
        match=r"only one log of DLedger, but .*; move one of the two logs to another folder",
    ):
        StoppedStore(OsDisk(), str(root))
    shutil.rmtree(root / "dledger-n1")
    shutil.copy(root / "dledger-n0" / "data" / f"{LEDGER_BEGIN:020d}", root / "commitlog")
    with pytest.raises(DiskError, match="contain the same log offsets"):
        StoppedStore(OsDisk(), str(root))


def test_a_head_is_told_from_a_record_by_its_own_offset() -> None:  # D-231 to D-234
    head = LEDGER_ENTRY.struct.pack(1, 148, 7, 3, 4096, 0, 0, 0, 100)
    entry = head + bytes(100)
    assert record_place(entry, 0, 4096) == 48
    assert record_place(entry, 0, 4097) == 0
    blank = (-1).to_bytes(4, "big", signed=True) + (148).to_bytes(4, "big")
    assert record_place(blank + bytes(140), 0, 4096) == REST_OF_FILE
    assert record_place(blank, 0, 4096) == REST_OF_FILE
    assert record_place(b"", 0, 0) == 0
