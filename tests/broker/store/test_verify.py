"""`verify_store` says that a good store is good, and exactly where a bad one is bad."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.broker.store import MessageStore, OsDisk, StoredMessage
from pocketmq.broker.store.tools import verify as verify_module
from pocketmq.broker.store.tools.stopped_store import (
    Problem,
    StoppedStore,
    find_stores,
)
from pocketmq.broker.store.tools.verify import Verified, verify_store
from pocketmq.protocol.messages.properties import encode_properties
from pocketmq.protocol.messages.subscription import tags_code
from pocketmq.runtime.errors import CallerError
from pocketmq.runtime.profile import PROFILE_5_3, PROFILE_5_5
from support.golden import unpack_store

Make = Callable[..., MessageStore]
Message = Callable[..., StoredMessage]
Damage = Callable[[Path], Path]

LOG_FILE = 16 * 1024
SHAPE = {
    "mapped_file_size_commit_log": LOG_FILE,
    "mapped_file_size_consume_queue": 40 * 20,
    "max_hash_slot_num": 25,  # four entries to a slot, as RocketMQ has
    "max_index_num": 100,
}


def keyed(message: Message, number: int, **fields: Any) -> StoredMessage:
    """A message with a tag, a unique key, and now and then keys of its own."""
    tag = "ABC"[number % 3]
    properties = {"UNIQ_KEY": f"7F00000100002A139A55{number:012X}", "TAGS": tag, "WAIT": "true"}
    keys = f"key-{number} ключ" if number % 5 == 0 else None
    if keys is not None:
        properties["KEYS"] = keys
    return message(
        b"body %d " % number * 9,
        properties=encode_properties(properties).encode(),
        tags_code=tags_code(tag),
        uniq_key=properties["UNIQ_KEY"],
        keys=keys,
        **fields,
    )


@pytest.fixture
def root(open_store: Make, message: Message, tmp_path: Path) -> Path:
    """A closed store: 300 messages in two topics, several files of each kind."""
    store = open_store(**SHAPE)
    for number in range(300):
        topic = "T" if number % 4 else "Other"
        store.put_messages([keyed(message, number, topic=topic, queue_id=number % 2)])
    store.close_files()
    return tmp_path / "store"


def verify(root: Path, **options: Any) -> Verified:
    return verify_store(OsDisk(), str(root), **options)


def problems(root: Path) -> list[tuple[str, int]]:
    """(relative path, position) of each problem."""
    found = verify(root).problems
    return [(str(Path(problem.path).relative_to(root)), problem.position) for problem in found]


def flip(path: Path, position: int, mask: int = 1) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= mask
    path.write_bytes(content)


# -- good stores ---------------------------------------------------------------------------------


def test_a_closed_store_is_all_right(root: Path) -> None:
    result = verify(root)
    assert (result.problems, result.notes) == ([], [])
    in_index = 300 + 2 * 60 + 300  # unique keys, keys, tags
    assert (result.records, result.entries, result.index_entries) == (300, 300, in_index)
    assert result.log_bytes > 3 * LOG_FILE


def test_an_index_that_has_tags_in_part_is_all_right(
    open_store: Make, message: Message, tmp_path: Path
) -> None:  # S-46: a broker of another profile goes on with the store
    for first, profile in ((0, PROFILE_5_3), (100, PROFILE_5_5), (200, PROFILE_5_3)):
        store = open_store(**SHAPE, profile=profile.broker)
        for number in range(first, first + 100):
            store.put_messages([keyed(message, number)])
        store.close_files()
    result = verify(tmp_path / "store")
    assert (result.problems, result.notes) == ([], [])
    assert result.index_entries == 300 + 2 * 60 + 100


@pytest.mark.parametrize("name", ["clean", "killed"])
def test_a_store_of_the_real_rocketmq_is_all_right(name: str, tmp_path: Path) -> None:
    result = verify(unpack_store(name, tmp_path) / "store")
    assert result.problems == []
    assert result.entries == result.records > 1200
    assert len(result.notes) == (name == "killed")


def test_a_store_that_was_killed_is_not_wrong(
    open_store: Make, message: Message, tmp_path: Path
) -> None:
    store = open_store(**SHAPE)
    for number in range(30):
        store.put_messages([keyed(message, number)])
    (tmp_path / "store" / "abort").write_bytes(b"")
    # The killed process was just writing a record.
    view, end = store.commit_log.files.files[0].view(), store.commit_log.max_offset
    view[end : end + 60] = view[:60]
    result = verify(tmp_path / "store")
    assert result.problems == []
    assert any("recovery will cut it" in note for note in result.notes)


def test_messages_to_be_delivered_later_are_checked_against_their_level(  # B-91
    open_store: Make, message: Message, tmp_path: Path
) -> None:
    store = open_store(**SHAPE)
    properties = encode_properties({"DELAY": "3"}).encode()
    late = message(
        b"late", topic="SCHEDULE_TOPIC_XXXX", queue_id=2, properties=properties, delay_level=3
    )
    store.put_messages([late, late])
    store.close_files()
    assert verify(tmp_path / "store").problems == []
    assert len(verify(tmp_path / "store", delay_levels="1s 2s 4s").problems) == 2


def test_records_of_deleted_topics_are_told_and_not_wrong(
    open_store: Make, message: Message, tmp_path: Path
) -> None:
    store = open_store(**SHAPE)
    store.put_messages([message(b"x", "Gone"), message(b"y", "Again"), message(b"z", "Stays")])
    store.delete_topic("Gone")
    store.delete_topic("Again")
    store.put_messages([message(b"new", "Again")])
    store.close_files()
    result = verify(tmp_path / "store")
    assert result.problems == []
    assert len(result.notes) == 2


def test_a_file_made_ahead_of_time_is_part_of_a_good_store(root: Path) -> None:
    files = sorted((root / "commitlog").iterdir())
    (root / "commitlog" / f"{len(files) * LOG_FILE:020d}").write_bytes(bytes(LOG_FILE))
    assert verify(root).problems == []


def test_stretches_find_what_one_reading_finds(root: Path, monkeypatch: Any) -> None:
    flip(root / "commitlog" / f"{LOG_FILE:020d}", 5000)
    whole = verify(root)
    monkeypatch.setattr(verify_module, "STRETCH_BYTES", 3000)
    parts = verify(root)
    assert [str(p) for p in parts.problems] == [str(p) for p in whole.problems]
    assert (parts.records, parts.entries) == (whole.records, whole.entries)


def test_several_processes_find_what_one_finds(root: Path) -> None:
    flip(root / "commitlog" / f"{LOG_FILE:020d}", 5000)
    code = (
        "from pocketmq.broker.store import OsDisk\n"
        "from pocketmq.broker.store.tools import verify\n"
        "verify.STRETCH_BYTES, verify._PARALLEL_FROM = 3000, 0\n"
        f"result = verify.verify_store(OsDisk(), {str(root)!r}, workers=2)\n"
        "print(*result.problems, result.records, result.entries, sep='\\n')\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    alone = verify(root)
    assert sorted(ran.stdout.splitlines()[:-2]) == sorted(str(p) for p in alone.problems)
    assert ran.stdout.splitlines()[-2:] == [str(alone.records), str(alone.entries)]


# -- bad stores ----------------------------------------------------------------------------------


def test_a_flipped_bit_in_a_body_is_found_at_its_record(root: Path) -> None:
    path = root / "commitlog" / f"{LOG_FILE:020d}"
    size = int.from_bytes(path.read_bytes()[:4], "big")
    flip(path, size + 100)
    assert problems(root)[0] == (f"commitlog/{path.name}", size)


def test_any_bit_of_a_queue_entry_counts(root: Path) -> None:
    path = root / "consumequeue/T/1" / f"{800:020d}"
    for bit in range(0, 160, 3):
        flip(path, 40 + bit // 8, 1 << bit % 8)
        assert (str(path.relative_to(root)), 40) in problems(root), bit
        flip(path, 40 + bit // 8, 1 << bit % 8)
    assert problems(root) == []


def test_any_bit_of_an_index_entry_counts(root: Path) -> None:
    path = sorted((root / "index").iterdir())[0]
    at = 40 + 25 * 4 + 7 * 20
    for bit in range(0, 160, 3):
        flip(path, at + bit // 8, 1 << bit % 8)
        assert problems(root), bit
        flip(path, at + bit // 8, 1 << bit % 8)
    assert problems(root) == []


def test_a_lost_index_slot_is_found(root: Path) -> None:
    path = sorted((root / "index").iterdir())[0]
    content = bytearray(path.read_bytes())
    slot = next(n for n in range(25) if any(content[40 + 4 * n : 44 + 4 * n]))
    content[40 + 4 * slot : 44 + 4 * slot] = bytes(4)
    path.write_bytes(content)
    assert (f"index/{path.name}", 40 + 4 * slot) in problems(root)


def zero_in_the_log(root: Path) -> tuple[str, int]:
    path = root / "commitlog" / f"{LOG_FILE:020d}"
    content = bytearray(path.read_bytes())
    content[0:2000] = bytes(2000)
    path.write_bytes(content)
    return f"commitlog/{path.name}", 0


def truncate_the_log(root: Path) -> tuple[str, int]:
    path = root / "commitlog" / f"{LOG_FILE:020d}"
    path.write_bytes(path.read_bytes()[:10_001])
    return f"commitlog/{path.name}", 10_001


def lose_a_log_file(root: Path) -> tuple[str, int]:
    (root / "commitlog" / f"{LOG_FILE:020d}").unlink()
    return f"commitlog/{2 * LOG_FILE:020d}", 0


def lose_a_queue(root: Path) -> tuple[str, int]:
    shutil.rmtree(root / "consumequeue/T/1")
    return "consumequeue/T/1", 0


def lose_a_topic(root: Path) -> tuple[str, int]:
    shutil.rmtree(root / "consumequeue/T")
    return "checkpoint", 40


def lose_a_queue_file(root: Path) -> tuple[str, int]:
    (root / "consumequeue/T/1" / f"{800:020d}").unlink()
    return f"consumequeue/T/1/{1600:020d}", 0


def lose_the_first_queue_file(root: Path) -> tuple[str, int]:
    (root / "consumequeue/T/1" / f"{0:020d}").unlink()
    return "consumequeue/T/1", 0


def cut_the_queue_end(root: Path) -> tuple[str, int]:
    path = sorted((root / "consumequeue/T/1").iterdir())[-1]
    content = path.read_bytes()
    end = (len(content.rstrip(b"\0")) - 1) // 20 * 20
    path.write_bytes(content[:end] + bytes(len(content) - end))
    return str(path.relative_to(root)), end


def add_an_entry(root: Path) -> tuple[str, int]:
    path = sorted((root / "consumequeue/T/1").iterdir())[-1]
    content = bytearray(path.read_bytes())
    end = -(-len(content.rstrip(b"\0")) // 20) * 20
    content[end : end + 20] = content[end - 20 : end]
    path.write_bytes(content)
    return str(path.relative_to(root)), end


def add_bytes_behind_the_log(root: Path) -> tuple[str, int]:
    path = sorted((root / "commitlog").iterdir())[-1]
    content = bytearray(path.read_bytes())
    content[-7] = 1
    path.write_bytes(content)
    return f"commitlog/{path.name}", len(content) - 7


def cut_a_config_file(root: Path) -> tuple[str, int]:
    (root / "config").mkdir()
    (root / "config/topics.json").write_text('{"topicConfigTable":{"T":{')
    return "config/topics.json", 0


def cut_the_index(root: Path) -> tuple[str, int]:
    path = sorted((root / "index").iterdir())[0]
    path.write_bytes(path.read_bytes()[:700])
    return f"index/{path.name}", 700


def cut_the_checkpoint(root: Path) -> tuple[str, int]:
    (root / "checkpoint").write_bytes((root / "checkpoint").read_bytes()[:100])
    return "checkpoint", 100


DAMAGES = [
    zero_in_the_log, truncate_the_log, lose_a_log_file, lose_a_queue, lose_a_topic,
    lose_a_queue_file, lose_the_first_queue_file, cut_the_queue_end, add_an_entry,
    add_bytes_behind_the_log, cut_a_config_file, cut_the_index, cut_the_checkpoint,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_is_found_where_it_is(damage: Callable[[Path], tuple[str, int]], root: Path) -> None:
    assert damage(root) in problems(root)


@settings(max_examples=40)
@given(data=st.data())
def test_no_damage_ends_in_a_traceback(tmp_path_factory: Any, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    root = unpack_store("clean", folder) / "store"
    files = sorted(path for path in root.rglob("*") if path.is_file())
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(files))
        content = bytearray(path.read_bytes())
        at = data.draw(st.integers(0, max(0, len(content) - 1)))
        kind = data.draw(st.sampled_from(["flip", "cut", "zero", "noise"]))
        if kind == "cut":
            del content[at:]
        elif content:
            length = data.draw(st.integers(1, 5000)) if kind != "flip" else 1
            rest = content[at : at + length]
            filler = bytes(len(rest)) if kind == "zero" else data.draw(st.binary(max_size=40))
            content[at : at + len(rest)] = (filler * len(rest))[: len(rest)] or rest
        path.write_bytes(content)
    verify(root)
    shutil.rmtree(folder)


# -- parts ---------------------------------------------------------------------------------------


def test_stores_are_found_in_a_folder_of_them(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "all/broker-a")
    shutil.copytree(root, tmp_path / "all/broker-b")
    (tmp_path / "all/logs").mkdir()
    (tmp_path / "all/notes.txt").write_text("no store")
    found = find_stores(OsDisk(), str(tmp_path / "all"))
    assert found == [str(tmp_path / "all/broker-a"), str(tmp_path / "all/broker-b")]
    with pytest.raises(CallerError, match="is not a store root"):
        find_stores(OsDisk(), str(tmp_path / "all/logs"))


def test_sizes_are_read_off_the_files(root: Path) -> None:
    with StoppedStore(OsDisk(), str(root)) as store:
        assert store.shape == (LOG_FILE, 800, 25, 100)


def test_a_problem_says_file_position_and_what() -> None:
    assert str(Problem("a/b", 7, "bad")) == "a/b: byte 7: bad"


@pytest.mark.parametrize("row", ["commitlog", "consumequeue/T/0"])
def test_a_file_that_was_made_and_not_yet_sized_is_no_problem(root: Path, row: str) -> None:  # S-3
    last = max((root / row).iterdir())
    size = last.stat().st_size
    unborn = last.with_name(f"{int(last.name) + size:020d}")
    unborn.write_bytes(b"")
    found = verify(root)
    assert found.problems == []
    assert f"{unborn}: the file is empty; the next start removes it" in found.notes
    # In the middle of a row it is one.
    unborn.with_name(f"{int(last.name) + 2 * size:020d}").write_bytes(bytes(size))
    assert (f"{row}/{unborn.name}", 0) in problems(root)
