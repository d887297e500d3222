"""Admin: topics, groups, offsets and messages, for operators and tools (E-23, E-27, E-29, E-31).

async with Admin(nameservers="127.0.0.1:9876") as admin:
    await admin.create_topic("Orders", queues=4)
    print(await admin.route("Orders"))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar, Unpack

from pocketmq.client.admin.masters import Masters
from pocketmq.client.admin.members import Members
from pocketmq.client.admin.name_server_requests import NameServerRequests
from pocketmq.client.admin.reads import read_queue
from pocketmq.client.admin.settings import change_options, options_of
from pocketmq.client.api import ClientApi
from pocketmq.client.config import ClientConfig, ClientOptions
from pocketmq.client.consumer.pull_consumer import PullResult
from pocketmq.client.instance import ClientInstance
from pocketmq.client.instances import acquire, release
from pocketmq.client.routes import publish_queues, subscribe_queues
from pocketmq.client.selector import MessageSelector
from pocketmq.protocol.bodies.clients import (
    ConsumerConnection,
    ConsumerRunningInfo,
    GroupList,
    ProducerInfo,
    ProducerTableInfo,
)
from pocketmq.protocol.bodies.controller import EpochEntryCache
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupWrapper
from pocketmq.protocol.bodies.offsets import (
    ConsumeStats,
    OffsetWrapper,
    ResetOffsetBody,
    TopicOffset,
    TopicStatsTable,
)
from pocketmq.protocol.bodies.pop import RequestMode, RequestModeBody
from pocketmq.protocol.bodies.replication import HARuntimeInfo
from pocketmq.protocol.bodies.route import ClusterInfo, KVTable, TopicRouteData
from pocketmq.protocol.bodies.stats import BrokerStatsData
from pocketmq.protocol.bodies.topics import TopicConfig, TopicConfigSerializeWrapper
from pocketmq.protocol.body import parse_mq_key
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import BrokerError, BrokerNotFoundError, ClientError
from pocketmq.protocol.headers.clients import GetAllProducerInfoRequestHeader
from pocketmq.protocol.headers.controller import GetBrokerEpochCacheRequestHeader
from pocketmq.protocol.headers.groups import (
    DeleteSubscriptionGroupRequestHeader,
    GetAllSubscriptionGroupsRequestHeader,
    UpdateSubscriptionGroupRequestHeader,
)
from pocketmq.protocol.headers.offsets import (
    GetConsumeStatsRequestHeader,
    GetTopicStatsRequestHeader,
    ResetOffsetRequestHeader,
)
from pocketmq.protocol.headers.pop import SetMessageRequestModeRequestHeader
from pocketmq.protocol.headers.query import QueryMessageRequestHeader, ViewMessageRequestHeader
from pocketmq.protocol.headers.replication import GetBrokerHAStatusRequestHeader
from pocketmq.protocol.headers.route import GetNamesrvConfigRequestHeader
from pocketmq.protocol.headers.settings import (
    GetBrokerConfigRequestHeader,
    UpdateBrokerConfigRequestHeader,
    UpdateNamesrvConfigRequestHeader,
    ViewBrokerStatsDataRequestHeader,
)
from pocketmq.protocol.headers.topics import (
    DeleteTopicRequestHeader,
    GetAllTopicConfigRequestHeader,
    GetBrokerRuntimeInfoRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
    UpdateAndCreateTopicRequestHeader,
)
from pocketmq.protocol.ids import parse_offset_msg_id
from pocketmq.protocol.message import MessageExt, MessageQueue
from pocketmq.protocol.record import decode_record, decode_records
from pocketmq.protocol.scalars import INT64_MAX, Perm
from pocketmq.protocol.validation import check_group, check_topic
from pocketmq.runtime.lifetime import StartStop

T = TypeVar("T")

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"
"""Namespace in which name servers keep the order configuration of order topics (N-26)."""


class Admin(StartStop):
    """Sends admin requests to name servers and brokers; belongs to no group.

    Args:
        options: See `ClientConfig`.
    """

    def __init__(self, **options: Unpack[ClientOptions]) -> None:
        self.config = ClientConfig.of(options)
        self._instance: ClientInstance | None = None

    async def start(self) -> None:
        """Start the client; requests can be sent afterwards."""
        if self._instance is None:
            self.config = await self.config.with_identity(unique=True)
            self._instance = acquire(self.config)

    async def stop(self) -> None:
        """Close the connections."""
        instance, self._instance = self._instance, None
        if instance is not None:
            await release(instance)

    # -- the cluster ----------------------------------------------------------------------------

    async def cluster_info(self) -> ClusterInfo:
        """Every broker name with its addresses, and the clusters: GET_BROKER_CLUSTER_INFO (106)."""
        return await self._name_servers.cluster_info()

    async def brokers(self, *, masters_only: bool = True) -> dict[str, dict[int, str]]:
        """Broker name -> broker id -> address, sorted by name."""
        info = await self.cluster_info()
        return {
            name: {
                broker_id: address
                for broker_id, address in sorted(data.broker_addrs.items())
                if broker_id == 0 or not masters_only
            }
            for name, data in sorted(info.broker_addr_table.items())
        }

    async def broker_runtime_info(self, broker_name: str) -> dict[str, str]:
        """A broker's figures, text by text: GET_BROKER_RUNTIME_INFO (28)."""
        address = await self._masters.of_broker(broker_name)
        header = GetBrokerRuntimeInfoRequestHeader()
        return (await self._api.call_for_body(address, header, KVTable)).table

    async def broker_stats(self, broker_name: str, name: str, key: str) -> BrokerStatsData | None:
        """One statistic of a broker; None if it has counted nothing: VIEW_BROKER_STATS_DATA (315).

        Args:
            broker_name: whose.
            name: such as `TOPIC_PUT_NUMS` or `GROUP_GET_NUMS`.
            key: such as a topic, or `topic@group`.
        """
        header = ViewBrokerStatsDataRequestHeader(stats_name=name, stats_key=key)
        try:
            return await self._api.call_for_body(
                await self._masters.of_broker(broker_name), header, BrokerStatsData
            )
        except BrokerError as exc:
            if exc.code == ResponseCode.SYSTEM_ERROR:
                return None  # the broker's answer when it has no such counter (O-30)
            raise

    async def ha_status(self, address: str) -> HARuntimeInfo:
        """Slaves of the broker at an address, or its master: GET_BROKER_HA_STATUS (907)."""
        return await self._api.call_for_body(
            address, GetBrokerHAStatusRequestHeader(), HARuntimeInfo
        )

    async def broker_epochs(self, address: str) -> EpochEntryCache:
        """Which master's epoch wrote which part of a replica's log: GET_BROKER_EPOCH_CACHE (1007).

        Raises:
            BrokerError: it is not in controller mode: REQUEST_CODE_NOT_SUPPORTED (3).
        """
        header = GetBrokerEpochCacheRequestHeader()
        return await self._api.call_for_body(address, header, EpochEntryCache)

    async def broker_config(self, broker_name: str) -> dict[str, str]:
        """A broker's options under RocketMQ's names: GET_BROKER_CONFIG (26)."""
        return await options_of(
            self._api, await self._masters.of_broker(broker_name), GetBrokerConfigRequestHeader()
        )

    async def update_broker_config(self, broker_name: str, changes: Mapping[str, str]) -> str:
        """Change a broker's options while it runs: UPDATE_BROKER_CONFIG (25).

        Args:
            broker_name: whose.
            changes: RocketMQ's name of an option -> value.

        Returns:
            What the broker remarks: what it did not take, and what needs a restart; empty when all
            acts now. RocketMQ says nothing: ask `broker_config` what it took.

        Raises:
            BrokerError: nothing was changed: NO_PERMISSION (16) for an option that nobody may
                change from outside.
        """
        return await change_options(
            self._api,
            await self._masters.of_broker(broker_name),
            UpdateBrokerConfigRequestHeader(),
            changes,
        )

    async def nameserver_config(self) -> dict[str, dict[str, str]]:
        """Address of each name server -> its options: GET_NAMESRV_CONFIG (319)."""
        header = GetNamesrvConfigRequestHeader()
        return {
            address: await options_of(self._api, address, header)
            for address in self.config.nameservers
        }

    async def update_nameserver_config(self, changes: Mapping[str, str]) -> dict[str, str]:
        """Change options of every name server: UPDATE_NAMESRV_CONFIG (318).

        Returns:
            Address -> remark, as `update_broker_config`.

        Raises:
            BrokerError: at the first that refuses; those before it are changed.
        """
        header = UpdateNamesrvConfigRequestHeader()
        return {
            address: await change_options(self._api, address, header, changes)
            for address in self.config.nameservers
        }

    async def wipe_write_perm(self, broker_name: str) -> int:
        """Remove a broker's write permission on every name server; how many topics (N-31)."""
        return await self._name_servers.wipe_write_perm(broker_name)

    async def add_write_perm(self, broker_name: str) -> int:
        """Restore a broker's write permission on every name server (N-31)."""
        return await self._name_servers.add_write_perm(broker_name)

    # -- topics ---------------------------------------------------------------------------------

    async def topics(self) -> list[str]:
        """Names of all topics, sorted: GET_ALL_TOPIC_LIST_FROM_NAMESERVER (206)."""
        return await self._name_servers.topics()

    async def route(self, topic: str) -> TopicRouteData | None:
        """Where a topic's queues are; None if the name server does not know it.

        Asks by GET_ROUTEINFO_BY_TOPIC (105).
        """
        return await self._api.route(topic)

    async def create_topic(
        self,
        topic: str,
        *,
        queues: int = 4,
        read_queues: int | None = None,
        perm: int = Perm.RW,
        order: bool = False,
        brokers: Iterable[str] | None = None,
        cluster: str | None = None,
    ) -> None:
        """Create a topic, or change it, on masters: UPDATE_AND_CREATE_TOPIC (17).

        Args:
            topic: Its name.
            queues: Write queues on each broker.
            read_queues: Read queues on each broker; by default as many as `queues`.
            perm: 2 write, 4 read, 6 both.
            order: Mark it as an order topic and store its order configuration (N-26).
            brokers: Broker names; by default all.
            cluster: Only brokers of this cluster.

        Raises:
            ClientError: there is no such broker.
            BrokerError: a broker refused.
        """
        check_topic(topic)
        targets = await self._masters.chosen(brokers, cluster)
        await self._masters.tell(
            targets,
            UpdateAndCreateTopicRequestHeader(
                topic=topic,
                read_queue_nums=queues if read_queues is None else read_queues,
                write_queue_nums=queues,
                perm=perm,
                order=order,
            ),
        )
        if order:
            conf = ";".join(f"{name}:{queues}" for name in targets)
            await self.put_kv(ORDER_NAMESPACE, topic, conf)

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic on every master (DELETE_TOPIC_IN_BROKER), then its routes."""
        masters = self._masters
        await masters.tell(await masters.all(), DeleteTopicRequestHeader(topic=topic))
        await self._name_servers.delete_topic(topic)

    async def topic_configs(self, broker_name: str) -> dict[str, TopicConfig]:
        """All topics as one broker keeps them: GET_ALL_TOPIC_CONFIG (21)."""
        address = await self._masters.of_broker(broker_name)
        header = GetAllTopicConfigRequestHeader()
        wrapper = await self._api.call_for_body(address, header, TopicConfigSerializeWrapper)
        return wrapper.topic_config_table

    async def topic_stats(self, topic: str) -> dict[MessageQueue, TopicOffset]:
        """Bounds of every queue of a topic: GET_TOPIC_STATS_INFO (202)."""
        masters, header = self._masters, GetTopicStatsRequestHeader(topic=topic)
        answers = await masters.ask(await masters.of_topic(topic), header, TopicStatsTable)
        return _by_queue(each.offset_table for each in answers)

    async def subscribe_queues(self, topic: str) -> list[MessageQueue]:
        """Queues that the consumers of the topic divide among them (P-13)."""
        return subscribe_queues(topic, await self._name_servers.route(topic))

    async def publish_queues(self, topic: str) -> list[MessageQueue]:
        """Queues that a producer sends to (P-12)."""
        return publish_queues(topic, await self._name_servers.route(topic))

    # -- key-value configuration ------------------------------------------------------------------

    async def put_kv(self, namespace: str, key: str, value: str) -> None:
        """Set a key on every name server: PUT_KV_CONFIG (100)."""
        await self._name_servers.put_kv(namespace, key, value)

    async def get_kv(self, namespace: str, key: str) -> str | None:
        """A key's value: GET_KV_CONFIG (101)."""
        return await self._name_servers.get_kv(namespace, key)

    async def delete_kv(self, namespace: str, key: str) -> None:
        """Remove a key on every name server: DELETE_KV_CONFIG (102)."""
        await self._name_servers.delete_kv(namespace, key)

    async def kv_list(self, namespace: str) -> dict[str, str]:
        """All keys of a namespace: GET_KVLIST_BY_NAMESPACE (219)."""
        return await self._name_servers.kv_list(namespace)

    # -- groups ---------------------------------------------------------------------------------

    async def create_group(
        self, config: SubscriptionGroupConfig, *, brokers: Iterable[str] | None = None
    ) -> None:
        """Create a subscription group, or change it, on masters.

        Asks by UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200).
        """
        check_group(config.group_name)
        masters, header = self._masters, UpdateSubscriptionGroupRequestHeader()
        await masters.tell(await masters.chosen(brokers, None), header, config)

    async def delete_group(self, group: str, *, clean_offset: bool = False) -> None:
        """Delete a subscription group on every master: DELETE_SUBSCRIPTIONGROUP (207)."""
        header = DeleteSubscriptionGroupRequestHeader(group_name=group, clean_offset=clean_offset)
        await self._masters.tell(await self._masters.all(), header)

    async def groups(self, broker_name: str) -> dict[str, SubscriptionGroupConfig]:
        """All subscription groups of one broker: GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201)."""
        address = await self._masters.of_broker(broker_name)
        header = GetAllSubscriptionGroupsRequestHeader()
        wrapper = await self._api.call_for_body(address, header, SubscriptionGroupWrapper)
        return wrapper.subscription_group_table

    async def set_request_mode(
        self, group: str, topic: str, mode: RequestMode, *, share_queues: int = 0
    ) -> None:
        """Have a group pop a topic, or pull it: SET_MESSAGE_REQUEST_MODE (401), on every master.

        Counts for consumers that have the brokers share queues out (`client_rebalance=False`).

        Args:
            group: Consumer group.
            topic: Not a retry topic.
            mode: `POP` or `PULL`.
            share_queues: With POP, how many neighbours' queues a member pops beside its own;
                0: every member pops all (K-24).

        Raises:
            BrokerError: a broker refused.
        """
        body = RequestModeBody(
            topic=topic, consumer_group=group, mode=mode, pop_share_queue_num=share_queues
        )
        masters = self._masters
        targets = await masters.all()
        await masters.tell(targets, SetMessageRequestModeRequestHeader(), body)

    async def consumer_ids(self, group: str, broker_name: str) -> list[str]:
        """Members of a group as one broker knows them, sorted: GET_CONSUMER_LIST_BY_GROUP (38)."""
        return await self._members.client_ids(group, broker_name)

    async def consumer_connections(self, group: str) -> dict[str, ConsumerConnection]:
        """Broker name -> who consumes in the group, and what.

        Asks by GET_CONSUMER_CONNECTION_LIST (203).
        """
        return await self._members.connections(group)

    async def producers(self, broker_name: str) -> dict[str, list[ProducerInfo]]:
        """Producer group -> its clients on one broker: GET_ALL_PRODUCER_INFO (328)."""
        address = await self._masters.of_broker(broker_name)
        header = GetAllProducerInfoRequestHeader()
        return (await self._api.call_for_body(address, header, ProducerTableInfo)).data

    async def consumer_running_info(self, group: str, client_id: str) -> ConsumerRunningInfo:
        """What one member is doing, asked through a broker that knows it.

        Asks by GET_CONSUMER_RUNNING_INFO (307).
        """
        return await self._members.running_info(group, client_id)

    async def topic_consumers(self, topic: str) -> list[str]:
        """Groups that consume a topic, sorted: QUERY_TOPIC_CONSUME_BY_WHO (300)."""
        masters, header = self._masters, QueryTopicConsumeByWhoRequestHeader(topic=topic)
        answers = await masters.ask(await masters.of_topic(topic), header, GroupList)
        return sorted({group for each in answers for group in each.group_list})

    # -- offsets --------------------------------------------------------------------------------

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the queue's next message will get: GET_MAX_OFFSET (30)."""
        return await self._api.max_offset(await self._masters.of_broker(queue.broker_name), queue)

    async def min_offset(self, queue: MessageQueue) -> int:
        """The queue's oldest offset still stored: GET_MIN_OFFSET (31)."""
        return await self._api.min_offset(await self._masters.of_broker(queue.broker_name), queue)

    async def search_offset(
        self, queue: MessageQueue, time_ms: int, *, boundary: str | None = None
    ) -> int:
        """The first offset stored at or after a moment; `boundary="UPPER"` for the last before."""
        address = await self._masters.of_broker(queue.broker_name)
        return await self._api.search_offset(address, queue, time_ms, boundary=boundary)

    async def earliest_store_time(self, queue: MessageQueue) -> int:
        """When the queue's oldest message was stored, in epoch ms; -1 if it has none.

        Asks by GET_EARLIEST_MSG_STORETIME (32).
        """
        return await self._api.earliest_store_time(
            await self._masters.of_broker(queue.broker_name), queue
        )

    async def consumer_offset(self, group: str, queue: MessageQueue) -> int | None:
        """A group's consumer offset; None if nothing is stored: QUERY_CONSUMER_OFFSET (14)."""
        return await self._api.consumer_offset(
            await self._masters.of_broker(queue.broker_name), group, queue
        )

    async def update_consumer_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Move a group that is not running: UPDATE_CONSUMER_OFFSET (15)."""
        await self._api.update_consumer_offset(
            await self._masters.of_broker(queue.broker_name), group, queue, offset, oneway=False
        )

    async def consume_stats(
        self, group: str, topic: str | None = None
    ) -> dict[MessageQueue, OffsetWrapper]:
        """A group's progress in every queue it has an offset for: GET_CONSUME_STATS (208)."""
        masters = self._masters
        header = GetConsumeStatsRequestHeader(consumer_group=group, topic=topic)
        answers = await masters.ask(await masters.all(), header, ConsumeStats)
        return _by_queue(each.offset_table for each in answers)

    async def reset_offset(
        self, group: str, topic: str, time_ms: int, *, force: bool = True
    ) -> dict[MessageQueue, int]:
        """Move a group to what was stored at a moment; where each queue now stands (C-70).

        Asks by INVOKE_BROKER_TO_RESET_OFFSET (222).

        Args:
            group: Consumer group; its members may be running.
            topic: Only its queues are moved.
            time_ms: Epoch ms; -1 for the end.
            force: Also move queues back that are behind that moment.
        """
        masters = self._masters
        header = ResetOffsetRequestHeader(
            topic=topic, group=group, timestamp=time_ms, is_force=force
        )
        answers = await masters.ask(await masters.of_topic(topic), header, ResetOffsetBody)
        return _by_queue(each.offset_table for each in answers)

    # -- messages -------------------------------------------------------------------------------

    async def read(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        expression: str | MessageSelector = "*",
        max_count: int = 32,
        wait_ms: int = 0,
    ) -> PullResult:
        """Read messages of one queue without a group of one's own: PULL_MESSAGE (11).

        No group is created, and no offset is committed.

        Args:
            queue: Which one.
            offset: Of the first message wanted.
            expression: `*`, tags as `TagA || TagB`, or a `MessageSelector.by_sql`.
            max_count: At most so many; brokers give at most 32.
            wait_ms: When there is nothing, for how long the broker may wait for a message.

        Raises:
            BrokerError: the broker refused.
            RequestTimeoutError: it did not answer; with `wait_ms` this also happens on a manual
                clock that stands: ask again.
        """
        try:
            address = await self._started().addresses.master(queue)
        except BrokerNotFoundError:  # a system topic may have no route
            address = await self._masters.of_broker(queue.broker_name)
        return await read_queue(
            self._api,
            address,
            queue,
            expression,
            offset,
            max_count=max_count,
            wait_ms=wait_ms,
            max_body_bytes=self.config.max_body_bytes,
        )

    async def view_message(self, offset_msg_id: str, *, topic: str | None = None) -> MessageExt:
        """The message that is stored where the id says: VIEW_MESSAGE_BY_ID (33).

        Raises:
            IllegalNameError: it is no offset message id.
            BrokerError: nothing is stored there (any more).
        """
        ip, port, offset = parse_offset_msg_id(offset_msg_id)
        address = f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"
        response = await self._api.call(
            address, ViewMessageRequestHeader(offset=offset, topic=topic)
        )
        return decode_record(response.body_view)

    async def query_messages(
        self,
        topic: str,
        key: str,
        *,
        max_count: int = 32,
        begin_ms: int = 0,
        end_ms: int = INT64_MAX,
        by_uniq_key: bool = False,
        everywhere: bool = False,
    ) -> list[MessageExt]:
        """Messages by one of their KEYS or by UNIQ_KEY, oldest first: QUERY_MESSAGE (12).

        Args:
            topic: Where they are stored.
            key: What they have.
            max_count: At most so many on each broker.
            begin_ms: Stored then or later, epoch ms.
            end_ms: Stored then or earlier.
            by_uniq_key: `key` is a UNIQ_KEY.
            everywhere: Ask every master, and not those of the topic's route: system topics may
                have none.
        """
        header = QueryMessageRequestHeader(
            topic=topic,
            key=key,
            max_num=max_count,
            begin_timestamp=begin_ms,
            end_timestamp=end_ms,
            unique_key_query=by_uniq_key or None,
        )
        found: list[MessageExt] = []
        masters = self._masters
        targets = await (masters.all() if everywhere else masters.of_topic(topic))
        for broker_name, address in targets.items():
            response = await self._api.call(address, header, ok=(ResponseCode.QUERY_NOT_FOUND,))
            if response.code == ResponseCode.SUCCESS:
                found += decode_records(response.body_view, broker_name=broker_name)
        # The index holds hashes: others may collide.
        matching = [
            message
            for message in found
            if (message.uniq_key == key if by_uniq_key else key in message.key_list)
        ]
        return sorted(matching, key=lambda message: message.store_timestamp_ms)

    # -- inside ---------------------------------------------------------------------------------

    def _started(self) -> ClientInstance:
        if self._instance is None:
            raise ClientError("the admin client is not running; use `async with`, or start() it")
        return self._instance

    @property
    def _api(self) -> ClientApi:
        return self._started().api

    @property
    def _name_servers(self) -> NameServerRequests:
        return NameServerRequests(self._api, self.config.nameservers)

    @property
    def _masters(self) -> Masters:
        return Masters(self._api, self._name_servers, self._started().routes)

    @property
    def _members(self) -> Members:
        return Members(self._api, self._masters)


def _by_queue(tables: Iterable[Mapping[str, T]]) -> dict[MessageQueue, T]:
    """What brokers say of their queues in one table, sorted."""
    found = {parse_mq_key(key): each for table in tables for key, each in table.items()}
    return dict(sorted(found.items()))
