"""Producers, consumers and the admin client of PocketMQ: what applications import.

    async with Producer("shop", nameservers="127.0.0.1:9876") as producer:
        await producer.send(Message("orders", b"hello", tags="new"))

    consumer = PushConsumer("billing", nameservers="127.0.0.1:9876")
    consumer.subscribe("orders", "new || changed")
    async with consumer:
        async for message in consumer:
            print(message.body)

The first argument is a group. Consumers of one group share the queues of their topics; each other
group gets every message as well. Which class to take:

    Producer              sends, in batches too; asks, and waits for a reply
    TransactionProducer   sends messages that nobody sees before a local transaction has ended
    PushConsumer          is called with each message; owns queues. For most applications
    SimpleConsumer        takes messages one by one, and acknowledges each (docs/pop.md)
    LitePullConsumer      polls for messages, at the application's own pace; owns queues
    PullConsumer          reads a queue from an offset on, and leaves all else to the application
    Admin                 topics, groups, offsets and messages, for people and tools

A name's module is imported when the name is first used: who only asks a cluster something loads no
producer and no consumer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pocketmq.runtime.public_names import on_first_use

if TYPE_CHECKING:
    from pocketmq.client.admin.admin import Admin as Admin
    from pocketmq.client.config import ClientConfig as ClientConfig
    from pocketmq.client.config import ClientOptions as ClientOptions
    from pocketmq.client.consumer.consuming.listener import (
        ConsumeConcurrentlyContext as ConsumeConcurrentlyContext,
    )
    from pocketmq.client.consumer.consuming.listener import (
        ConsumeConcurrentlyStatus as ConsumeConcurrentlyStatus,
    )
    from pocketmq.client.consumer.consuming.listener import (
        ConsumeOrderlyContext as ConsumeOrderlyContext,
    )
    from pocketmq.client.consumer.consuming.listener import (
        ConsumeOrderlyStatus as ConsumeOrderlyStatus,
    )
    from pocketmq.client.consumer.pull.lite_pull import LitePullConsumer as LitePullConsumer
    from pocketmq.client.consumer.pull.pull_consumer import PullConsumer as PullConsumer
    from pocketmq.client.consumer.pull.pull_consumer import PullResult as PullResult
    from pocketmq.client.consumer.pull.simple import SimpleConsumer as SimpleConsumer
    from pocketmq.client.consumer.push.push import PushConsumer as PushConsumer
    from pocketmq.client.heartbeat import ConsumeFromWhere as ConsumeFromWhere
    from pocketmq.client.heartbeat import MessageModel as MessageModel
    from pocketmq.client.producer.producer import Producer as Producer
    from pocketmq.client.producer.selectors import select_by_hash as select_by_hash
    from pocketmq.client.producer.selectors import select_by_random as select_by_random
    from pocketmq.client.producer.send_result import SendResult as SendResult
    from pocketmq.client.producer.send_result import SendStatus as SendStatus
    from pocketmq.client.producer.send_tries import SendFailedError as SendFailedError
    from pocketmq.client.producer.send_tries import SendTimeoutError as SendTimeoutError
    from pocketmq.client.producer.transaction import TransactionListener as TransactionListener
    from pocketmq.client.producer.transaction import TransactionProducer as TransactionProducer
    from pocketmq.client.producer.transaction import TransactionResult as TransactionResult
    from pocketmq.client.producer.transaction import TransactionState as TransactionState
    from pocketmq.client.pulling.pull_plan import PullStatus as PullStatus
    from pocketmq.client.requests import NoReplyError as NoReplyError
    from pocketmq.client.selector import MessageSelector as MessageSelector
    from pocketmq.protocol.allocation.averagely import (
        AllocateMessageQueueAveragely as AllocateMessageQueueAveragely,
    )
    from pocketmq.protocol.allocation.by_circle import (
        AllocateMessageQueueAveragelyByCircle as AllocateMessageQueueAveragelyByCircle,
    )
    from pocketmq.protocol.allocation.by_config import (
        AllocateMessageQueueByConfig as AllocateMessageQueueByConfig,
    )
    from pocketmq.protocol.allocation.consistent_hash import (
        AllocateMessageQueueConsistentHash as AllocateMessageQueueConsistentHash,
    )
    from pocketmq.protocol.allocation.machine_room import (
        AllocateMessageQueueByMachineRoom as AllocateMessageQueueByMachineRoom,
    )
    from pocketmq.protocol.allocation.machine_room_nearby import (
        AllocateMachineRoomNearby as AllocateMachineRoomNearby,
    )
    from pocketmq.protocol.allocation.strategy import (
        AllocateMessageQueueStrategy as AllocateMessageQueueStrategy,
    )
    from pocketmq.protocol.messages.message import Message as Message
    from pocketmq.protocol.messages.message import MessageExt as MessageExt
    from pocketmq.protocol.messages.message import MessageQueue as MessageQueue
    from pocketmq.protocol.signing import Credentials as Credentials
else:
    __all__, __dir__, __getattr__ = on_first_use(
        __name__,
        {
            "pocketmq.client.admin.admin": ["Admin"],
            "pocketmq.client.config": ["ClientConfig", "ClientOptions"],
            "pocketmq.client.consumer.consuming.listener": [
                "ConsumeConcurrentlyContext",
                "ConsumeConcurrentlyStatus",
                "ConsumeOrderlyContext",
                "ConsumeOrderlyStatus",
            ],
            "pocketmq.client.consumer.pull.lite_pull": ["LitePullConsumer"],
            "pocketmq.client.consumer.pull.pull_consumer": ["PullConsumer", "PullResult"],
            "pocketmq.client.pulling.pull_plan": ["PullStatus"],
            "pocketmq.client.consumer.push.push": ["PushConsumer"],
            "pocketmq.client.consumer.pull.simple": ["SimpleConsumer"],
            "pocketmq.client.heartbeat": ["ConsumeFromWhere", "MessageModel"],
            "pocketmq.client.producer.producer": ["Producer"],
            "pocketmq.client.requests": ["NoReplyError"],
            "pocketmq.client.producer.selectors": ["select_by_hash", "select_by_random"],
            "pocketmq.client.producer.send_result": ["SendResult", "SendStatus"],
            "pocketmq.client.producer.send_tries": ["SendFailedError", "SendTimeoutError"],
            "pocketmq.client.producer.transaction": [
                "TransactionListener",
                "TransactionProducer",
                "TransactionResult",
                "TransactionState",
            ],
            "pocketmq.client.selector": ["MessageSelector"],
            "pocketmq.protocol.allocation.averagely": ["AllocateMessageQueueAveragely"],
            "pocketmq.protocol.allocation.by_circle": ["AllocateMessageQueueAveragelyByCircle"],
            "pocketmq.protocol.allocation.by_config": ["AllocateMessageQueueByConfig"],
            "pocketmq.protocol.allocation.consistent_hash": ["AllocateMessageQueueConsistentHash"],
            "pocketmq.protocol.allocation.machine_room": ["AllocateMessageQueueByMachineRoom"],
            "pocketmq.protocol.allocation.machine_room_nearby": ["AllocateMachineRoomNearby"],
            "pocketmq.protocol.allocation.strategy": ["AllocateMessageQueueStrategy"],
            "pocketmq.protocol.messages.message": ["Message", "MessageExt", "MessageQueue"],
            "pocketmq.protocol.signing": ["Credentials"],
        },
    )
