"""Requests of tools to tidy up: 329, and 306, 316 and 200056, which find nothing to do here."""

from __future__ import annotations

from pocketmq.broker.store import MessageStore
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles


class UpkeepProcessor:
    """Answers them, each with SUCCESS (0) as RocketMQ does (M-40).

    Args:
        store: deletes expired files of the log.
    """

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    @handles(RequestCode.DELETE_EXPIRED_COMMITLOG)
    def delete_expired(self, _peer: Peer, request: Command) -> Reply:
        """Delete expired files of the log in the next rounds of cleaning, whatever the hour."""
        self._store.delete_expired_files()
        return request.reply()

    @handles(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
    def clean_queues(self, _peer: Peer, request: Command) -> Reply:
        """Queues whose messages are gone: each round of cleaning cuts them (S-73)."""
        return request.reply()

    @handles(RequestCode.CLEAN_UNUSED_TOPIC)
    def clean_topics(self, _peer: Peer, request: Command) -> Reply:
        """Queues without a topic: they went with it (B-16)."""
        return request.reply()

    @handles(RequestCode.POP_ROLLBACK)
    def roll_pops_back(self, _peer: Peer, request: Command) -> Reply:
        """Check points of pops out of RocksDB: they are in the log always."""
        return request.reply()
