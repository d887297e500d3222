"""Producers, consumers and the admin client of PocketMQ: what applications import.

A name's module is imported when the name is first used: who only asks a cluster something loads no
producer and no consumer.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pocketmq.client.admin.admin import Admin
    from pocketmq.client.config import ClientConfig, ClientOptions
    from pocketmq.client.consumer.listener import (
        ConsumeConcurrentlyContext,
        ConsumeConcurrentlyStatus,
        ConsumeOrderlyContext,
        ConsumeOrderlyStatus,
    )
    from pocketmq.client.consumer.lite_pull import LitePullConsumer
    from pocketmq.client.consumer.pull_consumer import PullConsumer, PullResult
    from pocketmq.client.consumer.pull_plan import PullStatus
    from pocketmq.client.consumer.push import PushConsumer
    from pocketmq.client.consumer.simple import SimpleConsumer
    from pocketmq.client.heartbeat import ConsumeFromWhere, MessageModel
    from pocketmq.client.producer.producer import Producer
    from pocketmq.client.producer.request import NoReplyError
    from pocketmq.client.producer.selectors import select_by_hash, select_by_random
    from pocketmq.client.producer.send_result import SendResult, SendStatus
    from pocketmq.client.producer.send_tries import SendFailedError, SendTimeoutError
    from pocketmq.client.producer.transaction import (
        TransactionListener,
        TransactionProducer,
        TransactionResult,
        TransactionState,
    )
    from pocketmq.client.selector import MessageSelector
    from pocketmq.protocol.allocation.averagely import AllocateMessageQueueAveragely
    from pocketmq.protocol.allocation.by_circle import AllocateMessageQueueAveragelyByCircle
    from pocketmq.protocol.allocation.by_config import AllocateMessageQueueByConfig
    from pocketmq.protocol.allocation.consistent_hash import AllocateMessageQueueConsistentHash
    from pocketmq.protocol.allocation.machine_room import AllocateMessageQueueByMachineRoom
    from pocketmq.protocol.allocation.machine_room_nearby import AllocateMachineRoomNearby
    from pocketmq.protocol.allocation.strategy import AllocateMessageQueueStrategy
    from pocketmq.protocol.message import Message, MessageExt, MessageQueue

__all__ = [
    "Admin",
    "AllocateMachineRoomNearby",
    "AllocateMessageQueueAveragely",
    "AllocateMessageQueueAveragelyByCircle",
    "AllocateMessageQueueByConfig",
    "AllocateMessageQueueByMachineRoom",
    "AllocateMessageQueueConsistentHash",
    "AllocateMessageQueueStrategy",
    "ClientConfig",
    "ClientOptions",
    "ConsumeConcurrentlyContext",
    "ConsumeConcurrentlyStatus",
    "ConsumeFromWhere",
    "ConsumeOrderlyContext",
    "ConsumeOrderlyStatus",
    "LitePullConsumer",
    "Message",
    "MessageExt",
    "MessageModel",
    "MessageQueue",
    "MessageSelector",
    "NoReplyError",
    "Producer",
    "PullConsumer",
    "PullResult",
    "PullStatus",
    "PushConsumer",
    "SendFailedError",
    "SendResult",
    "SendStatus",
    "SendTimeoutError",
    "SimpleConsumer",
    "TransactionListener",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
    "select_by_hash",
    "select_by_random",
]

_HOMES = {
    "Admin": "pocketmq.client.admin.admin",
    "ClientConfig": "pocketmq.client.config",
    "ClientOptions": "pocketmq.client.config",
    "ConsumeConcurrentlyContext": "pocketmq.client.consumer.listener",
    "ConsumeConcurrentlyStatus": "pocketmq.client.consumer.listener",
    "ConsumeOrderlyContext": "pocketmq.client.consumer.listener",
    "ConsumeOrderlyStatus": "pocketmq.client.consumer.listener",
    "LitePullConsumer": "pocketmq.client.consumer.lite_pull",
    "PullConsumer": "pocketmq.client.consumer.pull_consumer",
    "PullResult": "pocketmq.client.consumer.pull_consumer",
    "PullStatus": "pocketmq.client.consumer.pull_plan",
    "PushConsumer": "pocketmq.client.consumer.push",
    "SimpleConsumer": "pocketmq.client.consumer.simple",
    "ConsumeFromWhere": "pocketmq.client.heartbeat",
    "MessageModel": "pocketmq.client.heartbeat",
    "Producer": "pocketmq.client.producer.producer",
    "NoReplyError": "pocketmq.client.producer.request",
    "select_by_hash": "pocketmq.client.producer.selectors",
    "select_by_random": "pocketmq.client.producer.selectors",
    "SendResult": "pocketmq.client.producer.send_result",
    "SendStatus": "pocketmq.client.producer.send_result",
    "SendFailedError": "pocketmq.client.producer.send_tries",
    "SendTimeoutError": "pocketmq.client.producer.send_tries",
    "TransactionListener": "pocketmq.client.producer.transaction",
    "TransactionProducer": "pocketmq.client.producer.transaction",
    "TransactionResult": "pocketmq.client.producer.transaction",
    "TransactionState": "pocketmq.client.producer.transaction",
    "MessageSelector": "pocketmq.client.selector",
    "AllocateMessageQueueAveragely": "pocketmq.protocol.allocation.averagely",
    "AllocateMessageQueueAveragelyByCircle": "pocketmq.protocol.allocation.by_circle",
    "AllocateMessageQueueByConfig": "pocketmq.protocol.allocation.by_config",
    "AllocateMessageQueueConsistentHash": "pocketmq.protocol.allocation.consistent_hash",
    "AllocateMessageQueueByMachineRoom": "pocketmq.protocol.allocation.machine_room",
    "AllocateMachineRoomNearby": "pocketmq.protocol.allocation.machine_room_nearby",
    "AllocateMessageQueueStrategy": "pocketmq.protocol.allocation.strategy",
    "Message": "pocketmq.protocol.message",
    "MessageExt": "pocketmq.protocol.message",
    "MessageQueue": "pocketmq.protocol.message",
}


def __getattr__(name: str) -> Any:
    """Import a name on its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return found
