"""Finds messages by key (S-48)."""

from __future__ import annotations

from operator import itemgetter
from typing import NamedTuple

import msgspec
import structlog

from pocketmq.broker.store.index.index_service import IndexService
from pocketmq.broker.store.log.commit_log import CommitLog
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.stored.record_check import check_record
from pocketmq.runtime.errors import DiskError

log = structlog.get_logger()

MOST_CHECKED_BYTES = 32 * 1024 * 1024
"""Of records that one query reads; each is checked whole, which takes about 1 ms a MiB."""


class MessageQuery(NamedTuple):
    """Which messages are looked for."""

    topic: str
    key: str
    """Their unique key, one of their keys, or with `by_tag` their tag."""
    max_count: int
    begin_ms: int
    """Stored then or later, epoch ms,"""
    end_ms: int
    """and then or earlier."""
    by_tag: bool
    """The index must have tags, else none is found."""


class QueryResult(msgspec.Struct, gc=False):
    """Messages with a key, oldest first."""

    records: list[memoryview] = []
    """One whole record each; views of the log."""
    index_last_update_timestamp: int = 0
    """Store time of the last message in the index; 0 if nothing was found."""
    index_last_update_physical_offset: int = 0
    """Log offset of the last message in the index; 0 if nothing was found."""


def query_messages(index: IndexService, commit_log: CommitLog, wanted: MessageQuery) -> QueryResult:
    """The messages of a topic with a unique key, key or tag, oldest first.

    The index knows hashes only, so each record found is asked for its real keys. As in RocketMQ a
    message is given as often as it was indexed under the key: twice if its KEYS name it twice, and
    of `max_count` the newest count. A query ends when it has read `MOST_CHECKED_BYTES`; one that
    finds nothing tells nothing of the index (S-48).
    """
    topic, key, max_count, begin_ms, end_ms, by_tag = wanted
    if max_count <= 0:
        return QueryResult()
    times_named = _is_tagged if by_tag else _times_named
    # Index what still waits in memory, so that the newest messages are found.
    _finish(index)
    found: list[tuple[int, memoryview]] = []
    left: dict[int, int] = {}
    """How often each message read so far may be given still."""
    checked_bytes = 0
    for physical_offset in index.find(topic, key, begin_ms, end_ms, by_tag=by_tag):
        again = left.get(physical_offset)
        if again == 0:  # indexed once more by a recovery, or under another key of the same hash
            continue
        record = commit_log.record_at(physical_offset)
        if again is None:
            checked_bytes += 0 if record is None else len(record)
            # Several keys may share a hash, so compare the real key (S-48).
            message = None if record is None else check_record(record, 0).message
            named = 0 if message is None or message.topic != topic else times_named(message, key)
            again = left[physical_offset] = named
        if again and record is not None:
            left[physical_offset] = again - 1
            found.append((physical_offset, record))
            # The newest messages come first, and are the ones to keep.
            if len(found) >= max_count:
                break
        # Many messages may share a hash, so limit what one query reads.
        if checked_bytes > MOST_CHECKED_BYTES:
            break
    # RocketMQ leaves both numbers at 0 when nothing is found (S-48).
    if not found:
        return QueryResult()
    last = index.files[-1]
    return QueryResult(
        [record for _, record in sorted(found, key=itemgetter(0))], last.end_ms, last.end_physical
    )


def _times_named(message: MessageExt, key: str) -> int:
    """How often a message is indexed under a key (S-46)."""
    keys = message.properties.get(names.KEYS, "").split(" ")
    return keys.count(key) + (message.uniq_key == key)


def _is_tagged(message: MessageExt, tag: str) -> int:
    """The same of a tag: once, or not at all."""
    return int(message.tags == tag)


def _finish(index: IndexService) -> None:
    """Have all in the index that is dispatched, if the disk has room for it."""
    try:
        index.flush()
    except DiskError as exc:
        log.warning("index.write_failed", error=str(exc), effect="the newest are not found")
