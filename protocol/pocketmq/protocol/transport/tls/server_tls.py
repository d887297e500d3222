"""`ServerTls`: what the ports of one process know of TLS: mode, certificate, open handshakes."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Protocol

import structlog

log = structlog.get_logger()


class Shaking(Protocol):
    """A connection whose handshake is under way."""

    @property
    def address(self) -> str: ...

    def abort(self) -> None:
        """Close at once."""


class Handshakes:
    """The handshakes that are under way, so that no flood of halves takes all memory."""

    def __init__(self) -> None:
        self._open: dict[Shaking, None] = {}
        """The oldest first."""

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, line: Shaking, limit: int) -> None:
        """One more; of more than `limit` the oldest is closed, which had the most time."""
        self._open[line] = None
        while len(self._open) > limit:
            oldest = next(iter(self._open))
            del self._open[oldest]
            log.warning(
                "tls.crowded", peer=oldest.address, handshakes=limit,
                advice="its handshake did not end while so many others began;"
                " the limit is budget.tls_handshakes",
            )  # fmt: skip
            oldest.abort()

    def end(self, line: Shaking) -> None:
        """It is complete, or its connection ended."""
        self._open.pop(line, None)


class ServerTls:
    """Mode and certificate of a process's ports.

    Args:
        context: The context for new connections as it is now; None: there is none, and a log line
            has said why. Connections that exist keep theirs.
        enforces: Plaintext is refused.
    """

    def __init__(
        self, context: Callable[[], ssl.SSLContext | None], *, enforces: bool = False
    ) -> None:
        self.context = context
        self.enforces = enforces
        self.handshakes = Handshakes()
