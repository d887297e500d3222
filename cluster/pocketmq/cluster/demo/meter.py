"""Measures processor time and peak memory of running processes by polling them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import psutil


@dataclass(slots=True)
class Usage:
    """What one process has used up to the latest poll."""

    cpu_s: float = 0.0
    peak_own_bytes: int = 0
    peak_rss_bytes: int = 0


class Meter:
    """The highest figures per name; those of a process that has ended are kept."""

    def __init__(self) -> None:
        self.usage: dict[str, Usage] = {}
        self._processes: dict[int, psutil.Process] = {}

    def look(self, processes: Iterable[tuple[str, int]]) -> None:
        """Poll (name, process id) pairs; processes that have ended are skipped."""
        for name, pid in processes:
            try:
                process = self._processes.setdefault(pid, psutil.Process(pid))
                with process.oneshot():
                    memory = process.memory_info()
                    cpu = process.cpu_times()
            except psutil.Error:
                continue
            usage = self.usage.setdefault(name, Usage())
            # Linux counts a broker's mapped store files as resident, although they are page cache.
            own = memory.rss - getattr(memory, "shared", 0)
            # The maximum, since a restarted process counts from zero again.
            usage.cpu_s = max(usage.cpu_s, cpu.user + cpu.system)
            usage.peak_own_bytes = max(usage.peak_own_bytes, own)
            usage.peak_rss_bytes = max(usage.peak_rss_bytes, memory.rss)
