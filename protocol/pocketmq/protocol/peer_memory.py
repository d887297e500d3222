"""What the peers of one role have waiting here, all together: the heaviest goes first."""

from __future__ import annotations

from typing import Protocol

import structlog

from pocketmq.protocol.budget import BudgetSource

log = structlog.get_logger()

GRAIN_BYTES = 4 * 1024
"""What a connection holds is told in steps of about so much."""

ASK_SHARE = 64
"""Of the limit: after all were asked, the sum may grow by this part before they are asked again.
Where very many hold the sum at the limit, each would otherwise be asked for every few bytes."""


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
        self._asked_bytes = 0
        """What all had when they were asked last."""

    def note(self, holder: Holder, size_bytes: int) -> None:
        """A connection holds so much now. O(1) while all is well."""
        self._enter(holder, size_bytes)
        limit_bytes = self.budget().peer_memory_bytes
        asked_bytes = min(self._asked_bytes, limit_bytes)  # the limit may be less by now
        if self.total_bytes > max(limit_bytes, asked_bytes + limit_bytes // ASK_SHARE):
            self._relieve(limit_bytes)

    def forget(self, holder: Holder) -> None:
        """A connection has ended."""
        self.total_bytes -= self._bytes_of.pop(holder, 0)

    def _enter(self, holder: Holder, size_bytes: int) -> None:
        self.total_bytes += size_bytes - self._bytes_of.get(holder, 0)
        if size_bytes:
            self._bytes_of[holder] = size_bytes
        else:
            self._bytes_of.pop(holder, None)

    def _relieve(self, limit_bytes: int) -> None:
        for holder in list(self._bytes_of):
            self._enter(holder, holder.waiting_bytes)
        if self.total_bytes > limit_bytes:
            self._close_heaviest(limit_bytes)
        self._asked_bytes = self.total_bytes

    def _close_heaviest(self, limit_bytes: int) -> None:
        bytes_of = self._bytes_of
        for heaviest in sorted(bytes_of, key=bytes_of.__getitem__, reverse=True):
            if self.total_bytes <= limit_bytes:
                return
            log.warning(
                "peer.too_heavy", peer=heaviest.address, waiting_bytes=bytes_of[heaviest],
                of_all_bytes=self.total_bytes, limit_bytes=limit_bytes,
                advice="it reads no answers, or asks for too much at once; the limit is "
                "budget.peer_memory_bytes",
            )  # fmt: skip
            self.forget(heaviest)
            heaviest.abort()
