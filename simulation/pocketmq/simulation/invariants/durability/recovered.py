"""A restart finds every record that was on the medium. Pure."""

from __future__ import annotations

from pocketmq.simulation.invariants.rule import DurabilityRule


class RecoveredRule(DurabilityRule):
    """Compares the end of the recovered log with what had survived."""

    ABOUT = frozenset({"logs recovered"})
    WORDS = "cut by recovery although it was on the disk"

    def restarted(self, log_end: int) -> None:
        self.seen["logs recovered"] += 1
        if log_end < self.medium.log_end:
            self.violated(f"the log from {log_end} to {self.medium.log_end}")
