"""MACHINE_ROOM: only brokers of the configured rooms, shared out evenly (A-50).

A broker says its room in its name, `room@name`. Despite the strategy's name no client is kept
inside one room, and queues of rooms that nobody configured are consumed by nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pocketmq.protocol.allocation.strategy import AllocationError, is_member
from pocketmq.protocol.java import java_split
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.words import counted


class AllocateMessageQueueByMachineRoom:
    """Blocks of `n // C` of the kept queues; client i < `n % C` gets number `(n // C) * C + i` too.

    Args:
        consumer_idcs: The rooms whose queues count (RocketMQ's `consumeridcs`).
    """

    name = "MACHINE_ROOM"

    def __init__(self, consumer_idcs: Collection[str] | None = None) -> None:
        self.consumer_idcs = consumer_idcs

    # behaviours 35 and 36
    def allocate(
        self,
        consumer_group: str,
        current_cid: str,
        mq_all: Sequence[MessageQueue],
        cid_all: Sequence[str],
    ) -> list[MessageQueue]:
        if not is_member(self.name, consumer_group, current_cid, mq_all, cid_all):
            return []
        kept = self._kept(mq_all)
        clients, index = len(cid_all), cid_all.index(current_cid)
        size, rest = divmod(len(kept), clients)
        mine = kept[size * index : size * index + size]
        # The queues left over after the equal shares go to the first clients, one each.
        if index < rest:
            mine.append(kept[size * clients + index])
        return mine

    def explain(
        self, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> str:
        rooms = ", ".join(sorted(self.consumer_idcs or ()))
        return f"in rooms {rooms}: {len(self._kept(mq_all))} of {counted(len(mq_all), 'queue')}"

    def _kept(self, mq_all: Sequence[MessageQueue]) -> list[MessageQueue]:
        kept = []
        for queue in mq_all:
            room = room_of(queue.broker_name)
            if room is None:
                continue
            if self.consumer_idcs is None:
                raise AllocationError(
                    self.name,
                    f"the name of broker {queue.broker_name} contains a machine room, but "
                    "consumer_idcs is not set",
                )
            if room in self.consumer_idcs:
                kept.append(queue)
        return kept


def room_of(broker_name: str) -> str | None:
    """The part before the `@`, when the name has exactly two parts."""
    parts = java_split(broker_name, "@")
    return parts[0] if len(parts) == 2 else None
