"""Stores batch requests, and answers each with the ids of all its messages (B-19)."""

from __future__ import annotations

from pocketmq.broker.sending.incoming_batches import IncomingBatches
from pocketmq.broker.sending.not_stored import not_stored
from pocketmq.broker.sending.send_replies import SendReplies
from pocketmq.broker.sending.sent_properties import type_of_text
from pocketmq.broker.stats.broker_stats import BrokerStats
from pocketmq.broker.stats.traffic import size_class
from pocketmq.broker.store import MessageStore, PutResult, PutStatus, QueueBatch
from pocketmq.broker.store.stored_message import BatchResult
from pocketmq.broker.storing.safe_puts import NOT_SAFE, SafePuts
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply
from pocketmq.protocol.headers.send import (
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
)
from pocketmq.protocol.messages.ids import offset_msg_ids
from pocketmq.protocol.messages.properties import UNIQ_KEY, decode_properties
from pocketmq.runtime.clock import Clock


class BatchSends:
    """Stores all messages of a batch request, or none.

    Args:
        store: where they go.
        puts: calls back when they are safe.
        incoming: makes the batch that is stored for a request.
        replies: what all answers have in common.
        stats: counts.
        clock: for the counts.
    """

    def __init__(
        self,
        store: MessageStore,
        puts: SafePuts,
        incoming: IncomingBatches,
        replies: SendReplies,
        stats: BrokerStats,
        clock: Clock,
    ) -> None:
        self._store = store
        self._puts = puts
        self._incoming = incoming
        self._replies = replies
        self._stats = stats
        self._clock = clock

    def put(
        self,
        peer: Peer,
        request: Command,
        header: SendMessageRequestHeader | SendMessageRequestHeaderV2,
        born_host: bytes,
        now_ms: int,
    ) -> Reply:
        """Store a batch; its answer, or None when that comes later.

        Args:
            peer: who sent it.
            request: whose body holds the messages.
            header: of the request.
            born_host: packed address of the peer.
            now_ms: the time, in epoch ms.

        Raises:
            RequestRefusedError, BatchError: none of it must be stored.
        """
        began_at = self._clock.monotonic()
        batch = self._incoming.batch(request.body_view, header, born_host, now_ms)
        result = self._store.put_batch(batch)
        count = len(batch.bodies)
        # Nothing was stored, so the queue offsets are free for others (S-14).
        if result.status is not PutStatus.PUT_OK:
            self._stats.puts_failed += count
            return not_stored(request, result.status, self._store, self._replies.of_every_answer)
        done_at = self._clock.monotonic()
        # Sizes are counted per message: a large batch is no large message.
        size_bytes = result.end - result.physical_offsets[0]
        place, _, _ = size_class(size_bytes // count)
        kind, took_s = type_of_text(header.properties), done_at - began_at
        self._stats.note_put(batch.topic, count, size_bytes, done_at, took_s, kind, place)
        # Of the request, not of a message in it: it goes back as the transaction id (B-19).
        uniq_key = decode_properties(header.properties or "").get(UNIQ_KEY)
        if not self._puts.must_wait:
            return self._reply(request, batch, result, PutStatus.PUT_OK, uniq_key)

        def answer(status: PutStatus) -> None:
            peer.reply(request, self._reply(request, batch, result, status, uniq_key))

        # The last record ends the batch: when it is safe, all of them are.
        begin = result.physical_offsets[-1]
        last = PutResult(PutStatus.PUT_OK, 0, begin, result.end - begin)
        self._puts.when_safe([last], answer, flushed=batch.wait_store_ok)
        return None

    def _reply(
        self,
        request: Command,
        batch: QueueBatch,
        result: BatchResult,
        status: PutStatus,
        uniq_key: str | None,
    ) -> Command | bytes:
        """The answer, also that the batch is stored, but not as safe as promised (10, 11, 12)."""
        replies, offsets = self._replies, result.physical_offsets
        # A sender that does not wait gets SUCCESS, whatever became of the flush (B-144).
        if status is PutStatus.PUT_OK or not batch.wait_store_ok:
            return replies.to_batch(request, offsets, batch.queue_id, result.queue_offset, uniq_key)
        code, remark = NOT_SAFE[status]
        ids = offset_msg_ids(replies.store_host, offsets)
        header = replies.header(ids, batch.queue_id, result.queue_offset, uniq_key)
        return request.reply(header, code=code, remark=remark)
