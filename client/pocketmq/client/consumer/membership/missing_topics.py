"""Topics that do not exist yet when their consumer starts.

Routes are refreshed every 30 s (P-3), so such a consumer would get nothing for up to 30 s, and a
rebalance comes after that. In its first seconds it looks more often:

     0 s   start: the name server knows no route; a warning names the topic
     1, 3, 7, 15 s    one more question for each topic that is still missing
    30 s   from here on the refresh of all routes asks, as in RocketMQ
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pocketmq.client.instance import ClientInstance
from pocketmq.runtime.errors import PocketMQError

WAITS_S: Final = (1.0, 2.0, 4.0, 8.0)
"""Protocol seconds before each look."""


async def look_for(instance: ClientInstance, topics: Sequence[str]) -> None:
    """Ask for missing routes; when one is found, join its brokers and rebalance."""
    for wait_s in WAITS_S:
        await instance.clock.sleep(wait_s)
        missing = [topic for topic in topics if not await _found(instance, topic)]
        if len(missing) < len(topics):
            await instance.heartbeat()
            instance.rebalance_service.wakeup()
        if not missing:
            return
        topics = missing


async def _found(instance: ClientInstance, topic: str) -> bool:
    try:
        return await instance.lookups.refresh_route(topic)
    except PocketMQError as exc:
        instance.lookups.route_failed(topic, exc)
        return False
