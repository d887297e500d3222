"""The bytes of a store, as the page `watch` shows them: also of records that are cut or forged."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.cluster.watch_page.store_bytes import store_bytes
from pocketmq.protocol.store_layout import BODY_AT, RECORD
from pocketmq.runtime.errors import CallerError
from support.tiny_store import filled

BODY = b"x"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    filled(tmp_path / "store", 3)
    return tmp_path / "store"


def log_file(root: Path) -> Path:
    return min((root / "commitlog").iterdir())


def test_a_record_is_shown_with_its_queue_entry(root: Path) -> None:
    found = store_bytes(root, 0)
    values = {each.name: each.value for each in found.record}
    assert (values["TOPIC"], values["QUEUEID"]) == ("T", "0")
    assert found.queue_entry[0].value == "0"  # the log offset


def test_a_record_that_is_cut_before_its_topic_ends_is_none_yet(root: Path) -> None:
    log = log_file(root)
    whole = log.read_bytes()
    at = {each.name: each.at for each in store_bytes(root, 0).record}
    for end in range(12, at["TOPIC"] + 1):
        log.write_bytes(whole[:end])
        with pytest.raises(CallerError, match="record at offset 0"):
            store_bytes(root, 0)
    log.write_bytes(whole[: at["TOPIC"] + 1])
    assert [each.name for each in store_bytes(root, 0).record][-1] == "TOPIC"


@pytest.mark.parametrize("topic", [b"../../secret", b"..", b".", b"/etc", b"a\0b", b""])
def test_a_topic_leads_nowhere_else(root: Path, topic: bytes) -> None:
    outside = root / "consumequeue" / ".." / ".." / "secret" / "0"
    outside.mkdir(parents=True)
    (outside / "0").write_bytes(b"secret" * 10)
    log_file(root).write_bytes(forged(topic))
    with pytest.raises(CallerError, match="the record at offset 0"):
        store_bytes(root, 0)


@pytest.mark.parametrize("number", [-1, 1 << 40, (1 << 63) - 1])
def test_an_entry_that_no_file_has_is_left_out(root: Path, number: int) -> None:
    log_file(root).write_bytes(forged(b"T", number))
    assert store_bytes(root, 0).queue_entry == []


def forged(topic: bytes, queue_offset: int = 0) -> bytes:
    """A record as anybody may write it who writes to the log."""
    record = bytearray(BODY_AT + len(BODY) + 1 + len(topic) + 2)
    record[0:4] = len(record).to_bytes(4, "big")
    at = RECORD.offset_of("QUEUEOFFSET")
    record[at : at + 8] = queue_offset.to_bytes(8, "big", signed=True)
    record[BODY_AT - 4 : BODY_AT] = len(BODY).to_bytes(4, "big")
    record[BODY_AT + len(BODY)] = len(topic)
    start = BODY_AT + len(BODY) + 1
    record[start : start + len(topic)] = topic
    return bytes(record)
