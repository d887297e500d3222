"""Acks of popped messages: ACK_MESSAGE, BATCH_ACK_MESSAGE, CHANGE_MESSAGE_INVISIBLETIME."""

from __future__ import annotations

from collections.abc import Sequence

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.offsets.consumer_offsets import ConsumerOffsetManager
from pocketmq.broker.pop.checks import PopChecks
from pocketmq.broker.pop.merge import Held
from pocketmq.broker.pop.merge_service import MergeService
from pocketmq.broker.pop.orders import ILLEGAL, ConsumerOrders
from pocketmq.broker.pop.progress import PopProgress
from pocketmq.broker.pop.records import Ack, CheckPoint
from pocketmq.broker.pop.revive_log import ReviveLog
from pocketmq.broker.pop.waking import WakingPops
from pocketmq.broker.store import PutResult, PutStatus, StoredMessage
from pocketmq.operation.events.messages import MessageAcknowledged
from pocketmq.operation.events.sink import Place
from pocketmq.protocol.bodies.pop import BatchAck, BatchAckBody
from pocketmq.protocol.body import decode_request_body
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, error_reply, handles, handles_batch
from pocketmq.protocol.headers.pop import (
    AckMessageRequestHeader,
    ChangeInvisibleTimeRequestHeader,
    ChangeInvisibleTimeResponseHeader,
    PopMessageRequestHeader,
)
from pocketmq.protocol.messages.receipts import ORDERED_QUEUE, ReceiptHandle, marked_topic


class AckProcessor:
    """Stores acks and changes of the invisible time.

    All acks of one turn of the loop are one append to the log.

    Args:
        core: store and clock.
        checks: checks queues and offsets.
        revive_log: where acks go.
        offsets: committed offsets of groups that consume in order.
        progress: how many messages are in flight.
        orders: unacknowledged messages of queues that are consumed in order.
        waiting: pops that an ordered ack may wake.
        merges: check points that are only in memory.
    """

    def __init__(
        self,
        core: BrokerCore,
        checks: PopChecks,
        revive_log: ReviveLog,
        offsets: ConsumerOffsetManager,
        progress: PopProgress,
        orders: ConsumerOrders,
        waiting: WakingPops[PopMessageRequestHeader],
        merges: MergeService,
    ) -> None:
        self._merges = merges
        self._core = core
        self._store, self._reads = core.store, core.store.reads
        self._checks = checks
        self._revive_log = revive_log
        self._offsets = offsets
        self._progress = progress
        self._orders = orders
        self._waiting = waiting

    @handles_batch(RequestCode.ACK_MESSAGE)
    def ack(self, peers: Sequence[Peer], requests: Sequence[Command]) -> Sequence[Reply]:
        """Acknowledge a message; answered when the ack is as safe as the flush mode promises."""
        replies: list[Reply] = [None] * len(requests)
        messages: list[StoredMessage] = []
        waiting: list[tuple[Peer, Command]] = []
        for index, (peer, request) in enumerate(zip(peers, requests, strict=True)):
            try:
                message = self._ack(request)
            except Exception as exc:  # noqa: BLE001 - one bad ack, and the others go on
                replies[index] = error_reply(peer, request, exc)
                continue
            # Nothing to store: an ack of an ordered pop, or one for a check point in memory.
            if message is None:
                replies[index] = request.reply()
            else:
                messages.append(message)
                waiting.append((peer, request))
        self._answer_when_stored(messages, waiting)
        return replies

    @handles_batch(RequestCode.BATCH_ACK_MESSAGE)
    def batch_ack(self, peers: Sequence[Peer], requests: Sequence[Command]) -> Sequence[Reply]:
        """Several messages are consumed; a record for each queue of a request."""
        replies: list[Reply] = [None] * len(requests)
        messages: list[StoredMessage] = []
        waiting: list[tuple[Peer, Command]] = []
        for index, (peer, request) in enumerate(zip(peers, requests, strict=True)):
            try:
                # A small body can stand for many offsets, so its length is limited before it is
                # decoded.
                self._core.budget().check(
                    "body_bytes", len(request.body), "bytes of the request's body"
                )
                body = decode_request_body(request, BatchAckBody)
                if not body.acks:
                    raise RequestRefusedError(ResponseCode.NO_MESSAGE, "the batch holds no acks")
                # Entries without a valid offset are skipped (K-53).
                records = [m for ack in body.acks if (m := self._one_of_batch(ack)) is not None]
            except Exception as exc:  # noqa: BLE001 - one bad batch, and the others go on
                replies[index] = error_reply(peer, request, exc)
                continue
            if records:
                messages += records
                waiting.append((peer, request))
            else:
                replies[index] = request.reply()
        self._answer_when_stored(messages, waiting)
        return replies

    @handles(RequestCode.CHANGE_MESSAGE_INVISIBLETIME)
    def change_invisible_time(self, peer: Peer, request: Command) -> Reply:
        """A message is to be seen again at another time (K-55, K-56)."""
        header = request.header(ChangeInvisibleTimeRequestHeader)
        topic, queue_id, offset = header.topic, header.queue_id, header.offset
        try:
            self._checks.queue(topic, queue_id)
            self._checks.offset(topic, queue_id, offset, end_passes=False)
            handle = ReceiptHandle.parse(header.extra_info, offset)
            self._check_invisible(header.invisible_time)
        except Exception as exc:  # noqa: BLE001 - a client reads the header on every code (K-171)
            error = error_reply(peer, request, exc)
            assert isinstance(error, Command)
            return request.reply(
                ChangeInvisibleTimeResponseHeader(), code=error.code, remark=error.remark
            )
        now_ms = self._core.clock.time_ms()
        if handle.is_ordered:
            return self._change_ordered(request, header, handle, now_ms)
        if (offset, now_ms) == (handle.start_offset, handle.pop_time_ms):
            now_ms += 1  # or the ack of the old check point would count for the new one (K-74)
        group = header.consumer_group
        owner = (group, topic, queue_id, handle.broker_name)
        known = self._core.profile.broker.pops_can_be_suspended
        suspended = bool(header.suspend) if known else None
        point = CheckPoint.of_pop(
            owner, [offset], now_ms, header.invisible_time, suspended=suspended
        )
        queue = self._revive_queue(handle)
        if self._count_acks(topic, group):
            self._core.stats.note_check_points(topic, group)
        ack = _ack_of(handle, topic, group, queue_id, offset)
        # One append in this order: at any time one of the two records protects the message.
        messages = [
            self._revive_log.check_point(point, queue),
            self._revive_log.ack(ack, queue, handle.due_ms),  # refuses times that no pop had
        ]
        # The old check point is only in memory. Its ack is written, so write it too.
        held = self._merges.merge.take(ack.key(self._core.config.name))
        if held is not None:
            # In front, because acks that are read before their check point are ignored (K-82).
            messages = [*self._merges.records(held), *messages]
        answer = ChangeInvisibleTimeResponseHeader(
            pop_time=now_ms, invisible_time=header.invisible_time, revive_qid=handle.revive_queue_id
        )
        # Not stored: keep the old check point in memory, as the client tries again.
        if not self._answer_when_stored(messages, [(peer, request)], request.reply(answer), held):
            self._merges.merge.keep(held)
        return None

    # -- one ack --------------------------------------------------------------------------------

    def _ack(self, request: Command) -> StoredMessage | None:
        """What to store for an ack; None when it is done."""
        header = request.header(AckMessageRequestHeader)
        topic, queue_id, offset = header.topic, header.queue_id, header.offset
        # Do not ask for the check point: acks of pops before a restart count too (K-50).
        self._checks.queue(topic, queue_id)
        self._checks.offset(topic, queue_id, offset, end_passes=True)
        handle = ReceiptHandle.parse(header.extra_info, offset)
        group = header.consumer_group
        self._count_acks(topic, group)
        self._tell(topic, group, queue_id, [offset])
        if handle.is_ordered:
            self._ack_ordered((topic, group, queue_id), offset, handle.pop_time_ms)
            return None
        self._progress.returned((group, topic, queue_id), handle.pop_time_ms)
        ack = _ack_of(handle, topic, group, queue_id, offset)
        if self._taken_in_memory(ack):
            return None
        return self._revive_log.ack(ack, self._revive_queue(handle), handle.due_ms)

    def _one_of_batch(self, each: BatchAck) -> StoredMessage | None:
        """What to store for one entry of a batch (K-53)."""
        group = each.consumer_group
        topic = marked_topic(each.topic, group, each.retry)
        queue_id = each.queue_id
        self._checks.queue(topic, queue_id)
        low, high = self._reads.min_offset(topic, queue_id), self._reads.max_offset(topic, queue_id)
        # Check the bounds first: the list may be long, and rarely needs filtering.
        offsets = list(each.offsets())
        if offsets and not low <= offsets[0] <= offsets[-1] <= high:
            offsets = [offset for offset in offsets if low <= offset <= high]
        if not offsets:
            return None
        self._count_acks(topic, group, len(offsets))
        self._tell(topic, group, queue_id, offsets)
        # Acks of an ordered pop move the offset; there is no check point (K-114).
        if each.revive_queue_id == ORDERED_QUEUE:
            for offset in offsets:
                self._ack_ordered((topic, group, queue_id), offset, each.pop_time)
            return None
        self._progress.returned((group, topic, queue_id), each.pop_time, len(offsets))
        # A batch record carries a list instead of a single offset, as RocketMQ's `bAck` does.
        ack = Ack(
            offset=-1,
            offsets=offsets,
            broker_name=self._core.config.name,
            group=group,
            pop_time_ms=each.pop_time,
            queue_id=queue_id,
            start_offset=each.start_offset,
            topic=topic,
        )
        if self._taken_in_memory(ack):
            return None
        queue = each.revive_queue_id
        if not 0 <= queue < self._revive_log.queues:
            raise _bad_revive_queue(queue)
        return self._revive_log.ack(ack, queue, each.pop_time + each.invisible_time)

    def _count_acks(self, topic: str, group: str, count: int = 1) -> bool:
        """Count acks of a group, if there is such a group.

        A peer may make names up, and each that is counted takes some KB until it is deleted.
        """
        is_known = self._checks.knows(group)
        if is_known:
            self._core.stats.note_acks(topic, group, count)
        return is_known

    def _tell(self, topic: str, group: str, queue_id: int, offsets: Sequence[int]) -> None:
        events = self._core.events
        if not events.is_on:
            return
        for offset in offsets:
            if not events.wants(MessageAcknowledged, offset):
                place = Place(topic, queue_id, self._core.config.name, group)
                events.count(MessageAcknowledged, place)
                continue
            event = MessageAcknowledged(
                *events.stamp(),
                topic=topic,
                broker=self._core.config.name,
                queue=queue_id,
                offset=offset,
                group=group,
            )
            events.emit(event)

    def _taken_in_memory(self, ack: Ack) -> bool:
        """Whether the ack needs no record: its check point is only in memory (K-101)."""
        # The buffer is off by default, so the table is mostly empty (K-100).
        merge = self._merges.merge
        if not len(merge):
            return False
        key = ack.key(self._core.config.name)
        held = merge.acknowledge(key, ack.acknowledged, self._core.clock.time_ms())
        # All its messages are acknowledged: no record is needed, and the group's offset may move
        # (K-102).
        if held is not None and held.point.is_done:
            self._merges.follow(held.queue)
        return held is not None

    def _revive_queue(self, handle: ReceiptHandle) -> int:
        if not 0 <= handle.revive_queue_id < self._revive_log.queues:
            raise _bad_revive_queue(handle.revive_queue_id)
        return handle.revive_queue_id

    def _check_invisible(self, invisible_ms: int) -> None:
        # RocketMQ accepts longer times, and never revives the message (K-39).
        most_s = self._store.config.timer_max_delay_sec
        if invisible_ms > most_s * 1000:
            raise RequestRefusedError(
                ResponseCode.INVALID_PARAMETER,
                f"invisibleTime is {invisible_ms} ms, but may be at most {most_s} s "
                "(timerMaxDelaySec)",
            )

    # -- in order -------------------------------------------------------------------------------

    def _ack_ordered(self, key: tuple[str, str, int], offset: int, pop_time_ms: int) -> None:
        """Progress of a queue that is consumed in order is made here alone (K-113)."""
        topic, group, queue_id = key
        now_ms = self._core.clock.time_ms()
        committed = self._offsets.query(group, topic, queue_id)
        # A repeated ack must not move the group back (K-113).
        if committed is not None and offset < committed:
            return
        next_offset = self._orders.acknowledge(key, offset, pop_time_ms)
        if next_offset == ILLEGAL:
            raise RequestRefusedError(
                ResponseCode.MESSAGE_ILLEGAL,
                f"offset is illegal, key:{topic}@{group}@{queue_id}, old:{committed}, "
                f"commit:{offset}, next:{next_offset}",
            )
        # Until a pending reset is taken, acks must not move the offset that it set (B-59).
        if next_offset >= 0 and self._offsets.pending_reset(group, topic, queue_id) is None:
            self._offsets.commit(group, topic, queue_id, next_offset, now_ms)
        # A pop that waits for this queue may get its next messages now (K-113).
        if not self._orders.is_blocked(key, None, now_ms):
            self._waiting.wake(topic, group, queue_id)

    def _change_ordered(
        self,
        request: Command,
        header: ChangeInvisibleTimeRequestHeader,
        handle: ReceiptHandle,
        now_ms: int,
    ) -> Command:
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        committed = self._offsets.query(group, topic, queue_id)
        # Already committed: RocketMQ answers with an empty header and changes nothing (K-56).
        if committed is not None and header.offset < committed:
            return request.reply(ChangeInvisibleTimeResponseHeader())
        visible_ms = now_ms + header.invisible_time
        key = (topic, group, queue_id)
        self._orders.make_visible_at(key, header.offset, handle.pop_time_ms, visible_ms)
        return request.reply(
            ChangeInvisibleTimeResponseHeader(
                pop_time=handle.pop_time_ms,
                # The answer keeps the old pop time, which its acks name, so the time is counted
                # from there (K-56).
                invisible_time=visible_ms - handle.pop_time_ms,
                revive_qid=handle.revive_queue_id,
            )
        )

    # -- storing --------------------------------------------------------------------------------

    def _answer_when_stored(
        self,
        messages: Sequence[StoredMessage],
        waiting: Sequence[tuple[Peer, Command]],
        reply: Command | None = None,
        held: Held | None = None,
    ) -> bool:
        """Store what acks say, and answer once that is safe; whether it is stored.

        Args:
            messages: the records.
            waiting: whom to answer.
            reply: in place of a bare success.
            held: a check point that is among the records and was only in memory before.
        """
        if not messages:
            return True
        results = self._store.put_messages(messages)
        # One failure refuses the acks of the whole turn: repeating an ack does no harm.
        bad = next((r for r in results if r.status is not PutStatus.PUT_OK), None)
        if bad is not None:
            for peer, request in waiting:
                peer.reply(request, _not_stored(request, bad))
            return False

        def flushed(status: PutStatus) -> None:
            # Acks come by hundreds, so each connection gets all its answers at once.
            shares: dict[Peer, tuple[list[Command], list[Reply]]] = {}
            for peer, request in waiting:
                if status is not PutStatus.PUT_OK:
                    answer = _not_stored(request, PutResult(status))
                else:
                    answer = request.reply() if reply is None else reply
                requests, replies = shares.setdefault(peer, ([], []))
                requests.append(request)
                replies.append(answer)
            for peer, (requests, replies) in shares.items():
                peer.reply_all(requests, replies)

        # When the last record is safe, so are all others.
        end = results[-1].physical_offset + results[-1].size
        if held is not None:  # the group's offset follows, which slaves copy
            self._merges.when_safe([held], end)
        self._store.when_flushed(end, flushed)
        return True


def _ack_of(handle: ReceiptHandle, topic: str, group: str, queue_id: int, offset: int) -> Ack:
    return Ack(
        offset=offset,
        broker_name=handle.broker_name,
        group=group,
        pop_time_ms=handle.pop_time_ms,
        queue_id=queue_id,
        start_offset=handle.start_offset,
        topic=topic,
    )


def _not_stored(request: Command, result: PutResult) -> Command:
    return request.reply(
        code=ResponseCode.SYSTEM_ERROR,
        remark=f"what the ack says was not stored: {result.status.name}; ack again",
    )


def _bad_revive_queue(queue_id: int) -> RequestRefusedError:
    return RequestRefusedError(
        ResponseCode.MESSAGE_ILLEGAL,
        f"the receipt handle names revive queue {queue_id}, which this broker does not have; hand "
        "back the POP_CK of the message as it is",
    )
