"""Reads the messages of one queue of a stopped store, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

from pocketmq.broker.store.config import ENTRY_SIZE
from pocketmq.broker.store.queues.consume_queue import ENTRY, FILLER_SIZE
from pocketmq.broker.store.tools.stopped_store import Problem, StoppedStore
from pocketmq.broker.store.tools.verify_cursors import queue_problem
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.stored.record_check import check_record
from pocketmq.runtime.errors import CallerError


def read_queue(
    store: StoppedStore, topic: str, queue_id: int, offset: int = 0
) -> Iterator[MessageExt | Problem]:
    """Messages from `offset` on; for one that cannot be read, the description of the problem.

    Entries of deleted messages are passed over.

    Raises:
        CallerError: there is no such queue.
    """
    queue = next((q for q in store.queues if (q.topic, q.queue_id) == (topic, queue_id)), None)
    if queue is None:
        ids = sorted(q.queue_id for q in store.queues if q.topic == topic)
        noun = "queue" if len(ids) == 1 else "queues"
        known = f"it has the {noun} {', '.join(map(str, ids))}" if ids else "the topic is unknown"
        raise CallerError(
            f"{store.root} has no queue {queue_id} of topic {topic}: {known}; `pocketmq store "
            "inspect` lists all queues"
        )
    log_min = store.log.files[0].start if store.log.files else 0
    for number in range(max(offset, queue.first), queue.end):
        # One by one, as only a few of many messages may be wanted.
        entry = queue.row.read(number * ENTRY_SIZE, ENTRY_SIZE)
        if entry is None:
            yield queue_problem(queue, number, f"entry {number} is missing")
            continue
        physical, size, _ = ENTRY.unpack(entry)
        # Its record has expired, which is no fault (S-73).
        if size == FILLER_SIZE or 0 <= physical < log_min:
            continue
        record = store.log.read(physical, size)
        checked = None if record is None else check_record(record, 0)
        if checked is None or checked.message is None:
            reason = "no record" if checked is None else checked.reason or "zeros"
            what = f"entry {number} leads to {size} bytes at {physical}: {reason}"
            yield queue_problem(queue, number, what)
        elif (checked.message.topic, checked.message.queue_id, checked.queue_offset) != (
            topic,
            queue_id,
            number,
        ):
            what = f"entry {number} leads to another queue's record at {physical}"
            yield queue_problem(queue, number, what)
        else:
            yield checked.message
