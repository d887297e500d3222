"""What decoding a source did: rows, bad bodies, tables."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Reason:
    """Why bodies are bad, and how many."""

    reason: str
    count: int


@dataclass(slots=True)
class Decoded:
    """What was done."""

    rows: int = 0
    bad: int = 0
    empty: int = 0
    """Bodies `null`, by which a change stream says that a deleted key is over."""
    tables: list[str] = field(default_factory=list)
    """Folders in the folder that was named."""
    reasons: dict[str, int] = field(default_factory=dict)
    """The most frequent reasons first, without what differs from body to body."""
