"""Committed offsets of a store against the bounds of its queues, each with its byte in the file.

`consumerOffset.json` says how far each group is in each queue (B-31), `delayOffset.json` how far
each delay level was delivered (B-94). An offset beyond a queue's end would skip messages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from pocketmq.broker.store.config import SCHEDULE_TOPIC
from pocketmq.broker.store.tools.stopped_store import Problem, StoppedStore
from pocketmq.broker.store.tools.verify_derived import count_live
from pocketmq.protocol.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from pocketmq.protocol.body import decode_json
from pocketmq.protocol.errors import BadRequestError

CONSUMER_FILE: Final = "consumerOffset.json"
DELAY_FILE: Final = "delayOffset.json"


class Committed(NamedTuple):
    """One committed offset, and where it stands."""

    group: str
    """Empty for a delay level."""
    topic: str
    queue_id: int
    offset: int
    path: str
    position: int
    """Byte in the file."""


class OutOfRange(NamedTuple):
    """What a check of committed offsets found."""

    problems: list[Problem]
    notes: list[str]


def committed_offsets(store: StoppedStore) -> Iterator[Committed]:
    """All of a store; none for a file that is missing or cannot be read, which `verify` reports."""
    path = os.path.join(store.root, "config", CONSUMER_FILE)
    data = store.disk.read_file(path) or b""
    for key, offsets in _consumer_table(data).items():
        topic, _, group = key.partition("@")
        for queue_id, offset in offsets.items():
            position = _place(data, f'"{key}"', queue_id)
            yield Committed(group, topic, queue_id, offset, path, position)
    path = os.path.join(store.root, "config", DELAY_FILE)
    data = store.disk.read_file(path) or b""
    for level, offset in _delay_table(data).items():
        position = _place(data, '"offsetTable"', level)
        yield Committed("", SCHEDULE_TOPIC, level - 1, offset, path, position)


def out_of_range(store: StoppedStore) -> OutOfRange:
    """Committed offsets that no consumer can have reached.

    One behind the end is a problem; after a kill only a note, because queues are completed then.
    One before the first message is a note: its group will not get what was deleted.
    """
    bounds = _bounds(store)
    topics = {topic for topic, _ in bounds}
    problems: list[Problem] = []
    notes: list[str] = []
    behind: dict[tuple[str, str], int] = {}
    deleted: dict[str, int] = {}
    for each in committed_offsets(store):
        whose = f"group {each.group}" if each.group else f"delay level {each.queue_id + 1}"
        where = f"{each.topic} queue {each.queue_id}"
        low, high = bounds.get((each.topic, each.queue_id), (0, 0))
        what = ""
        if each.offset < 0:
            what = f"{whose} is at {each.offset} in {where}; no offset is negative"
        # Offsets of a deleted topic stay in the file, and do no harm.
        elif each.offset > high and each.topic not in topics and each.group:
            deleted[each.topic] = deleted.get(each.topic, 0) + 1
        elif each.offset > high:
            what = f"{whose} is at {each.offset} in {where}, which ends at {high}"
        elif each.offset < low:
            name = each.group, each.topic
            behind[name] = behind.get(name, 0) + low - each.offset
        # After a kill the next start completes the queues from the log, so their ends may move up.
        if what and (store.is_clean or each.offset < 0):
            problems.append(Problem(each.path, each.position, what))
        elif what:
            notes.append(f"{what}; the broker did not stop cleanly")
    for (group, topic), count in behind.items():
        whose = f"group {group}" if group else "delayed delivery"
        notes.append(f"{whose} has not consumed {count} messages of {topic} that are deleted now")
    for topic, count in deleted.items():
        notes.append(f"{count} committed offsets of topic {topic}, which has no queue; deleted?")
    return OutOfRange(problems, notes)


def _bounds(store: StoppedStore) -> Mapping[tuple[str, int], tuple[int, int]]:
    log_min = store.log.files[0].start if store.log.files else 0
    return {
        (queue.topic, queue.queue_id): (queue.end - count_live(queue, log_min), queue.end)
        for queue in store.queues
    }


def _consumer_table(data: bytes) -> dict[str, dict[int, int]]:
    try:
        return decode_json(data, ConsumerOffsetTable).offset_table if data.strip() else {}
    except BadRequestError:
        return {}


def _delay_table(data: bytes) -> dict[int, int]:
    try:
        return decode_json(data, DelayOffsetTable).offset_table if data.strip() else {}
    except BadRequestError:
        return {}


def _place(data: bytes, key: str, number: int) -> int:
    """Byte of the value of `number` in the object behind `key`; 0 if it is written otherwise."""
    # The table itself was read as JSON; the place is only for people who look into the file.
    start = data.find(key.encode())
    if start < 0:
        return 0
    # The search ends with this object: others have the same number as a key.
    end = data.find(b"}", start)
    found = re.compile(rb'(?<![\d-])"?%d"?\s*:\s*(-?\d+)' % number).search(
        data, start + len(key.encode()), end if end > 0 else len(data)
    )
    return found.start(1) if found else 0
