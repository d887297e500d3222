"""Requests about connected clients (B-28, E-24, M-38).

GET_CONSUMER_LIST_BY_GROUP (38), CHECK_CLIENT_CONFIG (46), GET_CONSUMER_CONNECTION_LIST (203),
GET_PRODUCER_CONNECTION_LIST (204), GET_ALL_PRODUCER_INFO (328).
"""

from __future__ import annotations

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.filters.message_filters import MessageFilters
from pocketmq.broker.groups.consumers import ClientChannelInfo, ConsumerManager
from pocketmq.broker.groups.producers import ProducerManager
from pocketmq.protocol.bodies.clients import (
    CheckClientRequestBody,
    Connection,
    ConsumerConnection,
    ConsumerList,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
)
from pocketmq.protocol.body import decode_request_body, encode_body
from pocketmq.protocol.codes import LanguageCode, RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.errors import FilterError
from pocketmq.protocol.headers.clients import (
    GetConsumerConnectionListRequestHeader,
    GetConsumerListRequestHeader,
    GetProducerConnectionListRequestHeader,
)
from pocketmq.protocol.messages.subscription import TAG
from pocketmq.runtime.clock import Clock


class MemberProcessor:
    """Lists connected clients, and checks whether a subscription can be used here.

    Args:
        consumers: consumer groups.
        producers: producer groups.
        filters: which subscriptions are valid here.
        clock: the time of heartbeats.
    """

    def __init__(
        self,
        consumers: ConsumerManager,
        producers: ProducerManager,
        filters: MessageFilters,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._consumers = consumers
        self._producers = producers
        self._filters = filters

    @handles(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
    def consumer_list(self, _peer: Peer, request: Command) -> Reply:
        """All client ids of a group on this broker (B-28)."""
        group = request.header(GetConsumerListRequestHeader).consumer_group
        info = self._consumers.get(group)
        # RocketMQ answers SYSTEM_ERROR for a group without members, and clients expect it (B-28).
        if info is None:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {group}"
            )
        encoding = int(request.encoding)
        body = info.id_lists.get(encoding)
        if body is None:
            # After a change every member asks; the list is encoded once for all of them.
            body = encode_body(ConsumerList(consumer_id_list=info.client_ids()), request.encoding)
            info.id_lists[encoding] = body
        return request.reply(body=body)

    @handles(RequestCode.CHECK_CLIENT_CONFIG)
    def check_client(self, _peer: Peer, request: Command) -> Reply:
        """Whether a subscription can be used here: CHECK_CLIENT_CONFIG (46)."""
        if not request.body_view:  # nothing to check
            return request.reply()
        body = decode_request_body(request, CheckClientRequestBody)
        data = body.subscription_data
        # Tags need no compiling: any of them is valid.
        if data is None or data.expression_type == TAG:
            return request.reply()
        try:
            self._filters.of(
                self._filters.parse(
                    data.topic, data.sub_string, data.sub_version, data.expression_type
                )
            )
        except FilterError as exc:
            raise RequestRefusedError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(exc)) from exc
        return request.reply()

    @handles(RequestCode.GET_CONSUMER_CONNECTION_LIST)
    def consumer_connections(self, _peer: Peer, request: Command) -> Reply:
        """Who consumes in a group, and what: GET_CONSUMER_CONNECTION_LIST (203)."""
        group = request.header(GetConsumerConnectionListRequestHeader).consumer_group
        info = self._consumers.get(group)
        if info is None:
            raise RequestRefusedError(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"no member of group {group} is connected to this broker",
            )
        body = ConsumerConnection(
            connection_set=[_connection(member) for member in info.members.values()],
            subscription_table=dict(info.subscriptions),
            consume_type=info.consume_type,
            message_model=info.message_model,
            consume_from_where=info.consume_from_where,
        )
        return request.reply(body=encode_body(body, request.encoding))

    @handles(RequestCode.GET_PRODUCER_CONNECTION_LIST)
    def producer_connections(self, _peer: Peer, request: Command) -> Reply:
        """Who produces in a group: GET_PRODUCER_CONNECTION_LIST (204)."""
        group = request.header(GetProducerConnectionListRequestHeader).producer_group
        members = self._producers.members(group)
        if not members:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR,
                f"no member of producer group {group} is connected to this broker",
            )
        body = ProducerConnection(connection_set=[_connection(member) for member in members])
        return request.reply(body=encode_body(body, request.encoding))

    @handles(RequestCode.GET_ALL_PRODUCER_INFO)
    def all_producers(self, _peer: Peer, request: Command) -> Reply:
        """Every connected producer by its group: GET_ALL_PRODUCER_INFO (328)."""
        now_ms, now = self._clock.time_ms(), self._clock.monotonic()
        body = ProducerTableInfo(
            data={
                group: [
                    ProducerInfo(
                        client_id=info.client_id,
                        remote_ip=f"/{info.channel.address}",  # as Java writes a socket's address
                        language=LanguageCode(info.language).name,
                        version=info.version,
                        # Ages are kept by a monotonic clock, so they are converted to wall-clock
                        # milliseconds.
                        last_update_timestamp=now_ms - round((now - info.last_update_at) * 1000),
                    )
                    for info in members.values()
                ]
                for group, members in self._producers.groups.items()
            }
        )
        return request.reply(body=encode_body(body, request.encoding))


def _connection(info: ClientChannelInfo) -> Connection:
    return Connection(
        client_id=info.client_id,
        client_addr=info.channel.address,
        language=LanguageCode(info.language).name,
        version=info.version,
    )
