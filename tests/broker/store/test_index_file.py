"""The index by key: bytes, chains, files, what a crash leaves (S-45..S-49)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis.strategies import floats, integers, lists

from pocketmq.broker.store import MessageStore, StoredMessage
from pocketmq.broker.store.disk.disk import OsDisk
from pocketmq.broker.store.index.index_file import HEADER, IndexFile, index_file_size
from pocketmq.broker.store.index.index_service import IndexService, KeyColumns, hashes_of
from pocketmq.protocol.store_layout import INDEX_ENTRY
from pocketmq.protocol.stored.index_hash import key_hash
from pocketmq.protocol.stored.record import decode_record
from pocketmq.runtime.profile import PROFILE_5_3, PROFILE_5_5, Profile

Make = Callable[..., MessageStore]
Message = Callable[..., StoredMessage]
NOW = 1_700_000_000_000
FOREVER = 1 << 62


def file_at(root: Path, slots: int = 4, entries: int = 10) -> IndexFile:
    file = IndexFile(OsDisk(), str(root / "20240102030405678"), slots, entries)
    file.create()
    file.reserve(entries)
    return file


def put(file: IndexFile, keys: list[tuple[int, int]], store_ms: int) -> None:
    file.put([h for h, _ in keys], [offset for _, offset in keys], [store_ms] * len(keys))


def test_the_size_is_rocketmqs() -> None:  # S-45
    assert index_file_size(5_000_000, 20_000_000) == 420_000_040


def test_the_hash_is_javas_made_positive() -> None:  # S-46
    assert key_hash("T", "a") == sum(ord(c) * 31**n for n, c in enumerate("a#T"))
    assert key_hash("polygenelubricants"[:0], "") == ord("#")
    assert all(key_hash("topic", f"key-{n}") >= 0 for n in range(1000))


def test_bytes_of_header_slots_and_entries(tmp_path: Path) -> None:  # S-45, S-47
    file = file_at(tmp_path)
    put(file, [(6, 1000)], NOW)
    put(file, [(10, 2000)], NOW + 5999)
    file.save_header()
    content = Path(file.path).read_bytes()
    assert HEADER.unpack(content[:40]) == (NOW, NOW + 5999, 1000, 2000, 1, 3)
    assert struct.unpack(">4i", content[40:56]) == (0, 0, 2, 0)
    assert struct.unpack(">iqii", content[76:96]) == (6, 1000, 0, 0)
    assert struct.unpack(">iqii", content[96:116]) == (10, 2000, 5, 1)


def test_the_newest_comes_first_and_times_bound_the_search(tmp_path: Path) -> None:  # S-48
    file = file_at(tmp_path)
    for n in range(5):
        put(file, [(6, n)], NOW + n * 1000)
        put(file, [(10, 100 + n)], NOW + n * 1000) if n < 2 else None
    assert list(file.find(6, 0, FOREVER)) == [4, 3, 2, 1, 0]
    assert list(file.find(10, 0, FOREVER)) == [101, 100]
    assert list(file.find(6, NOW + 1000, NOW + 3000)) == [3, 2, 1]
    assert list(file.find(14, 0, FOREVER)) == []


def test_entries_the_header_does_not_count_do_not_hide_older_ones(tmp_path: Path) -> None:
    file = file_at(tmp_path)
    put(file, [(6, 1)], NOW)
    file.save_header()
    put(file, [(6, 2)], NOW)
    put(file, [(6, 3)], NOW)  # a kill came before the header was saved
    again = IndexFile(OsDisk(), file.path, 4, 10)
    again.load()
    assert list(again.find(6, 0, FOREVER)) == [1]
    again.reserve(1)
    put(again, [(6, 2)], NOW)
    assert list(again.find(6, 0, FOREVER)) == [2, 1]


def test_keys_of_one_write_form_the_chains_that_single_ones_would(tmp_path: Path) -> None:
    keys = [(n * 7 % 5, 10 * n) for n in range(9)]  # S-47: several fall into one slot
    for name in ("together", "singly"):
        (tmp_path / name).mkdir()
    together, singly = file_at(tmp_path / "together"), file_at(tmp_path / "singly")
    put(together, keys[:1], NOW)
    put(together, keys[1:], NOW + 3000)
    for number, key in enumerate(keys):
        put(singly, [key], NOW + 3000 * (number > 0))
    for file in (together, singly):
        file.save_header()
    assert Path(together.path).read_bytes() == Path(singly.path).read_bytes()
    assert list(together.find(0, 0, FOREVER)) == [50, 0]


def test_a_write_is_parted_where_a_file_ends(tmp_path: Path) -> None:  # S-49
    service = IndexService(OsDisk(), str(tmp_path), 4, 10)
    service.put([(6, n) for n in range(25)], NOW)
    service.save()
    assert [file.next_entry for file in service.files] == [10, 10, 8]
    assert [offset for file in service.files for offset in file.find(6, 0, FOREVER)] == [
        *range(8, -1, -1),
        *range(17, 8, -1),
        *range(24, 17, -1),
    ]
    service.put([(6, n) for n in range(20, 27)], NOW)
    assert service.files[-1].next_entry == 10, "those up to 24 are there already"


class Source:
    """Messages of a batch; each has one key."""

    def __init__(self, *offsets: int) -> None:
        self.offsets = offsets

    def add_keys_to(self, columns: KeyColumns, *, tags: bool) -> None:
        for offset in self.offsets:
            columns.add([offset * 7 % 23], offset, NOW + offset * 100)


def test_what_waits_is_written_as_if_it_had_come_singly(tmp_path: Path) -> None:
    services = [IndexService(OsDisk(), str(tmp_path / name), 4, 40) for name in ("late", "soon")]
    late, soon = services
    for n in range(0, 90, 3):
        late.add(Source(n, n + 1, n + 2), 3, 100)
        for offset in (n, n + 1, n + 2):
            soon.put([(offset * 7 % 23, offset)], NOW + offset * 100)
    assert late.files == []
    late.flush()
    soon.save()
    contents = [[Path(file.path).read_bytes() for file in each.files] for each in services]
    assert contents[0] == contents[1]
    assert len(contents[0]) == 3


def test_what_comes_twice_or_too_late_is_in_the_index_once(tmp_path: Path) -> None:
    service = IndexService(OsDisk(), str(tmp_path), 4, 40)
    for source in (Source(1, 2), Source(2, 3), Source(1), Source(3, 5, 4, 6)):
        service.add(source, 1, 100)
    service.flush()
    service.add(Source(5, 6, 7), 3, 100)
    service.flush()
    file = service.files[0]
    offsets = [entry[1] for entry in INDEX_ENTRY.struct.iter_unpack(file.entries(1))]
    assert offsets == [1, 2, 3, 5, 6, 7]


def test_what_waits_behind_a_cut_is_forgotten(tmp_path: Path) -> None:
    service = IndexService(OsDisk(), str(tmp_path), 4, 40)
    service.add(Source(1, 2, 3, 4), 4, 100)
    service.truncate(3)
    service.flush()
    assert service.end_physical == 2


@given(
    offsets=lists(integers(1, 3), min_size=1, max_size=60).map(lambda steps: [*accumulate(steps)]),
    cut=floats(0, 1),
    again=lists(integers(0, 22), max_size=30),
)
@settings(max_examples=60, deadline=None)
def test_a_cut_takes_back_what_was_lost_and_nothing_else(
    offsets: list[int], cut: float, again: list[int]
) -> None:
    """After a cut and other messages the index is as if the lost ones had never been there."""
    at = round(cut * (offsets[-1] + 1))
    left = [offset for offset in offsets if offset < at]

    def found(service: IndexService) -> list[list[int]]:
        return [
            [offset for file in reversed(service.files) for offset in file.find(n, 0, FOREVER)]
            for n in range(23)
        ]

    with TemporaryDirectory() as root:
        was_cut, never = (IndexService(OsDisk(), f"{root}/{n}", 4, 20) for n in range(2))
        for service, all_of_it in ((was_cut, offsets), (never, left)):
            for offset in all_of_it:
                service.add(Source(offset), 1, 100)
            service.flush()
        was_cut.truncate(at)
        assert was_cut.end_physical == (left[-1] if left else -1)
        assert found(was_cut) == found(never)
        for service in (was_cut, never):
            for number, hashed in enumerate(again):
                service.put([(hashed, at + number)], NOW + 100_000)
            service.save()
        assert found(was_cut) == found(never)
        headers = [[file.used_slots for file in each.files] for each in (was_cut, never)]
        assert headers[0] == headers[1]
        for each in (was_cut, never):
            each.close()


def test_a_cut_within_a_file_that_was_full_makes_room_again(tmp_path: Path) -> None:
    service = IndexService(OsDisk(), str(tmp_path), 4, 10)
    service.put([(6, n) for n in range(25)], NOW)
    service.truncate(12)
    assert [file.next_entry for file in service.files] == [10, 4]
    service.put([(6, n) for n in range(12, 25)], NOW + 2500)
    service.save()
    again = IndexService(OsDisk(), str(tmp_path), 4, 10)
    assert again.load(safe_until_ms=None) == 0
    kept = [offset for file in again.files for offset in reversed([*file.find(6, 0, FOREVER)])]
    assert kept == [*range(25)]
    assert again.files[-1].end_ms == NOW + 2500


def test_a_long_tail_is_cut_after_a_restart_and_comes_again(tmp_path: Path) -> None:
    """What a replica hides until it is confirmed: more entries than blocks are reserved ahead."""
    entries = 20_000
    first = IndexService(OsDisk(), str(tmp_path), 4, entries)
    first.put([(n, n) for n in range(12_000)], NOW)
    first.save()
    first.close()
    again = IndexService(OsDisk(), str(tmp_path), 4, entries)
    assert again.load(safe_until_ms=None) == 0
    again.truncate(10)
    for n in range(10, 12_000, 10):
        again.put([(at, at) for at in range(n, n + 10)], NOW)
    again.save()
    assert again.end_physical == 11_999
    again.close()


def test_many_messages_do_not_wait(tmp_path: Path) -> None:
    service = IndexService(OsDisk(), str(tmp_path), 4, 4000)
    for n in range(1000):
        service.add(Source(n), 1, 100)
    assert service.end_physical >= 400
    service.add(Source(1000), 1, 1 << 20)
    service.add(Source(1001), 1, 100)
    assert service.end_physical == 1000


def test_what_is_confirmed_is_in_the_index(open_store: Make, message: Message) -> None:
    store = open_store()
    store.put_messages([message(b"a", properties=b"UNIQ_KEY\x01u\x02", uniq_key="u")])
    assert store.index is not None
    assert store.index.end_physical == -1
    store.close_files()
    assert store.index.end_physical == 0


def test_a_full_file_is_followed_by_another(tmp_path: Path) -> None:  # S-49
    full: list[IndexFile] = []
    service = IndexService(OsDisk(), str(tmp_path), 4, 10, full.append)
    for n in range(25):
        service.put([(key_hash("T", "key"), n)], NOW + n)
    service.save()
    assert [file.next_entry for file in service.files] == [10, 10, 8]
    assert full == service.files[:2]
    assert list(service.find("T", "key", 0, FOREVER)) == list(range(24, -1, -1))
    names = [Path(file.path).name for file in service.files]
    assert names == sorted(names)
    assert all(len(name) == 17 for name in names)
    again = IndexService(OsDisk(), str(tmp_path), 4, 10)
    again.load(safe_until_ms=None)
    assert list(again.find("T", "key", 0, FOREVER)) == list(range(24, -1, -1))
    for delete in again.take_before(9):
        delete()
    assert list(again.find("T", "key", 0, FOREVER)) == list(range(24, 8, -1))


def test_a_tag_is_a_key_of_its_own_kind() -> None:  # S-46
    hashes = hashes_of("T", "u", "a b", "TagA")
    assert hashes == [key_hash("T", key) for key in ("u", "a", "b", "T#TagA")]
    assert hashes_of("T", "u", None, "") == [key_hash("T", "u")]


@pytest.mark.parametrize("profile", [PROFILE_5_3, PROFILE_5_5])
def test_messages_are_indexed_under_their_tags_since_5_4(
    open_store: Make, message: Message, profile: Profile
) -> None:  # S-22, S-46
    store = open_store(profile=profile.broker)
    tags = ["A", "B", "A", None, ""]
    # All with a unique key alone, and then such as go the longer way.
    for keys, own in ((None, tags), (None, ["A"] * 4), ("k", tags)):
        store.put_messages(
            [
                message(
                    b"%d" % n,
                    uniq_key=f"u{n}",
                    keys=keys,
                    properties=b""
                    if tag is None
                    else b"WAIT\x01true\x02TAGS\x01%b\x02" % tag.encode(),
                )
                for n, tag in enumerate(own)
            ]
        )

    def found(of: MessageStore, tag: str, topic: str = "T") -> list[bytes]:
        records = of.query(topic, tag, 32, 0, FOREVER, by_tag=True).records
        return [decode_record(record).body for record in records]

    is_5_5 = profile is PROFILE_5_5
    wanted = [b"0", b"2", b"0", b"1", b"2", b"3", b"0", b"2"] if is_5_5 else []
    assert found(store, "A") == wanted
    assert found(store, "B") == ([b"1", b"1"] if is_5_5 else [])
    assert found(store, "") == found(store, "u1") == found(store, "A", "other") == []
    assert store.query("T", "T#A", 32, 0, FOREVER).records == [], "it is no key"
    root = Path(store.root)
    store.close_files()
    for file in (root / "index").iterdir():
        file.write_bytes(b"")  # as a power cut may leave it: what recovery reads is indexed alike
    assert found(open_store(profile=profile.broker), "A") == wanted


def test_indexing_again_changes_nothing(tmp_path: Path) -> None:
    service = IndexService(OsDisk(), str(tmp_path), 4, 10)
    service.put([(hashed, 5) for hashed in hashes_of("T", "u", "a b")], NOW)
    service.put([(hashed, 5) for hashed in hashes_of("T", "u", "a b")], NOW)
    service.put([(hashed, 3) for hashed in hashes_of("T", "u", "a b")], NOW)
    assert service.files[0].next_entry == 4


def test_a_file_made_just_before_a_crash_does_not_make_old_messages_new(tmp_path: Path) -> None:
    service = IndexService(OsDisk(), str(tmp_path), 4, 10)
    for n in range(9):
        service.put([(key_hash("T", "key"), n)], NOW + n)
    service.save()
    IndexFile(OsDisk(), str(Path(service.directory) / "20991231235959999"), 4, 10).create()
    again = IndexService(OsDisk(), str(tmp_path), 4, 10)
    again.load(safe_until_ms=None)
    for n in range(5, 12):
        again.put([(key_hash("T", "key"), n)], NOW + n)
    assert list(again.find("T", "key", 0, FOREVER)) == list(range(11, -1, -1))


def test_after_a_power_cut_unflushed_files_go(tmp_path: Path) -> None:  # S-65
    service = IndexService(OsDisk(), str(tmp_path), 4, 10)
    for n in range(25):
        service.put([(key_hash("T", "key"), n)], NOW + n)
    service.save()
    again = IndexService(OsDisk(), str(tmp_path), 4, 10)
    assert again.load(safe_until_ms=NOW + 10) == 2
    assert again.end_physical == 8


def test_messages_are_found_by_each_of_their_keys(open_store: Make, message: Message) -> None:
    store = open_store()
    for n in range(20):
        properties = b"KEYS\x01odd k%d\x02UNIQ_KEY\x01u%d\x02" % (n % 4, n)
        store.put_messages(
            [message(b"%d" % n, properties=properties, keys=f"odd k{n % 4}", uniq_key=f"u{n}")]
        )

    def found(key: str, count: int = 32) -> list[bytes]:
        return [decode_record(r).body for r in store.query("T", key, count, 0, FOREVER).records]

    assert found("u7") == [b"7"]
    assert found("k3") == [b"3", b"7", b"11", b"15", b"19"]
    assert found("k3", 2) == [b"15", b"19"]  # of all the newest
    assert found("nothing") == []
    assert store.query("U", "k3", 32, 0, FOREVER).records == []
    result = store.query("T", "k3", 32, 0, FOREVER)
    assert result.index_last_update_timestamp == NOW
    assert result.index_last_update_physical_offset == (store.index and store.index.end_physical)


def test_a_hash_that_collides_brings_no_stranger(open_store: Make, message: Message) -> None:
    assert key_hash("T", "Aa") == key_hash("T", "BB")
    store = open_store()
    store.put_messages([message(b"a", properties=b"KEYS\x01Aa\x02", keys="Aa")])
    store.put_messages([message(b"b", properties=b"KEYS\x01BB\x02", keys="BB")])
    records = store.query("T", "Aa", 32, 0, FOREVER).records
    assert [decode_record(r).body for r in records] == [b"a"]


def test_the_index_survives_a_restart(open_store: Make, message: Message) -> None:
    store = open_store()
    store.put_messages([message(b"a", properties=b"UNIQ_KEY\x01u\x02", uniq_key="u")])
    store.close_files()
    again = open_store()
    assert len(again.query("T", "u", 32, 0, FOREVER).records) == 1
    assert again.checkpoint.index_msg_timestamp == NOW


@pytest.mark.parametrize("value", [-1, 11, 2**31 - 1])
def test_a_slot_that_points_nowhere_is_empty(tmp_path: Path, value: int) -> None:
    file = file_at(tmp_path)
    put(file, [(6, 1)], NOW)
    file.save_header()
    with open(file.path, "r+b") as raw:
        raw.seek(40 + 2 * 4)
        raw.write(struct.pack(">i", value))
    assert list(file.find(6, 0, FOREVER)) == []
