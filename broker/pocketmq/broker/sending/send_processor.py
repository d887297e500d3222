"""Sends: the broker's most frequent requests.

SEND_MESSAGE (10), SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320).

All sends of one turn of the loop are checked, appended to the store in one call and answered from
templates. Four sends of one turn:

    from   send               stored             answer
    A      orders, queue 0    offset 7           SUCCESS (0), at once; under SYNC_FLUSH when it
    B      orders, queue 1    offset 4           is on the disk
    B      orders, queue 9    no such queue      INVALID_PARAMETER (29); the others go on
    A      orders, queue 0    offset 8           SUCCESS (0)

They cost one write to the log, and one write to each of the two connections. `incoming.py` says
what is stored for each.
"""

from __future__ import annotations

from collections.abc import Sequence

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.overload.overload import Overload, Work
from pocketmq.broker.sending.batch_sends import BatchSends
from pocketmq.broker.sending.incoming import IncomingMessages, packed_address
from pocketmq.broker.sending.not_stored import not_stored
from pocketmq.broker.sending.send_replies import SendReplies
from pocketmq.broker.stats.broker_stats import BrokerStats
from pocketmq.broker.stats.traffic import size_class
from pocketmq.broker.store import MessageStore, PutResult, PutStatus, StoredMessage
from pocketmq.broker.storing.safe_puts import NOT_SAFE, SafePuts
from pocketmq.broker.subject import Service
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, error_reply, handles_batch
from pocketmq.protocol.headers.send import (
    SendBatchMessageRequestHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from pocketmq.protocol.messages.ids import offset_msg_id
from pocketmq.runtime.clock import Clock

_HEADERS: dict[int, type[SendMessageRequestHeader] | type[SendMessageRequestHeaderV2]] = {
    int(RequestCode.SEND_MESSAGE): SendMessageRequestHeader,
    int(RequestCode.SEND_MESSAGE_V2): SendMessageRequestHeaderV2,
    int(RequestCode.SEND_BATCH_MESSAGE): SendBatchMessageRequestHeader,
}

_OK = PutStatus.PUT_OK


class SendProcessor(Service):
    """Stores messages; refuses them before `start` and after `leave`.

    Args:
        store: where they go.
        puts: calls back when they are safe.
        incoming: makes the message that is stored for a request.
        batches: stores batch requests.
        replies: the answers' templates.
        stats: counts.
        overload: refuses what has waited too long.
        clock: the time of each batch.
    """

    def __init__(
        self,
        store: MessageStore,
        puts: SafePuts,
        incoming: IncomingMessages,
        batches: BatchSends,
        replies: SendReplies,
        stats: BrokerStats,
        overload: Overload,
        clock: Clock,
    ) -> None:
        self._store = store
        self._puts = puts
        self._incoming = incoming
        self._batches = batches
        self._replies = replies
        self._stats = stats
        self._size_class = size_class(0)
        """Of the last messages: most are of one."""
        self._overload = overload
        self._clock = clock
        self._is_open = False

    async def start(self) -> None:
        """Take messages from now on."""
        self._is_open = True

    async def leave(self) -> None:
        """Take no more messages."""
        self._is_open = False

    @handles_batch(
        RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE
    )
    def send(self, peers: Sequence[Peer], requests: Sequence[Command]) -> Sequence[Reply]:
        """Store messages and answer them."""
        # What holds for the whole turn comes first: a refusal costs no decoding then, and raised
        # from here it answers every request of the turn alike.
        self._overload.check(Work.SEND)
        incoming, templates = self._incoming, self._replies
        if not self._is_open:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR, "the broker is starting or stopping; try again"
            )
        if self._puts.refuses_sends:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_BUSY,
                "[REJECTREQUEST]this broker is a slave; send to its master",
            )
        if self._overload.pool_bytes is not None:
            self._overload.check_pool(self._store.unflushed_bytes)
        # The dispatcher gathers requests of one code only.
        header_class = _HEADERS[requests[0].code]
        now_ms, now = self._clock.time_ms(), self._clock.monotonic()
        to_message = incoming.message
        replies: list[Reply] = [None] * len(requests)
        messages: list[StoredMessage] = []
        slots: list[tuple[int, int]] = []
        last_peer: Peer | None = None
        # A read often brings many requests of one peer, whose address is packed once.
        for index, (peer, request) in enumerate(zip(peers, requests, strict=True)):
            if peer is not last_peer:
                last_peer = peer
                born_host = packed_address(peer.address)
            try:
                header = request.header(header_class)
                if header.batch:
                    # Sends that came earlier have to be stored first.
                    self._put(peers, requests, messages, slots, replies, templates, now)
                    messages, slots = [], []
                    replies[index] = self._batches.put(peer, request, header, born_host, now_ms)
                    continue
                message, queue_id = to_message(request, header, born_host, now_ms, now)
            except Exception as exc:  # noqa: BLE001 - one bad message, and the others go on
                if isinstance(exc, RequestRefusedError):
                    exc.header = templates.of_every_answer
                replies[index] = error_reply(peer, request, exc)
                continue
            messages.append(message)
            slots.append((index, queue_id))
        self._put(peers, requests, messages, slots, replies, templates, now)
        return replies

    def _put(
        self,
        peers: Sequence[Peer],
        requests: Sequence[Command],
        messages: list[StoredMessage],
        slots: list[tuple[int, int]],
        replies: list[Reply],
        templates: SendReplies,
        now: float,
    ) -> None:
        """Store messages in one append, and answer each in its place or later."""
        if not messages:
            return
        results = self._store.put_messages(messages)
        done_at = self._clock.monotonic()
        self._overload.note_append(done_at - now)
        # Once for all of them, and after the put: a topic that was made for one is not saved yet.
        must_wait = self._puts.must_wait
        encoding = requests[0].encoding
        build = templates.builder(encoding)
        waiting: list[_Stored] = []
        topic, kind, took_s = messages[0].topic, messages[0].message_type, done_at - now
        stored = size_bytes = 0
        place, floor, ceiling = self._size_class
        for (index, queue_id), message, result in zip(slots, messages, results, strict=True):
            request = requests[index]
            if result.status is not _OK:
                replies[index] = not_stored(
                    request, result.status, self._store, templates.of_every_answer
                )
                self._stats.puts_failed += 1
                continue
            size = result.size
            # Runs of one topic, type and class of size are counted as one.
            if (
                not floor < size <= ceiling
                or message.message_type != kind
                or message.topic != topic
            ):
                if stored:
                    self._stats.note_put(topic, stored, size_bytes, done_at, took_s, kind, place)
                topic, kind, stored, size_bytes = message.topic, message.message_type, 0, 0
                self._size_class = place, floor, ceiling = size_class(size)
            stored += 1
            size_bytes += size
            if message.delay_level:
                self._stats.note_delayed(message.queue_id, result.size)
            # Clients in other languages may share a turn; most turns have one encoding.
            if request.encoding is not encoding:
                encoding = request.encoding
                build = templates.builder(encoding)
            if must_wait and (message.wait_store_ok or not self._puts.topics_are_saved):
                waiting.append(_Stored(peers[index], request, queue_id, message, result, templates))
            # Templates have no place for a recall handle, which few answers carry.
            elif message.recall_handle is not None:
                stored_one = _Stored(peers[index], request, queue_id, message, result, templates)
                replies[index] = stored_one.reply(_OK)
            else:
                replies[index] = build(
                    request.opaque,
                    result.physical_offset,
                    queue_id,
                    result.queue_offset,
                    message.uniq_key or "",
                )
        if stored:
            self._stats.note_put(topic, stored, size_bytes, done_at, took_s, kind, place)
        if waiting:
            self._answer_when_safe(waiting)

    # -- waiting for the disk -------------------------------------------------------------------

    def _answer_when_safe(self, waiting: Sequence[_Stored]) -> None:
        """Answer once the messages are flushed (B-144) and a new topic is saved."""

        def answer(status: PutStatus) -> None:
            shares: dict[Peer, tuple[list[Command], list[Reply]]] = {}
            for each in waiting:
                requests, replies = shares.setdefault(each.peer, ([], []))
                requests.append(each.request)
                replies.append(each.reply(status))
            for peer, (requests, replies) in shares.items():
                peer.reply_all(requests, replies)

        # The log is flushed and copied in order: when the last of them is safe, all are. One that
        # does not wait for the disk (WAIT false) still waits for its topic's file.
        self._puts.when_safe(
            [waiting[-1].result],
            answer,
            flushed=any(each.message.wait_store_ok for each in waiting),
        )


class _Stored:
    """A stored message whose answer waits."""

    __slots__ = (
        "_queue_id",
        "_templates",
        "message",
        "peer",
        "request",
        "result",
    )

    def __init__(
        self,
        peer: Peer,
        request: Command,
        queue_id: int,
        message: StoredMessage,
        result: PutResult,
        templates: SendReplies,
    ) -> None:
        self.peer = peer
        self.request = request
        self.message = message
        self.result = result
        self._queue_id = queue_id
        self._templates = templates

    def reply(self, status: PutStatus) -> Command | bytes:
        """The answer, also that the message is stored, but not as safe as promised (10, 11, 12)."""
        result, templates, request = self.result, self._templates, self.request
        code: ResponseCode = ResponseCode.SUCCESS
        remark: str | None = None
        if status is not _OK and self.message.wait_store_ok:
            code, remark = NOT_SAFE[status]
        elif self.message.recall_handle is None:
            # Only answers without a recall handle have a template; the others are rare.
            return templates.builder(request.encoding)(
                request.opaque,
                result.physical_offset,
                self._queue_id,
                result.queue_offset,
                self.message.uniq_key or "",
            )
        header = SendMessageResponseHeader(
            msg_id=offset_msg_id(templates.store_host, result.physical_offset),
            queue_id=self._queue_id,
            queue_offset=result.queue_offset,
            transaction_id=templates.key(self.message.uniq_key),
            region=templates.region,
            trace=templates.trace_on,
            recall_handle=self.message.recall_handle,
        )
        return request.reply(header, code=code, remark=remark)
