"""The log: record bytes, blanks, roll-over, refusals, what a full disk leaves (S-10..S-16)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pocketmq.broker.store import MessageStore, PutStatus, StoredMessage
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.protocol.store_layout import MAGIC_BLANK
from pocketmq.protocol.stored.record import decode_record
from support.batches import batch_of
from support.disks import NO_SPACE, SteppedDisk, fail_with

Make = Callable[..., MessageStore]
Message = Callable[..., StoredMessage]
HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
V6 = bytes(15) + b"\1" + (10911).to_bytes(4, "big")


def test_a_record_holds_where_and_when_it_was_put(open_store: Make, message: Message) -> None:
    store = open_store()
    store.put_messages([message(b"first")])
    put = store.put_messages([message(b"hello", properties=b"TAGS\x01A\x02", flag=7)])[0]
    record = decode_record(store.lookup(put.physical_offset) or b"")
    assert record.body == b"hello"
    assert (record.queue_offset, record.flag, record.tags) == (1, 7, "A")
    assert record.commit_log_offset == put.physical_offset
    assert record.store_size == put.size
    assert record.store_timestamp_ms == put.store_timestamp_ms == 1_700_000_000_000


def test_the_last_bytes_of_a_file_say_how_far_to_the_next(  # S-14
    open_store: Make, message: Message
) -> None:
    store = open_store(mapped_file_size_commit_log=4096)
    puts = [store.put_messages([message(b"x" * 900)])[0] for _ in range(5)]
    assert [put.physical_offset for put in puts] == [0, 992, 1984, 2976, 4096]
    blank = store.commit_log.files.files[0].view()[3968:3976]
    assert blank == (128).to_bytes(4, "big") + MAGIC_BLANK.to_bytes(4, "big", signed=True)


def test_a_record_that_leaves_eight_bytes_fits_and_one_more_byte_does_not(  # S-14
    open_store: Make, message: Message
) -> None:
    overhead = 91 + len("T")
    store = open_store(mapped_file_size_commit_log=4096)
    fits, not_fits = b"x" * (4096 - 8 - overhead), b"x" * (4096 - 7 - overhead)
    assert store.put_messages([message(fits)])[0].physical_offset == 0
    assert store.put_messages([message(b"")])[0].physical_offset == 4096
    assert store.put_messages([message(not_fits)])[0].status is PutStatus.MESSAGE_ILLEGAL
    assert store.put_messages([message(fits)])[0].physical_offset == 8192


def test_a_batch_request_goes_into_one_file_whole(open_store: Make, message: Message) -> None:
    store = open_store(mapped_file_size_commit_log=4096)
    store.put_messages([message(b"x" * 2000)])
    put = store.put_batch(batch_of([message(b"%d" % n * 600) for n in range(4)]))
    assert put.physical_offsets == [4096 + n * 692 for n in range(4)]
    assert (put.queue_offset, put.end) == (1, 4096 + 4 * 692)
    too_much = store.put_batch(batch_of([message(b"x" * 1500) for _ in range(3)]))
    assert too_much.status is PutStatus.MESSAGE_ILLEGAL
    assert store.put_messages([message(b"next")])[0].queue_offset == 5


def test_independent_messages_may_part_at_a_file_end(open_store: Make, message: Message) -> None:
    store = open_store(mapped_file_size_commit_log=4096)
    puts = store.put_messages([message(b"%d" % (n % 10) * 600) for n in range(12)])
    assert [put.queue_offset for put in puts] == list(range(12))
    assert len({put.physical_offset // 4096 for put in puts}) == 3
    assert store.reads.get_message("T", 0, 0, 32).count == 12


@pytest.mark.parametrize("store_host", [HOST, V6], ids=["ipv4", "ipv6"])
@pytest.mark.parametrize("born_host", [HOST, V6], ids=["ipv4", "ipv6"])
def test_a_batch_leaves_the_bytes_that_its_messages_would(
    open_store: Make, message: Message, tmp_path: Path, born_host: bytes, store_host: bytes
) -> None:
    messages = [
        message(
            b"%d" % n * (n + 1),
            properties=f"UNIQ_KEY\x01{n:032X}\x02TAGS\x01A\x02".encode(),
            uniq_key=f"{n:032X}",
            keys="a b" if n == 3 else None,
            flag=n,
            tags_code=65,
            born_host=born_host,
            store_host=store_host,
        )
        for n in range(9)
    ]
    roots = [str(tmp_path / name) for name in ("single", "batch")]
    single, batched = [open_store(store_path_root_dir=root) for root in roots]
    places = [put.physical_offset for put in single.put_messages(messages)]
    put = batched.put_batch(batch_of(messages))
    assert put.physical_offsets == places
    assert put.end == single.commit_log.max_offset
    for store in (single, batched):
        store.close_files()
    contents = [
        {
            path.relative_to(root).parts[0]: path.read_bytes()
            for folder in ("commitlog", "consumequeue", "index")
            for path in sorted((Path(root) / folder).rglob("*"))
            if path.is_file()
        }
        for root in roots
    ]
    assert set(contents[0]) == {"commitlog", "consumequeue", "index"}
    assert contents[0] == contents[1]


def test_a_batch_with_one_message_too_long_is_refused_whole(
    open_store: Make, message: Message
) -> None:
    store = open_store(max_message_size=1000)
    for bad, status in [
        (message(b"x" * 1001), PutStatus.MESSAGE_ILLEGAL),
        (message(b"x", properties=b"p" * 32768), PutStatus.PROPERTIES_SIZE_EXCEEDED),
    ]:
        assert store.put_batch(batch_of([message(b"a"), bad])).status is status
    assert store.reads.max_offset("T", 0) == store.commit_log.max_offset == 0


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"body": b"x" * 1001}, PutStatus.MESSAGE_ILLEGAL),
        ({"body": b"x" * 1000}, PutStatus.PUT_OK),
        ({"properties": b"x" * 32768}, PutStatus.PROPERTIES_SIZE_EXCEEDED),
        ({"properties": b"x" * 32767}, PutStatus.PUT_OK),
        ({"topic": "t" * 128}, PutStatus.MESSAGE_ILLEGAL),
        ({"topic": "%RETRY%" + "t" * 248}, PutStatus.PUT_OK),
        ({"topic": "%RETRY%" + "t" * 249}, PutStatus.MESSAGE_ILLEGAL),
    ],
)
def test_a_message_too_long_is_refused_alone(  # S-10, S-11
    open_store: Make, message: Message, fields: dict[str, Any], status: PutStatus
) -> None:
    store = open_store(max_message_size=1000, mapped_file_size_commit_log=1 << 20)
    puts = store.put_messages([message(b"a"), message(**{"body": b"b", **fields}), message(b"c")])
    assert [put.status for put in puts] == [PutStatus.PUT_OK, status, PutStatus.PUT_OK]
    assert puts[2].queue_offset == 1 + (status is PutStatus.PUT_OK and "topic" not in fields)


def test_half_messages_and_rollbacks_take_no_place_in_their_queue(  # S-13, S-22
    open_store: Make, message: Message
) -> None:
    store = open_store()
    kinds = [
        MessageSysFlag.TRANSACTION_PREPARED,
        MessageSysFlag.TRANSACTION_ROLLBACK,
        MessageSysFlag.TRANSACTION_COMMIT,
        MessageSysFlag.TRANSACTION_NONE,
    ]
    puts = store.put_messages([message(b"%d" % n, sys_flag=kind) for n, kind in enumerate(kinds)])
    assert [put.queue_offset for put in puts] == [0, 0, 0, 1]
    assert store.reads.max_offset("T", 0) == 2


def test_ipv6_hosts_are_told_by_the_record(open_store: Make, message: Message) -> None:
    store = open_store()
    put = store.put_messages([message(b"v6", born_host=V6)])[0]
    record = decode_record(store.lookup(put.physical_offset) or b"")
    assert record.sys_flag & MessageSysFlag.BORN_HOST_V6
    assert store.reads.store_time("T", 0, 0) == 1_700_000_000_000


def test_what_a_full_disk_refused_leaves_no_gap_in_the_queue(  # S-12
    open_store: Make, message: Message
) -> None:
    disk = SteppedDisk()
    store = open_store(disk=disk, mapped_file_size_commit_log=1 << 20)
    full = False

    def fail(number: int, operation: str, path: str) -> None:
        if full and operation == "reserve":
            raise fail_with(NO_SPACE)

    disk.on_step = fail
    store.put_messages([message(b"a")])
    full = True
    puts = store.put_messages([message(b"x" * 60_000) for _ in range(17)])
    assert {put.status for put in puts} == {PutStatus.SERVICE_NOT_AVAILABLE}
    full = False
    assert store.put_messages([message(b"b")])[0].queue_offset == 1


def test_no_offset_but_a_records_first_byte_is_looked_up(
    open_store: Make, message: Message
) -> None:
    store = open_store()
    puts = store.put_messages([message(b"a" * 50), message(b"b" * 50)])
    found = [n for n in range(-5, 400) if store.lookup(n) is not None]
    assert found == [put.physical_offset for put in puts]
