"""Stores of tiny files in a temporary directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import structlog.testing

from pocketmq.broker.store import MessageStore, OsDisk, StoreConfig, StoredMessage
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import PROFILE_5_X
from support.tiny_store import IN_MEMORY

HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
START_MS = 1_700_000_000_000

StoreMaker = Callable[..., MessageStore]


@pytest.fixture(autouse=True)
def logged() -> Iterator[list[Any]]:
    """The log lines of a test, in place of pages of output."""
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """As `tmp_path`, but in memory where the machine can: for copying a store a thousand times."""
    with TemporaryDirectory(dir=IN_MEMORY, prefix="store-") as path:
        yield Path(path)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS)


@pytest.fixture
def open_store(tmp_path: Path, clock: ManualClock) -> Iterator[StoreMaker]:
    """Makes and loads a store under `tmp_path / "store"`; closed at the end of the test."""
    opened: list[MessageStore] = []

    def make(**options: Any) -> MessageStore:
        defaults: dict[str, Any] = {
            "store_path_root_dir": str(tmp_path / "store"),
            "mapped_file_size_commit_log": 64 * 1024,
            "mapped_file_size_consume_queue": 100 * 20,
            "max_hash_slot_num": 50,
            "max_index_num": 100,
        }
        disk = options.pop("disk", None) or OsDisk()
        on_arrival = options.pop("on_arrival", None)
        profile = options.pop("profile", PROFILE_5_X.broker)
        config = StoreConfig(**{**defaults, **options})
        store = MessageStore(config, disk, clock, profile, on_arrival=on_arrival)
        store.load()
        opened.append(store)
        return store

    yield make
    for store in opened:
        store.close_files()


@pytest.fixture
def message() -> Callable[..., StoredMessage]:
    return make_message


def make_message(
    body: bytes = b"hello", topic: str = "T", queue_id: int = 0, **fields: Any
) -> StoredMessage:
    """A message with the least that a test has to say."""
    values: dict[str, Any] = {
        "properties": b"",
        "flag": 0,
        "sys_flag": 0,
        "born_timestamp_ms": START_MS,
        "born_host": HOST,
        "store_host": HOST,
        **fields,
    }
    return StoredMessage(topic=topic, queue_id=queue_id, body=body, **values)
