"""Whether a store takes messages, and why not (B-167)."""

from __future__ import annotations


class Readiness:
    """Reasons against taking a message, each given and taken back by whoever knows of it.

    A full disk, a failed sync, a log that another broker writes: each is a text, which producers
    get to read. One who blocks twice with the same reason blocks once.
    """

    __slots__ = ("reasons",)

    def __init__(self) -> None:
        self.reasons: frozenset[str] = frozenset()
        """Empty while all is well."""

    def block(self, reason: str) -> None:
        """Take no message from now on."""
        self.reasons |= {reason}

    def unblock(self, *reasons: str) -> None:
        """These are no reasons any more; whether messages are taken depends on the others."""
        self.reasons -= set(reasons)
