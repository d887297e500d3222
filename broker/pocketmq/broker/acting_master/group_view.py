"""Who of a group has the least id, as a slave hears of it (Z-4, Z-5). Pure.

members {0: A, 1: B, 2: C}   least 0   B and C rest
members {1: B, 2: C}         least 1   B acts, A is offline
members {2: C}               least 2   C acts, B is offline
members {0: A, 1: B}         least 0   nobody acts; A is online
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pocketmq.protocol.bodies.route import MASTER_ID


@dataclass(frozen=True, slots=True)
class LeastBroker:
    """The broker with the least id of a group."""

    broker_id: int
    address: str | None

    @property
    def is_master(self) -> bool:
        return self.broker_id == MASTER_ID


class GroupView:
    """One slave's view of its group. It begins with a master, as RocketMQ's does.

    Args:
        own_id: of the slave, above 0.
    """

    def __init__(self, own_id: int) -> None:
        self.own_id = own_id
        self.least = LeastBroker(MASTER_ID, None)

    @property
    def acts(self) -> bool:
        """Whether this slave acts as master."""
        return self.least.broker_id == self.own_id

    def told(self, broker_id: int, address: str | None) -> bool:
        """Who has the least id now; whether that is another one than before."""
        is_new = broker_id != self.least.broker_id
        self.least = LeastBroker(broker_id, address)
        return is_new

    def members(self, addresses: Mapping[int, str]) -> bool:
        """What a name server answers. A group of nobody changes nothing: it knows nothing yet."""
        if not addresses:
            return False
        least = min(addresses)
        return self.told(least, addresses[least])
