"""What is known of one broker name: its replicas, the master, who is in sync. Pure."""

from __future__ import annotations

import msgspec

from pocketmq.controller.limits import text_bytes
from pocketmq.protocol.bodies.controller import SyncStateSet

FIRST_ID = 1


class Replica(msgspec.Struct, array_like=True):
    """One broker process behind a name."""

    address: str
    check_code: str
    """What it claimed its id with; the same claim again is the same broker."""

    @property
    def size_bytes(self) -> int:
        """Of its texts."""
        return text_bytes(self.address, self.check_code)


class ReplicaGroup(msgspec.Struct, omit_defaults=True):
    """All that is known of one broker name."""

    cluster: str
    replicas: dict[int, Replica] = {}
    next_id: int = FIRST_ID
    master_id: int | None = None
    master_epoch: int = 0
    in_sync: set[int] = set()
    set_epoch: int = 0

    def address_of(self, broker_id: int | None) -> str | None:
        """Where a replica is."""
        replica = None if broker_id is None else self.replicas.get(broker_id)
        return None if replica is None else replica.address

    def sync_state_set(self) -> SyncStateSet:
        """The set as it is told to brokers."""
        return SyncStateSet(sync_state_set=set(self.in_sync), sync_state_set_epoch=self.set_epoch)
