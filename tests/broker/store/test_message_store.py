"""The store as its users see it: put, get, close, open again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from pocketmq.broker.store import GetStatus, MessageStore, PutStatus, StoredMessage
from pocketmq.protocol.stored.record import decode_records

Make = Callable[..., MessageStore]
Message = Callable[..., StoredMessage]


def bodies(
    store: MessageStore, topic: str = "T", queue_id: int = 0, offset: int = 0
) -> list[bytes]:
    """Everything from `offset` to the queue's end, pull by pull."""
    found: list[bytes] = []
    while True:
        result = store.reads.get_message(topic, queue_id, offset, 32)
        if result.status is not GetStatus.FOUND:
            return found
        joined = b"".join(result.records)
        messages = decode_records(joined)
        assert len(messages) == result.count
        assert [m.queue_offset for m in messages] == list(
            range(result.next_begin_offset - result.count, result.next_begin_offset)
        )
        found += [m.body for m in messages]
        offset = result.next_begin_offset


def test_what_was_put_is_got_in_order(open_store: Make, message: Message) -> None:
    store = open_store()
    results = store.put_messages([message(b"%d" % n) for n in range(10)])
    assert [r.status for r in results] == [PutStatus.PUT_OK] * 10
    assert [r.queue_offset for r in results] == list(range(10))
    assert bodies(store) == [b"%d" % n for n in range(10)]
    assert (store.reads.min_offset("T", 0), store.reads.max_offset("T", 0)) == (0, 10)


def test_records_back_to_back_come_as_one_view(open_store: Make, message: Message) -> None:
    store = open_store()
    store.put_messages([message(b"a"), message(b"b"), message(b"x", "U"), message(b"c")])
    result = store.reads.get_message("T", 0, 0, 32)
    assert (len(result.records), result.count) == (2, 3)


def test_a_full_file_ends_in_a_blank_and_the_log_goes_on_in_the_next(  # S-14
    open_store: Make, message: Message
) -> None:
    store = open_store(mapped_file_size_commit_log=4096)
    for n in range(100):
        assert store.put_messages([message(b"%03d" % n * 100)])[0].status is PutStatus.PUT_OK
    assert len(store.commit_log.files.files) > 8
    assert bodies(store) == [b"%03d" % n * 100 for n in range(100)]


def test_a_store_opens_again_with_all_it_had(open_store: Make, message: Message) -> None:
    store = open_store(mapped_file_size_commit_log=4096)
    for n in range(250):
        store.put_messages([message(b"%d" % n, queue_id=n % 3)])
    store.close_files()
    again = open_store(mapped_file_size_commit_log=4096)
    for queue_id in range(3):
        assert bodies(again, queue_id=queue_id) == [b"%d" % n for n in range(queue_id, 250, 3)]
    assert again.put_messages([message(b"next")])[0].queue_offset == 84
    assert bodies(again)[-1] == b"next"


def test_a_store_that_was_not_closed_opens_with_all_it_had(
    open_store: Make, message: Message
) -> None:
    store = open_store(mapped_file_size_commit_log=4096)
    for n in range(250):
        store.put_messages([message(b"%d" % n, queue_id=n % 3)])
    again = open_store(mapped_file_size_commit_log=4096)
    for queue_id in range(3):
        assert bodies(again, queue_id=queue_id) == [b"%d" % n for n in range(queue_id, 250, 3)]
    assert again.put_messages([message(b"next")])[0].queue_offset == 84


MANY_QUEUES = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
from pocketmq.broker.store import MessageStore, OsDisk, StoreConfig
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import PROFILE_5_X
from support.store_life import START_MS, messages_of, numbered, silence

silence()
sizes = {"mapped_file_size_commit_log": 1 << 20, "max_hash_slot_num": 50, "max_index_num": 200}
config = StoreConfig(store_path_root_dir=sys.argv[1], **sizes)
topics = [f"T{number}" for number in range(100)]
for life in range(2):
    store = MessageStore(config, OsDisk(), ManualClock(START_MS), PROFILE_5_X.broker)
    store.load()
    for number in range(100):
        store.put_messages([numbered(2 * number, topic) for topic in topics[number::7]])
    for topic in topics:
        bodies = [body for _, body in messages_of(store, topic, 0)]
        assert len(bodies) == len(set(bodies)) * (life + 1) >= 1, (topic, len(bodies))
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    opened = [os.readlink(link) for link in links if os.path.exists(link)]
    assert sum(path != os.devnull for path in opened) < 24, opened  # the rest is the reserve
    store.close_files()
"""


def test_more_queues_than_descriptors(tmp_path: Path) -> None:  # fault 52
    tests = Path(__file__).resolve().parents[2]
    ran = subprocess.run(
        [sys.executable, "-c", MANY_QUEUES, str(tmp_path / "store")],
        env=os.environ | {"PYTHONPATH": str(tests)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
