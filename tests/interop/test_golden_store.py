"""The golden stores hold what RocketMQ's client read from them, seen without any code of ours."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.golden import unpack_store

MAGIC_V2, MAGIC_BLANK = 0xDAA320AB, 0xCBD43194
FIXED = struct.Struct(">iIIiiqqiqqqqiq")  # up to the prepared transaction offset, IPv4 hosts


class Seen(NamedTuple):
    """A record as it lies in the commit log."""

    offset: int
    size: int
    magic: int
    queue_id: int
    queue_offset: int
    sys_flag: int
    body_crc: int


def scan(store: Path) -> Iterator[Seen]:
    """Every record, in order; blanks included (S-5)."""
    for file in sorted((store / "commitlog").iterdir()):
        data, base, at = file.read_bytes(), int(file.name), 0
        while at + 8 <= len(data):
            size, magic = struct.unpack_from(">iI", data, at)
            if size == 0:
                return
            if magic == MAGIC_BLANK:
                yield Seen(base + at, size, magic, 0, 0, 0, 0)
                break
            _, _, crc, queue, _, queue_offset, physical, flag, *_ = FIXED.unpack_from(data, at)
            assert physical == base + at
            yield Seen(base + at, size, magic, queue, queue_offset, flag, crc)
            at += size


@pytest.fixture(scope="module", params=["clean", "killed"])
def golden(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[dict[str, Any]]]:
    root = unpack_store(request.param, tmp_path_factory.mktemp("golden"))
    lines = (root / "expected.jsonl").read_text().splitlines()
    return root / "store", [json.loads(line) for line in lines]


def test_every_message_that_the_client_read_is_a_record_at_its_offset(
    golden: tuple[Path, list[dict[str, Any]]],
) -> None:
    store, expected = golden
    records = {seen.offset: seen for seen in scan(store)}
    for message in expected:
        seen = records.pop(message["commitLogOffset"])
        assert seen.size == message["storeSize"]
        assert seen.queue_offset == message["queueOffset"]
        assert seen.body_crc == message["bodyCRC"]
    # What remains was not in a topic that was dumped, or is the end of a file.
    assert sum(seen.magic != MAGIC_BLANK for seen in records.values()) < 10


def test_the_consume_queues_point_at_the_records(
    golden: tuple[Path, list[dict[str, Any]]],
) -> None:
    store, expected = golden
    for message in expected:
        folder = store / "consumequeue" / message["topic"] / str(message["queueId"])
        data = b"".join(file.read_bytes() for file in sorted(folder.iterdir()))
        offset, size, _ = struct.unpack_from(">qiq", data, message["queueOffset"] * 20)
        assert (offset, size) == (message["commitLogOffset"], message["storeSize"])


def test_the_stores_hold_what_is_hard_to_read(
    golden: tuple[Path, list[dict[str, Any]]],
) -> None:
    store, expected = golden
    kinds = Counter(seen.magic for seen in scan(store))
    assert kinds[MAGIC_V2] > 0
    assert kinds[MAGIC_BLANK] >= 3
    assert any(seen.sys_flag & 1 for seen in scan(store))  # compressed
    assert any(seen.sys_flag & 0xC for seen in scan(store))  # committed or rolled back
    assert len(list((store / "index").iterdir())) > 1
    assert any(message["reconsumeTimes"] for message in expected)
    assert any(message["topic"] == "SCHEDULE_TOPIC_XXXX" for message in expected)
    assert (store / "abort").exists() == (store.parent.name == "killed")
