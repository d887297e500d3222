"""Made by `make docs` from the asynchronous clients; do not edit."""

from collections.abc import Container as Container
from collections.abc import Iterable as Iterable
from collections.abc import Mapping as Mapping
from collections.abc import Sequence as Sequence
from types import TracebackType as TracebackType
from typing import Self as Self
from typing import Unpack as Unpack

from pocketmq.client import Admin as AsyncAdmin
from pocketmq.client import AllocateMachineRoomNearby as AllocateMachineRoomNearby
from pocketmq.client import AllocateMessageQueueAveragely as AllocateMessageQueueAveragely
from pocketmq.client import (
    AllocateMessageQueueAveragelyByCircle as AllocateMessageQueueAveragelyByCircle,
)
from pocketmq.client import AllocateMessageQueueByConfig as AllocateMessageQueueByConfig
from pocketmq.client import AllocateMessageQueueByMachineRoom as AllocateMessageQueueByMachineRoom
from pocketmq.client import AllocateMessageQueueConsistentHash as AllocateMessageQueueConsistentHash
from pocketmq.client import AllocateMessageQueueStrategy as AllocateMessageQueueStrategy
from pocketmq.client import ClientConfig as ClientConfig
from pocketmq.client import ClientOptions as ClientOptions
from pocketmq.client import ConsumeConcurrentlyContext as ConsumeConcurrentlyContext
from pocketmq.client import ConsumeConcurrentlyStatus as ConsumeConcurrentlyStatus
from pocketmq.client import ConsumeFromWhere as ConsumeFromWhere
from pocketmq.client import ConsumeOrderlyContext as ConsumeOrderlyContext
from pocketmq.client import ConsumeOrderlyStatus as ConsumeOrderlyStatus
from pocketmq.client import Credentials as Credentials
from pocketmq.client import LitePullConsumer as AsyncLitePullConsumer
from pocketmq.client import Message as Message
from pocketmq.client import MessageExt as MessageExt
from pocketmq.client import MessageModel as MessageModel
from pocketmq.client import MessageQueue as MessageQueue
from pocketmq.client import MessageSelector as MessageSelector
from pocketmq.client import NoReplyError as NoReplyError
from pocketmq.client import Producer as AsyncProducer
from pocketmq.client import PullConsumer as AsyncPullConsumer
from pocketmq.client import PullResult as PullResult
from pocketmq.client import PullStatus as PullStatus
from pocketmq.client import PushConsumer as AsyncPushConsumer
from pocketmq.client import SendFailedError as SendFailedError
from pocketmq.client import SendResult as SendResult
from pocketmq.client import SendStatus as SendStatus
from pocketmq.client import SendTimeoutError as SendTimeoutError
from pocketmq.client import SimpleConsumer as AsyncSimpleConsumer
from pocketmq.client import TransactionListener as TransactionListener
from pocketmq.client import TransactionProducer as AsyncTransactionProducer
from pocketmq.client import TransactionResult as TransactionResult
from pocketmq.client import TransactionState as TransactionState
from pocketmq.client import select_by_hash as select_by_hash
from pocketmq.client import select_by_random as select_by_random
from pocketmq.client.consumer.consuming.listener import BatchListener as BatchListener
from pocketmq.client.consumer.consuming.listener import MessageListener as MessageListener
from pocketmq.client.consumer.consuming.listener import OrderlyListener as OrderlyListener
from pocketmq.client.consumer.consuming.message_iterator import (
    MessageIterator as AsyncMessageIterator,
)
from pocketmq.client.consumer.pull.lite_settings import LitePullOptions as LitePullOptions
from pocketmq.client.consumer.pull.queues_watch import QueuesListener as QueuesListener
from pocketmq.client.consumer.push.push_pulls import PullListener as PullListener
from pocketmq.client.consumer.push.push_queues import AssignmentListener as AssignmentListener
from pocketmq.client.consumer.settings import PushOptions as PushOptions
from pocketmq.client.listener_threads import ListenerThreads as ListenerThreads
from pocketmq.client.producer.options import ProducerOptions as ProducerOptions
from pocketmq.client.producer.selectors import QueueSelector as QueueSelector
from pocketmq.protocol.bodies.access import AclInfo as AclInfo
from pocketmq.protocol.bodies.access import UserInfo as UserInfo
from pocketmq.protocol.bodies.clients import (
    ConsumeMessageDirectlyResult as ConsumeMessageDirectlyResult,
)
from pocketmq.protocol.bodies.clients import ConsumerConnection as ConsumerConnection
from pocketmq.protocol.bodies.clients import ConsumerRunningInfo as ConsumerRunningInfo
from pocketmq.protocol.bodies.clients import ProducerInfo as ProducerInfo
from pocketmq.protocol.bodies.controller import EpochEntryCache as EpochEntryCache
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig as SubscriptionGroupConfig
from pocketmq.protocol.bodies.offsets import OffsetWrapper as OffsetWrapper
from pocketmq.protocol.bodies.offsets import TopicOffset as TopicOffset
from pocketmq.protocol.bodies.pop import RequestMode as RequestMode
from pocketmq.protocol.bodies.replication import HARuntimeInfo as HARuntimeInfo
from pocketmq.protocol.bodies.route import ClusterInfo as ClusterInfo
from pocketmq.protocol.bodies.route import TopicRouteData as TopicRouteData
from pocketmq.protocol.bodies.stats import BrokerStatsData as BrokerStatsData
from pocketmq.protocol.bodies.stats import MetricsReport as MetricsReport
from pocketmq.protocol.bodies.topics import TopicConfig as TopicConfig
from pocketmq.protocol.messages.subscription import SubscriptionData as SubscriptionData
from pocketmq.protocol.scalars import MessageType as MessageType
from pocketmq.runtime.files.text_files import TextFiles as TextFiles
from pocketmq.runtime.loop_thread import LoopThread as LoopThread

class MessageIterator:
    """Messages one by one; each is done when the next one is asked for."""

    asynchronous: AsyncMessageIterator
    loop_thread: LoopThread
    def __iter__(self) -> Self: ...
    def __next__(self) -> MessageExt: ...
    def done(self) -> None:
        """The message that was handed out last is consumed: it does not come again."""

class Admin:
    """Sends admin requests to name servers and brokers; belongs to no group."""

    asynchronous: AsyncAdmin
    loop_thread: LoopThread
    def __init__(
        self, *, loop_thread: LoopThread | None = None, **options: Unpack[ClientOptions]
    ) -> None: ...
    def add_write_perm(self, broker_name: str) -> int:
        """Restore a broker's write permission on every name server (N-31)."""
    def broker_config(self, broker_name: str) -> dict[str, str]:
        """A broker's options under RocketMQ's names: GET_BROKER_CONFIG (26)."""
    def broker_epochs(self, address: str) -> EpochEntryCache:
        """Which master's epoch wrote which part of a replica's log: GET_BROKER_EPOCH_CACHE (1007)."""
    def broker_metrics(self, broker_name: str, *, address: str | None = None) -> MetricsReport:
        """A broker's metrics under RocketMQ's names: GET_METRICS (30008)."""
    def broker_runtime_info(
        self, broker_name: str, *, address: str | None = None
    ) -> dict[str, str]:
        """A broker's figures, text by text: GET_BROKER_RUNTIME_INFO (28)."""
    def broker_stats(self, broker_name: str, name: str, key: str) -> BrokerStatsData | None:
        """One statistic of a broker; None if it has counted nothing: VIEW_BROKER_STATS_DATA (315)."""
    def brokers(self, *, masters_only: bool = True) -> dict[str, dict[int, str]]:
        """Broker name -> broker id -> address, sorted by name."""
    def cluster_info(self) -> ClusterInfo:
        """Every broker name with its addresses, and the clusters: GET_BROKER_CLUSTER_INFO (106)."""
    def consume_directly(
        self, group: str, client_id: str, offset_msg_id: str, *, topic: str | None = None
    ) -> ConsumeMessageDirectlyResult:
        """Have one member's listener called with one message: CONSUME_MESSAGE_DIRECTLY (309)."""
    def consume_stats(
        self, group: str, topic: str | None = None
    ) -> dict[MessageQueue, OffsetWrapper]:
        """A group's progress in every queue it has an offset for: GET_CONSUME_STATS (208)."""
    def consumer_connections(self, group: str) -> dict[str, ConsumerConnection]:
        """Broker name -> who consumes in the group, and what."""
    def consumer_ids(self, group: str, broker_name: str) -> list[str]:
        """Members of a group as one broker knows them, sorted: GET_CONSUMER_LIST_BY_GROUP (38)."""
    def consumer_offset(self, group: str, queue: MessageQueue) -> int | None:
        """A group's consumer offset; None if nothing is stored: QUERY_CONSUMER_OFFSET (14)."""
    def consumer_running_info(self, group: str, client_id: str) -> ConsumerRunningInfo:
        """What one member is doing, asked through a broker that knows it."""
    def create_group(
        self, config: SubscriptionGroupConfig, *, brokers: Iterable[str] | None = None
    ) -> None:
        """Create a subscription group, or change it, on masters."""
    def create_topic(
        self,
        topic: str,
        *,
        queues: int = 4,
        read_queues: int | None = None,
        perm: int = ...,
        order: bool = False,
        brokers: Iterable[str] | None = None,
        cluster: str | None = None,
        message_type: MessageType | None = None,
    ) -> None:
        """Create a topic, or change it, on masters: UPDATE_AND_CREATE_TOPIC (17)."""
    def create_user(
        self,
        username: str,
        password: str,
        *,
        is_super: bool = False,
        brokers: Iterable[str] | None = None,
    ) -> None:
        """Make a user: AUTH_CREATE_USER (3001)."""
    def delete_group(self, group: str, *, clean_offset: bool = False) -> None:
        """Delete a subscription group on every master: DELETE_SUBSCRIPTIONGROUP (207)."""
    def delete_kv(self, namespace: str, key: str) -> None:
        """Remove a key on every name server: DELETE_KV_CONFIG (102)."""
    def delete_topic(self, topic: str) -> None:
        """Delete a topic on every master (DELETE_TOPIC_IN_BROKER), then its routes."""
    def delete_user(self, username: str, *, brokers: Iterable[str] | None = None) -> None:
        """Delete a user with its rules, if there is one: AUTH_DELETE_USER (3003)."""
    def earliest_store_time(self, queue: MessageQueue) -> int:
        """When the queue's oldest message was stored, in epoch ms; -1 if it has none."""
    def get_kv(self, namespace: str, key: str) -> str | None:
        """A key's value: GET_KV_CONFIG (101)."""
    def grant(
        self,
        username: str,
        resources: Sequence[str],
        actions: Sequence[str],
        *,
        is_allowed: bool = True,
        source_ips: Sequence[str] = ...,
        brokers: Iterable[str] | None = None,
    ) -> None:
        """Add a rule for each resource; one about the same resource is replaced."""
    def groups(self, broker_name: str) -> dict[str, SubscriptionGroupConfig]:
        """All subscription groups of one broker: GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201)."""
    def ha_status(self, address: str) -> HARuntimeInfo:
        """Slaves of the broker at an address, or its master: GET_BROKER_HA_STATUS (907)."""
    def kv_list(self, namespace: str) -> dict[str, str]:
        """All keys of a namespace: GET_KVLIST_BY_NAMESPACE (219)."""
    def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the queue's next message will get: GET_MAX_OFFSET (30)."""
    def message_at(self, address: str, offset: int, *, topic: str | None = None) -> MessageExt:
        """The message whose record begins at a log offset of a broker: VIEW_MESSAGE_BY_ID (33)."""
    def min_offset(self, queue: MessageQueue) -> int:
        """The queue's oldest offset still stored: GET_MIN_OFFSET (31)."""
    def nameserver_config(self) -> dict[str, dict[str, str]]:
        """Address of each name server -> its options: GET_NAMESRV_CONFIG (319)."""
    def producers(self, broker_name: str) -> dict[str, list[ProducerInfo]]:
        """Producer group -> its clients on one broker: GET_ALL_PRODUCER_INFO (328)."""
    def proxy_consumers(self, group: str) -> dict[str, ConsumerConnection]:
        """gRPC proxy -> who consumes in the group through it: brokers do not know these clients."""
    def proxy_producers(self) -> dict[str, dict[str, list[ProducerInfo]]]:
        """gRPC proxy -> topic -> who publishes to it through that proxy."""
    def publish_queues(self, topic: str) -> list[MessageQueue]:
        """Queues that a producer sends to (P-12)."""
    def put_kv(self, namespace: str, key: str, value: str) -> None:
        """Set a key on every name server: PUT_KV_CONFIG (100)."""
    def query_messages(
        self,
        topic: str,
        key: str,
        *,
        max_count: int = 32,
        begin_ms: int = 0,
        end_ms: int = ...,
        by_uniq_key: bool = False,
        by_tag: bool = False,
        everywhere: bool = False,
    ) -> list[MessageExt]:
        """Messages by one of their KEYS, UNIQ_KEY or tag, oldest first: QUERY_MESSAGE (12)."""
    def read(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        expression: str | MessageSelector = "*",
        max_count: int = 32,
        wait_ms: int = 0,
    ) -> PullResult:
        """Read messages of one queue without a group of one's own: PULL_MESSAGE (11)."""
    def reset_offset(
        self,
        group: str,
        topic: str,
        time_ms: int,
        *,
        force: bool = True,
        brokers: Container[str] | None = None,
    ) -> dict[MessageQueue, int]:
        """Move a group to what was stored at a moment; where each queue now stands (C-70)."""
    def revoke(
        self, username: str, resource: str | None = None, *, brokers: Iterable[str] | None = None
    ) -> None:
        """Take the rule about a resource from a user, or all of its rules: AUTH_DELETE_ACL (3008)."""
    def route(self, topic: str) -> TopicRouteData | None:
        """Where a topic's queues are; None if the name server does not know it."""
    def rules(
        self,
        username: str | None = None,
        *,
        resource: str | None = None,
        brokers: Iterable[str] | None = None,
    ) -> dict[str, list[AclInfo]]:
        """Rules by broker: AUTH_LIST_ACL (3010)."""
    def search_offset(
        self, queue: MessageQueue, time_ms: int, *, boundary: str | None = None
    ) -> int:
        """The first offset stored at or after a moment; `boundary="UPPER"` for the last before."""
    def set_request_mode(
        self, group: str, topic: str, mode: RequestMode, *, share_queues: int = 0
    ) -> None:
        """Have a group pop a topic, or pull it: SET_MESSAGE_REQUEST_MODE (401), on every master."""
    def start(self) -> None:
        """Start the client; requests can be sent afterwards."""
    def stop(self) -> None:
        """Close the connections."""
    def subscribe_queues(self, topic: str) -> list[MessageQueue]:
        """Queues that the consumers of the topic divide among them (P-13)."""
    def topic_configs(self, broker_name: str) -> dict[str, TopicConfig]:
        """All topics as one broker keeps them: GET_ALL_TOPIC_CONFIG (21)."""
    def topic_consumers(self, topic: str) -> list[str]:
        """Groups that consume a topic, sorted: QUERY_TOPIC_CONSUME_BY_WHO (300)."""
    def topic_stats(self, topic: str) -> dict[MessageQueue, TopicOffset]:
        """Bounds of every queue of a topic: GET_TOPIC_STATS_INFO (202)."""
    def topics(self) -> list[str]:
        """Names of all topics, sorted: GET_ALL_TOPIC_LIST_FROM_NAMESERVER (206)."""
    def update_broker_config(self, broker_name: str, changes: Mapping[str, str]) -> str:
        """Change a broker's options while it runs: UPDATE_BROKER_CONFIG (25)."""
    def update_consumer_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Move a group that is not running: UPDATE_CONSUMER_OFFSET (15)."""
    def update_nameserver_config(self, changes: Mapping[str, str]) -> dict[str, str]:
        """Change options of every name server: UPDATE_NAMESRV_CONFIG (318)."""
    def update_topic(
        self,
        topic: str,
        *,
        queues: int | None = None,
        message_type: MessageType | None = None,
        brokers: Iterable[str] | None = None,
    ) -> dict[str, TopicConfig]:
        """Change a topic where it is; what is not said stays: UPDATE_AND_CREATE_TOPIC (17)."""
    def update_user(
        self,
        username: str,
        *,
        password: str | None = None,
        is_super: bool | None = None,
        is_enabled: bool | None = None,
        brokers: Iterable[str] | None = None,
    ) -> None:
        """Change what is given of a user: AUTH_UPDATE_USER (3002)."""
    def users(
        self, text: str | None = None, *, brokers: Iterable[str] | None = None
    ) -> dict[str, list[UserInfo]]:
        """Users by broker, those with a text in their names: AUTH_LIST_USER (3005)."""
    def view_message(self, offset_msg_id: str, *, topic: str | None = None) -> MessageExt:
        """The message that is stored where the id says: VIEW_MESSAGE_BY_ID (33)."""
    def wipe_write_perm(self, broker_name: str) -> int:
        """Remove a broker's write permission on every name server; how many topics (N-31)."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

class LitePullConsumer:
    """Polls what is pulled ahead."""

    asynchronous: AsyncLitePullConsumer
    loop_thread: LoopThread
    def __init__(
        self,
        group: str,
        *,
        strategy: AllocateMessageQueueStrategy | None = None,
        loop_thread: LoopThread | None = None,
        **options: Unpack[LitePullOptions],
    ) -> None: ...
    @property
    def announced(self) -> Sequence[SubscriptionData]:
        """What heartbeats say of `subscriptions`."""
    def assign(self, queues: Iterable[MessageQueue], expression: str = ...) -> None:
        """Pull exactly these queues, in place of those assigned before (L-2)."""
    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that are ours now, sorted."""
    @property
    def client_id(self) -> str:
        """`ip@instance[@unit]`; known once started (P-1)."""
    def commit(
        self, queues: Iterable[MessageQueue] | None = None, *, persist: bool = False
    ) -> None:
        """Commit what was polled; written to the broker within 5 s (L-5)."""
    def committed(self, queue: MessageQueue) -> int:
        """The group's consumer offset of a queue; negative when it is not known."""
    @property
    def consume_from_where(self) -> ConsumeFromWhere:
        """Where the group begins when it has no offset (C-33)."""
    @property
    def group(self) -> str:
        """Its group's name."""
    @property
    def is_running(self) -> bool:
        """From the start to the stop."""
    def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the queue's next message will get."""
    @property
    def message_model(self) -> MessageModel:
        """For heartbeats."""
    def min_offset(self, queue: MessageQueue) -> int:
        """The queue's oldest offset still stored."""
    def on_queues_changed(self, topic: str, listener: QueuesListener) -> None:
        """Tell `listener(topic, queues)` when the topic's queues change; looked at every 30 s."""
    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Pull nothing more of these queues; what was pulled can still be polled."""
    def persist_offsets(self) -> None:
        """Persist committed offsets (P-5)."""
    def poll(self, timeout_ms: int | None = None) -> list[MessageExt]:
        """The messages of one pull; empty when none came in time (L-5)."""
    def queues(self, topic: str) -> list[MessageQueue]:
        """The topic's readable queues, sorted (P-13); empty without a route."""
    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Pull them again, within a second."""
    def running_info(self) -> ConsumerRunningInfo:
        """What the consumer is doing, as operators see it: GET_CONSUMER_RUNNING_INFO (307)."""
    def search_offset(self, queue: MessageQueue, time_ms: int) -> int:
        """The first offset stored at or after a moment."""
    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at another offset; what was pulled ahead is forgotten (L-6)."""
    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the queue's oldest message."""
    def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on with the queue's next message."""
    def start(self) -> None:
        """Join the group."""
    def stop(self) -> None:
        """Persist offsets and leave the group; may be called twice."""
    def subscribe(
        self, topic: str, expression: str | MessageSelector = ..., *, expression_type: str = ...
    ) -> None:
        """Take a share of the topic's queues (L-2)."""
    @property
    def subscriptions(self) -> Sequence[SubscriptionData]:
        """What is consumed; a push consumer's `%RETRY%group` included."""
    def unsubscribe(self, topic: str) -> None:
        """Give the topic's queues up at the next rebalance."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

class Producer:
    """Sends messages under the name of a group."""

    asynchronous: AsyncProducer
    loop_thread: LoopThread
    def __init__(
        self,
        group: str,
        *,
        loop_thread: LoopThread | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None: ...
    @property
    def client_id(self) -> str:
        """`ip@instance[@unit]`; known once started (P-1)."""
    @property
    def group(self) -> str:
        """Its group's name."""
    def publish_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues that messages of a topic may go to, in the order that selectors see."""
    def recall(self, handle: str, *, timeout_ms: int | None = None) -> str:
        """Recall a message that waits for its delivery time (R-31, R-34)."""
    def request(
        self,
        message: Message,
        *,
        timeout_ms: int = 3000,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        key: object = None,
    ) -> MessageExt:
        """Send a message and wait for the one that its consumer sends back (R-1, R-2)."""
    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        key: object = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Check a message (P-20 to P-22), store it, and say where."""
    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Store several messages of one topic at once, next to each other in one queue (P-49)."""
    def send_many(
        self,
        messages: Iterable[Message],
        *,
        max_batch_bytes: int = ...,
        timeout_ms: int | None = None,
    ) -> list[SendResult]:
        """Send any number of messages in batches that split themselves (P-49), one after the other."""
    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        key: object = None,
    ) -> None:
        """Send and forget: no answer, no retry, no error after the message has left (P-47)."""
    def send_reply(
        self, request: Message | MessageExt, body: bytes, *, timeout_ms: int | None = None
    ) -> SendResult:
        """Answer a message that was sent by `request` (R-5)."""
    def start(self) -> None:
        """Join the client instance and tell known brokers (P-70)."""
    def stop(self) -> None:
        """Leave the group at every broker and close what nobody else uses; may be called twice."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

class PullConsumer:
    """Reads queues by hand."""

    asynchronous: AsyncPullConsumer
    loop_thread: LoopThread
    def __init__(
        self, group: str, *, loop_thread: LoopThread | None = None, **options: Unpack[ClientOptions]
    ) -> None: ...
    @property
    def announced(self) -> Sequence[SubscriptionData]:
        """What heartbeats say of `subscriptions`."""
    @property
    def client_id(self) -> str:
        """`ip@instance[@unit]`; known once started (P-1)."""
    @property
    def consume_from_where(self) -> ConsumeFromWhere:
        """Where the group begins when it has no offset (C-33)."""
    def consume_offset(self, queue: MessageQueue, *, from_store: bool = False) -> int:
        """The group's offset; -1 when none is stored, -2 when the broker cannot be asked."""
    @property
    def group(self) -> str:
        """Its group's name."""
    @property
    def is_running(self) -> bool:
        """From the start to the stop."""
    def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the queue's next message will get."""
    @property
    def message_model(self) -> MessageModel:
        """For heartbeats."""
    def min_offset(self, queue: MessageQueue) -> int:
        """The queue's oldest offset still stored."""
    def persist_offsets(self) -> None:
        """Persist every updated offset now."""
    def pull(
        self,
        queue: MessageQueue,
        expression: str | MessageSelector,
        offset: int,
        max_count: int = 32,
        *,
        wait: bool = False,
    ) -> PullResult:
        """Read messages of one queue."""
    def queues(self, topic: str) -> list[MessageQueue]:
        """The topic's readable queues, sorted (P-13); empty without a route."""
    def running_info(self) -> ConsumerRunningInfo:
        """What the consumer is doing, as operators see it: GET_CONSUMER_RUNNING_INFO (307)."""
    def search_offset(self, queue: MessageQueue, time_ms: int) -> int:
        """The first offset stored at or after a moment."""
    def start(self) -> None:
        """Join the group."""
    def stop(self) -> None:
        """Persist offsets and leave the group; may be called twice."""
    @property
    def subscriptions(self) -> Sequence[SubscriptionData]:
        """What is consumed; a push consumer's `%RETRY%group` included."""
    def update_consume_offset(self, queue: MessageQueue, offset: int) -> None:
        """Set the group's offset in memory; persisted every 5 s and at the end."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

class PushConsumer:
    """Consumes topics as a member of a group."""

    asynchronous: AsyncPushConsumer
    loop_thread: LoopThread
    def __init__(
        self,
        group: str,
        *,
        strategy: AllocateMessageQueueStrategy | None = None,
        threads: ListenerThreads | None = None,
        offset_files: TextFiles | None = None,
        on_assignment_changed: AssignmentListener | None = None,
        on_pull: PullListener | None = None,
        loop_thread: LoopThread | None = None,
        **options: Unpack[PushOptions],
    ) -> None: ...
    def __iter__(self) -> MessageIterator:
        """Messages one by one; each is done when the next one is asked for."""
    @property
    def announced(self) -> Sequence[SubscriptionData]:
        """What heartbeats say of `subscriptions`."""
    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that are ours now, sorted; `%RETRY%group`'s included."""
    @property
    def client_id(self) -> str:
        """`ip@instance[@unit]`; known once started (P-1)."""
    @property
    def consume_from_where(self) -> ConsumeFromWhere:
        """Where the group begins when it has no offset (C-33)."""
    @property
    def group(self) -> str:
        """Its group's name."""
    @property
    def is_orderly(self) -> bool:
        """Whether the listener gets messages in order."""
    @property
    def is_running(self) -> bool:
        """From the start to the stop."""
    @property
    def is_suspended(self) -> bool:
        """Between `suspend` and `resume`."""
    def listen(self, listener: MessageListener, *, orderly: bool = False) -> None:
        """Let `listener(message)` consume."""
    def listen_batch(
        self, listener: BatchListener | OrderlyListener, *, orderly: bool = False
    ) -> None:
        """Let `listener(messages, context)` consume up to `consume_message_batch_max_size` at once."""
    @property
    def message_model(self) -> MessageModel:
        """Clustering or broadcasting."""
    def persist_offsets(self) -> None:
        """Persist all owned queues' offsets (P-5)."""
    def resume(self) -> None:
        """Go on after `suspend`, with a rebalance at once."""
    def running_info(self) -> ConsumerRunningInfo:
        """What the consumer is doing, as operators see it: GET_CONSUMER_RUNNING_INFO (307)."""
    def send_back(self, message: MessageExt, delay_level: int = 0) -> bool:
        """Have the broker deliver a message again, later (C-55); whether a broker has it now."""
    def start(self) -> None:
        """Join the group and begin to consume (C-1 to C-13)."""
    def stop(self) -> None:
        """Leave the group: end the listener, write offsets down, unregister (C-71)."""
    def story(self, topic: str | None = None) -> str:
        """Why we have these queues: the last rebalance decisions in words."""
    def subscribe(
        self, topic: str, expression: str | MessageSelector = "*", *, expression_type: str = ...
    ) -> None:
        """Consume a topic, or of it only the tags that `TagA || TagB` names (C-15),
        or what a `MessageSelector.by_sql` chooses."""
    @property
    def subscriptions(self) -> Sequence[SubscriptionData]:
        """What is consumed; a push consumer's `%RETRY%group` included."""
    def suspend(self) -> None:
        """Pause pulling and rebalancing; heartbeats go on, so the queues stay ours (C-72)."""
    def take(self, count: int) -> MessageIterator:
        """The next `count` messages, for `async for`; after the loop all of them are done."""
    def unsubscribe(self, topic: str) -> None:
        """Stop consuming a topic: at the next rebalance, and for brokers at the next heartbeat."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

class SimpleConsumer:
    """Receives, acknowledges, and changes how long a message stays hidden."""

    asynchronous: AsyncSimpleConsumer
    loop_thread: LoopThread
    def __init__(
        self,
        group: str,
        *,
        consume_from_where: ConsumeFromWhere = ...,
        loop_thread: LoopThread | None = None,
        **options: Unpack[ClientOptions],
    ) -> None: ...
    def ack(self, *messages: MessageExt) -> None:
        """Acknowledge messages; they are not delivered again."""
    @property
    def announced(self) -> Sequence[SubscriptionData]:
        """What heartbeats say of `subscriptions`."""
    def change_invisible(
        self, message: MessageExt, invisible_s: float, *, suspend: bool = False
    ) -> None:
        """Hide a message for this long from now on: longer to work on it, or shorter to retry."""
    @property
    def client_id(self) -> str:
        """`ip@instance[@unit]`; known once started (P-1)."""
    @property
    def consume_from_where(self) -> ConsumeFromWhere:
        """Where the group begins when it has no offset (C-33)."""
    @property
    def group(self) -> str:
        """Its group's name."""
    @property
    def is_running(self) -> bool:
        """From the start to the stop."""
    def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the queue's next message will get."""
    @property
    def message_model(self) -> MessageModel:
        """For heartbeats."""
    def min_offset(self, queue: MessageQueue) -> int:
        """The queue's oldest offset still stored."""
    def persist_offsets(self) -> None:
        """The broker knows where the group is."""
    def queues(self, topic: str) -> list[MessageQueue]:
        """The topic's readable queues, sorted (P-13); empty without a route."""
    def receive(
        self, max_count: int = 16, *, invisible_s: float = 60.0, wait_s: float = 15.0
    ) -> list[MessageExt]:
        """The next messages; none when none came within `wait_s`."""
    def running_info(self) -> ConsumerRunningInfo:
        """What the consumer is doing, as operators see it: GET_CONSUMER_RUNNING_INFO (307)."""
    def search_offset(self, queue: MessageQueue, time_ms: int) -> int:
        """The first offset stored at or after a moment."""
    def start(self) -> None:
        """Join the group."""
    def stop(self) -> None:
        """Persist offsets and leave the group; may be called twice."""
    def subscribe(self, topic: str, expression: str = "*") -> None:
        """Receive a topic's messages, all or those with certain tags."""
    @property
    def subscriptions(self) -> Sequence[SubscriptionData]:
        """What is consumed; a push consumer's `%RETRY%group` included."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

class TransactionProducer:
    """A producer whose messages wait for local transactions."""

    asynchronous: AsyncTransactionProducer
    loop_thread: LoopThread
    def __init__(
        self,
        group: str,
        listener: TransactionListener,
        *,
        threads: ListenerThreads | None = None,
        loop_thread: LoopThread | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None: ...
    @property
    def client_id(self) -> str:
        """`ip@instance[@unit]`; known once started (P-1)."""
    @property
    def group(self) -> str:
        """Its group's name."""
    def publish_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues that messages of a topic may go to, in the order that selectors see."""
    def recall(self, handle: str, *, timeout_ms: int | None = None) -> str:
        """Recall a message that waits for its delivery time (R-31, R-34)."""
    def request(
        self,
        message: Message,
        *,
        timeout_ms: int = 3000,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        key: object = None,
    ) -> MessageExt:
        """Send a message and wait for the one that its consumer sends back (R-1, R-2)."""
    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        key: object = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Check a message (P-20 to P-22), store it, and say where."""
    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Store several messages of one topic at once, next to each other in one queue (P-49)."""
    def send_in_transaction(
        self,
        message: Message,
        argument: object = None,
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> TransactionResult:
        """Store a half message, run the local transaction, and send its outcome to the broker."""
    def send_many(
        self,
        messages: Iterable[Message],
        *,
        max_batch_bytes: int = ...,
        timeout_ms: int | None = None,
    ) -> list[SendResult]:
        """Send any number of messages in batches that split themselves (P-49), one after the other."""
    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        key: object = None,
    ) -> None:
        """Send and forget: no answer, no retry, no error after the message has left (P-47)."""
    def send_reply(
        self, request: Message | MessageExt, body: bytes, *, timeout_ms: int | None = None
    ) -> SendResult:
        """Answer a message that was sent by `request` (R-5)."""
    def start(self) -> None:
        """Join, and tell all brokers: they also ask a member that has not sent yet (P-62)."""
    def stop(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
