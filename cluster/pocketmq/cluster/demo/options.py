"""What the user asks of the demo."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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
    secure: bool = False
    """TLS only, users and rules, and members who prove who they are."""
    record: Path | None = None
    """Where what happens is recorded, for `pocketmq watch --from`."""
