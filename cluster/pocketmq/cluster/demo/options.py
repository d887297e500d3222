"""What the director is asked for, and how it reads what consumers write down."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from pocketmq.cluster.demo.modes import DEFAULT_MODE, Mode


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The user's options."""

    flights: int | None = None
    """Number of rows of the CSV, None for all."""
    seed: int = 2013
    mode: Mode = DEFAULT_MODE
    spark: bool = True
    """Whether Spark computes the table too, if it is installed."""
    replicas: int = 1
    """Brokers of one broker name, with controllers that elect its master; 1: two brokers alone."""
    record: Path | None = None
    """Where what happens is recorded, for `pocketmq watch --from`."""


@dataclass(slots=True)
class RecordFile:
    """A file that a consumer appends to."""

    path: Path
    file: BinaryIO | None = field(default=None)

    def read_on(self) -> bytes:
        """The bytes appended since the last call."""
        if self.file is None:
            if not self.path.exists():
                return b""
            self.file = self.path.open("rb")
        return self.file.read()

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
