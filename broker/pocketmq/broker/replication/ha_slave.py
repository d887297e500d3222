"""The slave's side of the stream: what to report, what to append, when to give up. No I/O.

connected(4096)   -> report 4096        at once (W-1), so that the master begins to send
framed(4096, 100)                       append 100 bytes, then
appended(4196)    -> report 4196
tick()            -> report 4196        after 5 s without one
"""

from __future__ import annotations

from pocketmq.broker.replication.ha_frames import NO_LOG, HaStreamError
from pocketmq.broker.replication.rules import HaRules


class MasterLink:
    """One connection to the master, as its slave knows it.

    Args:
        rules: times.
        log_end: of the slave's own log.
        now: monotonic seconds.
    """

    def __init__(self, rules: HaRules, log_end: int, now: float) -> None:
        self.reported = log_end
        """What the master was told last."""
        self.master_offset = NO_LOG
        """Behind the last byte that the master has sent; -1 before its first frame."""
        self._rules = rules
        self._heard_at = now
        self._spoke_at = now

    def framed(self, offset: int, size: int, log_end: int, now: float) -> bool:
        """Take a frame; whether its bytes are to be appended (a heartbeat has none).

        Raises:
            HaStreamError: it does not continue this log (H-25): the link is closed, and the next
                one begins with a new report.
        """
        self._heard_at = now
        self.master_offset = max(self.master_offset, offset + size)
        # A heartbeat from a master without a log: its offset means nothing.
        if offset == NO_LOG and not size:
            return False
        # An empty log begins wherever its master says (H-26).
        if log_end not in (0, offset):
            raise HaStreamError(
                f"the master sent a frame for offset {offset}, but this slave's log ends at "
                f"{log_end}; if this error repeats, the master belongs to another cluster or has "
                "lost messages, so empty this slave's store"
            )
        return size > 0

    def appended(self, log_end: int, now: float) -> int | None:
        """The log has grown; the offset to report, or None."""
        if log_end <= self.reported:
            return None
        return self._report(log_end, now)

    def tick(self, log_end: int, now: float) -> int | None:
        """Some time has passed; the offset to report, or None (H-24)."""
        # Report now and then: the master drops a slave that is silent for 20 s (H-34).
        if now - self._spoke_at <= self._rules.heartbeat_s:
            return None
        return self._report(log_end, now)

    def is_silent(self, now: float) -> bool:
        """Whether nothing came for so long that the connection is to be closed (H-28)."""
        return now - self._heard_at > self._rules.housekeeping_s

    def _report(self, log_end: int, now: float) -> int:
        self.reported, self._spoke_at = log_end, now
        return log_end
