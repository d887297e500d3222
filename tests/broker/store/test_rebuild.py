"""Queues and index made anew are those that were there, byte for byte."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pocketmq.broker.store import MessageStore, OsDisk, StoredMessage
from pocketmq.broker.store.tools.dump import read_queue
from pocketmq.broker.store.tools.inspect import inspect_store
from pocketmq.broker.store.tools.rebuild import Rebuild
from pocketmq.broker.store.tools.stopped_store import Problem, StoppedStore
from pocketmq.broker.store.tools.verify import verify_store
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.message_json import as_json
from pocketmq.runtime.errors import CallerError
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import PROFILE_5_3, PROFILE_5_X, Profile
from support.golden import unpack_store

Make = Callable[..., MessageStore]
Message = Callable[..., StoredMessage]


def rebuild(root: Path, clock: ManualClock, profile: Profile = PROFILE_5_X) -> Rebuild:
    work = Rebuild(OsDisk(), str(root), clock, profile.broker)
    work.run()
    return work


def queue_bytes(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in (root / "consumequeue").rglob("*")
        if path.is_file()
    }


def index_entries(root: Path) -> list[bytes]:
    """Hash, offset and older entry of each entry: the rest depends on the moment of a file."""
    slots, found = 400, []
    for path in sorted((root / "index").iterdir()):
        content = path.read_bytes()
        count = int.from_bytes(content[36:40], "big")
        at = 40 + slots * 4
        entries = [content[at + n * 20 : at + n * 20 + 20] for n in range(1, count)]
        found += [entry[:12] + entry[16:] for entry in entries]
    return found


@pytest.mark.parametrize("name", ["clean", "killed"])
def test_rebuilding_what_the_real_rocketmq_wrote_changes_nothing(
    name: str, tmp_path: Path, clock: ManualClock
) -> None:
    root = unpack_store(name, tmp_path) / "store"
    queues, index = queue_bytes(root), index_entries(root)
    work = rebuild(root, clock, PROFILE_5_3)  # which wrote them
    assert work.lost == []
    assert queue_bytes(root) == queues
    assert index_entries(root) == index
    assert verify_store(OsDisk(), str(root)).problems == []
    assert (work.entries, work.index_entries) == (len_of(queues), len(index))


def len_of(queues: dict[str, bytes]) -> int:
    return sum(
        content[at : at + 20] != bytes(20)
        for content in queues.values()
        for at in range(0, len(content), 20)
    )


def test_rebuilding_mends_what_was_damaged(tmp_path: Path, clock: ManualClock) -> None:
    root = unpack_store("clean", tmp_path) / "store"
    queues = queue_bytes(root)
    shutil.rmtree(root / "index")
    shutil.rmtree(root / "consumequeue/GoldenBatch/2")
    (root / "consumequeue/GoldenPlain/0" / f"{0:020d}").write_bytes(b"")
    (root / "checkpoint").write_bytes(b"nonsense")
    rebuild(root, clock)
    assert queue_bytes(root) == queues
    assert verify_store(OsDisk(), str(root), index_slots=5_000_000).problems == []


def test_a_damaged_record_costs_a_rebuild_that_record_alone(
    tmp_path: Path, clock: ManualClock
) -> None:
    root = unpack_store("clean", tmp_path) / "store"
    path = root / "commitlog" / f"{131072:020d}"
    content = bytearray(path.read_bytes())
    content[5] ^= 1  # the first record's magic
    path.write_bytes(content)
    work = rebuild(root, clock)
    assert [(at, reason[:9]) for at, _, reason in work.lost] == [(131072, "MAGICCODE")]
    assert {problem.path for problem in verify_store(OsDisk(), str(root)).problems} == {str(path)}


def test_a_rebuild_that_was_interrupted_is_finished_by_the_next_start(
    open_store: Make, message: Message, tmp_path: Path, clock: ManualClock
) -> None:
    shape = {"max_hash_slot_num": 25}
    store = open_store(**shape)
    store.put_messages([message(b"%d" % n, queue_id=n % 2, uniq_key=f"k{n}") for n in range(50)])
    store.close_files()
    root = tmp_path / "store"
    queues = queue_bytes(root)
    (root / "checkpoint").unlink()
    shutil.rmtree(root / "consumequeue/T/1")
    shutil.rmtree(root / "index")
    open_store(**shape).close_files()
    assert queue_bytes(root) == queues


def test_an_empty_store_can_be_rebuilt(
    open_store: Make, tmp_path: Path, clock: ManualClock
) -> None:
    open_store().close_files()
    assert rebuild(tmp_path / "store", clock).entries == 0


# -- dump and inspect ----------------------------------------------------------------------------


def expected(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "expected.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_every_message_of_a_rocketmq_store_comes_out_as_its_own_client_saw_it(
    tmp_path: Path,
) -> None:
    folder = unpack_store("clean", tmp_path)
    with StoppedStore(OsDisk(), str(folder / "store")) as store:
        for want in expected(folder):
            found = next(
                iter(read_queue(store, want["topic"], want["queueId"], want["queueOffset"]))
            )
            assert isinstance(found, MessageExt)
            told = as_json(found)
            for name in ("topic", "queueId", "queueOffset", "storeTimestamp", "bornTimestamp"):
                assert told[name] == want[name]
            assert told["commitLogOffset"] == want["commitLogOffset"]


def test_a_damaged_message_is_told_in_its_place(
    open_store: Make, message: Message, tmp_path: Path
) -> None:
    store = open_store()
    results = store.put_messages([message(b"one"), message(b"two"), message(b"\xff\xfe")])
    store.close_files()
    path = tmp_path / "store/commitlog" / f"{0:020d}"
    content = bytearray(path.read_bytes())
    content[results[1].physical_offset + 89] ^= 1
    path.write_bytes(content)
    with StoppedStore(OsDisk(), str(tmp_path / "store")) as stopped:
        one, two, three = read_queue(stopped, "T", 0)
        assert isinstance(one, MessageExt)
        assert as_json(one)["body"] == "one"
        assert isinstance(two, Problem)
        assert "BODYCRC" in two.what
        assert isinstance(three, MessageExt)
        assert as_json(three)["bodyBase64"] == "//4="
        assert [m.queue_offset for m in read_queue(stopped, "T", 0, 2)] == [2]  # type: ignore[union-attr]
        with pytest.raises(CallerError, match="it has the queue 0"):
            next(read_queue(stopped, "T", 9))


def test_inspect_knows_files_offsets_topics_sizes_and_times(tmp_path: Path) -> None:
    folder = unpack_store("clean", tmp_path)
    with StoppedStore(OsDisk(), str(folder / "store")) as store:
        facts = inspect_store(store)
    messages = expected(folder)
    assert sum(q.max_offset - q.min_offset for q in facts.queues) >= len(messages)
    plain = [m for m in messages if m["topic"] == "GoldenPlain"]
    queues = [q for q in facts.queues if q.topic == "GoldenPlain"]
    assert sum(q.max_offset for q in queues) == len(plain)
    assert sum(q.size_bytes for q in queues) == sum(m["storeSize"] for m in plain)
    assert min(q.first_ms for q in queues) == min(m["storeTimestamp"] for m in plain)
    assert max(q.last_ms for q in queues) == max(m["storeTimestamp"] for m in plain)
    assert facts.log_files[0].path == f"commitlog/{0:020d}"
    assert facts.is_clean
    assert facts.max_physical == facts.log_files[-1].used + 3 * 131072
    assert sum(index.entries for index in facts.index_files) == 2468
