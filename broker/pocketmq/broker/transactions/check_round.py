"""One pass over a half queue: which messages are settled, checked or given up (X-30 to X-37).

round = CheckRound(half_offset, op_offset, limits, started_ms)
while (step := round.next(reads, now_ms)) is not None:
    ...                                # do it, then round.done(), or round.failed()
half_offset, op_offset = round.progress()
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, unique
from typing import Protocol

from pocketmq.broker.transactions.half_messages import immunity_ms, offsets_of
from pocketmq.protocol.java import java_integer
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt

MAX_ROUND_MS = 60_000
PAUSE_AFTER = 200
"""Half messages examined before the pass yields to other work."""

PAUSE_AFTER_NAMED = 2_000
"""Half messages that op records name, before it does; each record counts as `_OP_COSTS` more."""

_OP_COSTS = 25

MAX_MISSES = 1
"""Half messages that cannot be read before a round ends."""


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """What the options say."""

    timeout_ms: int
    """Least age of a half message that is checked (`transactionTimeOut`)."""
    max_checks: int
    """Most checks of a half message (`transactionCheckMax`)."""
    reserved_ms: int
    """Older than the log keeps messages, it is given up at once (`fileReservedTime`)."""
    young_at_its_age: bool
    """Exactly as old as its immunity time it is not checked yet, by profile."""


@dataclass(frozen=True, slots=True)
class HalfRead:
    """What stands at an offset of the half queue."""

    message: MessageExt | None
    next_offset: int
    """Where to go on when there is none."""
    at_end: bool = False
    """Nothing is stored there yet."""


class Reads(Protocol):
    """How the pass reads the two queues."""

    def half(self, offset: int) -> HalfRead:
        """The half message at an offset."""

    def ops(self, offset: int) -> tuple[Sequence[MessageExt], int]:
        """Up to 32 op records from an offset on, and where to go on."""

    def is_older(self, offset: int) -> bool:
        """Whether the half message there was stored again further behind: that one counts."""

    def is_decided(self, half: MessageExt) -> bool:
        """Whether it is known to be committed or rolled back, whatever op records say."""


@unique
class Action(Enum):
    """What is to be done with a half message."""

    ASK = "ASK"
    """Store it again with its number of checks, and ask its producer."""
    RENEW = "RENEW"
    """Store it again: it asked not to be checked yet."""
    GIVE_UP = "GIVE_UP"
    """Copy it to TRANS_CHECK_MAX_TIME_TOPIC."""
    PAUSE = "PAUSE"
    """Nothing; yield to other work and call `next` again."""


@dataclass(frozen=True, slots=True)
class Step:
    """What to do next."""

    action: Action
    half: MessageExt | None = None
    changes: tuple[tuple[str, str], ...] = ()
    """Properties to store it with."""


class CheckRound:
    """One pass over one half queue.

    Args:
        half_offset: where the last round ended.
        op_offset: up to here all op records are done.
        limits: what the options say.
        started_ms: now; what is stored later waits for the next round.
    """

    def __init__(
        self, half_offset: int, op_offset: int, limits: CheckLimits, started_ms: int
    ) -> None:
        self._first = half_offset
        self._at = half_offset
        self._op_start = op_offset
        self._op_next = op_offset
        self._limits = limits
        self._started_ms = started_ms
        self._looked_at = 0
        """Half messages since the last pause, whatever became of them."""
        self._named = 0
        """What op records named since then, as `PAUSE_AFTER_NAMED` counts."""
        self._misses = 0
        self._op_of: dict[int, int] = {}
        self._open_of_op: dict[int, set[int]] = {}
        self._done_ops: set[int] = set()
        self._all_ops_read = False
        self._over = False

    def next(self, reads: Reads, now_ms: int) -> Step | None:
        """What to do now; None: the round is over."""
        # Most half messages are settled without a step, so go on until one needs a step.
        while not self._over:
            # 60 s: RocketMQ's own limit, so that one queue does not hold up the others.
            if now_ms - self._started_ms > MAX_ROUND_MS:
                break
            # Pause now and then, so that a queue of a million settled messages does not block the
            # loop.
            if self._looked_at >= PAUSE_AFTER or self._named >= PAUSE_AFTER_NAMED:
                self._looked_at = self._named = 0
                return Step(Action.PAUSE)
            # An op record names the half message: it is settled.
            if self._settle(self._at):
                self._looked_at += 1
                self._at += 1
                continue
            # Read all op records first: the message itself is read only if none names it.
            if not self._all_ops_read:
                self._read_ops(reads)  # until one names it or there is none
                continue
            self._looked_at += 1
            # An earlier round stored a newer copy of this message: only that copy counts.
            if reads.is_older(self._at):
                self._at += 1
                continue
            read = reads.half(self._at)
            if read.message is None:
                self._misses += 1
                # The round ends at the end of the queue, at the second message that cannot be read,
                # or where there is no way past such a message.
                if read.at_end or self._misses > MAX_MISSES or read.next_offset <= self._at:
                    break
                self._at = read.next_offset
                continue
            # It is known to be decided, although no op record names it yet: do not ask about it.
            if reads.is_decided(read.message):
                self._at += 1
                continue
            step = self._judge(read.message, now_ms)
            if step is not None:
                return step
            # `_judge` settled it, or ended the round.
        self._over = True
        return None

    def done(self) -> None:
        """The step was carried out: go on behind its half message."""
        self._at += 1

    def failed(self) -> None:
        """It could not be: the next round begins with it."""
        self._over = True

    def progress(self) -> tuple[int, int]:
        """Where the next round begins: half offset, op offset (X-37)."""
        op_offset = self._op_start
        # Stop at the first op record that is not done: the next round must read it again.
        while op_offset in self._done_ops:
            op_offset += 1
        return self._at, op_offset

    # -- inside ---------------------------------------------------------------------------------

    def _judge(self, half: MessageExt, now_ms: int) -> Step | None:
        """The step for an open half message, in RocketMQ's order (X-33, X-34)."""
        limits, properties = self._limits, half.properties
        age_ms = now_ms - half.born_timestamp_ms
        times = _count(properties.get(names.TRANSACTION_CHECK_TIMES))
        # Checked too often, or older than files are kept: give it up (X-36, B-107).
        if times >= limits.max_checks or age_ms > limits.reserved_ms:
            return Step(Action.GIVE_UP, half)
        # Stored after the round began: this and all later messages are for the next round.
        if half.store_timestamp_ms >= self._started_ms:
            self._over = True
            return None
        asked_for = properties.get(names.CHECK_IMMUNITY_TIME_IN_SECONDS)
        waits_ms = limits.timeout_ms
        if asked_for is not None:
            waits_ms = immunity_ms(asked_for, limits.timeout_ms)
        if not limits.young_at_its_age:
            # In this profile, a message is checked as soon as its age reaches the limit.
            waits_ms -= 1
        # Still immune by its own time: store it again, so that the round can pass it.
        if asked_for is not None and age_ms <= waits_ms:
            return self._immune(half)
        # Too young, without an immunity time of its own: the round ends, as in RocketMQ.
        if 0 <= age_ms <= waits_ms:
            self._over = True
            return None
        return Step(Action.ASK, half, ((names.TRANSACTION_CHECK_TIMES, str(times + 1)),))

    def _immune(self, half: MessageExt) -> Step | None:
        first = half.properties.get(names.TRANSACTION_PREPARED_QUEUE_OFFSET)
        # The op record of a renewed message names its first offset, not this copy's.
        if first is not None and self._settle(_count(first)):
            self._at += 1
            return None
        prepared = (names.TRANSACTION_PREPARED_QUEUE_OFFSET, first or str(half.queue_offset))
        return Step(Action.RENEW, half, (prepared,))

    def _read_ops(self, reads: Reads) -> None:
        records, self._op_next = reads.ops(self._op_next)
        self._all_ops_read = not records
        for op in records:
            self._take(op)

    def _settle(self, half_offset: int) -> bool:
        """Whether an op record that was read names it."""
        op_offset = self._op_of.pop(half_offset, None)
        if op_offset is None:
            return False
        still_open = self._open_of_op[op_offset]
        still_open.discard(half_offset)
        if not still_open:
            del self._open_of_op[op_offset]
            self._done_ops.add(op_offset)
        return True

    def _take(self, op: MessageExt) -> None:
        offsets = offsets_of(op)
        # A record can name hundreds of offsets, which are most of its cost.
        self._named += _OP_COSTS + len(offsets)
        named = {offset for offset in offsets if offset >= self._first}
        # All offsets that the op record names lie before the start of this round: it is done
        #
        if not named:
            self._done_ops.add(op.queue_offset)
            return
        for offset in named:
            # Named twice, it counts for the later record; the earlier one is done without it.
            earlier = self._op_of.get(offset)
            if earlier is not None:
                self._settle(offset)
            self._op_of[offset] = op.queue_offset
        # The op record is done when all these half messages are settled.
        self._open_of_op[op.queue_offset] = named


def _count(text: str | None) -> int:
    return max(0, java_integer(text or "", 64) or 0)
