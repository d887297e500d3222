"""Push consumers as tests make them, and what they are seen to do."""

from __future__ import annotations

from typing import Any

from pocketmq.client import ConsumeFromWhere, MessageExt, MessageQueue, PushConsumer
from support.client_rig import ClientRig
from support.memory_cluster import MemoryCluster


class Collected:
    """A listener that keeps what it got."""

    def __init__(self) -> None:
        self.messages: list[MessageExt] = []

    async def __call__(self, message: MessageExt) -> None:
        self.messages.append(message)

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def bodies(self) -> list[bytes]:
        return sorted(message.body for message in self.messages)


def consuming(
    rig: ClientRig | MemoryCluster,
    listener: Any,
    *topics: str,
    group: str = "consumers",
    orderly: bool = False,
    **options: Any,
) -> PushConsumer:
    """A consumer of some topics (T if none is named), from the first offset unless told."""
    options.setdefault("consume_from_where", ConsumeFromWhere.FIRST_OFFSET)
    consumer = rig.consumer(group, **options)
    for topic in topics or ("T",):
        consumer.subscribe(topic)
    consumer.listen(listener, orderly=orderly)
    return consumer


def queues_of(consumer: PushConsumer, topic: str = "T") -> list[MessageQueue]:
    """Its queues of one topic."""
    return [queue for queue in consumer.assignment if queue.topic == topic]
