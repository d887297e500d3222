"""How long puts took in the last full minute, and at most (O-24)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_CLASSES: Final = (
    ("[<=0ms]", 1),
    ("[0~10ms]", 10),
    ("[10~50ms]", 50),
    ("[50~100ms]", 100),
    ("[100~200ms]", 200),
    ("[200~500ms]", 500),
    ("[500ms~1s]", 1_000),
    ("[1~2s]", 2_000),
    ("[2~3s]", 3_000),
    ("[3~4s]", 4_000),
    ("[4~5s]", 5_000),
    ("[5~10s]", 10_000),
)
"""Name and end of each class in ms; what is longer is `[10s~]`."""
_LONGEST_MS: Final = 10_000


class PutTimes:
    """Counts by whole milliseconds; `turn` begins a new minute."""

    __slots__ = ("_last", "_now", "max_ms")

    def __init__(self) -> None:
        self.max_ms = 0
        """The longest since the start."""
        self._now: dict[int, int] = {}
        self._last: Mapping[int, int] = {}

    def note(self, took_s: float, count: int) -> None:
        """So many messages were put in one append that took so long."""
        took_ms = int(took_s * 1000)
        if took_ms > self.max_ms:
            self.max_ms = took_ms
        if took_ms > _LONGEST_MS:
            took_ms = _LONGEST_MS
        self._now[took_ms] = self._now.get(took_ms, 0) + count

    def turn(self) -> None:
        """A minute is over."""
        self._last, self._now = self._now, {}

    def distribution(self) -> str:
        """`[<=0ms]:5 [0~10ms]:0 ... `; zeros before the first minute is over.

        RocketMQ says `null` then, at which its exporter drops the whole broker (O-25).
        """
        counts = [0] * (len(_CLASSES) + 1)
        for took_ms, count in self._last.items():
            at = next((i for i, (_, end) in enumerate(_CLASSES) if took_ms < end), len(_CLASSES))
            counts[at] += count
        names = [*(name for name, _ in _CLASSES), "[10s~]"]
        return "".join(f"{name}:{count} " for name, count in zip(names, counts, strict=True))

    def percentile(self, share: float) -> str:
        """The time within which this share of the puts was done, in ms."""
        wanted = sum(self._last.values()) * share
        passed = 0
        for took_ms in sorted(self._last):
            passed += self._last[took_ms]
            if passed >= wanted:
                return f"{took_ms:.2f}"
        return "0.00"
