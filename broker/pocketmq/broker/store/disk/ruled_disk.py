"""The real disk under fault rules: slow syncs, a full disk, errors of the device.

Rules come and go while the broker runs (SET_FAULTS, `operation/faults/`). Faults at the N-th call
of a process's life, and its death in the middle of one, are `fault_disk.py`'s.
"""

from __future__ import annotations

import threading
from typing import Final

from pocketmq.broker.store.disk.disk import DiskUsage
from pocketmq.broker.store.disk.fault_disk import Fault, FaultDisk
from pocketmq.operation.faults.rule_book import RuleBook

_FULL: Final = Fault("enospc", 1)
_BROKEN: Final = Fault("eio", 1)


class RuledDisk(FaultDisk):
    """A disk that obeys a rule book; safe to call from several threads.

    Args:
        book: The broker's rules.
    """

    def __init__(self, book: RuleBook) -> None:
        super().__init__()
        self._book = book
        self._asking = threading.Lock()
        self._never = threading.Event()
        self._meeting = threading.local()

    def is_due(self, operation: str, path: str) -> bool:
        """Whether the call fails; a slow one is slow in here."""
        # Without rules, avoid the lock.
        if not self._book.has_disk_rules:
            return False
        # Two threads must not use up the same count.
        with self._asking:
            rule = self._book.meets_disk(operation, path)
        if rule is None:
            return False
        if rule.do == "slow-fsync":
            self._never.wait(rule.delay_ms / 1000)  # real time: a medium is on no clock
            return False
        # Kept for each thread, because another one may meet another rule before `meet`.
        self._meeting.fault = _FULL if rule.do == "disk-full" else _BROKEN
        return True

    def usage(self, path: str) -> DiskUsage:
        found = super().usage(path)
        # The cleaner must see the full disk too, or it would let the store accept messages again.
        if self._book.fills_disk():
            return DiskUsage(found.total_bytes, found.total_bytes)
        return found

    def meet(self, path: str) -> None:
        """Fail as the rule says that this thread's call has met.

        Raises:
            DiskError: `DiskFullError` for a full disk.
        """
        self.fail(self._meeting.fault, path)
