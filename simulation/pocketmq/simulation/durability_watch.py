"""Tells the rules of durability what clients ask of brokers, and what those answer."""

from __future__ import annotations

from pocketmq.protocol.command import Command
from pocketmq.protocol.frame import FrameDecoder
from pocketmq.simulation.invariants.durability import (
    ANSWER_MARKERS,
    ASKED_MARKERS,
    REQUEST_MARKERS,
    DurabilityLedger,
)
from pocketmq.simulation.links import SimTransport


class DurabilityWatch:
    """Observes frames; most of them concern no rule, and are not decoded."""

    def __init__(self) -> None:
        self.ledgers: dict[str, DurabilityLedger] = {}
        """Broker -> its rules; only with SYNC_FLUSH."""
        self._asked: dict[object, dict[int, Command]] = {}
        """Connection -> opaque -> a request whose answer a rule needs."""

    def sent(self, sender: SimTransport, data: bytes) -> None:
        """Observe bytes that were sent."""
        if not self.ledgers:
            return
        ledger = self.ledgers.get(sender.process.name)
        if ledger is None:
            self._request(sender, data)
            return
        waiting = self._asked.get(sender.link)
        if waiting or any(marker in data for marker in ANSWER_MARKERS):
            for command in FrameDecoder().feed(data):
                if command.is_response:
                    ledger.answered(waiting.pop(command.opaque, None) if waiting else None, command)

    def _request(self, sender: SimTransport, data: bytes) -> None:
        if any(marker in data for marker in REQUEST_MARKERS):
            asked = self._asked.setdefault(sender.link, {})
            asked.update((each.opaque, each) for each in FrameDecoder().feed(data))
        ledger = self.ledgers.get(sender.other.process.name)
        if ledger is not None and any(marker in data for marker in ASKED_MARKERS):
            for command in FrameDecoder().feed(data):
                ledger.asked(command)
