"""MACHINE_ROOM_NEARBY: queues stay in their room while it has clients (A-60).

    1. my room's queues are shared among my room's clients;
    2. queues of each room *without* clients are shared among all clients of the group.

Rooms that have clients are never touched from outside. Both steps use an inner strategy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pocketmq.protocol.allocation.strategy import (
    AllocateMessageQueueStrategy,
    AllocationError,
    is_member,
)
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.words import counted


class MachineRoomResolver(Protocol):
    """Which room something stands in."""

    def broker_deploy_in(self, message_queue: MessageQueue) -> str:
        """The room of a queue's broker."""
        ...

    def consumer_deploy_in(self, client_id: str) -> str:
        """The room of a client."""
        ...


class AllocateMachineRoomNearby:
    """The inner strategy, room by room."""

    def __init__(
        self,
        allocate_strategy: AllocateMessageQueueStrategy,
        machine_room_resolver: MachineRoomResolver,
    ) -> None:
        self._inner = allocate_strategy
        self._resolver = machine_room_resolver

    @property
    def name(self) -> str:
        return f"MACHINE_ROOM_NEARBY-{self._inner.name}"

    # behaviour 37
    def allocate(
        self,
        consumer_group: str,
        current_cid: str,
        mq_all: Sequence[MessageQueue],
        cid_all: Sequence[str],
    ) -> list[MessageQueue]:
        if not is_member(self.name, consumer_group, current_cid, mq_all, cid_all):
            return []
        queues, clients = self._by_room(mq_all, cid_all)
        my_room = self._resolver.consumer_deploy_in(current_cid)

        mine: list[MessageQueue] = []
        mine_here = queues.pop(my_room, [])
        if mine_here:
            mine += self._share(consumer_group, current_cid, mine_here, clients[my_room])
        # Sorted: each client computes the shares on its own, and all must agree.
        for room in sorted(queues):
            # A room without clients is shared by the whole group, or nobody would read it.
            if room not in clients:
                mine += self._share(consumer_group, current_cid, queues[room], cid_all)
        return mine

    def explain(
        self, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> str:
        queues, clients = self._by_room(mq_all, cid_all)
        my_room = self._resolver.consumer_deploy_in(current_cid)
        orphans = sorted(room for room in queues if room not in clients)
        here = counted(len(queues.get(my_room, [])), "queue")
        text = f"room {my_room}: {here} for {len(clients[my_room])}"
        if orphans:
            text += f"; rooms without members, for all {len(cid_all)}: {', '.join(orphans)}"
        return text

    def _share(
        self, group: str, current_cid: str, queues: list[MessageQueue], cids: Sequence[str]
    ) -> Sequence[MessageQueue]:
        return self._inner.allocate(group, current_cid, queues, cids) or ()

    def _by_room(
        self, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> tuple[dict[str, list[MessageQueue]], dict[str, list[str]]]:
        queues: dict[str, list[MessageQueue]] = {}
        for queue in mq_all:
            room = self._resolver.broker_deploy_in(queue)
            if not room:
                raise AllocationError(self.name, f"the resolver knows no machine room for {queue}")
            queues.setdefault(room, []).append(queue)
        clients: dict[str, list[str]] = {}
        for client_id in cid_all:
            room = self._resolver.consumer_deploy_in(client_id)
            if not room:
                raise AllocationError(
                    self.name, f"the resolver knows no machine room for client {client_id}"
                )
            clients.setdefault(room, []).append(client_id)
        return queues, clients
