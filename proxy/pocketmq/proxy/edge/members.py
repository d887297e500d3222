"""Who is connected here, for tools: 203 and 328, as a broker answers them.

Brokers know the proxy, and none of its clients. A client's language has its SDK's version behind
it: RocketMQ's number for versions is of its remoting clients.
"""

from __future__ import annotations

from pocketmq.protocol.bodies.clients import (
    Connection,
    ConsumerConnection,
    ProducerInfo,
    ProducerTableInfo,
)
from pocketmq.protocol.body import encode_body
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.headers.clients import GetConsumerConnectionListRequestHeader
from pocketmq.protocol.messages.subscription import SQL92, TAG, SubscriptionData
from pocketmq.proxy.protos.enums import ClientType, FilterType
from pocketmq.proxy.settings.clients import Clients


class MembersProcessor:
    """Tells of the proxy's clients.

    Args:
        clients: All of them.
    """

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    @handles(RequestCode.GET_CONSUMER_CONNECTION_LIST)
    def consumers(self, _peer: Peer, request: Command) -> Reply:
        """Members of one group."""
        group = request.header(GetConsumerConnectionListRequestHeader).consumer_group
        members = self._clients.members(group)
        if not members:
            raise BadRequestError(
                f"no member of group {group} is connected", code=ResponseCode.CONSUMER_NOT_ONLINE
            )
        body = ConsumerConnection(
            connection_set=[
                Connection(client_id=each.client_id, client_addr=each.address, language=each.sdk)
                for each in members
            ],
            subscription_table={
                # If members differ, the one heard of last counts.
                entry.topic.name: SubscriptionData(
                    topic=entry.topic.name,
                    sub_string=entry.expression.expression,
                    expression_type=SQL92 if entry.expression.type == FilterType.SQL else TAG,
                )
                for each in members
                for entry in each.settings.subscription.subscriptions
            },
            consume_type=(
                "CONSUME_ACTIVELY"
                if members[-1].type is ClientType.SIMPLE_CONSUMER
                else "CONSUME_PASSIVELY"
            ),
        )
        return request.reply(body=encode_body(body, request.encoding))

    @handles(RequestCode.GET_ALL_PRODUCER_INFO)
    def producers(self, _peer: Peer, request: Command) -> Reply:
        """Producers by their topics, which are their groups for brokers (G-66)."""
        found: dict[str, list[ProducerInfo]] = {}
        for each in self._clients.all():
            if not each.is_producer:
                continue
            info = ProducerInfo(
                client_id=each.client_id,
                remote_ip=each.address,
                language=each.sdk,
                last_update_timestamp=each.beat_ms,
            )
            for topic in each.topics:
                found.setdefault(topic, []).append(info)
        body = ProducerTableInfo(data=found)
        return request.reply(body=encode_body(body, request.encoding))
