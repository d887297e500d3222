"""Finding messages by id and key (E-27)."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.header import Header
from pocketmq.protocol.scalars import Int32, Int64


class ViewMessageRequestHeader(Header, kw_only=True):
    """VIEW_MESSAGE_BY_ID (33): the record at a commit-log offset."""

    CODE: ClassVar[int] = RequestCode.VIEW_MESSAGE_BY_ID

    offset: Int64
    topic: str | None = None


class QueryMessageResponseHeader(Header, kw_only=True):
    """How far the index had come."""

    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


class QueryMessageRequestHeader(
    Header,
    kw_only=True,
    rename={
        "max_num": "maxNum",
        "begin_timestamp": "beginTimestamp",
        "end_timestamp": "endTimestamp",
        "unique_key_query": "_UNIQUE_KEY_QUERY",
        "index_type": "indexType",
        "last_key": "lastKey",
    },
):
    """QUERY_MESSAGE (12) by KEYS or UNIQ_KEY, in 5.5 also by TAGS (S-48)."""

    CODE: ClassVar[int] = RequestCode.QUERY_MESSAGE
    RESPONSE = QueryMessageResponseHeader

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    unique_key_query: bool | None = None
    index_type: str | None = None
    """`T`: `key` is a tag. RocketMQ writes `K` otherwise."""
    last_key: str | None = None
    """Where an index in RocksDB goes on; one of files does not look at it."""
