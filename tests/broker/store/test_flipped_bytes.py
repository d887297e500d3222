"""One byte of a store's files is another: at most its record is lost (faults 12, 13)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.broker.store import PutStatus
from pocketmq.protocol.store_layout import RECORD
from pocketmq.runtime.errors import DiskError
from support.tiny_store import (
    IN_MEMORY,
    LOG_FILE,
    QUEUE_FILE,
    contents,
    filled,
    mark_unclean,
    store_at,
    text_message,
)

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
KNOWN_FOLDERS = {"store", "flipped", "flipped-queue", "flipped-log"}


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
def test_a_flipped_byte_in_the_log_costs_at_most_its_record(  # fault 12
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
def test_a_queue_offset_that_leaps_ahead_costs_its_own_message_and_none_behind_it(  # fault 12
    template: tuple[Path, dict[Any, bytes]], memory_path: Path, number: int, flip: int
) -> None:
    source, held = template
    root = memory_path / "store"
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
def test_a_flipped_byte_in_a_queue_costs_nothing(  # fault 13
    template: tuple[Path, dict[Any, bytes]], data: st.DataObject
) -> None:
    source, held = template
    root = source.parent / "flipped-queue"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(source, root)
    files = sorted(path for path in (root / "consumequeue").rglob("0*") if path.is_file())
    path = data.draw(st.sampled_from(files))
    at = data.draw(st.integers(0, QUEUE_FILE - 1))
    served = damaged_once(root, path, at, data.draw(st.integers(1, 255)))
    assert served is not None
    for key, body in served.items():
        assert held[key] == body
    assert len(served) == len(held)
