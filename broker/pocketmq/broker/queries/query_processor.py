"""Finding messages: VIEW_MESSAGE_BY_ID (33) and QUERY_MESSAGE (12) (E-27)."""

from __future__ import annotations

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.store import MessageStore
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.headers.query import (
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    ViewMessageRequestHeader,
)

UNIQUE_KEY_LIMIT = 32
"""Most messages that a query by UNIQ_KEY returns."""
TAG_INDEX = "T"
"""`indexType` of a query by tag; any other is one by key (S-48)."""


class QueryProcessor:
    """Reads single messages from the store.

    Args:
        store: where they are.
        tags_are_indexed: messages may be asked for by tag, by profile.
    """

    def __init__(self, store: MessageStore, *, tags_are_indexed: bool) -> None:
        self._store = store
        self._tags_are_indexed = tags_are_indexed

    @handles(RequestCode.VIEW_MESSAGE_BY_ID)
    def view(self, _peer: Peer, request: Command) -> Reply:
        """The record at a commit-log offset."""
        offset = request.header(ViewMessageRequestHeader).offset
        record = self._store.lookup(offset)
        if record is None:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR, f"no message is stored at commit log offset {offset}"
            )
        return request.reply(body=record)

    @handles(RequestCode.QUERY_MESSAGE)
    def query(self, _peer: Peer, request: Command) -> Reply:
        """Messages of a topic with a key, oldest first; at most `maxNum` of the newest (S-48).

        In 5.5 also those with a tag. `lastKey` goes on where an answer ended; like RocketMQ's, an
        index of files does not look at it, only one in RocksDB.

        Raises:
            RequestRefusedError: SYSTEM_ERROR (1): `maxNum` is negative.
        """
        header = request.header(QueryMessageRequestHeader)
        limit = UNIQUE_KEY_LIMIT if header.unique_key_query else header.max_num
        if limit < 0:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR, f"maxNum must not be negative, but is {limit}"
            )
        by_tag = (
            self._tags_are_indexed
            and header.index_type == TAG_INDEX
            and not header.unique_key_query
        )
        found = self._store.query(
            header.topic,
            header.key,
            limit,
            header.begin_timestamp,
            header.end_timestamp,
            by_tag=by_tag,
        )
        answer = QueryMessageResponseHeader(
            index_last_update_timestamp=found.index_last_update_timestamp,
            index_last_update_phyoffset=found.index_last_update_physical_offset,
        )
        if not found.records:
            return request.reply(
                answer,
                code=ResponseCode.QUERY_NOT_FOUND,
                remark=f"no message of {header.topic} with {'tag' if by_tag else 'key'} "
                f"{header.key} in that time",
            )
        return request.reply(answer, found.records)
