"""How much goes through the broker, for each second of the last ten minutes (O-24)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

WINDOW_S = 600


class _Second:
    __slots__ = ("at", "found", "got", "missed", "put")

    def __init__(self, at: int) -> None:
        self.at = at
        self.put = 0
        self.got = 0
        self.found = 0
        self.missed = 0


class BrokerStats:
    """Counters that cost an addition per batch, and rates that are worked out when asked for.

    Times are the caller's monotonic seconds.
    """

    def __init__(self) -> None:
        self.put_messages = 0
        self.put_bytes = 0
        self.got_messages = 0
        self.got_bytes = 0
        self.pulls_found = 0
        self.pulls_missed = 0
        self._seconds: deque[_Second] = deque()

    def note_put(self, messages: int, size_bytes: int, now: float) -> None:
        """Messages were stored."""
        self.put_messages += messages
        self.put_bytes += size_bytes
        self._second(now).put += messages

    def note_get(self, messages: int, size_bytes: int, now: float) -> None:
        """A pull was answered, with nothing when `messages` is 0."""
        second = self._second(now)
        if messages:
            self.got_messages += messages
            self.got_bytes += size_bytes
            self.pulls_found += 1
            second.got += messages
            second.found += 1
        else:
            self.pulls_missed += 1
            second.missed += 1

    def rates(self, now: float) -> dict[str, str]:
        """RocketMQ's four rates, each over the last 10, 60 and 600 s."""
        return {
            "putTps": self._averages(now, lambda second: second.put),
            "getTransferredTps": self._averages(now, lambda second: second.got),
            "getFoundTps": self._averages(now, lambda second: second.found),
            "getMissTps": self._averages(now, lambda second: second.missed),
            "getTotalTps": self._averages(now, lambda second: second.found + second.missed),
        }

    def _second(self, now: float) -> _Second:
        at = int(now)
        seconds = self._seconds
        if seconds and seconds[-1].at == at:
            return seconds[-1]
        while seconds and seconds[0].at < at - WINDOW_S:
            seconds.popleft()
        seconds.append(_Second(at))
        return seconds[-1]

    def _averages(self, now: float, count: Callable[[_Second], int]) -> str:
        averages = []
        for window_s in (10, 60, WINDOW_S):
            total = sum(count(s) for s in self._seconds if s.at >= now - window_s)
            averages.append(f"{total / window_s:.2f}")
        return " ".join(averages)
