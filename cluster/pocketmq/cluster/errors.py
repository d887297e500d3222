"""Errors of starting and steering processes.

PocketMQError
├── CallerError
│   └── WrongStateError      a process cannot be frozen, thawed or started in its state
└── PeerError
    ├── ProcessStartError    a process ended, or did not become ready in time
    └── ProcessDiedError     a process that should run has ended
"""

from __future__ import annotations

import signal
from pathlib import Path

from pocketmq.runtime.errors import CallerError, PeerError


class ProcessStartError(PeerError):
    """A process ended before its ready line, or did not print it in time."""

    def __init__(self, name: str, status: int | None, last_words: str, log_path: Path) -> None:
        self.name = name
        self.status = status
        """Exit status; None if it was still running."""
        self.last_words = last_words
        """Last line of its log, empty if there is none."""
        self.log_path = log_path
        # With status 1 a role has printed one line about its error; other statuses are crashes with
        # a traceback.
        if status == 1 and last_words:
            # The child's last line is its error message, which begins with the name of its role.
            super().__init__(f"{name} cannot start: {last_words.partition(': ')[2] or last_words}")
        else:
            how = "was not ready in time" if status is None else f"ended with status {status}"
            words = f" after {last_words!r}" if last_words else ""
            where = f"its log is {log_path}"
            # A log without even a first line could not be written.
            if status is not None and not last_words:
                where = f"its log {log_path} is empty: is the disk full?"
            super().__init__(f"{name} {how}{words}; {where}")


class ProcessDiedError(PeerError):
    """A process has ended although nothing asked it to."""

    def __init__(self, name: str, status: int, log_path: Path) -> None:
        self.name = name
        self.status = status
        self.log_path = log_path
        how = f"signal {-status}" if status < 0 else f"status {status}"
        if status == -signal.SIGBUS:  # from a mapped file (docs/faults-store.md, fault 14)
            how = "SIGBUS: a mapped file was truncated, or its disk failed; start it again"
        super().__init__(f"{name} ended with {how}; its log is {log_path}")


_ADVICE = {
    ("running", "thaw"): "only what is frozen can be thawed",
    ("running", "start"): "end it first",
    ("frozen", "freeze"): "it is so already",
    ("frozen", "start"): "thaw it, or end it first",
}
"""By state and what was wanted."""


class WrongStateError(CallerError):
    """A process cannot do this in its present state."""

    def __init__(self, name: str, wanted: str, state: str) -> None:
        self.name = name
        self.wanted = wanted
        self.state = state
        # A message of its own: `restart it first` would not help somebody who wants its end.
        if (state, wanted) == ("ended", "kill"):
            super().__init__(f"{name} has ended already")
            return
        advice = "restart it first" if state == "ended" else _ADVICE.get((state, wanted))
        super().__init__(
            f"{name} is {state} and cannot {wanted}" + (f"; {advice}" if advice else "")
        )
