"""A store whose log another broker writes: pieces, dispatch, roles, cuts."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pocketmq.broker.store import FlushDiskType, MessageStore, PutStatus, StoredMessage
from pocketmq.broker.store.dispatch.stored_batches import StoredBatch
from pocketmq.broker.store.errors import StoreFileError
from pocketmq.broker.store.replica_log import NotFollowingError, ReplicaGapError
from pocketmq.protocol.store_layout import BLANK, MAGIC_BLANK
from pocketmq.protocol.stored.record import decode_records
from pocketmq.runtime.errors import DiskError
from support.disks import BROKEN, SteppedDisk, fail_with
from support.eventually import eventually

Make = Callable[..., MessageStore]
Message = Callable[..., StoredMessage]
SIZE = 64 * 1024


def log_of(store: MessageStore) -> bytes:
    """The whole log; of a log that begins in the middle, from its first file on."""
    files = store.commit_log.files.files
    return b"".join(bytes(file.view()[: file.wrote]) for file in files)


def pieces(store: MessageStore, start: int, most: int) -> Iterator[tuple[int, bytes]]:
    """The log from `start` on as a master sends it: never over the end of a file."""
    offset = start
    while offset < store.commit_log.max_offset:
        file = store.commit_log.files.find(offset)
        assert file is not None
        at = offset - file.start
        data = bytes(file.view()[at : min(file.wrote, at + most)])
        yield offset, data
        offset += len(data)


def is_blank_head(view: memoryview, at: int) -> bool:
    return BLANK.struct.unpack_from(view, at) == (SIZE - at, MAGIC_BLANK)


def queues_of(store: MessageStore) -> dict[tuple[str, int], tuple[int, int, list[bytes]]]:
    found = {}
    for topic, queue_id in store.reads.queues():
        low, high = store.reads.min_offset(topic, queue_id), store.reads.max_offset(topic, queue_id)
        bodies = [
            bytes(record)
            for offset in range(low, high)
            for record in store.reads.get_message(topic, queue_id, offset, 1).records
        ]
        found[topic, queue_id] = low, high, bodies
    return found


def filled(open_store: Make, message: Message, root: Path, count: int = 300) -> MessageStore:
    store = open_store(disk=SteppedDisk(), store_path_root_dir=str(root))
    for n in range(count):
        many = [message(b"%d" % n * (1 + n % 200), topic=f"T{n % 3}", queue_id=n % 2)]
        assert store.put_messages(many)[0].status is PutStatus.PUT_OK
    assert len(store.commit_log.files.files) > 1
    return store


async def dispatched(store: MessageStore, *, but_bytes: int = 0) -> None:
    await eventually(lambda: store.replica.undispatched_bytes == but_bytes, "all is dispatched")


async def test_a_slaves_log_queues_and_index_are_the_masters(
    open_store: Make, message: Message, tmp_path: Path
) -> None:
    master = filled(open_store, message, tmp_path / "m")
    slave = open_store(disk=SteppedDisk(), store_path_root_dir=str(tmp_path / "s"))
    slave.replica.follow()
    for offset, data in pieces(master, 0, 997):  # most pieces end inside a record
        slave.replica.append(offset, data)
    await dispatched(slave)
    assert log_of(slave) == log_of(master)
    assert queues_of(slave) == queues_of(master)
    assert slave.put_messages([message(b"x")])[0].status is PutStatus.SERVICE_NOT_AVAILABLE
    again = open_store(disk=SteppedDisk(), store_path_root_dir=str(_closed(slave)))
    assert queues_of(again) == queues_of(master)


async def test_a_long_log_is_appended_first_and_dispatched_afterwards(
    open_store: Make, message: Message, tmp_path: Path
) -> None:
    master = open_store(disk=SteppedDisk(), store_path_root_dir=str(tmp_path / "m"))
    master.put_messages([message(b"x" * 900, topic="T", queue_id=n % 2) for n in range(2500)])
    slave = open_store(disk=SteppedDisk(), store_path_root_dir=str(tmp_path / "s"))
    slave.replica.follow()
    behind = 0
    for number, (offset, data) in enumerate(pieces(master, 0, SIZE)):
        slave.replica.append(offset, data)
        if number % 4 == 3:  # as much as one turn of a fast connection brings
            await asyncio.sleep(0)  # noqa: TID251 - one turn of the loop
            behind = max(behind, slave.replica.undispatched_bytes)
    assert behind > 1024 * 1024  # queues did not hold the log up
    await dispatched(slave)
    assert slave.reads.max_offset("T", 0) == slave.reads.max_offset("T", 1) == 1250


async def test_an_empty_slave_may_begin_in_the_middle(
    open_store: Make, message: Message, tmp_path: Path
) -> None:  # H-26
    master = filled(open_store, message, tmp_path / "m")
    slave = open_store(disk=SteppedDisk(), store_path_root_dir=str(tmp_path / "s"))
    slave.replica.follow()
    start = master.commit_log.files.files[1].start
    for offset, data in pieces(master, start, 4096):
        slave.replica.append(offset, data)
    await dispatched(slave)
    assert slave.commit_log.min_offset == start
    assert log_of(slave) == log_of(master)[start:]
    low, high, bodies = queues_of(slave)["T0", 0]
    of_master = queues_of(master)["T0", 0]
    assert high == of_master[1]
    assert 0 < low < high
    assert bodies == of_master[2][low:]


async def test_bytes_that_do_not_continue_the_log_are_refused(
    open_store: Make, message: Message, tmp_path: Path
) -> None:
    master = filled(open_store, message, tmp_path / "m")
    slave = open_store(disk=SteppedDisk(), store_path_root_dir=str(tmp_path / "s"))
    slave.start()
    slave.replica.follow()
    slave.replica.append(0, bytes(master.commit_log.read(0, 100) or b""))
    for wrong in (0, 99, 101, SIZE):
        with pytest.raises(ReplicaGapError, match="the log ends at 100"):
            slave.replica.append(wrong, b"x")
    assert slave.commit_log.max_offset == 100
    await slave.close()


async def test_a_master_takes_no_bytes_of_another(
    open_store: Make, message: Message, tmp_path: Path
) -> None:
    store = filled(open_store, message, tmp_path / "m")
    before = log_of(store)
    with pytest.raises(NotFollowingError, match="follows no master"):
        store.replica.append(store.commit_log.max_offset, b"x")
    assert log_of(store) == before


async def test_half_a_record_waits_and_is_cut_when_the_slave_is_promoted(
    open_store: Make, message: Message, tmp_path: Path
) -> None:  # H-140
    master = open_store(disk=SteppedDisk(), store_path_root_dir=str(tmp_path / "m"))
    first, second = (master.put_messages([message(b"a" * 500)])[0] for _ in range(2))
    slave = open_store(disk=SteppedDisk(), store_path_root_dir=str(tmp_path / "s"))
    slave.start()
    slave.replica.follow()
    slave.replica.append(0, log_of(master)[: second.physical_offset + 80])
    await dispatched(slave, but_bytes=80)
    assert slave.reads.max_offset("T", 0) == 1
    assert slave.replica.undispatched_bytes == 80
    await slave.replica.lead()
    assert slave.commit_log.max_offset == first.size
    result = slave.put_messages([message(b"b")])[0]
    assert (result.status, result.queue_offset) == (PutStatus.PUT_OK, 1)
    await slave.close()


async def test_the_first_bytes_of_a_record_are_not_taken_for_none(
    open_store: Make, message: Message, tmp_path: Path, logged: list[Any]
) -> None:
    master = open_store(disk=SteppedDisk(), store_path_root_dir=str(tmp_path / "m"))
    first, _ = (master.put_messages([message(b"a" * 50)])[0] for _ in range(2))
    slave = open_store(disk=SteppedDisk(), store_path_root_dir=str(tmp_path / "s"))
    slave.replica.follow()
    slave.replica.append(0, log_of(master)[: first.size + 2])  # of its size, which begins with 0
    await dispatched(slave, but_bytes=2)
    slave.replica.append(first.size + 2, log_of(master)[first.size + 2 :])
    await dispatched(slave)
    assert queues_of(slave) == queues_of(master)
    assert not [line for line in logged if line["event"] == "replica.no_record"]


async def test_a_blank_end_may_come_in_two_pieces(
    open_store: Make, message: Message, tmp_path: Path, logged: list[Any]
) -> None:  # S-14: parted at every byte of it
    master = filled(open_store, message, tmp_path / "m")
    file = master.commit_log.files.files[0]
    blank = next(at for at in range(SIZE - 8, 0, -1) if is_blank_head(file.view(), at))
    slave = open_store(disk=SteppedDisk(), store_path_root_dir=str(tmp_path / "s"))
    slave.replica.follow()
    slave.replica.append(0, log_of(master)[:blank])
    await dispatched(slave)
    for split in range(blank + 1, SIZE):
        slave.replica.append(split - 1, log_of(master)[split - 1 : split])
        slave.replica.dispatch_all()
        assert slave.replica.undispatched_bytes == split - blank
    for offset, data in pieces(master, SIZE - 1, SIZE):
        slave.replica.append(offset, data)
    await dispatched(slave)
    assert queues_of(slave) == queues_of(master)
    assert not [line for line in logged if line["event"] == "replica.no_record"]


@pytest.mark.parametrize("off_by", [-8, 8])
async def test_a_blank_that_does_not_reach_the_files_end_is_told(
    open_store: Make, message: Message, tmp_path: Path, logged: list[Any], off_by: int
) -> None:
    master = filled(open_store, message, tmp_path / "m")
    view = master.commit_log.files.files[0].view()
    blank = next(at for at in range(SIZE - 8, 0, -1) if is_blank_head(view, at))
    wrong = BLANK.struct.pack(SIZE - blank + off_by, MAGIC_BLANK)
    slave = open_store(disk=SteppedDisk(), store_path_root_dir=str(tmp_path / "s"))
    slave.start()
    slave.replica.follow()
    slave.replica.append(0, log_of(master)[:blank] + wrong)
    await dispatched(slave, but_bytes=8)
    await eventually(lambda: any(line["event"] == "replica.no_record" for line in logged), "told")
    await slave.close()


async def test_half_a_blank_is_cut_when_the_slave_is_promoted(
    open_store: Make, message: Message, tmp_path: Path
) -> None:  # H-140
    master = filled(open_store, message, tmp_path / "m")
    view = master.commit_log.files.files[0].view()
    blank = next(at for at in range(SIZE - 8, 0, -1) if is_blank_head(view, at))
    slave = open_store(disk=SteppedDisk(), store_path_root_dir=str(tmp_path / "s"))
    slave.start()
    slave.replica.follow()
    slave.replica.append(0, log_of(master)[: blank + 9])
    await slave.replica.truncate(blank)  # a place where its log may part from another master's
    slave.replica.append(blank, log_of(master)[blank : blank + 9])
    await slave.replica.lead()
    assert slave.commit_log.max_offset == blank
    assert slave.put_messages([message(b"b" * 900)])[0].status is PutStatus.PUT_OK
    await slave.close()


@pytest.mark.parametrize("size", [1, 7, 8, 35, 36, 80])
async def test_half_a_record_can_be_cut_and_no_place_within_one(
    open_store: Make, message: Message, tmp_path: Path, size: int
) -> None:  # H-112: a new master cut its half of it when it was promoted
    master = open_store(disk=SteppedDisk(), store_path_root_dir=str(tmp_path / "m"))
    _, second = (master.put_messages([message(b"a" * 500)])[0] for _ in range(2))
    at = second.physical_offset
    slave = open_store(disk=SteppedDisk(), store_path_root_dir=str(tmp_path / "s"))
    slave.start()
    slave.replica.follow()
    slave.replica.append(0, log_of(master)[: at + size])
    with pytest.raises(StoreFileError, match="no record begins"):
        await slave.replica.truncate(at - 100)
    assert await slave.replica.truncate(at) == size
    slave.replica.append(at, log_of(master)[at:])
    await dispatched(slave)
    assert queues_of(slave) == queues_of(master)
    await slave.close()


async def test_other_work_goes_on_while_a_new_master_dispatches_a_long_log(
    open_store: Make, message: Message, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = filled(open_store, message, tmp_path / "m", 3_000)
    slave = open_store(disk=SteppedDisk(), store_path_root_dir=str(tmp_path / "s"))
    slave.start()
    slave.replica.follow()
    slave.confirm(0)  # so that nothing is visible yet
    for offset, data in pieces(master, 0, SIZE):
        slave.replica.append(offset, data)
    dispatched = [0]
    """Messages, in each turn of the loop."""
    dispatch = slave.queue_dispatcher.dispatch

    def counted(batch: StoredBatch) -> None:
        if not dispatched[-1]:
            asyncio.get_running_loop().call_soon(lambda: dispatched.append(0))
        dispatched[-1] += len(batch.messages)
        dispatch(batch)

    monkeypatch.setattr(slave.queue_dispatcher, "dispatch", counted)
    await slave.replica.lead()
    assert sum(dispatched) == 3_000
    assert max(dispatched) <= 600
    assert queues_of(slave) == queues_of(master)
    await slave.close()


async def test_who_waits_for_a_new_master_meets_what_went_wrong(
    open_store: Make, message: Message, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = filled(open_store, message, tmp_path / "m")
    slave = open_store(disk=SteppedDisk(), store_path_root_dir=str(tmp_path / "s"))
    slave.start()
    slave.replica.follow()
    slave.confirm(0)  # so that all of it is dispatched by `lead`
    for offset, data in pieces(master, 0, SIZE):
        slave.replica.append(offset, data)

    def broken(batch: StoredBatch) -> None:
        raise RuntimeError("a listener has a bug")

    with monkeypatch.context() as patch:
        patch.setattr(slave.queue_dispatcher, "dispatch", broken)
        leading = asyncio.ensure_future(slave.replica.lead())
        await eventually(leading.done, "it is told")
        with pytest.raises(RuntimeError, match="a listener has a bug"):
            await leading
    assert slave.replica.is_following
    await slave.replica.lead()
    assert queues_of(slave) == queues_of(master)
    await slave.close()


async def test_a_cut_leaves_the_keys_of_what_it_leaves(
    open_store: Make, message: Message, tmp_path: Path
) -> None:  # W-4
    store = open_store(disk=SteppedDisk(), store_path_root_dir=str(tmp_path / "m"))
    store.start()
    places = []
    for n in range(9):
        keyed = message(b"%d" % n, keys=f"k{n}", properties=b"KEYS\x01k%d\x02" % n)
        places.append(store.put_messages([keyed])[0].physical_offset)
    await store.flush()

    def with_key(key: str) -> list[bytes]:
        found = store.query("T", key, 32, 0, 1 << 62).records
        return [message.body for message in decode_records(b"".join(found))]

    assert with_key("k8") == [b"8"]
    await store.replica.truncate(places[6])
    assert [with_key(f"k{n}") for n in range(9)] == [*([b"%d" % n] for n in range(6)), [], [], []]
    await store.close()


async def test_a_cut_takes_queues_along_and_holds_after_a_crash(
    open_store: Make, message: Message, tmp_path: Path
) -> None:  # W-4, F-10
    store = filled(open_store, message, tmp_path / "m")
    store.start()
    await store.flush()
    before = queues_of(store)
    at = store.reads.physical_offset("T1", 1, 10)
    assert at is not None
    with pytest.raises(StoreFileError, match="because no record begins there"):
        await store.replica.truncate(at + 1)
    assert await store.replica.truncate(at) > 0
    cut = queues_of(store)
    assert cut["T1", 1] == (0, 10, before["T1", 1][2][:10])
    assert store.commit_log.max_offset == at
    copy = open_store(disk=SteppedDisk(), store_path_root_dir=str(_copied(store, tmp_path)))
    assert copy.commit_log.max_offset == at, "the bytes behind the cut are gone for good"
    assert queues_of(copy) == cut
    result = store.put_messages([message(b"next", topic="T1", queue_id=1)])[0]
    assert (result.physical_offset, result.queue_offset) == (at, 10)
    await store.close()


@pytest.mark.parametrize("goes_on", ["it cuts again", "it appends", "it leads"])
async def test_a_cut_of_which_a_part_failed_is_made_before_anything_else(
    open_store: Make, message: Message, tmp_path: Path, goes_on: str
) -> None:  # W-4
    # Whoever tried again found the log as short as it should be, and did none of the rest: what was
    # cut came back after a crash, and bytes that came later counted as flushed before they were.
    root = tmp_path / "store"

    async def cut(failing: int) -> tuple[MessageStore, SteppedDisk, bool]:
        """A log that was cut where one call of the disk fails once, with what follows."""
        disk = SteppedDisk()
        shutil.rmtree(root, ignore_errors=True)
        sync = FlushDiskType.SYNC_FLUSH
        store = open_store(disk=disk, store_path_root_dir=str(root), flush_disk_type=sync)
        for n in range(80):
            store.put_messages([message(b"%d" % n * 400, topic=f"T{n % 3}", queue_id=n % 2)])
        store.start()
        await store.flush()
        store.replica.follow()
        at = store.reads.physical_offset("T1", 1, 10)
        assert at is not None
        _, rest = next(pieces(store, at, 4096))
        disk.steps.clear()

        def fail(number: int, _operation: str, _path: str) -> None:
            if number == failing:
                raise fail_with(BROKEN)

        disk.on_step = fail
        has_failed = False
        try:
            await store.replica.truncate(at)
        except DiskError:
            has_failed = True
            disk.steps.clear()
        disk.on_step = None
        if goes_on == "it cuts again":
            assert await store.replica.truncate(at) == 0
        elif goes_on == "it appends":
            store.replica.append(at, rest)
            await dispatched(store, but_bytes=store.commit_log.max_offset - at)
        else:
            await store.replica.lead()
        return store, disk, has_failed

    good, _, _ = await cut(failing=-1)
    found = log_of(good), queues_of(good), good.shippable_offset
    await good.close()
    has_failed, failing = True, 0
    while has_failed:
        failing += 1
        store, disk, has_failed = await cut(failing)
        assert (log_of(store), queues_of(store), store.shippable_offset) == found
        last = store.commit_log.files.last
        assert last is not None
        assert not has_failed or ("sync", last.path) in disk.steps
        copy = open_store(disk=SteppedDisk(), store_path_root_dir=str(_copied(store, tmp_path)))
        assert len(copy.commit_log.files.files) == 1, "what was behind the cut is gone"
        assert found[0].startswith(log_of(copy))
        copy.close_files()
        shutil.rmtree(copy.root)
        await store.close()
    assert failing > 6


async def test_a_topic_that_the_master_deleted_and_made_again_begins_anew_on_the_slave(
    open_store: Make, message: Message, tmp_path: Path
) -> None:  # H-73
    master = open_store(disk=SteppedDisk(), store_path_root_dir=str(tmp_path / "m"))
    master.put_messages([message(b"old%d" % n) for n in range(3)])
    master.delete_topic("T")
    master.put_messages([message(b"new%d" % n) for n in range(2)])
    slave = open_store(disk=SteppedDisk(), store_path_root_dir=str(tmp_path / "s"))
    slave.replica.follow()
    slave.replica.append(0, log_of(master))
    await dispatched(slave)
    assert queues_of(slave) == queues_of(master)


async def test_consumers_see_what_is_confirmed(
    open_store: Make, message: Message, tmp_path: Path
) -> None:  # H-144
    store = open_store(disk=SteppedDisk())
    store.confirm(0)
    first, second = store.put_messages([message(b"a"), message(b"b")])
    assert store.reads.max_offset("T", 0) == 0
    store.put_messages([message(b"c")])
    store.confirm(second.physical_offset + second.size)
    assert store.reads.max_offset("T", 0) == 2
    store.confirm(None)
    assert store.reads.max_offset("T", 0) == 3
    assert first.queue_offset == 0


@pytest.mark.timeout(60)
async def test_what_was_confirmed_may_end_inside_a_record(
    open_store: Make, message: Message, tmp_path: Path
) -> None:
    """Acknowledgements count bytes. A returning master whose confirmed offset lay inside a record
    dropped its queue's entries for ever, on the event loop, and never joined again."""
    store = filled(open_store, message, tmp_path / "m")
    whole = queues_of(store)
    ends = sorted(queue.max_physical for queue in store.consume_queues)
    for inside in (ends[0] - 1, ends[-1] - 1, ends[-1] - 40):
        store.checkpoint.confirm_phy_offset = inside
        store.replica.hide_unconfirmed()
        assert all(queue.max_physical <= inside for queue in store.consume_queues)
        store.confirm(None)
        store.replica.dispatch_all()
        assert queues_of(store) == whole


async def test_under_sync_flush_a_slave_shows_what_is_flushed(
    open_store: Make, message: Message, tmp_path: Path
) -> None:  # S-24
    master = filled(open_store, message, tmp_path / "m")
    disk = SteppedDisk()
    slave = open_store(
        disk=disk,
        store_path_root_dir=str(tmp_path / "s"),
        flush_disk_type=FlushDiskType.SYNC_FLUSH,
    )
    slave.start()
    slave.replica.follow()
    for offset, data in pieces(master, 0, 32 * 1024):
        slave.replica.append(offset, data)
    await dispatched(slave)
    assert queues_of(slave) == queues_of(master)
    assert slave.shippable_offset == slave.commit_log.max_offset
    await slave.close()


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(cuts=st.lists(st.integers(1, 3000), min_size=1, max_size=40))
async def test_however_the_log_is_cut_into_pieces_it_is_the_same(
    open_store: Make, message: Message, tmp_path_factory: pytest.TempPathFactory, cuts: list[int]
) -> None:
    root = tmp_path_factory.mktemp("pieces")
    master = open_store(disk=SteppedDisk(), store_path_root_dir=str(root / "m"))
    master.put_messages([message(b"x" * n, queue_id=n % 3) for n in range(0, 900, 30)])
    slave = open_store(disk=SteppedDisk(), store_path_root_dir=str(root / "s"))
    slave.replica.follow()
    data, at, n = log_of(master), 0, 0
    while at < len(data):
        piece = data[at : at + cuts[n % len(cuts)]]
        slave.replica.append(at, piece)
        slave.replica.dispatch_all()
        at, n = at + len(piece), n + 1
    assert log_of(slave) == data
    assert queues_of(slave) == queues_of(master)


def _closed(store: MessageStore) -> str:
    store.close_files()
    return store.root


def _copied(store: MessageStore, tmp_path: Path) -> Path:
    return Path(shutil.copytree(store.root, tmp_path / "copy"))
