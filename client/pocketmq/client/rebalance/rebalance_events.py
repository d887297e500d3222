"""The events of a member's rebalance: what its share is, and what it owns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from pocketmq.client.rebalance.planner import RebalancePlanner
from pocketmq.operation.events.groups import Allocated, Rebalanced, queue_texts
from pocketmq.operation.events.sink import NO_EVENTS, EventSink
from pocketmq.protocol.allocation.strategy import explain, sorted_client_ids, sorted_queues
from pocketmq.protocol.messages.message import MessageQueue


class RebalanceEvents:
    """Makes events of one consumer's rebalance. Call it only while `sink.is_on`.

    Args:
        sink: Takes them.
    """

    def __init__(self, sink: EventSink) -> None:
        self.sink = sink
        self._told: dict[str, tuple[tuple[MessageQueue, ...], tuple[str, ...]]] = {}
        """Topic -> queues and members of the last allocation that was told."""

    def allocated(
        self,
        planner: RebalancePlanner,
        topic: str,
        queues: Sequence[MessageQueue],
        members: Sequence[str],
    ) -> None:
        """The share of a topic was worked out; told when it was worked out from something new."""
        view = (tuple(sorted_queues(queues)), tuple(sorted_client_ids(members)))
        if self._told.get(topic) == view:
            return
        self._told[topic] = view
        all_queues, all_members = view
        own = planner.strategy.allocate(planner.group, planner.client_id, all_queues, all_members)
        event = Allocated(
            *self.sink.stamp(),
            group=planner.group,
            client_id=planner.client_id,
            topic=topic,
            strategy=planner.strategy.name,
            queues=[_place(queue) for queue in all_queues],
            members=list(all_members),
            own=[_place(queue) for queue in own or ()],
            arithmetic=explain(planner.strategy, planner.client_id, all_queues, all_members),
        )
        self.sink.emit(event)

    def changed(
        self, planner: RebalancePlanner, before: Collection[MessageQueue], topic: str
    ) -> None:
        """The member owns other queues of a topic than before."""
        after = planner.owned(topic)
        event = Rebalanced(
            *self.sink.stamp(),
            group=planner.group,
            client_id=planner.client_id,
            queues=queue_texts(planner.owned()),
            gained=queue_texts(set(after).difference(before)),
            lost=queue_texts(set(before).difference(after)),
        )
        self.sink.emit(event)


NO_REBALANCE_EVENTS: Final = RebalanceEvents(NO_EVENTS)


def _place(queue: MessageQueue) -> str:
    return f"{queue.broker_name}/{queue.queue_id}"
