"""Slaves that act as master, as clients and brokers are told (N-20, N-28, Z-6). Pure.

In a group without id 0 whose brokers registered with `enableActingMaster` the queues cannot be
written to, and with `supportActingMaster` a route shows the least id as id 0:

    registered   broker-a {0: A, 1: B, 2: C}   perm 6      route {0: A, 1: B, 2: C}   perm 6
    A is gone    broker-a {1: B, 2: C}         perm 4      route {0: B, 2: C}         perm 4

With `notifyMinBrokerIdChanged` the brokers of the group are told as well: `LeastIdChange`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from pocketmq.protocol.bodies.route import MASTER_ID, BrokerData, QueueData
from pocketmq.protocol.scalars import Perm


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastIdChange:
    """Another id is the least of a broker name: what NOTIFY_MIN_BROKER_ID_CHANGE (905) tells."""

    broker_name: str
    members: Mapping[int, str]
    """Broker id -> address of those that are left, or of all when one came."""
    offline_address: str | None = None
    """Who has left."""
    ha_address: str | None = None
    """Replication address of who came."""

    @property
    def least_id(self) -> int:
        """The least id now."""
        return min(self.members)

    @property
    def told(self) -> list[str]:
        """Addresses to tell: all that are left; when one came, those that were there before."""
        # A new broker knows that it has the lowest id; when a broker left, all others are notified
        # (Z-6).
        if self.offline_address is not None or len(self.members) == 1:
            return list(self.members.values())
        return [address for each, address in self.members.items() if each != self.least_id]


def has_no_master(broker: BrokerData) -> bool:
    """Whether slaves are alive and no master is."""
    return bool(broker.broker_addrs) and MASTER_ID not in broker.broker_addrs


def shown(broker: BrokerData, queue: QueueData) -> BrokerData:
    """What a route says of a group: its least id stands as id 0 if it may act (N-28).

    Args:
        broker: the group.
        queue: its queues of the topic that is asked for.
    """
    # Only where the group may act, has no master, and shows its queues as read only (N-28).
    if not broker.enable_acting_master or not has_no_master(broker) or queue.perm & Perm.WRITE:
        return broker
    addresses = dict(broker.broker_addrs)
    addresses[MASTER_ID] = addresses.pop(min(addresses))
    return replace(broker, broker_addrs=addresses)
