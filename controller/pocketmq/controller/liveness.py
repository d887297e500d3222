"""Which brokers are alive, as this controller hears (D-40, D-41). Pure: the caller brings the time.

Brokers send a heartbeat to every controller each second, so that a new leader knows them already.
A broker is dead when it was silent for longer than the time-out that it announced (10 s), or, by
`close_grace_s`, soon after its connection closed: a killed process is found at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pocketmq.controller.election import Candidate
from pocketmq.protocol.dispatch import Peer

HEARTBEAT_TIMEOUT_S = 10.0
"""Where a heartbeat announces none."""

MOST_TIMEOUT_S = 3600.0


class LiveKey(NamedTuple):
    """A replica."""

    name: str
    broker_id: int


@dataclass(slots=True)
class LiveBroker:
    """What the last heartbeat of a replica told."""

    key: LiveKey
    address: str
    candidate: Candidate
    confirm_offset: int
    seen_at: float
    timeout_s: float
    channel: Peer
    """Connection of the last heartbeat."""
    closed_at: float | None = None
    """When that connection ended."""

    def is_dead(self, now: float, close_grace_s: float) -> bool:
        """Whether nobody should count on it any more."""
        if self.closed_at is not None and now - self.closed_at >= close_grace_s:
            return True
        # It was silent for longer than it announced, although its connection is open (D-40).
        return now - self.seen_at > self.timeout_s


class LiveBrokers:
    """The table of one controller.

    Args:
        close_grace_s: How long a broker whose connection closed may take for its next heartbeat.
    """

    def __init__(self, close_grace_s: float = 0.0) -> None:
        self.close_grace_s = close_grace_s
        self._brokers: dict[LiveKey, LiveBroker] = {}
        self._of_channels: dict[Peer, dict[LiveKey, LiveBroker]] = {}
        """The same by the connections of their last heartbeats."""

    def __len__(self) -> int:
        return len(self._brokers)

    def get(self, key: LiveKey) -> LiveBroker | None:
        """What a replica told last, dead or alive."""
        return self._brokers.get(key)

    def put(self, broker: LiveBroker) -> None:
        """Note a heartbeat; values replace older ones (W-10)."""
        before = self._brokers.get(broker.key)
        # The broker has a new connection: the end of the old one must not count as the broker's.
        if before is not None and before.channel is not broker.channel:
            self._leave_channel(before)
        self._brokers[broker.key] = broker
        self._of_channels.setdefault(broker.channel, {})[broker.key] = broker

    def is_alive(self, name: str, broker_id: int | None, now: float) -> bool:
        """Whether a replica counts as alive."""
        if broker_id is None:
            return False
        broker = self._brokers.get(LiveKey(name, broker_id))
        return broker is not None and not broker.is_dead(now, self.close_grace_s)

    def candidates(self, name: str, ids: set[int], now: float) -> list[Candidate]:
        """The living ones among the replicas of a name."""
        found = [self._brokers.get(LiveKey(name, each)) for each in sorted(ids)]
        return [
            each.candidate
            for each in found
            if each is not None and not each.is_dead(now, self.close_grace_s)
        ]

    def closed(self, channel: Peer, now: float) -> list[LiveBroker]:
        """A connection ended; the replicas that last spoke over it. O(these)."""
        lost = list(self._of_channels.get(channel, {}).values())
        for each in lost:
            each.closed_at = now
        return lost

    def expire(self, now: float) -> list[LiveBroker]:
        """Remove and return the dead."""
        dead = [each for each in self._brokers.values() if each.is_dead(now, self.close_grace_s)]
        for each in dead:
            del self._brokers[each.key]
            self._leave_channel(each)
        return dead

    def _leave_channel(self, broker: LiveBroker) -> None:
        others = self._of_channels[broker.channel]
        del others[broker.key]
        if not others:
            del self._of_channels[broker.channel]


def timeout_s(announced_ms: int | None) -> float:
    """The silence that a heartbeat asks for, within bounds."""
    # Old brokers announce no time: RocketMQ's default (D-40).
    if announced_ms is None or announced_ms <= 0:
        return HEARTBEAT_TIMEOUT_S
    return min(announced_ms / 1000, MOST_TIMEOUT_S)
