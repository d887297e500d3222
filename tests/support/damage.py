"""Stores that were damaged after they were written, and the judgement of what they then serve.

Recovery and reading either give back all that is intact, or stop with an error that names file and
position. They never give a wrong body for a right one, and never end in another exception.
"""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from pocketmq.broker.store import (
    FlushDiskType,
    GetStatus,
    MessageStore,
    OsDisk,
    PutStatus,
    StoreConfig,
)
from pocketmq.broker.store.disk.disk_worker import DiskWorker, InlineWorker
from pocketmq.broker.tables.json_files import JsonFile
from pocketmq.protocol.stored.record import decode_records
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import PROFILE_5_X
from support.store_life import SHAPE, START_MS, HalfEmpty, Verdict, numbered

COUNT = 80
QUEUE_FILE = SHAPE["mapped_file_size_consume_queue"]
Place = tuple[str, int, int]
"""Topic, queue, offset."""


class QuickDisk(HalfEmpty, OsDisk):
    """The real disk without threads; nothing is synced, nobody cuts the power."""

    def start_worker(self, name: str) -> DiskWorker:
        return InlineWorker()

    def sync_directory(self, path: str) -> None:
        pass


def open_store(root: Path) -> MessageStore:
    """A store of small files, not loaded."""
    config = StoreConfig(
        store_path_root_dir=str(root),
        flush_disk_type=FlushDiskType.ASYNC_FLUSH,
        **SHAPE,
    )
    return MessageStore(config, QuickDisk(), ManualClock(START_MS), PROFILE_5_X.broker)


@dataclass
class Template:
    """A sound store, to be copied and damaged."""

    root: Path
    bodies: dict[Place, bytes] = field(default_factory=dict)
    records: dict[Place, tuple[int, int]] = field(default_factory=dict)
    """(log offset, length) of each message."""

    def copy(self, target: Path, *, killed: bool) -> Path:
        """A fresh copy at `target`; as a kill would have left it, or closed."""
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.root, target)
        if killed:
            (target / "abort").write_bytes(b"1")
        return target

    def files(self) -> list[str]:
        """Relative paths of what can be damaged: all but lock and mark."""
        return sorted(
            str(path.relative_to(self.root))
            for path in self.root.rglob("*")
            if path.is_file() and path.name not in ("lock", "abort")
        )


def make_template(root: Path) -> Template:
    """A store with messages of two topics in several files of each kind, and a configuration."""
    template = Template(root)
    store = open_store(root)
    store.load()
    for number in range(COUNT):
        message = numbered(number, "T" if number % 4 else "Other")
        result = store.put_messages([message])[0]
        place = (message.topic, message.queue_id, result.queue_offset)
        template.bodies[place] = bytes(message.body)
        template.records[place] = (result.physical_offset, result.size)
    store.close_files()
    table = JsonFile(root / "config" / "consumerOffset.json", QuickDisk())
    asyncio.run(table.save({"n": 1}))
    asyncio.run(table.save({"n": 2}))
    return template


@dataclass
class Served:
    """What a damaged store gave."""

    bodies: dict[Place, bytes] = field(default_factory=dict)
    error: DiskError | None = None
    """Why it does not open."""
    events: list[Any] = field(default_factory=list)
    """What it logged."""

    def tells(self, place: Place, log_offset: int) -> bool:
        """Whether a log line says that this message is lost: by its log offset, or its place.

        When a bit makes it another topic's, its queue is short of it: the line names that entry.
        """
        for event in self.events:
            is_told = event["log_level"] in ("warning", "error") or event.get("end_reason")
            if is_told and log_offset in event.values():
                return True
            if (event.get("topic"), event.get("queue_id")) != place[:2]:
                continue
            entry = f"{place[2] * 20 % QUEUE_FILE}"
            if place[2] in (event.get("offset"), event.get("first")) or (
                event["event"] == "queue.rebuilt" and f"(at byte {entry});" in event["error"]
            ):
                return True
        return False


def serve(root: Path) -> Served:
    """Open a store, read all, put one more message, close it."""
    served = Served()
    with capture_logs() as served.events:
        store = open_store(root)
        try:
            store.load()
            read_all(store, served.bodies)
            if store.put_messages([numbered(7)])[0].status is not PutStatus.PUT_OK:
                raise Verdict(f"the next message is refused: {store.readiness.reasons}")
            for n in range(7):
                store.query("T", f"k{n}", 32, 0, 1 << 62)
        except DiskError as exc:
            served.error = exc
        finally:
            store.close_files()
    return served


def read_all(store: MessageStore, bodies: dict[Place, bytes]) -> None:
    """Pull every queue from its first message to its last, as consumers do."""
    for topic, queue in list(store.reads.queues()):
        offset = store.reads.min_offset(topic, queue)
        while (result := store.reads.get_message(topic, queue, offset, 32)).status not in (
            GetStatus.OFFSET_OVERFLOW_ONE,
            GetStatus.OFFSET_OVERFLOW_BADLY,
            GetStatus.NO_MESSAGE_IN_QUEUE,
        ):
            if result.next_begin_offset <= offset:
                raise Verdict(f"{topic}/{queue} stands still at {offset}: {result.status}")
            for message in decode_records(b"".join(result.records)):
                bodies[topic, queue, message.queue_offset] = bytes(message.raw_body)
            offset = result.next_begin_offset


def lost_places(template: Template, served: Served) -> list[Place]:
    """Messages that are not served any more.

    Raises:
        Verdict: a body is not what was sent, or the store stops without saying where.
    """
    if served.error is not None:
        if str(served.error.path) not in str(served.error):
            raise Verdict(f"the error names no file: {served.error}")
        return []
    sent = set(template.bodies.values())
    for place, body in served.bodies.items():
        wanted = template.bodies.get(place)
        # A flipped bit in a record's topic or queue id makes it another queue's: nothing in the
        # format tells. Its body still is one that was sent.
        if body != wanted and (wanted is not None or body not in sent):
            raise Verdict(f"{place} serves {body[:60]!r}, sent was {(wanted or b'')[:60]!r}")
    return [place for place in template.bodies if place not in served.bodies]
