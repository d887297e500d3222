"""QueryRoute (G-53, G-57 to G-61)."""

from __future__ import annotations

from typing import Any

from pocketmq.proxy.codes.names import check_topic
from pocketmq.proxy.codes.refusals import OK
from pocketmq.proxy.codes.topic_types import accepted
from pocketmq.proxy.edge.callers import Caller
from pocketmq.proxy.edge.parts import Parts
from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.routes.endpoints import endpoints_for
from pocketmq.proxy.routes.queues import route_queues


class Routing:
    """Where an SDK sends to.

    Args:
        parts: Of the proxy.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def query_route(self, _caller: Caller, request: Any) -> Any:
        """Every queue of a topic; raises `Refusal` TOPIC_NOT_FOUND."""
        topic = request.topic.name
        check_topic(topic)
        parts = self._parts
        route = await parts.brokers.route(topic)
        # SDKs themselves refuse messages whose type no queue accepts, so an unknown type stops all
        # their sends.
        accepts = accepted(await parts.brokers.topic_type(topic))
        endpoints = endpoints_for(request.endpoints, parts.advertise)
        return pb.QueryRouteResponse(
            status=OK,
            message_queues=route_queues(request.topic, endpoints, route, accepts),
        )
