"""Admin: topics, groups, offsets and messages, for people and tools (wire 3.3, 3.7, 3.9, 3.10).

async with Admin(nameservers="127.0.0.1:9876") as admin:
    await admin.create_topic("Orders", queues=4)
    print(await admin.route("Orders"))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar, Unpack

from pocketmq.client.api import ClientApi
from pocketmq.client.config import ClientConfig, ClientOptions
from pocketmq.client.instance import ClientInstance, acquire, release
from pocketmq.client.routes import publish_queues, subscribe_queues
from pocketmq.protocol.bodies.clients import (
    ConsumerConnection,
    ConsumerRunningInfo,
    GroupList,
)
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupWrapper
from pocketmq.protocol.bodies.offsets import (
    ConsumeStats,
    OffsetWrapper,
    ResetOffsetBody,
    TopicOffset,
    TopicStatsTable,
)
from pocketmq.protocol.bodies.route import ClusterInfo, KVTable, TopicList, TopicRouteData
from pocketmq.protocol.bodies.topics import TopicConfig, TopicConfigSerializeWrapper
from pocketmq.protocol.body import decode_body, parse_mq_key
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import (
    BrokerError,
    BrokerNotFoundError,
    ClientError,
    TopicNotFoundError,
)
from pocketmq.protocol.headers.clients import (
    GetConsumerConnectionListRequestHeader,
    GetConsumerRunningInfoRequestHeader,
)
from pocketmq.protocol.headers.groups import (
    DeleteSubscriptionGroupRequestHeader,
    GetAllSubscriptionGroupsRequestHeader,
    UpdateSubscriptionGroupRequestHeader,
)
from pocketmq.protocol.headers.kv import (
    DeleteKvConfigRequestHeader,
    GetKvConfigRequestHeader,
    GetKvConfigResponseHeader,
    GetKvListRequestHeader,
    PutKvConfigRequestHeader,
)
from pocketmq.protocol.headers.offsets import (
    GetConsumeStatsRequestHeader,
    GetTopicStatsRequestHeader,
    ResetOffsetRequestHeader,
)
from pocketmq.protocol.headers.query import QueryMessageRequestHeader, ViewMessageRequestHeader
from pocketmq.protocol.headers.route import (
    AddWritePermRequestHeader,
    AddWritePermResponseHeader,
    DeleteTopicInNamesrvRequestHeader,
    GetAllTopicListRequestHeader,
    GetClusterInfoRequestHeader,
    WipeWritePermRequestHeader,
    WipeWritePermResponseHeader,
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
from pocketmq.runtime.errors import PocketMQError
from pocketmq.runtime.lifetime import StartStop

T = TypeVar("T")

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"
"""Where the name servers keep which queues of which broker an order topic has (N-26)."""


class Admin(StartStop):
    """Asks and tells name servers and brokers; belongs to no group.

    Args:
        options: See `ClientConfig`.
    """

    def __init__(self, **options: Unpack[ClientOptions]) -> None:
        self.config = ClientConfig.of(options)
        self._instance: ClientInstance | None = None

    async def start(self) -> None:
        """Get ready to ask."""
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
        """Every broker name with its addresses, and the clusters (106)."""
        response = await self._api.ask_name_server(GetClusterInfoRequestHeader())
        return decode_body(response.body_view, ClusterInfo, response.encoding)

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
        """A broker's figures, text by text (28)."""
        address = await self._master(broker_name)
        header = GetBrokerRuntimeInfoRequestHeader()
        return (await self._api.call_for_body(address, header, KVTable)).table

    async def wipe_write_perm(self, broker_name: str) -> int:
        """Take a broker's queues out of sending, on every name server; how many topics (N-31)."""
        counts = [
            (await self._api.call(address, WipeWritePermRequestHeader(broker_name=broker_name)))
            .header(WipeWritePermResponseHeader)
            .wipe_topic_count
            for address in self.config.nameservers
        ]
        return max(counts, default=0)

    async def add_write_perm(self, broker_name: str) -> int:
        """Put them back (N-31)."""
        counts = [
            (await self._api.call(address, AddWritePermRequestHeader(broker_name=broker_name)))
            .header(AddWritePermResponseHeader)
            .add_topic_count
            for address in self.config.nameservers
        ]
        return max(counts, default=0)

    # -- topics ---------------------------------------------------------------------------------

    async def topics(self) -> list[str]:
        """Names of all topics, sorted (206)."""
        response = await self._api.ask_name_server(GetAllTopicListRequestHeader())
        found = decode_body(response.body_view, TopicList, response.encoding)
        return sorted(found.topic_list)

    async def route(self, topic: str) -> TopicRouteData | None:
        """Where a topic's queues are; None if the name server does not know it (105)."""
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
        """Create a topic, or change it, on masters (17).

        Args:
            topic: Its name.
            queues: To write to, on each broker.
            read_queues: To read from, if not as many.
            perm: 2 write, 4 read, 6 both.
            order: Mark it as an order topic and store its order configuration (N-26).
            brokers: Broker names; by default all.
            cluster: Only brokers of this cluster.

        Raises:
            ClientError: there is no such broker.
            BrokerError: a broker refused.
        """
        check_topic(topic)
        targets = await self._masters(brokers, cluster)
        for address in targets.values():
            await self._api.call(
                address,
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
        """Delete a topic on every master, then its route on every name server (215, 216)."""
        for address in (await self._masters(None, None)).values():
            await self._api.call(address, DeleteTopicRequestHeader(topic=topic))
        for address in self.config.nameservers:
            await self._api.call(address, DeleteTopicInNamesrvRequestHeader(topic=topic))

    async def topic_configs(self, broker_name: str) -> dict[str, TopicConfig]:
        """All topics as one broker keeps them (21)."""
        address = await self._master(broker_name)
        header = GetAllTopicConfigRequestHeader()
        wrapper = await self._api.call_for_body(address, header, TopicConfigSerializeWrapper)
        return wrapper.topic_config_table

    async def topic_stats(self, topic: str) -> dict[MessageQueue, TopicOffset]:
        """Bounds of every queue of a topic (202)."""
        found: dict[MessageQueue, TopicOffset] = {}
        for address in (await self._route_masters(topic)).values():
            header = GetTopicStatsRequestHeader(topic=topic)
            stats = await self._api.call_for_body(address, header, TopicStatsTable)
            found |= _by_queue(stats.offset_table)
        return dict(sorted(found.items()))

    async def subscribe_queues(self, topic: str) -> list[MessageQueue]:
        """Queues that a consumer of the topic shares out (P-13)."""
        return subscribe_queues(topic, await self._route(topic))

    async def publish_queues(self, topic: str) -> list[MessageQueue]:
        """Queues that a producer sends to (P-12)."""
        return publish_queues(topic, await self._route(topic))

    # -- key-value configuration ------------------------------------------------------------------

    async def put_kv(self, namespace: str, key: str, value: str) -> None:
        """Set a key on every name server (100)."""
        for address in self.config.nameservers:
            header = PutKvConfigRequestHeader(namespace=namespace, key=key, value=value)
            await self._api.call(address, header)

    async def get_kv(self, namespace: str, key: str) -> str | None:
        """A key's value (101)."""
        header = GetKvConfigRequestHeader(namespace=namespace, key=key)
        response = await self._api.ask_name_server(header, ok=(ResponseCode.QUERY_NOT_FOUND,))
        if response.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        return response.header(GetKvConfigResponseHeader).value

    async def delete_kv(self, namespace: str, key: str) -> None:
        """Remove a key on every name server (102)."""
        for address in self.config.nameservers:
            header = DeleteKvConfigRequestHeader(namespace=namespace, key=key)
            await self._api.call(address, header)

    async def kv_list(self, namespace: str) -> dict[str, str]:
        """All keys of a namespace (219)."""
        response = await self._api.ask_name_server(
            GetKvListRequestHeader(namespace=namespace), ok=(ResponseCode.QUERY_NOT_FOUND,)
        )
        if response.code == ResponseCode.QUERY_NOT_FOUND:
            return {}
        return decode_body(response.body_view, KVTable, response.encoding).table

    # -- groups ---------------------------------------------------------------------------------

    async def create_group(
        self, config: SubscriptionGroupConfig, *, brokers: Iterable[str] | None = None
    ) -> None:
        """Create a subscription group, or change it, on masters (200)."""
        check_group(config.group_name)
        for address in (await self._masters(brokers, None)).values():
            await self._api.call(address, UpdateSubscriptionGroupRequestHeader(), config)

    async def delete_group(self, group: str, *, clean_offset: bool = False) -> None:
        """Delete a subscription group on every master (207)."""
        for address in (await self._masters(None, None)).values():
            header = DeleteSubscriptionGroupRequestHeader(
                group_name=group, clean_offset=clean_offset
            )
            await self._api.call(address, header)

    async def groups(self, broker_name: str) -> dict[str, SubscriptionGroupConfig]:
        """All subscription groups of one broker (201)."""
        address = await self._master(broker_name)
        header = GetAllSubscriptionGroupsRequestHeader()
        wrapper = await self._api.call_for_body(address, header, SubscriptionGroupWrapper)
        return wrapper.subscription_group_table

    async def consumer_ids(self, group: str, broker_name: str) -> list[str]:
        """Members of a group as one broker knows them, sorted (38)."""
        address = await self._master(broker_name)
        try:
            return sorted(await self._api.consumer_ids(address, group))
        except BrokerError as exc:
            if exc.code == ResponseCode.SYSTEM_ERROR:
                return []  # how a broker says that it knows nobody (B-28)
            raise

    async def consumer_connections(self, group: str) -> dict[str, ConsumerConnection]:
        """Broker name -> who consumes in the group, and what (203)."""
        header = GetConsumerConnectionListRequestHeader(consumer_group=group)
        found: dict[str, ConsumerConnection] = {}
        for name, address in (await self._masters(None, None)).items():
            try:
                found[name] = await self._api.call_for_body(address, header, ConsumerConnection)
            except BrokerError as exc:
                if exc.code != ResponseCode.CONSUMER_NOT_ONLINE:
                    raise
        return found

    async def consumer_running_info(self, group: str, client_id: str) -> ConsumerRunningInfo:
        """What one member is doing, asked through a broker that knows it (307)."""
        header = GetConsumerRunningInfoRequestHeader(consumer_group=group, client_id=client_id)
        failure: PocketMQError | None = None
        for address in (await self._masters(None, None)).values():
            try:
                return await self._api.call_for_body(address, header, ConsumerRunningInfo)
            except BrokerError as exc:
                failure = exc
        raise failure or ClientError(f"no broker knows client {client_id} of group {group}")

    async def topic_consumers(self, topic: str) -> list[str]:
        """Groups that consume a topic, sorted (300)."""
        groups: set[str] = set()
        for address in (await self._route_masters(topic)).values():
            header = QueryTopicConsumeByWhoRequestHeader(topic=topic)
            groups.update((await self._api.call_for_body(address, header, GroupList)).group_list)
        return sorted(groups)

    # -- offsets --------------------------------------------------------------------------------

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the queue's next message will get (30)."""
        return await self._api.max_offset(await self._master(queue.broker_name), queue)

    async def min_offset(self, queue: MessageQueue) -> int:
        """The queue's oldest offset still stored (31)."""
        return await self._api.min_offset(await self._master(queue.broker_name), queue)

    async def search_offset(
        self, queue: MessageQueue, time_ms: int, *, boundary: str | None = None
    ) -> int:
        """The first offset stored at or after a moment; `boundary="UPPER"` for the last before."""
        address = await self._master(queue.broker_name)
        return await self._api.search_offset(address, queue, time_ms, boundary=boundary)

    async def earliest_store_time(self, queue: MessageQueue) -> int:
        """When the queue's oldest message was stored, in epoch ms; -1 if it has none (32)."""
        return await self._api.earliest_store_time(await self._master(queue.broker_name), queue)

    async def consumer_offset(self, group: str, queue: MessageQueue) -> int | None:
        """Where a group goes on; None if nothing is stored (14)."""
        return await self._api.consumer_offset(await self._master(queue.broker_name), group, queue)

    async def update_consumer_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Move a group that is not running (15)."""
        await self._api.update_consumer_offset(
            await self._master(queue.broker_name), group, queue, offset, oneway=False
        )

    async def consume_stats(
        self, group: str, topic: str | None = None
    ) -> dict[MessageQueue, OffsetWrapper]:
        """A group's progress in every queue it has an offset for (208)."""
        found: dict[MessageQueue, OffsetWrapper] = {}
        header = GetConsumeStatsRequestHeader(consumer_group=group, topic=topic)
        for address in (await self._masters(None, None)).values():
            stats = await self._api.call_for_body(address, header, ConsumeStats)
            found |= _by_queue(stats.offset_table)
        return dict(sorted(found.items()))

    async def reset_offset(
        self, group: str, topic: str, time_ms: int, *, force: bool = True
    ) -> dict[MessageQueue, int]:
        """Move a group to what was stored at a moment; where each queue now stands (222, C-70).

        Args:
            group: Consumer group; its members may be running.
            topic: Only its queues are moved.
            time_ms: Epoch ms; -1 for the end.
            force: Also move queues back that are behind that moment.
        """
        moved: dict[MessageQueue, int] = {}
        header = ResetOffsetRequestHeader(
            topic=topic, group=group, timestamp=time_ms, is_force=force
        )
        for address in (await self._route_masters(topic)).values():
            body = await self._api.call_for_body(address, header, ResetOffsetBody)
            moved |= _by_queue(body.offset_table)
        return dict(sorted(moved.items()))

    # -- messages -------------------------------------------------------------------------------

    async def view_message(self, offset_msg_id: str, *, topic: str | None = None) -> MessageExt:
        """The message that is stored where the id says (33).

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
    ) -> list[MessageExt]:
        """Messages of a topic by one of their KEYS, or by UNIQ_KEY (12); oldest first."""
        header = QueryMessageRequestHeader(
            topic=topic,
            key=key,
            max_num=max_count,
            begin_timestamp=begin_ms,
            end_timestamp=end_ms,
            unique_key_query=by_uniq_key or None,
        )
        found: list[MessageExt] = []
        for broker_name, address in (await self._route_masters(topic)).items():
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

    @property
    def _api(self) -> ClientApi:
        if self._instance is None:
            raise ClientError("the admin client is not running; use `async with`, or start() it")
        return self._instance.api

    async def _route(self, topic: str) -> TopicRouteData:
        route = await self.route(topic)
        if route is None:
            raise TopicNotFoundError(topic)
        return route

    async def _route_masters(self, topic: str) -> dict[str, str]:
        route = await self._route(topic)
        return {
            data.broker_name: address
            for data in sorted(route.broker_datas, key=lambda each: each.broker_name)
            if (address := data.master_address()) is not None
        }

    async def _masters(
        self, broker_names: Iterable[str] | None, cluster: str | None
    ) -> dict[str, str]:
        info = await self.cluster_info()
        chosen = set(info.broker_addr_table if broker_names is None else broker_names)
        if cluster is not None:
            chosen &= set(info.cluster_addr_table.get(cluster, ()))
        found = {}
        for name in sorted(chosen):
            data = info.broker_addr_table.get(name)
            address = None if data is None else data.master_address()
            if address is None:
                raise BrokerNotFoundError(name)
            found[name] = address
        if not found:
            raise ClientError("no broker is registered; start one with `pocketmq broker`")
        return found

    async def _master(self, broker_name: str) -> str:
        instance = self._instance
        address = None if instance is None else instance.routes.master(broker_name)
        if address is None:
            info = await self.cluster_info()
            data = info.broker_addr_table.get(broker_name)
            address = None if data is None else data.master_address()
        if address is None:
            raise BrokerNotFoundError(broker_name)
        return address


def _by_queue(table: Mapping[str, T]) -> dict[MessageQueue, T]:
    return {parse_mq_key(key): value for key, value in table.items()}
