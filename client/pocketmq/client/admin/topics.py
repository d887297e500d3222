"""Admin requests about topics, and the name servers' key-value configuration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pocketmq.client.admin.base import AdminBase, by_queue
from pocketmq.client.routes import publish_queues, subscribe_queues
from pocketmq.protocol.bodies.offsets import (
    TopicOffset,
    TopicStatsTable,
)
from pocketmq.protocol.bodies.route import TopicRouteData
from pocketmq.protocol.bodies.topics import TopicConfig, TopicConfigSerializeWrapper
from pocketmq.protocol.errors import ClientError, TopicNotFoundError
from pocketmq.protocol.headers.offsets import (
    GetTopicStatsRequestHeader,
)
from pocketmq.protocol.headers.topics import (
    DeleteTopicRequestHeader,
    GetAllTopicConfigRequestHeader,
    UpdateAndCreateTopicRequestHeader,
)
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.validation import check_topic
from pocketmq.protocol.scalars import MESSAGE_TYPE, MessageType, Perm

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"
"""Namespace in which name servers keep the order configuration of order topics (N-26)."""


class TopicAdmin(AdminBase):
    """Creates, changes, lists and deletes topics."""

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
        message_type: MessageType | None = None,
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
            message_type: What RocketMQ's proxy lets through to it; None leaves that as it is. A
                4.9 broker ignores it.

        Raises:
            ClientError: there is no such broker.
            BrokerError: a broker refused, for example PRIORITY before 5.4.
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
                attributes=None if message_type is None else f"+{MESSAGE_TYPE}={message_type}",
            ),
        )
        if order:
            conf = ";".join(f"{name}:{queues}" for name in targets)
            await self.put_kv(ORDER_NAMESPACE, topic, conf)

    async def update_topic(
        self,
        topic: str,
        *,
        queues: int | None = None,
        message_type: MessageType | None = None,
        brokers: Iterable[str] | None = None,
    ) -> dict[str, TopicConfig]:
        """Change a topic where it is; what is not said stays: UPDATE_AND_CREATE_TOPIC (17).

        Args:
            topic: Its name.
            queues: Read and write queues on each broker.
            message_type: As for `create_topic`.
            brokers: Broker names; by default all that have the topic.

        Returns:
            By broker, the configuration before.

        Raises:
            TopicNotFoundError: no broker has it.
            ClientError: one of these brokers is not there or has no such topic; then nothing was
                changed.
            BrokerError: a broker refused.
        """
        masters = self._masters
        tables = {name: await self.topic_configs(name) for name in await masters.all()}
        having = {name: table[topic] for name, table in tables.items() if topic in table}
        if not having:
            raise TopicNotFoundError(topic)
        chosen = await masters.chosen(having if brokers is None else brokers, None)
        if missing := sorted(chosen.keys() - having.keys()):
            raise ClientError(
                f"topic {topic!r} does not exist on {', '.join(missing)}; create it there"
            )
        for name, address in chosen.items():
            old = having[name]
            header = UpdateAndCreateTopicRequestHeader(
                topic=topic,
                read_queue_nums=old.read_queue_nums if queues is None else queues,
                write_queue_nums=old.write_queue_nums if queues is None else queues,
                perm=old.perm,
                topic_filter_type=old.topic_filter_type,
                topic_sys_flag=old.topic_sys_flag,
                order=old.order,
                attributes=None if message_type is None else f"+{MESSAGE_TYPE}={message_type}",
            )
            await masters.tell({name: address}, header)
        if queues is not None and any(each.order for each in having.values()):
            count = {name: each.write_queue_nums for name, each in having.items()}
            count.update(dict.fromkeys(chosen, queues))
            conf = ";".join(f"{name}:{number}" for name, number in count.items())
            await self.put_kv(ORDER_NAMESPACE, topic, conf)
        return {name: having[name] for name in chosen}

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
        return by_queue(each.offset_table for each in answers)

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
