"""What a pair has left in both logs, record by record: also in topics that no client may pull.

Half, delayed and timer messages lie in topics of the broker's own, with what the broker adds to
them. Records are found by the product's reader of stores, and their fields are read by hand.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parity.compare import Difference, differences, record_tree
from parity.rules import Pair, normalised
from parity.wire import Record, record_at
from pocketmq.broker.store.tools.running_store import RunningStore
from pocketmq.protocol.stored.record_check import RecordKind, check_record

SHARED = frozenset({"RMQ_SYS_TRANS_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"})
"""Topics of brokers in which messages of clients wait; their other topics are not compared."""

_SUFFIX = re.compile(r"[bgckptx]\d-([0-9a-f]+z)")


def records_of(store: Path) -> dict[str, list[Record]]:
    """Suffix of a pair -> its records in the log of a running broker, in their order.

    Without the copies of half messages that a check writes: how many there are is a matter of each
    broker's rounds. (In RocketMQ's the flag and the deliveries are 0,
    `TransactionalMessageBridge#renewHalfMessageInner`.)
    """
    found: dict[str, list[Record]] = defaultdict(list)
    with RunningStore(str(store)) as opened:
        for record in _walk(opened):
            is_copy = "TRANSACTION_CHECK_TIMES" in record.properties
            suffix = _SUFFIX.search(f"{record.topic} {record.properties} {record.body!r}")
            is_of_clients = record.topic in SHARED or _SUFFIX.search(record.topic)
            if suffix and is_of_clients and not is_copy:
                found[suffix[1]].append(record)
    return found


def _walk(store: RunningStore) -> Iterator[Record]:
    offset, end = store.log_start, store.known_end()
    while offset < end and (file := store.log.find(offset)) is not None:
        checked = check_record(file.view(), offset - file.start)
        if checked.kind is RecordKind.RECORD:
            yield record_at(file.view(), offset - file.start)
        offset += checked.size


def log_differences(ours: list[Record], theirs: list[Record], pair: Pair) -> list[Difference]:
    """Where the records of a pair differ, by topic and field."""
    left, right = (_by_topic(records, pair) for records in (ours, theirs))
    found = []
    for topic in sorted(set(left) | set(right)):
        a, b = ({"records": one.get(topic, [])} for one in (left, right))
        found += differences(f"LOG {topic}", 0, a, b, pair)
    return found


def _by_topic(records: list[Record], pair: Pair) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        tree = record_tree(record)
        if record.topic in SHARED:
            tree["sharedQueueOffset"] = tree.pop("queue_offset")
        if normalised(record.body.decode("latin-1"), pair, ("body",)) != tree["body"]:
            tree["crc"] = "<of what differs>"  # the body tells times of the broker
        found[record.topic.replace(f"-{pair.suffix}", "")].append(tree)
    for trees in found.values():  # what was delayed arrives in the order of two clocks
        trees.sort(key=lambda each: json.dumps(normalised(each, pair, ("[]",)), sort_keys=True))
    return found
