"""A `Dispatcher` that asks a guard before any processor: no processor knows of it.

A role that checks nothing has a plain one, and pays nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pocketmq.protocol.budget import BudgetSource
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Dispatcher, Peer, Reply, error_reply
from pocketmq.protocol.releases import Knows, everything


class Guard(Protocol):
    """What checks requests before any processor gets them."""

    def check(self, peer: Any, request: Command) -> None:
        """Return if the request may be processed; raise its refusal if not."""
        ...


class GuardedDispatcher(Dispatcher):
    """Answers a request that the guard refuses with its refusal (M-2).

    Args:
        guard: Checks each.
        budget: as `Dispatcher`.
        knows: as `Dispatcher`.
    """

    def __init__(self, guard: Guard, budget: BudgetSource, knows: Knows = everything) -> None:
        super().__init__(budget, knows)
        self._guard = guard

    def process(self, peer: Peer, request: Command) -> Reply:
        try:
            limit = self._body_limit.get(request.code)
            if limit is not None:  # before the check, which reads some bodies
                self.budget().check(limit, len(request.body), "bytes of the request's body")
            self._guard.check(peer, request)
        except Exception as exc:  # noqa: BLE001 - the peer is told of any failure
            return error_reply(peer, request, exc)
        return super().process(peer, request)

    def process_batch(self, peers: Sequence[Peer], requests: Sequence[Command]) -> Sequence[Reply]:
        refused: dict[int, Reply] = {}
        for i, (peer, request) in enumerate(zip(peers, requests, strict=True)):
            try:
                self._guard.check(peer, request)
            except Exception as exc:  # noqa: BLE001 - the peer is told of any failure
                # A refused request does not stop the others of the batch.
                refused[i] = error_reply(peer, request, exc)
        if not refused:
            return super().process_batch(peers, requests)
        passed = [i for i in range(len(requests)) if i not in refused]
        replies: Sequence[Reply] = ()
        if passed:
            replies = super().process_batch(
                [peers[i] for i in passed], [requests[i] for i in passed]
            )
        answered = {**refused, **dict(zip(passed, replies, strict=True))}
        # Callers expect one reply per request, in the same order.
        return [answered[i] for i in range(len(requests))]
