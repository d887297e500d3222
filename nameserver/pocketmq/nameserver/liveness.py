"""Which brokers are alive (N-2, N-3, N-7, N-21 to N-25).

A broker registers every 30 s. One that is silent for more than its time-out (120 s) is expired, and
a scan every 5 s finds it. A broker that registers and is then frozen, its connection still open:

    t =   0    registers                expires_at = 120
    t =  30    registers again          expires_at = 150
    t =  31    the process is frozen
    t = 150    scan: nothing, 150 < 150 does not hold
    t = 155    scan: expired. Its routes are dropped, and its connection is closed

Hence the worst case of N-21: 120 s and one scan. When the connection itself closes, the broker is
removed at once (`of_channel`). Pure: the caller brings the time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.dispatch import Peer
from pocketmq.runtime.signals import Signal

BROKER_EXPIRY_S = 120.0
"""A broker that was silent for longer than this is expired (N-2)."""


class BrokerKey(NamedTuple):
    """Identifies a broker process; in 4.9 by its address alone, with an empty cluster (N-7)."""

    cluster: str
    address: str


@dataclass(slots=True)
class LiveBroker:
    """What is known of a broker process from its last registration."""

    key: BrokerKey
    cluster: str
    broker_name: str
    broker_id: int
    ha_address: str
    data_version: DataVersion
    channel: Peer
    """Connection of the last registration; a version query does not replace it (N-23)."""

    seen_at: float
    """Seconds on the caller's monotonic clock."""

    timeout_s: float = BROKER_EXPIRY_S

    @property
    def expires_at(self) -> float:
        """After this moment the broker counts as expired."""
        return self.seen_at + self.timeout_s


@dataclass(slots=True)
class LiveBrokers:
    """The live table: when each broker process was last heard. Knows no sockets and no clock."""

    _brokers: dict[BrokerKey, LiveBroker] = field(default_factory=dict)
    _of_channels: dict[Peer, dict[BrokerKey, LiveBroker]] = field(default_factory=dict)
    """The same by the connections of their last registrations."""
    heard: Signal[[LiveBroker]] = field(default_factory=Signal, init=False, repr=False)
    """Emitted with each registration."""
    added: Signal[[LiveBroker]] = field(default_factory=Signal, init=False, repr=False)
    """Emitted with the registration of a broker that was not alive before."""

    def __len__(self) -> int:
        return len(self._brokers)

    def get(self, key: BrokerKey) -> LiveBroker | None:
        """The record of a broker, if it is alive."""
        return self._brokers.get(key)

    def put(self, broker: LiveBroker) -> bool:
        """Replace the record of a broker (N-16); returns whether it is new."""
        before = self._brokers.get(broker.key)
        is_new = before is None
        # The broker has a new connection: closing the old one must not remove the broker.
        if before is not None and before.channel is not broker.channel:
            self._leave_channel(before)
        self._brokers[broker.key] = broker
        self._of_channels.setdefault(broker.channel, {})[broker.key] = broker
        if is_new:
            self.added.emit(broker)
        self.heard.emit(broker)
        return is_new

    def first_expiry(self) -> float | None:
        """The moment after which the first broker counts as expired, if all stay silent."""
        return min((each.expires_at for each in self._brokers.values()), default=None)

    def remove(self, key: BrokerKey) -> LiveBroker | None:
        """Forget a broker."""
        broker = self._brokers.pop(key, None)
        if broker is not None:
            self._leave_channel(broker)
        return broker

    def refresh(self, key: BrokerKey, now: float) -> bool:
        """Note a sign of life that is no registration (N-24, N-25); returns whether it is known."""
        broker = self._brokers.get(key)
        if broker is None:
            return False
        broker.seen_at = now
        return True

    def expired(self, now: float) -> list[LiveBroker]:
        """The brokers that were silent for *more* than their time-out. They stay in the table.

        The caller removes their routes and closes their channels, in one turn of the loop (N-21).
        """
        return [broker for broker in self._brokers.values() if broker.expires_at < now]

    def of_channel(self, channel: Peer) -> list[LiveBroker]:
        """The brokers that last registered over this very connection (N-22). O(these)."""
        return list(self._of_channels.get(channel, {}).values())

    def _leave_channel(self, broker: LiveBroker) -> None:
        others = self._of_channels[broker.channel]
        del others[broker.key]
        if not others:
            del self._of_channels[broker.channel]
