"""Conditions that Spark passes to a reader, as bounds on queues, offsets, times and tags.

Spark passes the parts of a WHERE that are joined by AND. Those that the reader guarantees are not
tested again; those that only narrow the read (times to the millisecond, tags by their hash) Spark
tests as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_TEXTS: Final = ("topic", "brokerName", "tags", "keys", "uniqKey")
_NUMBERS: Final = ("queueId", "queueOffset", "physicalOffset")
_TIMES: Final = ("storeTimestamp", "bornTimestamp")
NEVER_NULL: Final = frozenset(
    {*_NUMBERS, "topic", "flag", "sysFlag", "reconsumeTimes", "partition", "offset"}
)
KAFKA_NAMES: Final = {"offset": "queueOffset", "timestamp": "storeTimestamp"}


@dataclass(slots=True)
class Range:
    """Integers from `low` to `high`, both included; None means no bound."""

    low: int | None = None
    high: int | None = None

    def narrow(self, low: int | None = None, high: int | None = None) -> None:
        """Reduce this range to its intersection with another."""
        if low is not None and (self.low is None or low > self.low):
            self.low = low
        if high is not None and (self.high is None or high < self.high):
            self.high = high

    @property
    def is_open(self) -> bool:
        """Whether it has no bound at all."""
        return self.low is None and self.high is None

    @property
    def is_empty(self) -> bool:
        """Whether no number is in it."""
        return self.low is not None and self.high is not None and self.low > self.high

    def __contains__(self, number: int) -> bool:
        return (self.low is None or number >= self.low) and (
            self.high is None or number <= self.high
        )


@dataclass(slots=True)
class RowFilter:
    """Bounds that every row of the result is within."""

    texts: dict[str, frozenset[str]] = field(default_factory=dict)
    """Column -> the values that it may have; for the columns of `_TEXTS`."""
    numbers: dict[str, Range] = field(default_factory=dict)
    """Column -> bounds; for `queueId`, `queueOffset`, `physicalOffset`."""
    times_ms: dict[str, Range] = field(default_factory=dict)
    """Column -> bounds in epoch ms; for `storeTimestamp`, `bornTimestamp`."""

    @classmethod
    def of_tags(cls, tags: Iterable[str]) -> RowFilter:
        """Only messages with one of these tags; everything if there are none."""
        chosen = frozenset(tags)
        return cls(texts={"tags": chosen} if chosen else {})

    def absorb(self, filters: Iterable[Any], *, exact: Iterable[str]) -> list[Any]:
        """Narrow the bounds by Spark's filters; returns those that Spark must test as well.

        Args:
            filters: Spark's filters, joined by AND.
            exact: Columns whose bounds the reader tests row by row.
        """
        kept = frozenset(exact)
        return [each for each in filters if not self._take(each, kept)]

    def allows(self, column: str, value: str) -> bool:
        """Whether rows with this value of a text column are within the bounds."""
        values = self.texts.get(column)
        return values is None or value in values

    def range(self, column: str) -> Range:
        """Bounds of a numeric column; an open range when there are none."""
        return self.numbers.get(column) or Range()

    def times(self, column: str) -> Range:
        """Bounds of a time column in epoch ms."""
        return self.times_ms.get(column) or Range()

    def _take(self, each: Any, exact: frozenset[str]) -> bool:
        kind = type(each).__name__
        # A field within a column has a path of several names, which no bound here covers.
        if len(each.attribute if hasattr(each, "attribute") else ()) != 1:
            return False
        name = KAFKA_NAMES.get(each.attribute[0], each.attribute[0])
        if kind == "IsNotNull":
            return name in NEVER_NULL
        # `<=> NULL` asks for rows without a value, which a range cannot express.
        if kind == "EqualNullSafe" and each.value is None:
            return False
        kind = {"EqualNullSafe": "EqualTo"}.get(kind, kind)
        if name in _TEXTS:
            return self._text(name, kind, each) and name in exact
        if name in _NUMBERS:
            return _narrow(self.numbers, name, kind, each, _whole) and name in exact
        if name in _TIMES:
            # Spark tests these rows again: columns have microseconds, but records milliseconds.
            _narrow(self.times_ms, name, kind, each, _epoch_ms)
        return False

    def _text(self, name: str, kind: str, each: Any) -> bool:
        if kind == "EqualTo":
            values = frozenset({each.value})
        elif kind == "In":
            # `= NULL` within `IN` is never true.
            values = frozenset(value for value in each.value if value is not None)
        else:
            return False
        # Conditions are joined by AND, so both must hold.
        self.texts[name] = self.texts.get(name, values) & values
        return True


def _narrow(ranges: dict[str, Range], name: str, kind: str, each: Any, convert: Any) -> bool:
    """Narrow a range; whether its bounds now guarantee the condition."""
    bounds = ranges.setdefault(name, Range())
    if kind == "EqualTo":
        bounds.narrow(*convert(each.value))
    elif kind == "In":
        values = [convert(value) for value in each.value if value is not None]
        if not values:
            return False
        # A range has no gaps, so with several values Spark tests the rows again.
        bounds.narrow(min(low for low, _ in values), max(high for _, high in values))
        return len(values) == 1
    elif kind == "GreaterThan":
        low, high = convert(each.value)
        # Records have whole milliseconds only: a row of the same millisecond may be later.
        bounds.narrow(low=low + 1 if low == high and convert is _whole else low)
    elif kind == "GreaterThanOrEqual":
        bounds.narrow(low=convert(each.value)[0])
    elif kind == "LessThan":
        low, high = convert(each.value)
        bounds.narrow(high=high - 1 if low == high and convert is _whole else high)
    elif kind == "LessThanOrEqual":
        bounds.narrow(high=convert(each.value)[1])
    else:
        return False
    return True


def _whole(value: int) -> tuple[int, int]:
    return int(value), int(value)


def _epoch_ms(value: datetime) -> tuple[int, int]:
    """A time rounded down to a millisecond, and rounded up."""
    moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    micros = (moment - _EPOCH) // timedelta(microseconds=1)
    return micros // 1000, -(-micros // 1000)
