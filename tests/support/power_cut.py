"""A life of a store on a model disk, cut at any moment, and the judgement of what each cut leaves.

`record` lives once and keeps what a cut could leave at each call of the disk. `judge_cut` lets one
choice of loose ends reach the medium, boots, recovers, and holds the result against the promises:

SYNC_FLUSH    nothing acknowledged is missing, nothing that a consumer could see has gone.
ASYNC_FLUSH   what is missing is the log's end: 500 ms of it, or 10 s while that is under 4 pages.
both          no hole, no wrong body, offsets of consumers not beyond the queues, files that verify.
"""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import msgspec

from pocketmq.broker.offsets.consumer_offsets import ConsumerOffsetManager
from pocketmq.broker.store import Disk, FlushDiskType, MessageStore, OsDisk, PutStatus, StoreConfig
from pocketmq.broker.store.disk.disk_worker import DiskWorker, InlineWorker
from pocketmq.broker.store.tools.verify import verify_store
from pocketmq.broker.tables.json_files import JsonFile
from pocketmq.protocol.bodies.offsets import ConsumerOffsetTable
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import PROFILE_5_X
from support.model_disk import PAGE, LooseEnd, ModelDisk, Moment
from support.store_life import (
    INDEX_SLOTS,
    SHAPE,
    START_MS,
    HalfEmpty,
    InlineExecutor,
    Verdict,
    messages_of,
    numbered,
)

MESSAGES = 70
LOG_FILE = 2 * PAGE
FLUSH_MS, THOROUGH_MS, LEAST_PAGES = 500, 10_000, 4
GROUP = "G"


class NextBoot(HalfEmpty, OsDisk):
    """The real disk after the machine came up again."""

    def boot_id(self) -> bytes:
        return b"the second boot."

    def start_worker(self, name: str) -> DiskWorker:
        return InlineWorker()


class RoomyModelDisk(HalfEmpty, ModelDisk):
    """The model with room."""


@dataclass
class Cut:
    """One moment of a life."""

    name: str
    moment: Moment
    now_ms: int
    put_at_ms: dict[int, int]
    """Number -> when it was put, in the log's order."""
    sizes: dict[int, int]
    """Number -> length of its record."""
    acknowledged: set[int]
    visible: dict[int, int]
    """Queue -> max offset that consumers saw."""
    saved: dict[int, int]
    """Queue -> committed offset that was saved for certain."""


@dataclass
class Life:
    """A life that is being recorded."""

    disk: ModelDisk
    mode: FlushDiskType
    clock: ManualClock
    cuts: list[Cut] = field(default_factory=list)
    put_at_ms: dict[int, int] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    acknowledged: set[int] = field(default_factory=set)
    visible: dict[int, int] = field(default_factory=dict)
    saved: dict[int, int] = field(default_factory=dict)
    store: MessageStore | None = None
    calls: int = 0

    def look(self, operation: str, path: str) -> None:
        """Keep this moment."""
        self.calls += 1
        if self.store is not None:
            for queue in (0, 1):
                end = self.store.reads.max_offset("T", queue)
                self.visible[queue] = max(self.visible.get(queue, 0), end)
        name = f"{self.calls}: {operation} {path.removeprefix(self.disk.root)}"
        self.cuts.append(
            Cut(
                name,
                self.disk.moment(),
                self.clock.time_ms(),
                dict(self.put_at_ms),
                dict(self.sizes),
                set(self.acknowledged),
                dict(self.visible),
                dict(self.saved),
            )
        )


def open_store(root: Path, disk: Disk, clock: ManualClock, mode: FlushDiskType) -> MessageStore:
    """The store of these lives, not loaded."""
    options = {**SHAPE, "mapped_file_size_commit_log": LOG_FILE}
    config = StoreConfig(store_path_root_dir=str(root), flush_disk_type=mode, **options)
    return MessageStore(config, disk, clock, PROFILE_5_X.broker)


def record(root: Path, mode: FlushDiskType) -> list[Cut]:
    """Live once; each moment at which something could be cut."""
    root.mkdir()
    disk = RoomyModelDisk(root)
    life = Life(disk, mode, ManualClock(START_MS))
    disk.on_call = life.look

    async def whole() -> None:
        asyncio.get_running_loop().set_default_executor(InlineExecutor())
        await _live(root, life)

    asyncio.run(whole())
    return life.cuts


async def _live(root: Path, life: Life) -> None:
    chance = Random(2013)
    clock, disk = life.clock, life.disk
    offsets_file = JsonFile(root / "config" / "consumerOffset.json", disk)
    number = 0
    while number < MESSAGES:
        store = open_store(root, disk, clock, life.mode)
        store.load()
        life.store = store
        store.start()
        while number < MESSAGES:
            _put(life, store, number, chance.randrange(40, 900))
            life.look("put", "")
            number += 1
            await clock.move_to(clock.time_ms() + chance.choice((20, 50, 200, 400)))
            if number % 12 == 0:
                await _commit(life, store, offsets_file)
            if number == 20:
                await clock.move_to(clock.time_ms() + 60_000)
            if number == 30:
                store.put_messages([numbered(0, "Gone")])
                store.delete_topic("Gone")
            if number == 50:
                break
        life.store = None
        await store.close()
        life.look("closed", "")


def _put(life: Life, store: MessageStore, number: int, size: int) -> None:
    message = numbered(number)
    message.body = body_of(number, size)
    life.put_at_ms[number] = life.clock.time_ms()
    result = store.put_messages([message])[0]
    assert result.status is PutStatus.PUT_OK
    life.sizes[number] = result.size

    def answer(status: PutStatus) -> None:
        assert status is PutStatus.PUT_OK
        life.acknowledged.add(number)

    store.when_flushed(result.physical_offset + result.size, answer)


def body_of(number: int, size: int) -> bytes:
    """Text whose every part says its number: pages of one body in another would show."""
    return (b"%d." % number * size)[:size]


async def _commit(life: Life, store: MessageStore, file: JsonFile) -> None:
    """As a broker does: consumers commit what they saw, and 5 s later it is saved."""
    offsets = {queue: store.reads.max_offset("T", queue) for queue in (0, 1)}
    table = ConsumerOffsetTable(offset_table={f"T@{GROUP}": offsets})
    await file.save(msgspec.to_builtins(table))
    life.saved = offsets


def judge_cut(cut: Cut, chosen: frozenset[LooseEnd], root: Path, mode: FlushDiskType) -> int:
    """Boot and recover after a cut at which just `chosen` reached the medium.

    Returns:
        How many acknowledged messages are lost.

    Raises:
        Verdict: a promise is broken.
    """
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    cut.moment.write(root, chosen)
    store = open_store(root, NextBoot(), ManualClock(cut.now_ms + 60_000), mode)
    try:
        store.load()
    except DiskError as exc:
        raise Verdict(f"does not open: {exc}") from exc
    served = []
    for queue in (0, 1):
        for _, body in messages_of(store, "T", queue):
            number = int(body.split(b".", 1)[0])
            if number not in cut.put_at_ms or body != body_of(number, len(body)):
                raise Verdict(f"a wrong body: {body[:80]!r}")
            served.append(number)
    if sorted(served) != list(range(len(served))):
        raise Verdict(f"not the log's beginning: {sorted(served)}")
    lost = [number for number in cut.acknowledged if number >= len(served)]
    if mode is FlushDiskType.SYNC_FLUSH:
        if lost:
            raise Verdict(f"acknowledged and lost: {lost}")
        for queue, end in cut.visible.items():
            if store.reads.max_offset("T", queue) < end:
                raise Verdict(f"queue {queue} was seen up to {end}")
    else:
        _test_window(cut, lost)
    _test_offsets(cut, store, root, mode)
    if store.put_messages([numbered(999_999)])[0].status is not PutStatus.PUT_OK:
        raise Verdict("the next message is refused")
    store.close_files()
    verified = verify_store(OsDisk(), str(root), index_slots=INDEX_SLOTS)
    if verified.problems:
        raise Verdict("; ".join(map(str, verified.problems[:5])))
    return len(lost)


def _test_window(cut: Cut, lost: list[int]) -> None:
    """What ASYNC_FLUSH may lose (S-50). Timers look every 500 ms, so all ages have that slack."""
    ages = {number: cut.now_ms - cut.put_at_ms[number] for number in lost}
    if ages and max(ages.values()) > THOROUGH_MS + FLUSH_MS:
        raise Verdict(f"lost after {max(ages.values())} ms")
    old = sum(cut.sizes[number] for number, age in ages.items() if age > 2 * FLUSH_MS)
    if old >= (LEAST_PAGES + 1) * PAGE:
        raise Verdict(f"{old} bytes of more than a second ago are lost")


def _test_offsets(cut: Cut, store: MessageStore, root: Path, mode: FlushDiskType) -> None:
    value = asyncio.run(JsonFile(root / "config" / "consumerOffset.json", OsDisk()).load())
    offsets = ConsumerOffsetManager()
    if value is not None:
        offsets.load(msgspec.convert(value, ConsumerOffsetTable, strict=False))
    elif cut.saved:
        raise Verdict("saved offsets are gone")
    fallen = offsets.clamp(store.reads.max_offset)
    if fallen and mode is FlushDiskType.SYNC_FLUSH:
        raise Verdict(f"offsets beyond their queue: {fallen}")
    for queue, saved in cut.saved.items():
        found = offsets.query(GROUP, "T", queue)
        end = store.reads.max_offset("T", queue)
        if found is None or not min(saved, end) <= found <= end:
            raise Verdict(f"offset of queue {queue} is {found}, saved was {saved} of {end}")
