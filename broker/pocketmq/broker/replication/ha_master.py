"""The master's side of one slave: where to send from, what it has, when to give up. No I/O.

reported(4096)       the first report: the slave's log ends there, so sending begins there
next_slice()      -> (4096, 32768)   and the next one at 36864
reported(36864)      acknowledged; messages below it are replicated
next_slice()      -> (36864, 0)      a heartbeat, when nothing was sent for 5 s
"""

from __future__ import annotations

from typing import NamedTuple

from pocketmq.broker.replication.ha_frames import HaStreamError
from pocketmq.broker.replication.rules import HaRules

UNKNOWN = -1


class LogBounds(NamedTuple):
    """What a master has to send."""

    low: int
    """First byte."""
    high: int
    """Behind the last byte that may be sent."""
    file_bytes: int
    """Length of a file: a frame never crosses its end (H-20)."""


class Slice(NamedTuple):
    """What to send next; size 0 is a heartbeat."""

    offset: int
    size: int


class SlaveLink:
    """One connected slave, as its master knows it.

    Args:
        address: for messages.
        rules: sizes and times.
        now: monotonic seconds.
    """

    def __init__(self, address: str, rules: HaRules, now: float) -> None:
        self.address = address
        self.acked = UNKNOWN
        """The slave's log has every byte below it; -1 before its first report."""
        self.next_offset = UNKNOWN
        """Where the next frame begins; -1 before the first report (H-31)."""
        self.sent_bytes = 0
        self._rules = rules
        self._heard_at = now
        self._spoke_at = now

    def reported(self, offset: int, log: LogBounds, now: float) -> bool:
        """Take a report; whether more is acknowledged than before.

        Raises:
            HaStreamError: it says more than the master has, or is at a place that the master does
                not have any more: the link cannot go on.
        """
        self._heard_at = now
        # The slave is ahead of this master (F-1, W-3).
        if offset > log.high and self._rules.drop_reports_beyond_end:
            raise HaStreamError(
                f"the log of slave {self.address} ends at {offset}, but the master's log ends "
                f"earlier, at {log.high}: the slave belongs to another cluster, or the master "
                "lost messages; empty the slave's store"
            )
        # Only the first report decides where to begin; later ones only acknowledge.
        if self.next_offset == UNKNOWN:
            self.next_offset = self._start(offset, log)
        grew = offset > self.acked
        self.acked = offset
        return grew

    @staticmethod
    def _start(offset: int, log: LogBounds) -> int:
        if offset == 0:  # it has nothing: the last file is enough (H-35, B-132)
            return max(log.low, log.high - log.high % log.file_bytes)
        # The slave's place was deleted here, so its log would get a gap.
        if offset < log.low:
            raise HaStreamError(
                f"the slave's log ends at {offset}, but this master's log begins later, at "
                f"{log.low}: the master has deleted the messages in between; empty the slave's "
                "store"
            )
        return offset

    def next_slice(self, log: LogBounds, now: float) -> Slice | None:
        """What to send now; call again until it is None, as long as the connection takes it."""
        offset = self.next_offset
        if offset == UNKNOWN:
            return None
        if log.low <= offset < log.high:
            # A frame never crosses the end of a file, so that the slave writes it into one file
            # (H-20).
            file_end = offset - offset % log.file_bytes + log.file_bytes
            size = min(self._rules.batch_bytes, log.high - offset, file_end - offset)
            # Advanced before it is sent: the next connection sends again what gets lost.
            self.next_offset = offset + size
            self.sent_bytes += size
            self._spoke_at = now
            return Slice(offset, size)
        # Without anything to send, or at an offset that this master does not have, heartbeats keep
        # the link (H-37, H-39).
        if now - self._spoke_at > self._rules.heartbeat_s:
            self._spoke_at = now
            return Slice(offset, 0)
        return None

    def is_silent(self, now: float) -> bool:
        """Whether it has not reported for so long that its connection is to be closed (H-34)."""
        return now - self._heard_at > self._rules.housekeeping_s

    def lag_bytes(self, end: int) -> int:
        """How much of the log it has not acknowledged."""
        # A slave that has not reported yet counts as having nothing.
        return max(0, end - max(0, self.acked))

    def is_in_sync(self, end: int) -> bool:
        """Whether it lags by less than the gap that counts as in sync (H-41)."""
        return self.acked != UNKNOWN and self.lag_bytes(end) < self._rules.max_gap_bytes
