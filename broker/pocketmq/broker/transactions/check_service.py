"""Finds undecided half messages, and asks their producers (B-106 to B-109, X-45)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import structlog

from pocketmq.broker.offsets.consumer_offsets import ConsumerOffsetManager
from pocketmq.broker.store import GetStatus, PutResult, PutStatus, QueueReads
from pocketmq.broker.storing.safe_puts import SafePuts
from pocketmq.broker.transactions.check_round import (
    Action,
    CheckLimits,
    CheckRound,
    HalfRead,
    Step,
)
from pocketmq.broker.transactions.decisions import Decisions
from pocketmq.broker.transactions.half_copies import HalfCopies
from pocketmq.broker.transactions.half_messages import given_up, renewed
from pocketmq.broker.transactions.questions import Questions
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.validation import HALF_TOPIC, OP_HALF_TOPIC
from pocketmq.protocol.stored.record import decode_record, decode_records
from pocketmq.runtime.clock import Clock

log = structlog.get_logger()

GROUP = "CID_RMQ_SYS_TRANS"
"""The group whose offsets tell how far the half and op queues are settled (X-30)."""

OPS_AT_ONCE = 32

HALVES_AT_ONCE = 64
"""Half messages read in one turn of the loop, when old copies are looked for."""


class TransactionCheck:
    """Passes over the half queues, once for each `run`.

    Args:
        reads: holds half messages and op records.
        puts: take half messages that are stored again.
        offsets: of `GROUP`.
        questions: to producers.
        decisions: what is decided and not yet written as op records.
        limits: what the options say now.
        clock: says how old a half message is.
        on_give_up: called with a half message that is about to be given up; makes its topic.
    """

    def __init__(
        self,
        reads: QueueReads,
        puts: SafePuts,
        offsets: ConsumerOffsetManager,
        questions: Questions,
        decisions: Decisions,
        limits: Callable[[], CheckLimits],
        clock: Clock,
        on_give_up: Callable[[MessageExt], None],
    ) -> None:
        self._reads = reads
        self._puts = puts
        self._offsets = offsets
        self._questions = questions
        self._decisions = decisions
        self._limits = limits
        self._clock = clock
        self._on_give_up = on_give_up
        self._ahead: dict[int, tuple[int, int]] = {}
        """Queue -> progress that is not noted yet: what was stored for it is not known to be safe.
        """

        self._copies: dict[int, HalfCopies] = {}
        """Queue -> what lay there when this broker began to lead; from there on it knows its own
        progress, and meets no copy before the last one."""

    def run(self) -> Awaitable[None] | None:
        """One round over each half queue; None when there is none."""
        queues = sorted(q for topic, q in self._reads.queues() if topic == HALF_TOPIC)
        return self._walk_all(queues) if queues else None

    async def _walk_all(self, queues: Sequence[int]) -> None:
        for queue_id in queues:
            await self._walk(queue_id)

    def forget(self) -> None:
        """This broker is a slave now: the next master goes on from what was noted."""
        self._ahead.clear()
        self._copies.clear()

    # -- the queues, as `CheckRound` reads them --------------------------------------------------

    async def _walk(self, queue_id: int) -> None:
        half_ahead, op_ahead = self._ahead.get(queue_id, (0, 0))
        # `_ahead` is ahead of the committed progress while the log is not yet safe.
        half_before = max(half_ahead, self._progress(HALF_TOPIC, queue_id))
        op_before = max(op_ahead, self._progress(OP_HALF_TOPIC, queue_id))
        copies = self._copies.get(queue_id)
        end = self._reads.max_offset(HALF_TOPIC, queue_id)
        # Which messages have newer copies is read once, and kept between rounds.
        if copies is None or not copies.serves(half_before, end):
            copies = await self._read_copies(queue_id, half_before, end)
        reads = _Queues(self._reads, self._decisions, copies, queue_id)
        check = CheckRound(half_before, op_before, self._limits(), self._clock.time_ms())
        asked = 0
        while (step := check.next(reads, self._clock.time_ms())) is not None:
            if step.action is Action.PAUSE:
                await self._clock.sleep(0)
            elif self._carry_out(step):
                check.done()
                asked += step.action is Action.ASK
            else:
                # It could not be stored: the next round begins with it.
                check.failed()
        half_after, op_after = check.progress()
        copies.passed(half_after)
        self._copies[queue_id] = copies
        is_same = (half_after, op_after) == (half_before, op_before)
        if is_same and queue_id not in self._ahead:
            return
        # What was stored again must be as safe as the note that it need not be looked at: also on
        # the replicas, which copy the note.
        self._ahead[queue_id] = half_after, op_after
        status = await self._puts.log_is_safe()
        # Do not commit the progress: a next master without these copies would pass over them
        #
        if status is not PutStatus.PUT_OK:
            log.warning("transaction.progress_put_off", queue_id=queue_id, status=status.name)
            return
        self._ahead.pop(queue_id, None)
        now_ms = self._clock.time_ms()
        self._offsets.commit(GROUP, HALF_TOPIC, queue_id, half_after, now_ms)
        self._offsets.commit(GROUP, OP_HALF_TOPIC, queue_id, op_after, now_ms)
        log.debug(
            "transactions.checked", queue_id=queue_id, half=half_after, op=op_after, asked=asked
        )

    async def _read_copies(self, queue_id: int, begin: int, end: int) -> HalfCopies:
        """What lies in the queue from the noted progress on."""
        copies = HalfCopies(begin, end)
        offset = begin
        while offset < end:
            most = min(HALVES_AT_ONCE, end - offset)
            found = self._reads.get_message(HALF_TOPIC, queue_id, offset, most)
            if found.status is GetStatus.FOUND:
                for half in decode_records(b"".join(found.records)):
                    copies.read(half)
            if found.next_begin_offset <= offset:
                break  # the round ends there, too
            offset = found.next_begin_offset
            await self._clock.sleep(0)
        copies.all_read()
        return copies

    def _progress(self, topic: str, queue_id: int) -> int:
        low = self._reads.min_offset(topic, queue_id)
        known = self._offsets.query(GROUP, topic, queue_id)
        # Without committed progress, a round begins at the start of the queue.
        return low if known is None else max(known, low, 0)

    # -- steps ----------------------------------------------------------------------------------

    def _carry_out(self, step: Step) -> bool:
        half = step.half
        assert half is not None
        if step.action is Action.GIVE_UP:
            return self._give_up(half)
        result = self._puts.put(renewed(half, dict(step.changes)))
        if result.status.is_of_message:  # there is no room for the number of its checks
            return self._give_up(half)
        if result.status is not PutStatus.PUT_OK:
            log.warning("transaction.renew_failed", status=result.status.name)
            return False
        # Ask when the new copy is safe: the producer's answer names its offset.
        if step.action is Action.ASK:
            self._puts.when_safe([result], lambda status: self._ask(status, result))
        return True

    def _give_up(self, half: MessageExt) -> bool:
        """Put it aside; False when that has to be tried again."""
        # This creates the topic: a put into a missing one is refused.
        self._on_give_up(half)
        result = self._puts.put(given_up(half))
        log.warning(
            "transaction.given_up",
            group=half.properties.get(names.PRODUCER_GROUP),
            topic=half.properties.get(names.REAL_TOPIC),
            msg_id=half.msg_id,
            status=result.status.name,
        )
        # A message that the store can never take counts as done, or each round would meet it again.
        return result.status is PutStatus.PUT_OK or result.status.is_of_message

    def _ask(self, status: PutStatus, result: PutResult) -> None:
        """Ask a producer of the group, now that the half message is safe in its new place."""
        # From the log itself: under SYNC_FLUSH it becomes visible only after those that wait for
        # its flush were called, and this is one of them.
        record = self._reads.commit_log.record_at(result.physical_offset)
        if status is PutStatus.PUT_OK and record is not None:  # else the next round does
            self._questions.ask(decode_record(record))


class _Queues:
    """`Reads` over the store."""

    def __init__(
        self, reads: QueueReads, decisions: Decisions, copies: HalfCopies, queue_id: int
    ) -> None:
        self._reads = reads
        self._decisions = decisions
        self._copies = copies
        self._queue_id = queue_id

    def half(self, offset: int) -> HalfRead:
        found = self._reads.get_message(HALF_TOPIC, self._queue_id, offset, 1)
        if found.status is GetStatus.FOUND:
            [half] = decode_records(b"".join(found.records))
            return HalfRead(half, offset + 1)
        at_end = offset >= self._reads.max_offset(HALF_TOPIC, self._queue_id)
        return HalfRead(None, found.next_begin_offset, at_end)

    def ops(self, offset: int) -> tuple[Sequence[MessageExt], int]:
        found = self._reads.get_message(OP_HALF_TOPIC, self._queue_id, offset, OPS_AT_ONCE)
        if found.status is not GetStatus.FOUND:
            return (), offset
        records = decode_records(b"".join(found.records))
        return records, records[-1].queue_offset + 1

    def is_older(self, offset: int) -> bool:
        return self._copies.is_older(offset)

    def is_decided(self, half: MessageExt) -> bool:
        return self._decisions.outcome(half.properties.get(names.UNIQ_KEY)) is not None
