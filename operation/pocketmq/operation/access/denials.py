"""Refusals in the log: who tries names at random must not fill a disk."""

from __future__ import annotations

from typing import Final

import structlog

log = structlog.get_logger()

_MOST_TOLD: Final = 256
"""So many kinds of refusals are logged at info."""
_MOST_CHARS: Final = 200
"""Of a reason: it quotes names, which may be as long as a header."""


class FirstOfKind:
    """Tells the first refusal of a kind from all others."""

    def __init__(self) -> None:
        self._told: set[object] = set()

    def __call__(self, kind: object) -> bool:
        """Whether to log this one: nothing of its kind was, and there were not too many kinds."""
        if kind in self._told or len(self._told) >= _MOST_TOLD:
            return False
        self._told.add(kind)
        return True


class Denials:
    """What one role has refused."""

    def __init__(self) -> None:
        self._is_first = FirstOfKind()

    def tell(self, peer: str, kind: object, request: str, reason: str) -> None:
        """Log the first refusal of a kind; all others at debug.

        Args:
            peer: Who asked.
            kind: Of request.
            request: For people.
            reason: What the peer is told.
        """
        reason = reason[:_MOST_CHARS]
        # The key leaves the peer out, whose port is new with each connection.
        (log.info if self._is_first((kind, reason)) else log.debug)(
            "request.denied", peer=peer, request=request, reason=reason
        )
