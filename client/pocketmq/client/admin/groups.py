"""Admin requests about subscription groups and their members."""

from __future__ import annotations

from collections.abc import Iterable

from pocketmq.client.admin.base import AdminBase
from pocketmq.protocol.bodies.clients import (
    ConsumeMessageDirectlyResult,
    ConsumerConnection,
    ConsumerRunningInfo,
    GroupList,
    ProducerInfo,
    ProducerTableInfo,
)
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupWrapper
from pocketmq.protocol.bodies.pop import RequestMode, RequestModeBody
from pocketmq.protocol.headers.clients import GetAllProducerInfoRequestHeader
from pocketmq.protocol.headers.groups import (
    DeleteSubscriptionGroupRequestHeader,
    GetAllSubscriptionGroupsRequestHeader,
    UpdateSubscriptionGroupRequestHeader,
)
from pocketmq.protocol.headers.pop import SetMessageRequestModeRequestHeader
from pocketmq.protocol.headers.topics import (
    QueryTopicConsumeByWhoRequestHeader,
)
from pocketmq.protocol.messages.validation import MAX_GROUP_CHARS, check_group


class GroupAdmin(AdminBase):
    """Creates and deletes groups; asks who is in them."""

    async def create_group(
        self, config: SubscriptionGroupConfig, *, brokers: Iterable[str] | None = None
    ) -> None:
        """Create a subscription group, or change it, on masters.

        Asks by UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200).
        """
        # The broker knows its release's limit; before 5.4 it has none for tools (B-40).
        check_group(config.group_name, max_chars=MAX_GROUP_CHARS)
        masters, header = self._masters, UpdateSubscriptionGroupRequestHeader()
        await masters.tell(await masters.chosen(brokers, None), header, config)

    async def delete_group(self, group: str, *, clean_offset: bool = False) -> None:
        """Delete a subscription group on every master: DELETE_SUBSCRIPTIONGROUP (207)."""
        header = DeleteSubscriptionGroupRequestHeader(
            group_name=group,
            clean_offset=clean_offset,
            remove_offset=clean_offset or None,  # a broker's release is not known here
        )
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

    async def proxy_consumers(self, group: str) -> dict[str, ConsumerConnection]:
        """gRPC proxy -> who consumes in the group through it: brokers do not know these clients."""
        return await self._proxies.consumers(group)

    async def proxy_producers(self) -> dict[str, dict[str, list[ProducerInfo]]]:
        """gRPC proxy -> topic -> who publishes to it through that proxy."""
        return await self._proxies.producers()

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

    async def consume_directly(
        self, group: str, client_id: str, offset_msg_id: str, *, topic: str | None = None
    ) -> ConsumeMessageDirectlyResult:
        """Have one member's listener called with one message: CONSUME_MESSAGE_DIRECTLY (309).

        Neither offsets nor retries of the group change, whatever the listener says.

        Args:
            group: Consumer group.
            client_id: Of a member with a listener.
            offset_msg_id: Where the message is stored; it may be a dead letter.
            topic: Where it is stored.

        Returns:
            `consume_result`: CR_SUCCESS, CR_LATER or CR_THROW_EXCEPTION; of an orderly listener
            CR_COMMIT and CR_ROLLBACK too.

        Raises:
            IllegalNameError: it is no offset message id.
            BrokerError: SYSTEM_ERROR (1): nothing is stored there, the member is not connected to
                that broker, or it has no listener; CONSUME_MSG_TIMEOUT (207): the listener takes
                more than 10 s.
        """
        return await self._members.consume_directly(group, client_id, offset_msg_id, topic)

    async def topic_consumers(self, topic: str) -> list[str]:
        """Groups that consume a topic, sorted: QUERY_TOPIC_CONSUME_BY_WHO (300)."""
        masters, header = self._masters, QueryTopicConsumeByWhoRequestHeader(topic=topic)
        answers = await masters.ask(await masters.of_topic(topic), header, GroupList)
        return sorted({group for each in answers for group in each.group_list})
