"""Consumers in order, in front of scripted brokers."""

from __future__ import annotations

from typing import Any

from pocketmq.client import (
    ConsumeFromWhere,
    MessageQueue,
    PushConsumer,
)
from support.client_rig import ClientRig

QUEUE = MessageQueue("T", "a", 0)


def orderly(rig: ClientRig, listener: Any, *, batch: int = 0, **options: Any) -> PushConsumer:
    """A consumer of T in order; `batch` hands lists and a context to the listener."""
    rig.nameserver.add_topic("T", rig.brokers, queues=options.pop("queues", 1))
    if batch:
        options["consume_message_batch_max_size"] = batch
    consumer = rig.consumer(consume_from_where=ConsumeFromWhere.FIRST_OFFSET, **options)
    consumer.subscribe("T")
    if batch:
        consumer.listen_batch(listener, orderly=True)
    else:
        consumer.listen(listener, orderly=True)
    return consumer
