"""How long a master may go on without hearing from the controllers (W-2). No I/O.

A controller takes a broker for dead after its time-out of silence, 10 s, and may then elect another
one. A master with a lease stops after half of that: its heartbeats go out before each question, so
whoever answered a question at 0 s elects nobody before about 9 s, and the lease has ended at 5 s.

    question sent at 0.0, answered at 0.2      the lease ends at 5.0
    question sent at 1.0, not answered         it still ends at 5.0
    at 5.0                                     no message is taken
    question sent at 7.0, answered at 7.1      taken again, until 12.0
"""

from __future__ import annotations

import math


class MasterLease:
    """One master's lease: the role has it, a controller's answers renew it, sends look at its end.

    Args:
        length_s: of one answer; 0 never ends.
    """

    def __init__(self, length_s: float = 0) -> None:
        self._length_s = length_s
        self.ends_at = 0.0 if length_s else math.inf
        """Monotonic seconds."""

    @property
    def is_wanted(self) -> bool:
        """Whether there is one at all."""
        return self._length_s > 0

    def answered(self, asked_at: float) -> None:
        """The controllers said that this broker is master, asked at that moment."""
        if self.is_wanted:
            self.ends_at = max(self.ends_at, asked_at + self._length_s)

    def has_ended(self, now: float) -> bool:
        """Whether another master may have been elected since."""
        return now >= self.ends_at
