"""Processor time and peak memory of running processes, by looking at them again and again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import psutil


@dataclass(slots=True)
class Usage:
    """What one process has used up to the latest look."""

    cpu_s: float = 0.0
    peak_own_bytes: int = 0
    peak_rss_bytes: int = 0


class Meter:
    """Keeps the highest figures seen per name; a process that has ended keeps its last ones."""

    def __init__(self) -> None:
        self.usage: dict[str, Usage] = {}
        self._processes: dict[int, psutil.Process] = {}

    def look(self, processes: Iterable[tuple[str, int]]) -> None:
        """Look at (name, process id) pairs; those that are gone are passed over."""
        for name, pid in processes:
            try:
                process = self._processes.setdefault(pid, psutil.Process(pid))
                with process.oneshot():
                    memory = process.memory_info()
                    cpu = process.cpu_times()
            except psutil.Error:
                continue
            usage = self.usage.setdefault(name, Usage())
            # Linux counts a broker's mapped store files as resident; they are the page cache's.
            own = memory.rss - getattr(memory, "shared", 0)
            usage.cpu_s = max(usage.cpu_s, cpu.user + cpu.system)
            usage.peak_own_bytes = max(usage.peak_own_bytes, own)
            usage.peak_rss_bytes = max(usage.peak_rss_bytes, memory.rss)
