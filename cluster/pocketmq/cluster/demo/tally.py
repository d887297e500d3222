"""Counts in the consumers' files: consumed, redelivered, lost, mean delay per carrier.

A consumer appends one line per message before it reports success:

    broker,queue,offset,key,carrier,dep_delay      broker-a,3,1207,N14228,UA,-4

`dep_delay` is empty where the flight has none. In mode `failures` a seventh column has the message
id, which retries keep. A process that is killed while it writes leaves an incomplete line; it had
not reported success for that message, so the line is ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple, TypeAlias


class FlightId(NamedTuple):
    """The fields of a flight in a record; several flights may have the same."""

    key: str
    carrier: str
    dep_delay: int | None
    """Minutes."""


class Place(NamedTuple):
    """Where a message is stored, which identifies it."""

    broker: str
    queue: int
    offset: int


Identity: TypeAlias = Place | str
"""Identifies a message: its place, or its id where copies of it may be stored."""


class Delays:
    """Sum and number of the known departure delays per carrier; integers, so exact."""

    def __init__(self) -> None:
        self._sums: dict[str, int] = {}
        self._counts: dict[str, int] = {}

    def add(self, carrier: str, delay: int | None) -> None:
        """Count one flight; of a cancelled one, without a delay, only the carrier is noted."""
        # So that a carrier with only cancelled flights also appears in the table.
        if delay is None:
            self._sums.setdefault(carrier, 0)
            self._counts.setdefault(carrier, 0)
            return
        self._sums[carrier] = self._sums.get(carrier, 0) + delay
        self._counts[carrier] = self._counts.get(carrier, 0) + 1

    def means(self) -> dict[str, Fraction | None]:
        """Mean delay in minutes per carrier, exact, sorted by carrier."""
        return {
            carrier: Fraction(self._sums[carrier], count) if count else None
            for carrier, count in sorted(self._counts.items())
        }


def record_line(
    broker: str, queue: int, offset: int, flight: FlightId, *, message_id: str = ""
) -> bytes:
    """The line that a consumer appends for one message."""
    delay = "" if flight.dep_delay is None else flight.dep_delay
    end = f",{message_id}" if message_id else ""
    return f"{broker},{queue},{offset},{flight.key},{flight.carrier},{delay}{end}\n".encode()


def parse_records(text: bytes) -> Iterable[tuple[Identity, FlightId]]:
    """Parse the complete lines of one consumer's file; an incomplete last line is ignored."""
    lines = text.split(b"\n")
    for line in lines[:-1]:  # the last item is empty, or an incomplete line
        broker, queue, offset, key, carrier, delay, *message_id = line.decode().split(",")
        identity = message_id[0] if message_id else Place(broker, int(queue), int(offset))
        yield identity, FlightId(key, carrier, int(delay) if delay else None)


@dataclass(slots=True)
class Tally:
    """Counts over the files of all consumers; a repeated message counts once."""

    lines: int = 0
    """Number of records: consumptions that reported success."""
    per_consumer: dict[str, int] = field(default_factory=dict)
    killed: set[str] = field(default_factory=set)
    """Consumers that were killed."""
    _seen: dict[Identity, FlightId] = field(default_factory=dict, repr=False)
    _unfinished: dict[str, bytes] = field(default_factory=dict, repr=False)

    def add(self, consumer: str, text: bytes) -> None:
        """Count the records in the next part of one consumer's file, which may end anywhere."""
        text = self._unfinished.get(consumer, b"") + text
        end = text.rfind(b"\n") + 1
        # A read may end within a line, whose beginning is kept for the next call.
        self._unfinished[consumer] = text[end:]
        before = self.lines
        for identity, flight in parse_records(text[:end]):
            self.lines += 1
            self.count(consumer, identity, flight)
        self.per_consumer[consumer] = self.per_consumer.get(consumer, 0) + self.lines - before

    def count(self, _consumer: str, identity: Identity, flight: FlightId) -> None:
        """Count one record."""
        # Stored by identity, so a repetition changes nothing.
        self._seen[identity] = flight

    @property
    def distinct(self) -> int:
        """Number of stored messages that were consumed at least once."""
        return len(self._seen)

    @property
    def redelivered(self) -> int:
        """Number of consumptions beyond the first of a message."""
        return self.lines - self.distinct

    def delays(self) -> Delays:
        """Departure delays of the distinct messages."""
        delays = Delays()
        for flight in self._seen.values():
            delays.add(flight.carrier, flight.dep_delay)
        return delays

    def lost(self, sent: Counter[FlightId]) -> int:
        """Number of sent flights that no file has; duplicates of others do not hide one."""
        return (sent - Counter(self._seen.values())).total()

    def unread(self, stored: Mapping[tuple[str, int], int]) -> int:
        """Number of stored messages that no consumer consumed.

        Args:
            stored: (broker, queue id) -> maximum offset: the number of messages there.
        """
        read = Counter((at.broker, at.queue) for at in self._seen if isinstance(at, Place))
        return sum(max(0, end - read[queue]) for queue, end in stored.items())

    def notes(self) -> list[str]:
        """Further lines for the report."""
        return []

    def complaints(self) -> list[str]:
        """Problems other than losses."""
        return []
