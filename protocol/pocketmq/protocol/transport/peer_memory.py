"""What the peers of one role have waiting here, all together: the heaviest goes first."""

from __future__ import annotations

from typing import Protocol

import structlog

from pocketmq.protocol.budget import BudgetSource

log = structlog.get_logger()

GRAIN_BYTES = 4 * 1024
"""What a connection holds is told in steps of about so much."""


class Holder(Protocol):
    """A connection that bytes wait for."""

    address: str

    @property
    def waiting_bytes(self) -> int:
        """What waits now: answers not read, half frames, requests put off, held pulls."""
        ...

    def abort(self) -> None:
        """Close at once; what is buffered is dropped."""


class PeerMemory:
    """Adds up what connections hold, and closes the heaviest when it is too much.

    Connections tell when they come to hold more or less, and not what the system has taken of a
    buffer since; so all are asked before one is closed.

    Args:
        budget: `peer_memory_bytes`.
    """

    def __init__(self, budget: BudgetSource) -> None:
        self.budget = budget
        self.total_bytes = 0
        self._bytes_of: dict[Holder, int] = {}

    def note(self, holder: Holder, size_bytes: int) -> None:
        """A connection holds so much now. O(1) while all is well."""
        self._enter(holder, size_bytes)
        if self.total_bytes > self.budget().peer_memory_bytes:
            self._relieve()

    def forget(self, holder: Holder) -> None:
        """A connection has ended."""
        self.total_bytes -= self._bytes_of.pop(holder, 0)

    def _enter(self, holder: Holder, size_bytes: int) -> None:
        self.total_bytes += size_bytes - self._bytes_of.get(holder, 0)
        if size_bytes:
            self._bytes_of[holder] = size_bytes
        else:
            self._bytes_of.pop(holder, None)

    def _relieve(self) -> None:
        for holder in list(self._bytes_of):
            self._enter(holder, holder.waiting_bytes)
        while self._bytes_of and self.total_bytes > self.budget().peer_memory_bytes:
            heaviest = max(self._bytes_of, key=lambda holder: self._bytes_of[holder])
            log.warning(
                "peer.too_heavy", peer=heaviest.address, waiting_bytes=self._bytes_of[heaviest],
                of_all_bytes=self.total_bytes, limit_bytes=self.budget().peer_memory_bytes,
                advice="it reads no answers, or asks for too much at once; the limit is "
                "budget.peer_memory_bytes",
            )  # fmt: skip
            self.forget(heaviest)
            heaviest.abort()
