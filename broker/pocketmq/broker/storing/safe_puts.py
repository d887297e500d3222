"""Store a message and answer when it is safe: for every message that the broker acknowledges.

Safe means: flushed as far as the flush mode promises (B-144), on as many replicas as a SYNC_MASTER
promises (B-140), and the table of topics, which its topic may have been added to, saved. Nothing is
acknowledged and nothing noted before that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.replication.replicas import Replicas
from pocketmq.broker.stats.broker_stats import NOT_SENT, BrokerStats
from pocketmq.broker.stats.traffic import size_class
from pocketmq.broker.store import (
    FlushDiskType,
    MessageStore,
    PutResult,
    PutStatus,
    StoredMessage,
)
from pocketmq.broker.storing.rewrites import Rewrites
from pocketmq.broker.tables.saved_tables import SavedTable
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply
from pocketmq.runtime.clock import Clock

Safe: TypeAlias = Callable[[PutStatus], None]
"""Called with PUT_OK, or with why a stored message is not known to be safe: FLUSH_DISK_TIMEOUT,
FLUSH_SLAVE_TIMEOUT or SLAVE_NOT_AVAILABLE."""

NOT_SAFE: dict[PutStatus, tuple[ResponseCode, str]] = {
    PutStatus.FLUSH_DISK_TIMEOUT: (
        ResponseCode.FLUSH_DISK_TIMEOUT,
        "stored, but not flushed in time",
    ),
    PutStatus.FLUSH_SLAVE_TIMEOUT: (
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        "stored, but not copied to a slave in time",
    ),
    PutStatus.SLAVE_NOT_AVAILABLE: (
        ResponseCode.SLAVE_NOT_AVAILABLE,
        "stored, but no slave is there to copy it",
    ),
}
"""Answers to messages that are stored, but not as safe as promised; clients count them as sent."""


class SafePuts:
    """Puts messages, and calls back when they are safe.

    Args:
        store: where they go.
        topics_file: a message is not safe before its topic is.
        replicas: how many slaves have a message.
        rewrites: change messages that are delayed or part of a transaction.
        stats: counts.
        clock: for both.
    """

    def __init__(
        self,
        store: MessageStore,
        topics_file: SavedTable,
        replicas: Replicas,
        rewrites: Rewrites,
        stats: BrokerStats,
        clock: Clock,
    ) -> None:
        self._store = store
        self._sync_flush = store.config.flush_disk_type is FlushDiskType.SYNC_FLUSH
        self._topics_file = topics_file
        self._replicas = replicas
        self._role = replicas.role
        self._rewrites = rewrites
        self._stats = stats
        self._clock = clock

    def put(
        self,
        message: StoredMessage,
        properties: dict[str, str] | None = None,
        *,
        message_type: int = NOT_SENT,
    ) -> PutResult:
        """Store one message of the broker's own; `when_safe` or `answer_when_safe` come next.

        Args:
            message: with the topic that it is for.
            properties: of the message, decoded, when they may ask for a delay or the like; None
                stores it as it is.
            message_type: of a message that a client sent, the number of its `MessageType`.

        Raises:
            RequestRefusedError: a rewrite does not want it stored.
        """
        self.rewrite(message, properties)
        [result] = self.put_all([message], message_type)
        # A delayed message is counted by its level, which is the queue that it waits in (B-91).
        if message.delay_level and result.status is PutStatus.PUT_OK:
            self._stats.note_delayed(message.queue_id, result.size)
        return result

    def rewrite(self, message: StoredMessage, properties: dict[str, str] | None) -> None:
        """What `put` does before it stores a message; `put_all` leaves it to the caller.

        Raises:
            RequestRefusedError: a rewrite does not want it stored.
        """
        if properties is not None:
            self._rewrites.apply(message, properties, self._clock.time_ms())

    def put_all(
        self, messages: Sequence[StoredMessage], message_type: int = NOT_SENT
    ) -> list[PutResult]:
        """Store messages of the broker's own in one append; a result for each, in their order.

        Args:
            messages: with the topics that they are for.
            message_type: of all of them; see `put`.
        """
        began_at = self._clock.monotonic()
        results = self._store.put_messages(messages)
        done_at = self._clock.monotonic()
        stored: dict[tuple[str, int], list[int]] = {}
        for message, result in zip(messages, results, strict=True):
            if result.status is PutStatus.PUT_OK:
                # The broker's own messages belong to no size class.
                place = 0 if message_type == NOT_SENT else size_class(result.size)[0]
                stored.setdefault((message.topic, place), []).append(result.size)
            else:
                self._stats.puts_failed += 1
        took_s = done_at - began_at
        for (topic, place), sizes in stored.items():
            counts = len(sizes), sum(sizes)
            self._stats.note_put(topic, *counts, done_at, took_s, message_type, place)
        return results

    def answer_when_safe(
        self, peer: Peer, request: Command, result: PutResult, reply: Command | None = None
    ) -> Reply:
        """What a processor returns after `put`: the answer, or None when it comes later.

        Args:
            peer: who asked.
            request: what for.
            result: of the put.
            reply: the answer when the message is safe; None is a bare success.

        Raises:
            RequestRefusedError: SYSTEM_ERROR (1): it was not stored.
        """
        # Nothing was stored: clients try again after this code (B-85).
        if result.status is not PutStatus.PUT_OK:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR, f"the message was not stored: {result.status.name}"
            )
        answer = request.reply() if reply is None else reply
        # With ASYNC_FLUSH and no replicas there is nothing to wait for (B-145).
        if not self.must_wait:
            return answer
        self.answer_later([(peer, request, answer)], result)
        return None

    def answer_later(
        self, waiting: Sequence[tuple[Peer, Command, Command]], last: PutResult
    ) -> None:
        """Answer some requests when what was stored for them is safe.

        Args:
            waiting: who asked, what for, and the answer when all is well.
            last: of the puts, the last in the log.
        """

        def safe(status: PutStatus) -> None:
            for peer, request, answer in waiting:
                # Stored but not safe is an error here, whereas a sender would get a code of its own
                # (B-85).
                if status is PutStatus.PUT_OK:
                    peer.reply(request, answer)
                else:
                    remark = NOT_SAFE[status][1]
                    failed = request.reply(code=ResponseCode.SYSTEM_ERROR, remark=remark)
                    peer.reply(request, failed)

        self.when_safe([last], safe)

    @property
    def refuses_sends(self) -> bool:
        """Whether producers are to be told SYSTEM_BUSY (2), because this broker is a slave (H-3).

        Whatever else is put is refused by the store.
        """
        return not self._role.leads and self._replicas.slave_rejects_sends

    @property
    def is_slave(self) -> bool:
        """Whether this broker is a slave: it decides nothing about what is in its log."""
        return not self._role.leads

    @property
    def log_end(self) -> int:
        """Where the log ends now; for `when_kept`."""
        return self._store.commit_log.max_offset

    @property
    def must_wait(self) -> bool:
        """Whether `when_safe` may call back later: for the log's flush, slaves, or a new topic; or
        with something else than PUT_OK, because another master may have been elected (W-2).

        Under ASYNC_FLUSH without any of these it need not (B-145). Ask it after the put.
        """
        replicas = self._replicas
        return (
            self._sync_flush
            or not self._topics_file.is_saved
            or replicas.must_wait
            or replicas.may_be_replaced
        )

    @property
    def topics_are_saved(self) -> bool:
        """Whether no new topic waits for its file."""
        return self._topics_file.is_saved

    def when_safe(self, results: Sequence[PutResult], safe: Safe, *, flushed: bool = True) -> None:
        """Call back when stored messages are safe; at once if they are.

        Args:
            results: of puts that succeeded, in the order of the log.
            safe: gets the outcome.
            flushed: wait for flush and slaves; a sender may waive that (`WAIT` false), not the
                topic.
        """

        def done(status: PutStatus) -> None:
            # After flush and slaves, the topic must be saved too: this message may have created it.
            self._topics_file.when_saved(lambda: safe(self._still_safe(status)))

        # The sender waived the disk, but a message without its topic cannot be found.
        if not flushed:
            done(PutStatus.PUT_OK)
            return
        self.when_kept(results[-1].physical_offset + results[-1].size, done)

    def when_kept(self, end: int, done: Safe) -> None:
        """Call back when the log up to an offset is as safe as what producers are told of.

        Ask it also before progress is noted that says "this need not be looked at again": slaves
        copy such notes by another way than the log, and one of them may be elected.
        """
        # Without slaves to wait for, the flush alone decides.
        if not self._replicas.must_wait:
            self._store.when_flushed(end, done)
            return

        def after_slaves(status: PutStatus) -> None:
            def after_flush(flush: PutStatus) -> None:  # a slave's failure says more (B-142)
                done(flush if status is PutStatus.PUT_OK else status)

            self._store.when_flushed(end, after_flush)

        self._replicas.when_replicated(end, after_slaves)

    async def log_is_safe(self) -> PutStatus:
        """As `when_kept`, of all that the log has by now, which is flushed if it is not.

        Returns:
            PUT_OK, or why it is not known to be safe.
        """
        end = self._store.commit_log.max_offset
        # Flushed in every mode: a note of progress must not outlive the log that it is about.
        status = await self._store.flush()
        if status is not PutStatus.PUT_OK or not self._replicas.must_wait:
            return status
        kept: asyncio.Future[PutStatus] = asyncio.get_running_loop().create_future()
        self.when_kept(end, lambda status: None if kept.done() else kept.set_result(status))
        with self._clock.peer_wait():  # slaves say so, or a timer
            status = await kept
        return self._still_safe(status)

    def _still_safe(self, status: PutStatus) -> PutStatus:
        """The outcome at the moment in which it is told: a master that may have been replaced
        meanwhile acknowledges nothing (W-2)."""
        if status is PutStatus.PUT_OK and self._replicas.may_be_replaced:
            return PutStatus.FLUSH_SLAVE_TIMEOUT
        return status
