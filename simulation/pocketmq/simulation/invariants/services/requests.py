"""Requests: a reply is that of its own request, and whoever asks in peace is answered."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.simulation.invariants.services.base import ServiceLedger

PEACE_S = 60.0
"""At the end of a run somebody answers within so many seconds."""


def reply_to(body: bytes) -> bytes:
    """What an answerer replies."""
    return b"re:" + body


class RequestLedger(ServiceLedger):
    """Requests and the replies that came."""

    ABOUT: ClassVar[frozenset[str]] = frozenset({"requests", "replies"})

    def __init__(self, violations: list[str]) -> None:
        super().__init__(violations)
        self.is_answered_in_peace = False

    def asked(self) -> None:
        """A request was sent."""
        self.seen["requests"] += 1

    def replied(self, body: bytes, reply: bytes, now_ms: int) -> None:
        """A reply came."""
        self.seen["replies"] += 1
        if reply != reply_to(body):
            self.violated(f"{body!r} got the reply {reply!r} of another request", now_ms)

    def answered_in_peace(self) -> None:
        """A request after the end of all trouble got its reply."""
        self.is_answered_in_peace = True

    def open(self) -> list[str]:
        """What must come yet."""
        return [] if self.is_answered_in_peace else ["nobody answers requests any more"]
