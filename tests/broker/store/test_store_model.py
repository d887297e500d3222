"""The store against a list: whatever the order of puts, flushes, kills and restarts (I1, I5)."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pocketmq.broker.store import MessageStore, PutStatus, StoreConfig, StoredMessage
from pocketmq.broker.store.disk.disk_worker import InlineWorker
from pocketmq.protocol.stored.record import decode_records
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import PROFILE_5_X
from support.batches import batch_of
from support.disks import SteppedDisk

HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
NOW_MS = 1_700_000_000_000
IN_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
TOPICS = ("A", "B")
QUEUES = 2


class StoreMachine(RuleBasedStateMachine):
    """Files of a few records, so that everything rolls over all the time."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(dir=IN_MEMORY, prefix="store-model-"))
        self.model: dict[tuple[str, int], list[bytes]] = {}
        self.keys: dict[str, int] = {}
        self.serial = 0

    @initialize()
    def begin(self) -> None:
        self.open()

    def open(self) -> None:
        config = StoreConfig(
            store_path_root_dir=str(self.root),
            mapped_file_size_commit_log=2048,
            mapped_file_size_consume_queue=5 * 20,
            max_hash_slot_num=7,
            max_index_num=12,
            confirm_distance_bytes=4096,
        )
        self.store = MessageStore(
            config, SteppedDisk(), ManualClock(1_700_000_000_000), PROFILE_5_X.broker
        )
        self.store.load()
        worker = InlineWorker()
        self.store._log_flusher.start(worker)
        self.store._flush._queue_flusher.start(worker)

    @rule(
        sizes=st.lists(st.integers(0, 1500), min_size=1, max_size=6),
        where=st.lists(
            st.tuples(st.sampled_from(TOPICS), st.integers(0, QUEUES - 1)), min_size=6, max_size=6
        ),
        together=st.booleans(),
    )
    def put(self, sizes: list[int], where: list[tuple[str, int]], *, together: bool) -> None:
        if together:
            return self.put_together(sizes, *where[0])
        messages = [self.message(size, *place) for size, place in zip(sizes, where, strict=False)]
        results = self.store.put_messages(messages)
        for message, result in zip(messages, results, strict=True):
            assert result.status is PutStatus.PUT_OK
            self.note(message, result.queue_offset, result.physical_offset)
        return None

    def put_together(self, sizes: list[int], topic: str, queue_id: int) -> None:
        messages = [self.message(size, topic, queue_id) for size in sizes]
        result = self.store.put_batch(batch_of(messages))
        if result.status is not PutStatus.PUT_OK:
            assert sum(sizes) > 1200
            return
        for number, (message, at) in enumerate(
            zip(messages, result.physical_offsets, strict=True), result.queue_offset
        ):
            self.note(message, number, at)

    def note(self, message: StoredMessage, queue_offset: int, physical_offset: int) -> None:
        held = self.model.setdefault((message.topic, message.queue_id), [])
        assert queue_offset == len(held)
        held.append(bytes(message.body))
        self.keys[f"{message.topic}-{message.keys}"] = physical_offset

    def message(self, size: int, topic: str, queue_id: int) -> StoredMessage:
        self.serial += 1
        key = f"k{self.serial}"
        body = (b"%06d" % self.serial).ljust(size, b".")
        properties = f"KEYS\x01{key}\x02".encode()
        now = 1_700_000_000_000
        return StoredMessage(
            topic,
            queue_id,
            body,
            properties,
            0,
            0,
            now,
            HOST,
            HOST,
            uniq_key=f"u{self.serial}",
            keys=key,
            tags_code=self.serial,
        )

    @rule()
    def flush(self) -> None:
        self.store._log_flusher.flush()

    @rule()
    def confirm(self) -> None:
        self.store._flush.confirm_soon()

    @rule()
    def stop_and_start(self) -> None:
        self.store.close_files()
        self.open()

    @rule()
    def kill_and_start(self) -> None:
        self.open()

    @rule(topic=st.sampled_from(TOPICS), queue_id=st.integers(0, QUEUES - 1))
    def lose_a_queue(self, topic: str, queue_id: int) -> None:
        self.store.close_files()
        shutil.rmtree(self.root / "consumequeue" / topic / str(queue_id), ignore_errors=True)
        self.open()

    @rule(data=st.data())
    def find_by_key(self, data: st.DataObject) -> None:
        if self.keys:
            name = data.draw(st.sampled_from(sorted(self.keys)))
            topic, key = name.split("-")
            records = self.store.query(topic, key, 5, 0, 1 << 62).records
            found = [decode_records(record)[0].commit_log_offset for record in records]
            assert found == [self.keys[name]]

    @invariant()
    def every_message_is_there_once_and_in_order(self) -> None:
        if not hasattr(self, "store"):
            return
        for (topic, queue_id), held in self.model.items():
            found: list[bytes] = []
            while len(found) < self.store.reads.max_offset(topic, queue_id):
                result = self.store.reads.get_message(topic, queue_id, len(found), 32)
                assert result.count, result
                found += [m.body for m in decode_records(b"".join(result.records))]
            assert found == held

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close_files()
        shutil.rmtree(self.root)


StoreMachine.TestCase.settings = settings(stateful_step_count=30, deadline=None)
TestStoreMachine = StoreMachine.TestCase
