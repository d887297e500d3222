"""Finds messages by key (S-48)."""

from __future__ import annotations

import msgspec
import structlog

from pocketmq.broker.store.commit_log import CommitLog
from pocketmq.broker.store.index_service import IndexService
from pocketmq.protocol.record_check import check_record
from pocketmq.runtime.errors import DiskError

log = structlog.get_logger()

MOST_CHECKED_BYTES = 32 * 1024 * 1024
"""Of records that one query reads; each is checked whole, which takes about 1 ms a MiB."""


class QueryResult(msgspec.Struct, gc=False):
    """Messages with a key, newest first."""

    records: list[memoryview] = []
    """One whole record each; views of the log."""
    index_last_update_timestamp: int = 0
    """Store time of the last message in the index."""
    index_last_update_physical_offset: int = 0
    """Log offset of the last message in the index."""


def query_messages(
    index: IndexService,
    commit_log: CommitLog,
    topic: str,
    key: str,
    max_count: int,
    begin_ms: int,
    end_ms: int,
) -> QueryResult:
    """The messages of `topic` whose unique key or one of whose keys is `key`.

    The index knows hashes only, so each record found is asked for its real keys. One message is
    given once, though it may be found under two keys of the same hash. A query ends when it has
    read `MOST_CHECKED_BYTES`.
    """
    _finish(index)
    result = QueryResult()
    if index.files:
        last = index.files[-1]
        result.index_last_update_timestamp = last.end_ms
        result.index_last_update_physical_offset = last.end_physical
    seen: set[int] = set()
    checked_bytes = 0
    for physical_offset in index.find(topic, key, begin_ms, end_ms):
        if physical_offset in seen:
            continue
        seen.add(physical_offset)
        record = commit_log.record_at(physical_offset)
        checked_bytes += 0 if record is None else len(record)
        message = None if record is None else check_record(record, 0).message
        if record is None or message is None or message.topic != topic:
            continue
        if key == message.uniq_key or key in message.key_list:
            result.records.append(record)
            if len(result.records) >= max_count:
                break
        if checked_bytes > MOST_CHECKED_BYTES:
            break
    return result


def _finish(index: IndexService) -> None:
    """Have all in the index that is dispatched, if the disk has room for it."""
    try:
        index.flush()
    except DiskError as exc:
        log.warning("index.write_failed", error=str(exc), effect="the newest are not found")
