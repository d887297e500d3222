"""Logs: equal wherever they are confirmed, and in equal epochs (I-4, I-5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

ReadLog = Callable[[int, int], bytes]
"""Bytes of [start, end)."""


class LogLedger:
    """What was confirmed, byte by byte.

    Args:
        violations: Gets one line for each.
    """

    def __init__(self, violations: list[str]) -> None:
        self.seen: Counter[str] = Counter()
        self._violations = violations
        self._truth = bytearray()
        self._checked: dict[str, int] = {}

    def restarted(self, name: str) -> None:
        """A new process, or a log that was cut: compare it anew."""
        self._checked.pop(name, None)

    def confirmed(self, now: float, name: str, end: int, read: ReadLog) -> None:
        """A replica's log is confirmed up to `end`."""
        start = self._checked.get(name, 0)
        if end <= start:
            return
        found = read(start, end)
        self._checked[name] = end
        known = bytes(self._truth[start:end])
        if found[: len(known)] != known:
            at = next(at for at, byte in enumerate(known) if found[at : at + 1] != bytes([byte]))
            self._violations.append(
                f"{now:.3f} the log of {name} differs from others' at {start + at}, below its"
                f" confirmed offset {end}"
            )
            return
        if len(found) == end - start and end > len(self._truth):
            self._truth[start:] = found
        self.seen["bytes compared"] += len(known)
