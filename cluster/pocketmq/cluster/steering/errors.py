"""Errors of tests that use a cluster; their messages say what to do."""

from __future__ import annotations

from pocketmq.cluster.steering.shape import MAX_ADVANCE_S
from pocketmq.runtime.errors import CallerError


class NotReachedError(AssertionError):
    """A wait reached its time limit. The message says what was missing.

    An `AssertionError`, because pytest then shows it as a failure of the test.
    """

    def __init__(self, waited_for: str, limit_s: float, found: str) -> None:
        self.waited_for = waited_for
        self.limit_s = limit_s
        self.found = found
        super().__init__(f"waited {limit_s:g} s in vain for {waited_for}: {found}")


class WrongClusterError(CallerError):
    """This cluster cannot do this; the message names the fixture or option that can."""


class TooFarError(CallerError):
    """A clock cannot be moved so far: not back, and not for ever."""

    def __init__(self, seconds: float) -> None:
        advice = "write 31d or less, and repeat it" if seconds > 0 else "write 0 or more"
        super().__init__(
            f"a clock moves forward, and at most {MAX_ADVANCE_S} s (31 days) at a time, not by "
            f"{seconds:.15g} s; {advice}"
        )


class RealTimeClientWarning(UserWarning):
    """A client runs on real time beside a cluster whose manual clock was moved."""
