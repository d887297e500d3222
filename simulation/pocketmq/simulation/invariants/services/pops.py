"""Pop groups: hidden while somebody has it, gone when acknowledged, never hidden for ever.

At least once: every message that was acknowledged to its producer is acknowledged by a member in
the end. A broker that is killed may hand out again what it had handed out before, also what was
acknowledged: the group's offset is saved every 5 s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pocketmq.simulation.invariants.services.base import ServiceLedger


@dataclass(slots=True)
class Delivery:
    """One time that a message was handed out."""

    member: str
    broker: str
    popped_ms: int
    """By the broker's clock, as in the receipt handle."""
    until_ms: int
    """Nobody else gets it before, unless its time is changed."""
    times: int
    """How often it was handed out before, as the broker counts."""
    acked_ms: int | None = None
    """When an ack was answered that came in time."""


class PopLedger(ServiceLedger):
    """Every delivery of every message of a group that pops."""

    ABOUT: ClassVar[frozenset[str]] = frozenset(
        {"popped", "popped again", "acks answered", "invisible times changed", "pop members died"}
    )

    def __init__(self, violations: list[str]) -> None:
        super().__init__(violations)
        self._sent: dict[str, str] = {}
        self._done: set[str] = set()
        self._had: dict[str, list[Delivery]] = {}
        self._doubled: set[str] = set()
        """Keys of messages that may be there twice, each copy hidden by itself."""

    def sent(self, key: str, broker: str) -> None:
        """The producer was told that it is stored."""
        self._sent[key] = broker

    def handed_out(self, key: str, delivery: Delivery) -> None:
        """A member got it."""
        self.seen["popped"] += 1
        earlier = self._had.setdefault(key, [])
        # A kill makes copies, each of which lives on for itself; also of a delivery whose answer it
        # cut off, which was hidden for as long as this one.
        hidden_ms = delivery.until_ms - delivery.popped_ms
        since_ms = min((each.popped_ms for each in earlier), default=0) - hidden_ms
        for each in earlier:
            if key in self._doubled or self.was_killed(each.broker, since_ms):
                continue
            # An answer may be under way for longer than its message is hidden.
            first, again = sorted((each, delivery), key=lambda one: one.popped_ms)
            if first.acked_ms is not None:
                self._again(key, first, again, "although it was acknowledged")
            elif again.popped_ms < first.until_ms:
                self._again(key, first, again, f"while it is hidden until {first.until_ms}")
            elif again.times <= first.times:
                self._again(key, first, again, f"and counts {again.times} tries still")
        self.seen["popped again"] += bool(earlier)
        earlier.append(delivery)

    def _again(self, key: str, each: Delivery, now: Delivery, why: str) -> None:
        self.violated(
            f"{key} of {each.member} is handed out to {now.member} again {why}", now.popped_ms
        )

    def acknowledged(self, key: str, delivery: Delivery, now_ms: int) -> None:
        """The broker answered an ack of it with success."""
        self.seen["acks answered"] += 1
        self._done.add(key)
        if now_ms < delivery.until_ms:
            delivery.acked_ms = now_ms

    def ack_in_doubt(self, key: str) -> None:
        """It was sent: until its answer comes it may be acknowledged, or come again."""
        self._done.add(key)

    def hidden_until(self, delivery: Delivery, until_ms: int) -> None:
        """The broker was asked to show it at another time; `-1` while nobody knows whether."""
        self.seen["invisible times changed"] += until_ms >= 0
        delivery.until_ms = until_ms

    def changed_late(self, key: str) -> None:
        """Its time may have been over when it was changed.

        The broker does not ask (K-54). It comes again because its time was over, and once more
        after the time that was asked for.
        """
        self._doubled.add(key)

    def open(self) -> list[str]:
        """What was sent and that nobody has acknowledged."""
        return [f"{key} is hidden for ever or lost" for key in self._sent if key not in self._done]
