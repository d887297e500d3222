"""Producers, consumers and the admin client of PocketMQ: what applications import."""

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
