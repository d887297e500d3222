"""END_TRANSACTION (37) from producers, and RESUME_CHECK_HALF_MESSAGE (323) from tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import structlog

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.store import MessageStore, PutResult, PutStatus, StoredMessage
from pocketmq.broker.storing.safe_puts import SafePuts
from pocketmq.broker.transactions.counts import TransactionCounts
from pocketmq.broker.transactions.decisions import Decisions
from pocketmq.broker.transactions.half_messages import (
    Half,
    Outcome,
    check_end,
    committed,
    outcome_of,
    read_half,
    renewed,
)
from pocketmq.broker.transactions.op_history import OpHistory
from pocketmq.broker.transactions.op_writer import OpWriter
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, error_reply, handles, handles_batch
from pocketmq.protocol.errors import IllegalNameError
from pocketmq.protocol.headers.transactions import (
    EndTransactionRequestHeader,
    ResumeCheckHalfMessageRequestHeader,
)
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.validation import (
    HALF_TOPIC,
    SCHEDULE_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
)
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.protocol.stored.record import decode_record
from pocketmq.runtime.clock import Clock

log = structlog.get_logger()

_CODES = {
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
}
"""Answered as a send would be; all others are SYSTEM_ERROR (1)."""

MAX_SAME_KEY = 64
"""Messages with the same unique key that are looked at."""

WHEEL_TOPIC = "rmq_sys_wheel_timer"


class _Commit(NamedTuple):
    """A committed message that is about to be stored."""

    place: int
    """Of the request, among those of its batch."""
    peer: Peer
    request: Command
    half: Half
    message: StoredMessage


class EndTransactionProcessor:
    """Commits and rolls back.

    Args:
        store: holds half messages; its index knows what was committed before a restart.
        puts: take the committed messages.
        ops: notes what is done.
        decisions: what this process knows to be decided.
        clock: says how old a half message is.
        timeout_ms: `transactionTimeOut`, now.
        counts: one less when one is decided.
        names_real_topic: as `committed` has it.
        ends_in_its_time: as `check_end` has it.
    """

    def __init__(
        self,
        store: MessageStore,
        puts: SafePuts,
        ops: OpWriter,
        decisions: Decisions,
        clock: Clock,
        *,
        timeout_ms: Callable[[], int],
        counts: TransactionCounts,
        names_real_topic: bool = True,
        ends_in_its_time: bool = True,
    ) -> None:
        self._store = store
        self._puts = puts
        self._ops = ops
        self._decisions = decisions
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._counts = counts
        self._history = OpHistory(store.reads)
        self._names_real_topic = names_real_topic
        self._ends_in_its_time = ends_in_its_time

    @handles_batch(RequestCode.END_TRANSACTION)
    def end(self, peers: Sequence[Peer], requests: Sequence[Command]) -> Sequence[Reply]:
        """Commit half messages or roll them back; UNKNOWN gets no answer (X-20).

        All commits of one turn of the loop are one append to the log. A slave answers
        SLAVE_NOT_AVAILABLE (11) (B-101, H-15).
        """
        if self._puts.is_slave:
            return [self._refused(request) for request in requests]
        replies: list[Reply] = [None] * len(requests)
        commits: dict[str, _Commit] = {}
        for index, (peer, request) in enumerate(zip(peers, requests, strict=True)):
            try:
                found = self._half(request)
                if found is None:
                    continue
                half, outcome = found
                key = half.key
                if key in commits:  # this one has to know what became of that one
                    self._carry_out(commits, replies)
                    commits = {}
                message = self._decide(half, outcome)
            except Exception as exc:  # noqa: BLE001 - one bad end, and the others go on
                replies[index] = error_reply(peer, request, exc)
                continue
            if message is None:
                replies[index] = request.reply()
            else:
                commits[key] = _Commit(index, peer, request, half, message)
        self._carry_out(commits, replies)
        return replies

    @handles(RequestCode.RESUME_CHECK_HALF_MESSAGE)
    def resume(self, peer: Peer, request: Command) -> Reply:
        """Store a half message again as if it had never been checked (X-51)."""
        msg_id = request.header(ResumeCheckHalfMessageRequestHeader).msg_id or ""
        try:
            _, _, offset = parse_offset_msg_id(msg_id)
        except IllegalNameError as exc:
            raise RequestRefusedError(ResponseCode.SYSTEM_ERROR, str(exc)) from exc
        half = self._record(offset)
        # Half messages lie in these two topics only; other messages must not be stored again.
        if half is None or half.topic not in (HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC):
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR,
                f"no half message is stored at commit log offset {offset}",
            )
        result = self._puts.put(renewed(half, {names.TRANSACTION_CHECK_TIMES: "0"}))
        return self._puts.answer_when_safe(peer, request, result)

    def forget(self) -> None:
        """This broker is a slave now: what it knows of its log may be cut, and written anew.

        What was decided here and is not in the new master's log is open there: its producer is
        asked, and so it is by this broker should it lead again.
        """
        self._decisions.forget()
        self._ops.forget()
        self._history.forget()

    # -- inside ---------------------------------------------------------------------------------

    @staticmethod
    def _refused(request: Command) -> Reply:
        return request.reply(
            code=ResponseCode.SLAVE_NOT_AVAILABLE,
            remark="this broker is a slave: its master asks again for what is not decided",
        )

    def _half(self, request: Command) -> tuple[Half, Outcome] | None:
        """The half message that a producer names; None when it does not know yet (UNKNOWN)."""
        header = request.header(EndTransactionRequestHeader)
        outcome = outcome_of(header)
        if outcome is Outcome.UNKNOWN:
            log.info("transaction.unknown", group=header.producer_group, msg_id=header.msg_id)
            return None
        record = self._record(header.commit_log_offset)
        if record is None or record.topic != HALF_TOPIC:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR,
                "Find prepared transaction message failed: no half message begins at commit log "
                f"offset {header.commit_log_offset}; use the commit log offset from the answer to "
                "the send",
            )
        half = read_half(record)
        check_end(
            header,
            half,
            self._clock.time_ms(),
            self._timeout_ms(),
            ends_in_its_time=self._ends_in_its_time,
        )
        return half, outcome

    def _decide(self, half: Half, outcome: Outcome) -> StoredMessage | None:
        """What is to be stored for a commit; None when nothing is, and all is done."""
        before = self._decided_before(half)
        # Unlike RocketMQ, refuse to undo an earlier decision.
        if before is not None and before is not outcome:
            raise RequestRefusedError(
                ResponseCode.ILLEGAL_OPERATION,
                f"the transaction was already decided, with the outcome {before.name.lower()}",
            )
        # Both cases need an op record: nothing else marks the half message as settled (B-104).
        if before is not None or outcome is Outcome.ROLLBACK:
            self._decided(half, outcome, again=before is not None)
            # Op records are batched: after a kill before they are written, the producer is asked
            # again.
            self._ops.add(half.record.queue_id, [half.record.queue_offset])
            return None
        message = committed(half, names_real_topic=self._names_real_topic)
        if half.traits.is_delayed:  # from now on
            asks = dict(half.record.properties)
            # These mark a half message; the rewrites must see an ordinary delayed message.
            for name in (names.TRANSACTION_PREPARED, names.REAL_TOPIC, names.REAL_QUEUE_ID):
                asks.pop(name, None)
            self._puts.rewrite(message, asks)
        return message

    def _carry_out(self, commits: dict[str, _Commit], replies: list[Reply]) -> None:
        """Store committed messages, note them as decided, and answer now or later."""
        if not commits:
            return
        # One append, so that all these commits share one flush.
        results = self._puts.put_all([each.message for each in commits.values()])
        must_wait, now_ms = self._puts.must_wait, self._clock.time_ms()
        waiting: list[tuple[Peer, Command, Command]] = []
        stored: list[PutResult] = []
        done: dict[int, list[int]] = {}
        ages_ms: dict[str, list[int]] = {}
        for (key, each), result in zip(commits.items(), results, strict=True):
            request = each.request
            if result.status is not PutStatus.PUT_OK:
                replies[each.place] = request.reply(
                    code=_CODES.get(result.status, ResponseCode.SYSTEM_ERROR),
                    remark=f"the message was not stored: {result.status.name}; the half message "
                    "stays open",
                )
                continue
            record, topic = each.half.record, each.half.traits.topic
            self._decisions.decided(key, Outcome.COMMIT)
            ages_ms.setdefault(topic, []).append(now_ms - record.born_timestamp_ms)
            done.setdefault(record.queue_id, []).append(record.queue_offset)
            stored.append(result)
            # If the store waits for a flush or for replicas, so do the answers (B-144).
            if must_wait:
                waiting.append((each.peer, request, request.reply()))
            elif not request.is_oneway:
                replies[each.place] = request.reply()
        for topic, ages in ages_ms.items():
            self._counts.committed(topic, ages, now_ms)
        for queue_id, offsets in done.items():
            self._ops.add(queue_id, offsets)
        if waiting:
            self._puts.answer_later(waiting, stored[-1])

    def _decided_before(self, half: Half) -> Outcome | None:
        """How it was decided before; None when it is open."""
        key = half.key
        if not key or self._decisions.is_open(key):
            return None
        known = self._decisions.outcome(key)
        if known is not None:
            return known
        # A committed copy may be in the index from before a restart.
        if self._is_committed(key, half.traits.topic):
            return Outcome.COMMIT
        # An op record names it and no committed copy exists: it was rolled back.
        return Outcome.ROLLBACK if self._is_done(key, half.record) else None

    def _is_done(self, key: str, half: MessageExt) -> bool:
        """Whether an op record from before a restart names the half message, or a renewed one."""
        if self._history.names(half):
            return True
        # Renewed copies have the same key and another offset: the record may name one of them.
        found = self._store.query(HALF_TOPIC, key, MAX_SAME_KEY, 0, self._clock.time_ms())
        return any(
            each.properties.get(names.UNIQ_KEY) == key and self._history.names(each)
            for each in map(decode_record, found.records)
        )

    def _decided(self, half: Half, outcome: Outcome, *, again: bool) -> None:
        self._decisions.decided(half.key, outcome)
        if not again:
            self._counts.rolled_back(half.traits.topic, self._clock.time_ms())

    def _is_committed(self, key: str, real_topic: str) -> bool:
        """Whether the index knows a committed copy, from before a restart."""
        now_ms = self._clock.time_ms()
        # A delayed commit waits in one of the two delay topics.
        for topic in (real_topic, SCHEDULE_TOPIC, WHEEL_TOPIC):
            found = self._store.query(topic, key, MAX_SAME_KEY, 0, now_ms)
            for record in found.records:
                message = decode_record(record)
                if (
                    # The half message may have the same key; only a committed copy counts.
                    MessageSysFlag.transaction_type(message.sys_flag)
                    == MessageSysFlag.TRANSACTION_COMMIT
                    and message.properties.get(names.UNIQ_KEY) == key
                ):
                    return True
        return False

    def _record(self, offset: int) -> MessageExt | None:
        # From the log itself: its producer may know of it before consumers see its part of the log.
        record = self._store.commit_log.record_at(offset) if offset >= 0 else None
        return None if record is None else decode_record(record)
