"""An audit finds planted faults and says where they are; in good stores it finds nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pocketmq.pipeline.jobs.audit_job import Audit, audit
from pocketmq.runtime.errors import CallerError
from support.golden import unpack_store
from support.spark_store import mixed, open_store, put

MESSAGES = 400
LOG_FILE = 16 * 1024
QUEUE_FILE = 40 * 20
SLOTS = 100
Fault = Callable[[Path], tuple[str, int]]
"""Plants a fault in a store; the file, relative to it, and the byte at which it must be found."""


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which a group has consumed a part."""
    root = tmp_path_factory.mktemp("audit") / "broker-a"
    sizes = {
        "mapped_file_size_commit_log": LOG_FILE,
        "mapped_file_size_consume_queue": QUEUE_FILE,
    }
    with open_store(root, **sizes) as store:
        put(store, mixed(MESSAGES))
    config = root / "config"
    config.mkdir(exist_ok=True)
    offsets = (
        '{"dataVersion":{"counter":1},"offsetTable":{"T@billing":{0:10,1:66,2:0},"U@b":{0:3}}}'
    )
    (config / "consumerOffset.json").write_text(offsets)
    (config / "delayOffset.json").write_text('{"offsetTable":{1:0,2:0}}')
    return root


@pytest.fixture
def root(good: Path, tmp_path: Path) -> Path:
    shutil.copytree(good, tmp_path / "broker-a")
    return tmp_path / "broker-a"


def change(path: Path, at: int, new: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[at : at + len(new)] = new
    path.write_bytes(content)


def flip(path: Path, at: int) -> None:
    change(path, at, bytes([path.read_bytes()[at] ^ 1]))


def second_log_file(root: Path) -> tuple[Path, int]:
    """The second file of the log, and where its second record begins."""
    path = root / "commitlog" / f"{LOG_FILE:020d}"
    return path, int.from_bytes(path.read_bytes()[:4], "big")


def in_log(field: int, *, width: int = 1) -> Fault:
    def plant(root: Path) -> tuple[str, int]:
        path, at = second_log_file(root)
        for byte in range(width):
            flip(path, at + field + byte)
        return f"commitlog/{path.name}", at

    return plant


def entry_of(path: Path, at: int) -> tuple[str, int]:
    """The place of a record's queue entry."""
    record = path.read_bytes()[at : at + 2000]
    queue_id = int.from_bytes(record[12:16], "big")
    offset = int.from_bytes(record[20:28], "big")
    topic = "T" if b"\x01T" in record else "U"
    first = offset // 40 * 40
    return f"consumequeue/{topic}/{queue_id}/{first * 20:020d}", (offset - first) * 20


def queue_offset_repeated(root: Path) -> tuple[str, int]:
    """Two records of a queue say that they have the same offset."""
    path, at = second_log_file(root)
    place = entry_of(path, at)
    flip(path, at + 20 + 7)
    return place


def record_of_another_queue(root: Path) -> tuple[str, int]:
    path, at = second_log_file(root)
    place = entry_of(path, at)
    queue_id = int.from_bytes(path.read_bytes()[at + 12 : at + 16], "big")
    change(path, at + 12, ((queue_id + 1) % 3).to_bytes(4, "big"))
    return place


def zeros_in_the_log(root: Path) -> tuple[str, int]:
    path, at = second_log_file(root)
    change(path, at, bytes(300))
    return f"commitlog/{path.name}", at


def log_cut(root: Path) -> tuple[str, int]:
    path, _ = second_log_file(root)
    path.write_bytes(path.read_bytes()[:9_001])
    return f"commitlog/{path.name}", 9_001


def log_file_gone(root: Path) -> tuple[str, int]:
    second_log_file(root)[0].unlink()
    return f"commitlog/{2 * LOG_FILE:020d}", 0


def in_queue_entry(byte: int) -> Fault:
    def plant(root: Path) -> tuple[str, int]:
        path = root / "consumequeue/T/1" / f"{QUEUE_FILE:020d}"
        flip(path, 60 + byte)
        return f"consumequeue/T/1/{path.name}", 60

    return plant


def last_entry(root: Path) -> tuple[Path, int]:
    path = sorted((root / "consumequeue/T/1").iterdir())[-1]
    return path, (len(path.read_bytes().rstrip(b"\0")) - 1) // 20 * 20


def queue_ends_early(root: Path) -> tuple[str, int]:
    path, at = last_entry(root)
    change(path, at, bytes(20))
    return str(path.relative_to(root)), at


def entry_twice(root: Path) -> tuple[str, int]:
    path, at = last_entry(root)
    change(path, at + 20, path.read_bytes()[at : at + 20])
    return str(path.relative_to(root)), at + 20


def queue_gone(root: Path) -> tuple[str, int]:
    shutil.rmtree(root / "consumequeue/T/1")
    return "consumequeue/T/1", 0


def queue_file_gone(root: Path) -> tuple[str, int]:
    (root / "consumequeue/T/1" / f"{0:020d}").unlink()
    return "consumequeue/T/1", 0


def index_file(root: Path) -> Path:
    return sorted((root / "index").iterdir())[0]


def wrong_hash_in_index(root: Path) -> tuple[str, int]:
    at = 40 + 4 * SLOTS + 7 * 20
    flip(index_file(root), at + 3)
    return f"index/{index_file(root).name}", at


def slot_lost(root: Path) -> tuple[str, int]:
    path = index_file(root)
    slot = next(n for n in range(SLOTS) if any(path.read_bytes()[40 + 4 * n : 44 + 4 * n]))
    change(path, 40 + 4 * slot, bytes(4))
    return f"index/{path.name}", 40 + 4 * slot


def index_cut(root: Path) -> tuple[str, int]:
    index_file(root).write_bytes(index_file(root).read_bytes()[:700])
    return f"index/{index_file(root).name}", 700


def in_offsets(name: str, old: str, new: str, mark: str) -> Fault:
    def plant(root: Path) -> tuple[str, int]:
        path = root / "config" / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        return f"config/{name}", path.read_text().index(mark)

    return plant


def config_cut(root: Path) -> tuple[str, int]:
    (root / "config/topics.json").write_text('{"topicConfigTable":{"T":{')
    return "config/topics.json", 0


def checkpoint_cut(root: Path) -> tuple[str, int]:
    (root / "checkpoint").write_bytes((root / "checkpoint").read_bytes()[:100])
    return "checkpoint", 100


OFFSETS = "consumerOffset.json"
FAULTS: dict[str, Fault] = {
    "a bit of a body": in_log(100),
    "a record's CRC": in_log(8, width=4),
    "a record's size": in_log(3),
    "a record's magic": in_log(5),
    "a record's log offset": in_log(28 + 7),
    "a queue offset twice": queue_offset_repeated,
    "a record of another queue": record_of_another_queue,
    "zeros in the log": zeros_in_the_log,
    "a log file that is cut": log_cut,
    "a log file that is gone": log_file_gone,
    "an entry's log offset": in_queue_entry(7),
    "an entry's size": in_queue_entry(11),
    "an entry's tag hash": in_queue_entry(19),
    "a queue that ends early": queue_ends_early,
    "an entry that is there twice": entry_twice,
    "a queue that is gone": queue_gone,
    "a queue file that is gone": queue_file_gone,
    "a hash in the index": wrong_hash_in_index,
    "a slot of the index": slot_lost,
    "an index file that is cut": index_cut,
    "an offset beyond the queue": in_offsets(OFFSETS, "1:66", "1:9999", "9999"),
    "an offset of a queue that is not": in_offsets(OFFSETS, "2:0", "7:12", "12}"),
    "a negative offset": in_offsets(OFFSETS, "0:10", "0:-4", "-4"),
    "a delay level's offset": in_offsets("delayOffset.json", "2:0", "2:77", "77"),
    "a table that is cut": config_cut,
    "a checkpoint that is cut": checkpoint_cut,
}


def places(found: Audit, root: Path) -> list[tuple[str, int]]:
    return [(str(Path(each.file).relative_to(root)), each.position) for each in found.findings]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_where_it_is(fault: str, root: Path) -> None:
    if fault == "a delay level's offset":  # its queue must exist, or its topic counts as deleted
        shutil.copytree(root / "consumequeue/T/2", root / "consumequeue/SCHEDULE_TOPIC_XXXX/1")
    place = FAULTS[fault](root)
    found = audit([root])
    assert place in places(found, root), found.findings
    assert found.count >= len(found.findings) > 0
    assert all(each.what and each.check for each in found.findings)


def test_a_good_store_has_no_findings(root: Path) -> None:
    found = audit([root])
    assert (found.findings, found.count, found.notes) == ([], 0, [])
    (verified,) = found.stores
    assert (verified.records, verified.entries) == (MESSAGES, MESSAGES)


@pytest.mark.parametrize("name", ["clean", "killed"])
def test_a_store_of_the_real_rocketmq_has_no_findings(name: str, tmp_path: Path) -> None:
    found = audit([unpack_store(name, tmp_path) / "store"])
    assert found.findings == []
    assert found.stores[0].records > 1200


def test_offsets_of_deleted_messages_and_topics_are_notes(root: Path) -> None:
    path = root / "config" / OFFSETS
    table = json.loads(
        path.read_text().replace("0:", '"0":').replace("1:", '"1":').replace("2:", '"2":')
    )
    table["offsetTable"]["Gone@billing"] = {"0": 5}
    path.write_text(json.dumps(table))
    (root / "commitlog" / f"{0:020d}").unlink()
    found = audit([root])
    assert "offsets" not in {each.check for each in found.findings}
    assert any("group billing has not consumed" in note for note in found.notes)
    assert any("topic Gone" in note for note in found.notes)


# -- replicas -------------------------------------------------------------------------------------


@pytest.fixture
def pair(root: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A master and its slave, which has everything."""
    shutil.copytree(root, tmp_path / "slave")
    return root, tmp_path / "slave"


def compared(pair: tuple[Path, Path]) -> Audit:
    return audit(pair, against_first=True)


def test_replicas_that_are_the_same_have_no_findings(pair: tuple[Path, Path]) -> None:
    found = compared(pair)
    assert found.findings == []
    end = found.stores[0].log_end
    assert any(note.endswith(f"up to log offset {end}") for note in found.notes)


def test_a_record_that_replicas_have_differently_is_named(pair: tuple[Path, Path]) -> None:
    master, slave = pair
    path, at = second_log_file(slave)
    # Body and CRC are right together: each store alone is in order.
    flip(path, at + 40 + 7)  # its born timestamp
    assert audit([slave]).findings == []
    found = compared(pair)
    (finding,) = found.findings
    assert (finding.check, finding.file, finding.position) == ("replica", str(path), at)
    assert str(master / "commitlog") in finding.what
    assert f"up to log offset {LOG_FILE + at}" in found.notes[-1]


def test_a_slave_that_lags_is_a_note_and_one_that_is_ahead_is_not(
    tmp_path: Path, root: Path
) -> None:
    short = tmp_path / "short"
    sizes = {
        "mapped_file_size_commit_log": LOG_FILE,
        "mapped_file_size_consume_queue": QUEUE_FILE,
    }
    with open_store(short, **sizes) as store:
        put(store, mixed(7))
    longer = tmp_path / "longer"
    shutil.copytree(short, longer)
    with open_store(longer, **sizes) as store:
        put(store, mixed(3))
    behind = compared((longer, short))
    assert behind.findings == []
    assert any("bytes before" in note for note in behind.notes)
    ahead = compared((short, longer))
    assert [each.check for each in ahead.findings] == ["replica"]
    assert "behind the end" in ahead.findings[0].what


def test_a_queue_that_only_one_replica_has_is_named(pair: tuple[Path, Path]) -> None:
    shutil.rmtree(pair[1] / "consumequeue/U")
    found = [each for each in compared(pair).findings if each.check == "replica"]
    assert {Path(each.file).relative_to(pair[1]).parts[1] for each in found} == {"U"}


def test_one_store_has_nothing_to_be_compared_with(root: Path) -> None:
    with pytest.raises(CallerError, match="at least two stores"):
        audit([root], against_first=True)
