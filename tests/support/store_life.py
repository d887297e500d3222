"""A short life of a store, told line by line, and the judgement of what is left after its end.

`live` runs a `MessageStore` and its configuration files without a network: it rolls log, queue and
index files, flushes, moves the checkpoint, saves offsets, deletes a topic, cleans, closes and opens
again. Each thing that it may be held to later is told at once: `ack` when a message may be
acknowledged, `saved` when a configuration file was saved. `judge` opens what a crash left and
compares it with what was told.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pocketmq.broker.store import (
    Disk,
    FlushDiskType,
    MessageStore,
    OsDisk,
    PutStatus,
    StoreConfig,
    StoredMessage,
)
from pocketmq.broker.store.disk.disk import DiskUsage
from pocketmq.broker.store.disk.disk_worker import DiskWorker, InlineWorker
from pocketmq.broker.store.disk.fault_disk import Fault, FaultDisk
from pocketmq.broker.store.tools.verify import verify_store
from pocketmq.broker.tables.json_files import JsonFile
from pocketmq.protocol.messages.properties import encode_properties
from pocketmq.protocol.messages.subscription import tags_code
from pocketmq.protocol.stored.record import decode_records
from pocketmq.runtime import logs
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import PROFILE_5_X

HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
START_MS = 1_700_000_000_000
INDEX_SLOTS = 10
SHAPE: dict[str, Any] = {
    "mapped_file_size_commit_log": 4096,
    "mapped_file_size_consume_queue": 20 * 20,
    "max_hash_slot_num": INDEX_SLOTS,
    "max_index_num": 40,
    "file_reserved_time_h": 0,
    "delete_when": "",
}

Say = Callable[[str], None]


class HalfEmpty:
    """Of a disk: its partition has room; that of the test itself may be nearly full."""

    def usage(self, path: str) -> DiskUsage:
        return DiskUsage(total_bytes=1000, used_bytes=500)


class SoundDisk(HalfEmpty, OsDisk):
    """The real disk with room."""


class InlineFaultDisk(HalfEmpty, FaultDisk):
    """No threads, so that the N-th call is the same one each time."""

    def start_worker(self, name: str) -> DiskWorker:
        return InlineWorker()


def open_store(root: Path, disk: Disk, clock: ManualClock, mode: FlushDiskType) -> MessageStore:
    """The store of these tests, loaded."""
    config = StoreConfig(store_path_root_dir=str(root), flush_disk_type=mode, **SHAPE)
    store = MessageStore(config, disk, clock, PROFILE_5_X.broker)
    store.load()
    return store


def numbered(number: int, topic: str = "T") -> StoredMessage:
    """A message that says its number, with a tag, a unique key and sometimes a key."""
    properties = {"UNIQ_KEY": f"U{number:06d}", "TAGS": "AB"[number % 2]}
    keys = f"k{number % 7}" if number % 3 == 0 else None
    if keys is not None:
        properties["KEYS"] = keys
    return StoredMessage(
        topic,
        number % 2,
        body_of(number),
        encode_properties(properties).encode(),
        0,
        0,
        START_MS,
        HOST,
        HOST,
        tags_code=tags_code(properties["TAGS"]),
        uniq_key=properties["UNIQ_KEY"],
        keys=keys,
    )


def body_of(number: int) -> bytes:
    """The body of message `number`, of a length of its own."""
    return b"%d." % number * (3 + number % 19)


async def live(root: Path, disk: Disk, say: Say, mode: FlushDiskType) -> None:
    """The whole life. Ends early when the disk kills the process, or refuses to open the store."""
    clock = ManualClock(START_MS)
    offsets = JsonFile(root / "config" / "consumerOffset.json", disk)
    saved = (await offsets.load() or {"n": 0})["n"]
    number = 0

    async def put(store: MessageStore, count: int) -> None:
        nonlocal number
        for _ in range(count):
            message = numbered(number)
            say(f"send {number}")
            number += 1
            if not store.is_writeable:
                continue
            result = store.put_messages([message])[0]
            if result.status is PutStatus.PUT_OK:
                acknowledge = f"ack {number - 1} {message.queue_id} {result.queue_offset}"

                def answer(status: PutStatus, line: str = acknowledge) -> None:
                    if status is PutStatus.PUT_OK:
                        say(line)

                store.when_flushed(result.physical_offset + result.size, answer)

    async def save() -> None:
        nonlocal saved
        saved += 1
        say(f"saving {saved}")
        try:
            await offsets.save({"n": saved, "filler": "x" * 300})
            say(f"saved {saved}")
        except DiskError:
            say("not saved")

    async def forward(seconds: float) -> None:
        await clock.move_to(clock.time_ms() + round(seconds * 1000))

    for life in range(2):
        store = open_store(root, disk, clock, mode)
        store.start()
        await put(store, 12)
        await save()
        await forward(1)
        await put(store, 25)
        await forward(61)  # a thorough pass: the checkpoint moves
        await save()
        gone = f"Gone{life}"
        store.put_messages([numbered(0, gone)])
        try:
            say("deleting")
            store.delete_topic(gone)
        except DiskError:
            say("not deleted")
        await put(store, 13)
        await forward(2)
        if life:
            say("cleaning")
            store.delete_expired_files()
            await forward(11)
            await put(store, 5)
        await store.close()
        say("closed")


@dataclass
class Told:
    """What a life said before it ended."""

    sent: set[int] = field(default_factory=set)
    acknowledged: dict[tuple[int, int], int] = field(default_factory=dict)
    """(queue, offset) -> number."""
    saving: int = 0
    saved: int = 0
    cleaned: bool = False

    @classmethod
    def of(cls, lines: Iterable[str]) -> Told:
        """Read the lines."""
        told = cls()
        for line in lines:
            word, *numbers = line.split()
            if word == "send":
                told.sent.add(int(numbers[0]))
            elif word == "ack":
                number, queue, offset = map(int, numbers)
                previous = told.acknowledged.setdefault((queue, offset), number)
                assert previous == number, f"{queue}/{offset} was given twice"
            elif word == "saving":
                told.saving = int(numbers[0])
            elif word == "saved":
                told.saved = int(numbers[0])
            elif word == "cleaning":
                told.cleaned = True
        return told


class Verdict(AssertionError):
    """What is left contradicts what was told."""


def judge(
    root: Path, lines: Iterable[str], mode: FlushDiskType = FlushDiskType.ASYNC_FLUSH
) -> None:
    """Open what is left with a sound disk, and compare.

    Raises:
        Verdict: an acknowledged message is missing or in another place, a body is wrong, there is a
            hole, a file is torn, or the store is not clean afterwards.
    """
    told = Told.of(lines)
    store = open_store(root, SoundDisk(), ManualClock(START_MS + 3_600_000), mode)
    served: dict[tuple[int, int], int] = {}
    for topic, queue in list(store.reads.queues()):
        for offset, body in messages_of(store, topic, queue):
            number = int(body.split(b".", 1)[0])
            if body != body_of(number) or (topic == "T" and number not in told.sent):
                raise Verdict(f"{topic}/{queue}/{offset} holds {body!r}, which nobody sent")
            if topic == "T":
                served[queue, offset] = number
    for place, number in told.acknowledged.items():
        if served.get(place) != number:
            gone = place[1] < store.reads.min_offset("T", place[0])
            if not (gone and told.cleaned):
                raise Verdict(f"message {number} is not at {place} but {served.get(place)}")
    for queue in (0, 1):
        numbers = [served[place] for place in sorted(served) if place[0] == queue]
        if numbers != sorted(set(numbers)):
            raise Verdict(f"queue {queue} is out of order: {numbers}")
        found = sorted(offset for q, offset in served if q == queue)
        if found and found != list(range(found[0], found[-1] + 1)):
            raise Verdict(f"queue {queue} has a hole: {found}")
    result = store.put_messages([numbered(999_999)])[0]
    if result.status is not PutStatus.PUT_OK:
        raise Verdict(f"the next message is refused: {result}")
    store.close_files()
    verified = verify_store(OsDisk(), str(root), index_slots=INDEX_SLOTS)
    if verified.problems:
        raise Verdict("; ".join(map(str, verified.problems[:5])))
    value = asyncio.run(JsonFile(root / "config" / "consumerOffset.json", OsDisk()).load())
    found_number = (value or {"n": 0})["n"]
    if not told.saved <= found_number <= told.saving:
        raise Verdict(f"config says {found_number}, saved was {told.saved} of {told.saving}")


def messages_of(store: MessageStore, topic: str, queue: int) -> Iterable[tuple[int, bytes]]:
    """(offset, body) of all that a consumer gets."""
    offset = store.reads.min_offset(topic, queue)
    while offset < store.reads.max_offset(topic, queue):
        result = store.reads.get_message(topic, queue, offset, 32)
        for message in decode_records(b"".join(result.records)):
            yield message.queue_offset, bytes(message.raw_body)
        offset = result.next_begin_offset


def count_calls(root: Path, mode: FlushDiskType) -> int:
    """How many calls of the disk a whole life makes."""
    disk = InlineFaultDisk()
    asyncio.run(live(root, disk, lambda line: None, mode))
    return disk.calls


class InlineExecutor(ThreadPoolExecutor):
    """An executor without threads."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(call(*args, **named))
        except Exception as exc:  # noqa: BLE001 - as an executor does
            future.set_exception(exc)
        return future


def live_with_fault(root: Path, fault: Fault | None, say: Say, mode: FlushDiskType) -> int:
    """One life with a fault; 0, or 3 when the disk ended it with an error that names a file."""

    async def whole() -> None:
        # One thread makes all calls: strace counts them for each thread apart.
        asyncio.get_running_loop().set_default_executor(InlineExecutor())
        await live(root, InlineFaultDisk(fault), say, mode)

    try:
        asyncio.run(whole())
    except DiskError as exc:
        say(f"error {exc}")
        return 3
    return 0


def in_child(root: Path, fault: Fault, mode: FlushDiskType) -> tuple[int, list[str]]:
    """One life in a forked process; its status, negative for a signal, and what it told.

    Only for a process without threads: forking is what makes a crash point cost 20 ms.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        status = 70
        try:
            status = live_with_fault(root, fault, _teller(writer), mode)
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        lines = pipe.read().decode().splitlines()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), lines


def _teller(descriptor: int) -> Say:
    """Writes each line at once: what was told must survive a kill right after."""

    def say(line: str) -> None:
        os.write(descriptor, line.encode() + b"\n")

    return say


def silence(level: str = "error") -> None:
    """Log to nowhere from now on: what a fault makes the store say fills screens."""
    logs.configure(level, stream=open(os.devnull, "w"))  # noqa: SIM115 - as long as the process


def main() -> None:
    """`python store_life.py ROOT MODE`: one life in a process of its own, told on its output."""
    silence()
    root, mode = Path(sys.argv[1]), FlushDiskType[sys.argv[2]]
    sys.exit(live_with_fault(root, None, _teller(1), mode))


if __name__ == "__main__":
    main()
