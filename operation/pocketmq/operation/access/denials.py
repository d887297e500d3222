"""Refusals in the log: who tries names at random must not fill a disk."""

from __future__ import annotations

from typing import Final

import structlog

log = structlog.get_logger()

_MOST_TOLD: Final = 256
"""So many kinds of refusals are logged at info."""


class Denials:
    """What one role has refused."""

    def __init__(self) -> None:
        self._told: set[tuple[object, str]] = set()

    def tell(self, peer: str, kind: object, request: str, reason: str) -> None:
        """Log the first refusal of a kind; all others at debug.

        Args:
            peer: Who asked.
            kind: Of request.
            request: For people.
            reason: What the peer is told.
        """
        # The key leaves the peer out, whose port is new with each connection.
        key = (kind, reason)
        is_new = key not in self._told and len(self._told) < _MOST_TOLD
        if is_new:
            self._told.add(key)
        (log.info if is_new else log.debug)(
            "request.denied", peer=peer, request=request, reason=reason
        )
