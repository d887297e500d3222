"""Heartbeats and what a broker tells about its clients (E-64, E-66)."""

from __future__ import annotations

import msgspec

from pocketmq.protocol.body import BodyStruct
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.subscription import SubscriptionData
from pocketmq.protocol.scalars import Int32, Int64


class ConsumerData(BodyStruct, kw_only=True, omit_defaults=False):
    """One consumer group of a client."""

    group_name: str
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    subscription_data_set: list[SubscriptionData] = []
    unit_mode: bool = False


class ProducerData(BodyStruct, kw_only=True, omit_defaults=False):
    """One producer group of a client."""

    group_name: str


class HeartbeatData(BodyStruct, kw_only=True):
    """All groups of one client instance, sent to every broker it knows: HEART_BEAT (34)."""

    client_id: str = msgspec.field(name="clientID")
    producer_data_set: list[ProducerData] = []
    consumer_data_set: list[ConsumerData] = []
    heartbeat_fingerprint: Int32 = 0
    without_sub: bool = False


class ConsumerList(BodyStruct, kw_only=True, omit_defaults=False):
    """Client ids of a group on one broker, unsorted: GET_CONSUMER_LIST_BY_GROUP (38) (B-28)."""

    consumer_id_list: list[str] = []


class CheckClientRequestBody(BodyStruct, kw_only=True):
    """A client asks whether the broker understands its subscription: CHECK_CLIENT_CONFIG (46)."""

    client_id: str
    group: str
    subscription_data: SubscriptionData | None = None
    namespace: str | None = None


class LockBatchBody(BodyStruct, kw_only=True, omit_defaults=False):
    """Queues a client wants to lock or unlock: LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42)."""

    consumer_group: str
    client_id: str
    mq_set: list[MessageQueue] = []
    only_this_broker: bool = False


class LockedQueues(BodyStruct, kw_only=True, omit_defaults=False):
    """Queues that the caller of LOCK_BATCH_MQ (41) now holds."""

    lock_ok_mq_set: list[MessageQueue] = msgspec.field(default_factory=list, name="lockOKMQSet")


class Connection(BodyStruct, kw_only=True, omit_defaults=False):
    """One client connection."""

    client_id: str
    client_addr: str
    language: str = "OTHER"
    version: Int32 = 0


class ConsumerConnection(BodyStruct, kw_only=True, omit_defaults=False):
    """Who consumes in a group, and what: GET_CONSUMER_CONNECTION_LIST (203)."""

    connection_set: list[Connection] = []
    subscription_table: dict[str, SubscriptionData] = {}
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"


class ProducerConnection(BodyStruct, kw_only=True, omit_defaults=False):
    """Who produces in a group: GET_PRODUCER_CONNECTION_LIST (204)."""

    connection_set: list[Connection] = []


class ProducerInfo(BodyStruct, kw_only=True, omit_defaults=False):
    """One connection of a producer, as GET_ALL_PRODUCER_INFO (328) tells it."""

    client_id: str
    remote_ip: str = msgspec.field(default="", name="remoteIP")
    """Its address and port."""

    language: str = "OTHER"
    version: Int32 = 0
    last_update_timestamp: Int64 = 0
    """Of its last heartbeat, epoch ms."""


class ProducerTableInfo(BodyStruct, kw_only=True, omit_defaults=False):
    """Producer group -> its connections: GET_ALL_PRODUCER_INFO (328)."""

    data: dict[str, list[ProducerInfo]] = {}


class GroupList(BodyStruct, kw_only=True, omit_defaults=False):
    """Consumer groups of a topic: QUERY_TOPIC_CONSUME_BY_WHO (300)."""

    group_list: list[str] = []


class QuerySubscriptionBody(BodyStruct, kw_only=True):
    """What a group subscribes to in a topic: QUERY_SUBSCRIPTION_BY_CONSUMER (345)."""

    subscription_data: SubscriptionData | None = None
    """None when no connected member subscribes."""

    group: str
    topic: str


class ProcessQueueInfo(BodyStruct, kw_only=True, omit_defaults=False):
    """One queue inside a running consumer: GET_CONSUMER_RUNNING_INFO (307)."""

    commit_offset: Int64 = 0
    cached_msg_min_offset: Int64 = 0
    cached_msg_max_offset: Int64 = 0
    cached_msg_count: Int32 = 0
    cached_msg_size_in_mib: Int32 = msgspec.field(default=0, name="cachedMsgSizeInMiB")
    transaction_msg_min_offset: Int64 = 0
    transaction_msg_max_offset: Int64 = 0
    transaction_msg_count: Int32 = 0
    locked: bool = False
    try_unlock_times: Int64 = 0
    last_lock_timestamp: Int64 = 0
    droped: bool = False
    last_pull_timestamp: Int64 = 0
    last_consume_timestamp: Int64 = 0


class PopProcessQueueInfo(BodyStruct, kw_only=True, omit_defaults=False):
    """One popped queue inside a running consumer: GET_CONSUMER_RUNNING_INFO (307)."""

    wait_ack_count: Int32 = 0
    droped: bool = False
    last_pop_timestamp: Int64 = 0


class ConsumeMessageDirectlyResult(BodyStruct, kw_only=True, omit_defaults=False):
    """What a listener made of one message: CONSUME_MESSAGE_DIRECTLY (309)."""

    order: bool = False
    auto_commit: bool = True
    consume_result: str | None = None
    """CR_SUCCESS, CR_LATER, CR_ROLLBACK, CR_COMMIT, CR_THROW_EXCEPTION or CR_RETURN_NULL."""
    remark: str | None = None
    """Of an exception its text."""
    spent_time_mills: Int64 = 0


class ConsumerRunningInfo(BodyStruct, kw_only=True, omit_defaults=False):
    """What a consumer does right now: GET_CONSUMER_RUNNING_INFO (307).

    `mq_table` and `mq_pop_table` are keyed by `mq_key(queue)`.
    """

    properties: dict[str, str] = {}
    subscription_set: list[SubscriptionData] = []
    mq_table: dict[str, ProcessQueueInfo] = {}
    mq_pop_table: dict[str, PopProcessQueueInfo] = {}
    status_table: dict[str, dict[str, float]] = {}
    jstack: str | None = None
