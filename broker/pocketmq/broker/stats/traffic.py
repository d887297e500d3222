"""How many messages and bytes went one way, and how many of late (O-30, O-31).

Sends are also counted by type and size, for metrics: once for each run of messages of one topic,
type and class of size. `Sent` stands in the `Traffic` of its topic, so that a send looks its topic
up once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from pocketmq.operation.metrics import MESSAGE_SIZE
from pocketmq.protocol.bodies.stats import BrokerStatsData, BrokerStatsItem

MINUTE_PERIOD_MS: Final = 10_000
HOUR_PERIOD_MS: Final = 600_000
DAY_PERIOD_MS: Final = 3_600_000

_SIZES: Final = tuple(int(bound) for bound in MESSAGE_SIZE.bounds)
_CLASSES: Final = tuple(
    (place, floor, ceiling)
    for place, (floor, ceiling) in enumerate(zip((-1, *_SIZES), (*_SIZES, 2**63), strict=True))
)


class _Sample(NamedTuple):
    at_ms: int
    times: int
    messages: int
    size_bytes: int


class _Window:
    """The samples of a minute, an hour or a day; a first one is preceded by zeros (O-31)."""

    __slots__ = ("_period_ms", "_samples")

    def __init__(self, period_ms: int, length: int) -> None:
        self._period_ms = period_ms
        self._samples: deque[_Sample] = deque(maxlen=length)

    def add(self, sample: _Sample) -> None:
        if not self._samples:
            self._samples.append(_Sample(sample.at_ms - self._period_ms, 0, 0, 0))
        self._samples.append(sample)

    def item(self, *, of_bytes: bool) -> BrokerStatsItem:
        if not self._samples:
            return BrokerStatsItem()
        first, last = self._samples[0], self._samples[-1]
        total = last.size_bytes - first.size_bytes if of_bytes else last.messages - first.messages
        times, elapsed_ms = last.times - first.times, last.at_ms - first.at_ms
        return BrokerStatsItem(
            sum=total,
            tps=total * 1000 / elapsed_ms if elapsed_ms > 0 else 0.0,
            avgpt=total / times if times else 0.0,
        )


def size_class(size_bytes: int) -> tuple[int, int, int]:
    """Place of a record's bucket, and its bounds: above the first and at most the second."""
    return _CLASSES[bisect_left(_SIZES, size_bytes)]


class Sent:
    """Messages that were sent to one topic, by type.

    Each row has the messages of one `MessageType`, their bytes, and the buckets of their sizes.
    """

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: list[list[int] | None] = [None] * 4

    def note(self, message_type: int, place: int, messages: int, size_bytes: int) -> None:
        """Messages of one type and `size_class` were sent and stored."""
        row = self._rows[message_type]
        if row is None:
            row = self._rows[message_type] = [0] * (2 + len(_CLASSES))
        row[0] += messages
        row[1] += size_bytes
        row[2 + place] += messages

    def rows(self) -> Iterator[tuple[int, int, int, list[int]]]:
        """Number of the type, messages, bytes and buckets, of each type that was sent."""
        for number, row in enumerate(self._rows):
            if row is not None:
                yield number, row[0], row[1], row[2:]


class Traffic:
    """Counters that only grow, and samples of them.

    Args:
        is_system: of a system topic, which totals for people leave out (O-24).
    """

    __slots__ = ("_day", "_hour", "_minute", "is_system", "messages", "sent", "size_bytes", "times")

    def __init__(self, *, is_system: bool = False) -> None:
        self.is_system = is_system
        self.messages = 0
        self.size_bytes = 0
        self.times = 0
        self.sent: Sent | None = None
        """Of a topic to which messages were sent, them by type."""
        self._minute = _Window(MINUTE_PERIOD_MS, 7)
        self._hour = _Window(HOUR_PERIOD_MS, 7)
        self._day = _Window(DAY_PERIOD_MS, 25)

    def note(self, messages: int, size_bytes: int) -> None:
        """Count one request's or batch's messages."""
        self.messages += messages
        self.size_bytes += size_bytes
        self.times += 1

    def sample(self, now_ms: int, *, hour: bool, day: bool) -> None:
        """Keep how far the counters are, for the minute and, when it is time, the others.

        To be called from its first message on, with which RocketMQ's counters begin.
        """
        sample = _Sample(now_ms, self.times, self.messages, self.size_bytes)
        self._minute.add(sample)
        if hour:
            self._hour.add(sample)
        if day:
            self._day.add(sample)

    @property
    def minute_tps(self) -> float:
        """Messages per second of the last minute."""
        return self._minute.item(of_bytes=False).tps

    def data(self, *, of_bytes: bool) -> BrokerStatsData:
        """Sums and averages as VIEW_BROKER_STATS_DATA (315) tells them."""
        return BrokerStatsData(
            stats_minute=self._minute.item(of_bytes=of_bytes),
            stats_hour=self._hour.item(of_bytes=of_bytes),
            stats_day=self._day.item(of_bytes=of_bytes),
        )
