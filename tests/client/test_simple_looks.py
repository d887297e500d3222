"""A SimpleConsumer of many topics: what it costs to look at all of them."""

from __future__ import annotations

import time
from typing import Any

from pocketmq.client import MessageExt, SimpleConsumer
from support.client_rig import client_rig


class Looking(SimpleConsumer):
    """Finds nothing, and notes where it looked."""

    def __init__(self, group: str, **options: Any) -> None:
        super().__init__(group, **options)
        self.looked: list[str] = []

    async def _pop(self, topic: str, *_: Any) -> list[MessageExt]:
        self.looked.append(topic)
        return []


async def test_a_look_at_a_topic_costs_the_same_beside_many_others() -> None:
    async def look_s(count: int) -> float:
        """Processor seconds for each topic."""
        topics = [f"T{number:03}" for number in range(count)]
        async with client_rig() as rig:
            consumer = Looking("g", **rig.options)
            for topic in topics:
                rig.nameserver.add_topic(topic, rig.brokers)
                consumer.subscribe(topic)
            times: list[float] = []
            async with consumer:
                for _ in range(5):
                    consumer.looked.clear()
                    began_s = time.process_time()
                    assert await consumer.receive(wait_s=0) == []
                    times.append(time.process_time() - began_s)
                    assert sorted(consumer.looked) == topics
            return min(times) / count

    assert await look_s(400) < 5 * await look_s(20)
