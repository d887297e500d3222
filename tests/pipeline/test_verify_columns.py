"""Verification by columns finds in any store what verification record by record finds."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.broker.store import MessageStore, OsDisk, StoreConfig, StoredMessage
from pocketmq.broker.store.tools import verify as verify_module
from pocketmq.broker.store.tools.stopped_store import StoppedStore
from pocketmq.broker.store.tools.verify import Verified, verify_store
from pocketmq.pipeline import verify_shapes
from pocketmq.pipeline.verify_columns import ColumnReader
from pocketmq.pipeline.verify_index import index_is_right
from pocketmq.protocol.messages.properties import encode_properties
from pocketmq.protocol.messages.subscription import tags_code
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import PROFILE_5_3, PROFILE_5_X, Profile
from support.golden import unpack_store

HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
LOG_FILE = 16 * 1024
START_MS = 1_700_000_000_000


class TickingClock(ManualClock):
    """A second later each time somebody looks."""

    looks = 0

    def time_ms(self) -> int:
        self.looks += 1
        return START_MS + 1000 * self.looks


@pytest.fixture(autouse=True)
def _many_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_module, "STRETCH_BYTES", 5000)


@pytest.fixture(autouse=True)
def _a_shape_for_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_shapes, "_FEW", 2)


def message(number: int) -> StoredMessage:
    """One of a kind that comes again every 24: tags, keys, several keys, bare, not ASCII."""
    kind = number % 24
    properties = {"UNIQ_KEY": f"7F00000100002A139A55{number:012X}", "WAIT": "true"}
    keys = f"order-{number}"
    if kind == 5:
        keys = f"key-{number} ключ"
    if kind == 9:
        properties.clear()
    if kind not in (9, 10):
        properties["KEYS"] = keys
    tag = None if kind in (9, 11) else "ABC"[number % 3]
    if tag is not None:
        properties["TAGS"] = tag
    return StoredMessage(
        topic="T" if number % 4 else "Other",
        queue_id=number % 2,
        body=b"body %d " % number * (number % 9),
        properties=encode_properties(properties).encode(),
        flag=0,
        sys_flag=0,
        born_timestamp_ms=START_MS,
        born_host=HOST if kind != 13 else bytes(15) + b"\1" + bytes(4),
        store_host=HOST,
        tags_code=tags_code(tag),
        uniq_key=properties.get("UNIQ_KEY"),
        keys=properties.get("KEYS"),
    )


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store of 480 messages, a second apart."""
    return made_store(tmp_path_factory.mktemp("template") / "store", [PROFILE_5_X])


def made_store(root: Path, profiles: Sequence[Profile]) -> Path:
    """The same with messages of brokers of these profiles, one after the other."""
    config = StoreConfig(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=LOG_FILE,
        mapped_file_size_consume_queue=40 * 20,
        max_hash_slot_num=75,
        max_index_num=300,
    )
    clock, share = TickingClock(START_MS), 480 // len(profiles)
    for turn, profile in enumerate(profiles):
        store = MessageStore(config, OsDisk(), clock, profile.broker)
        store.load()
        for number in range(share * turn, share * (turn + 1)):
            store.put_messages([message(number)])
        store.close_files()
    return root


def both(root: Path, **options: Any) -> tuple[Verified, Verified]:
    """What is found by columns, and what record by record."""
    quick = verify_store(OsDisk(), str(root), quick=ColumnReader, **options)
    return quick, verify_store(OsDisk(), str(root), **options)


def told(result: Verified) -> tuple[object, ...]:
    places = {(problem.path, problem.position) for problem in result.problems}
    return places, result.records, result.entries, result.log_end, sorted(result.notes)


def test_a_good_store_is_good_either_way(template: Path) -> None:
    quick, plain = both(template)
    assert quick.problems == []
    assert told(quick) == told(plain)
    assert quick.index_entries == plain.index_entries > 480


@pytest.mark.parametrize(
    "profiles", [[PROFILE_5_3], [PROFILE_5_3, PROFILE_5_X, PROFILE_5_3]], ids=["none", "some"]
)
def test_an_index_need_not_have_tags(profiles: list[Profile], tmp_path: Path) -> None:  # S-46
    root = made_store(tmp_path / "store", profiles)
    quick, plain = both(root)
    assert quick.problems == []
    assert told(quick) == told(plain)
    assert quick.index_entries == plain.index_entries > 480
    with StoppedStore(OsDisk(), str(root)) as store:
        right = ColumnReader(store).right_stretches(0, store.last_log_file().end)
        assert right.records > 480 * 23 // 24 - len(store.index_files()) - 1


def test_nearly_all_of_a_good_store_needs_no_second_look(template: Path) -> None:
    with StoppedStore(OsDisk(), str(template)) as store:
        reader = ColumnReader(store)
        right = reader.right_stretches(0, store.last_log_file().end)
        usual = 480 * 23 // 24  # of 24 messages one has two keys
        # The first entry of an index file counts its seconds from the file before (S-47).
        assert usual - len(store.index_files()) < right.records <= usual
        assert all(reader.index_is_right(file) for file in store.index_files())


def test_most_of_a_good_store_has_a_known_shape(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = np.empty(0, np.int64)
    monkeypatch.setattr(ColumnReader, "_by_properties", lambda *_: (none, none))
    with StoppedStore(OsDisk(), str(template)) as store:
        right = ColumnReader(store).right_stretches(0, store.last_log_file().end)
    assert right.records > 480 * 3 // 4


def test_any_change_to_a_chain_of_the_index_counts(template: Path, tmp_path: Path) -> None:
    root = shutil.copytree(template, tmp_path / "store")
    with StoppedStore(OsDisk(), str(root)) as store:
        file = store.index_files()[0]
        entries, slots = file.entries(1), file.slot_numbers()
        older_ends = ((entries, at) for at in range(19, len(entries), 20))
        slot_ends = ((slots, at) for at in range(3, len(slots), 4))
        for view, end in (*older_ends, *slot_ends):
            for bit in (0, 1, 3, 6, 31):
                view[end - bit // 8] ^= 1 << bit % 8
                assert not index_is_right(file), (end, bit)
                view[end - bit // 8] ^= 1 << bit % 8
        assert index_is_right(file)


@pytest.mark.parametrize("name", ["clean", "killed"])
def test_a_store_of_the_real_rocketmq_is_judged_alike(name: str, tmp_path: Path) -> None:
    quick, plain = both(unpack_store(name, tmp_path) / "store")
    assert quick.problems == []
    assert told(quick) == told(plain)


def test_an_index_with_zeros_in_it_is_judged_alike(template: Path, tmp_path: Path) -> None:
    root = shutil.copytree(template, tmp_path / "store")
    for path in sorted((root / "index").iterdir())[:3]:
        content = path.read_bytes()
        path.write_bytes(content[:932] + bytes(178) + content[932 + 178 :])
        quick, plain = both(root)
        assert plain.problems
        assert told(quick) == told(plain), path
        path.write_bytes(content)


@settings(max_examples=60)
@given(data=st.data())
def test_a_damaged_store_is_judged_alike(
    template: Path, tmp_path_factory: Any, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    root = Path(shutil.copytree(template, folder / "store"))
    files = sorted(path for path in root.rglob("*") if path.is_file() and path.stat().st_size)
    path = data.draw(st.sampled_from(files))
    content = bytearray(path.read_bytes())
    end = len(bytes(content).rstrip(b"\0"))
    at = data.draw(st.integers(0, max(0, end - 1)))
    if data.draw(st.booleans()):
        content[at] ^= 1 << data.draw(st.integers(0, 7))
    else:
        length = data.draw(st.integers(1, 3000))
        content[at : at + length] = bytes(len(content[at : at + length]))
    path.write_bytes(content)
    quick, plain = both(root)
    assert told(quick) == told(plain), path
    shutil.rmtree(folder)
