"""The events of a client's routes: which queues it knows of a topic."""

from __future__ import annotations

from pocketmq.client.routes import RouteTable, publish_queues, subscribe_queues
from pocketmq.operation.events.groups import RouteLearned
from pocketmq.operation.events.sink import EventSink, Stamp
from pocketmq.protocol.allocation.strategy import sorted_queues


class RouteEvents:
    """Tells routes as facts: whoever begins to watch later is told them, too.

    Args:
        sink: Takes them.
        client_id: Whose routes they are.
        routes: All that it knows.
    """

    def __init__(self, sink: EventSink, client_id: str, routes: RouteTable) -> None:
        self._sink = sink
        self._client_id = client_id
        self._routes = routes

    def changed(self, topic: str) -> None:
        """The route of a topic has become another."""
        self._sink.fact(topic, lambda stamp: self._learned(stamp, topic))

    def _learned(self, stamp: Stamp, topic: str) -> RouteLearned:
        route = self._routes.routes[topic]
        known = {*subscribe_queues(topic, route), *publish_queues(topic, route)}
        return RouteLearned(
            *stamp,
            client_id=self._client_id,
            topic=topic,
            queues=[f"{queue.broker_name}/{queue.queue_id}" for queue in sorted_queues(known)],
        )
