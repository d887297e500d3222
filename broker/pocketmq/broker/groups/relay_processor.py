"""Requests of admin tools that only a client can answer (E-28, E-29).

GET_CONSUMER_RUNNING_INFO (307), CONSUME_MESSAGE_DIRECTLY (309) and
INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223).

The broker relays them over the client's own connection, and returns the answer.
"""

from __future__ import annotations

import asyncio

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.groups.consumers import ClientChannelInfo, ConsumerGroupInfo, ConsumerManager
from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.protocol.bodies.clients import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from pocketmq.protocol.bodies.offsets import GetConsumerStatusBody
from pocketmq.protocol.body import BodyStruct, decode_body, encode_body
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, error_reply, handles
from pocketmq.protocol.errors import IllegalNameError, RemotingError, RequestTimeoutError
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.clients import (
    ConsumeMessageDirectlyRequestHeader,
    GetConsumerRunningInfoRequestHeader,
)
from pocketmq.protocol.headers.offsets import GetConsumerStatusRequestHeader
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.protocol.transport.channel import Channel

RUNNING_INFO_TIMEOUT_S = 10.0
DIRECT_TIMEOUT_S = 10.0
STATUS_TIMEOUT_S = 5.0
"""Real seconds, as RocketMQ has them."""


class RelayProcessor:
    """Relays requests of tools to consumers.

    Args:
        consumers: who is connected.
        core: name and store of the broker.
        topics: their system flags.
        groups: theirs.
    """

    def __init__(
        self,
        consumers: ConsumerManager,
        core: BrokerCore,
        topics: TopicConfigManager,
        groups: SubscriptionGroupManager,
    ) -> None:
        self._consumers = consumers
        self._core = core
        self._topics = topics
        self._groups = groups

    @handles(RequestCode.GET_CONSUMER_RUNNING_INFO)
    def running_info(self, peer: Peer, request: Command) -> Reply:
        """What one consumer does right now; CONSUME_MSG_TIMEOUT (207) when it answers too late."""
        header = request.header(GetConsumerRunningInfoRequestHeader)
        info = self._group(header.consumer_group)
        member = info.find(header.client_id)
        if member is None:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR,
                f"group {header.consumer_group} has no client {header.client_id} here; it has "
                + ", ".join(sorted(info.ids)),
            )
        # The timeout is in real seconds, because the client is another process with its own clock.
        future = _ask(member, header, request.body_view, RUNNING_INFO_TIMEOUT_S)

        def answered(future: asyncio.Future[Command]) -> None:
            try:
                answer = future.result()
            # Whatever the cause, a client that does not answer is reported as a timeout (E-28).
            except RemotingError as exc:
                reply = request.reply(code=ResponseCode.CONSUME_MSG_TIMEOUT, remark=str(exc))
            except Exception as exc:  # noqa: BLE001 - the tool is told of any failure
                reply = error_reply(peer, request, exc)
            else:
                reply = _relayed(request, answer, ConsumerRunningInfo)
            peer.reply(request, reply)

        future.add_done_callback(answered)
        return None

    @handles(RequestCode.CONSUME_MESSAGE_DIRECTLY)
    def consume_directly(self, peer: Peer, request: Command) -> Reply:
        """Have a consumer's listener called with one stored message (M-32); texts are RocketMQ's.

        Raises:
            RequestRefusedError: SYSTEM_ERROR (1): there is no such message, or no such member.
        """
        header = request.header(ConsumeMessageDirectlyRequestHeader)
        # 4.9 has no system flags in this request.
        if self._core.profile.broker.pulls_tell_sys_flags:
            # Before anything is refused: reading its flags makes an unknown group (M-32).
            self._add_sys_flags(header)
        record = self._record(header.msg_id)
        who = f"<{header.consumer_group}> <{header.client_id}>"
        info = self._consumers.get(header.consumer_group)
        member = None if info is None or not header.client_id else info.find(header.client_id)
        if member is None:
            raise RequestRefusedError(ResponseCode.SYSTEM_ERROR, f"The Consumer {who} not online")
        header.broker_name = self._core.config.name
        future = _ask(member, header, record, DIRECT_TIMEOUT_S)

        def answered(future: asyncio.Future[Command]) -> None:
            try:
                answer = future.result()
                reply = _relayed(request, answer, ConsumeMessageDirectlyResult)
            except RequestTimeoutError as exc:
                reply = request.reply(
                    code=ResponseCode.CONSUME_MSG_TIMEOUT, remark=f"consumer {who} Timeout: {exc}"
                )
            except Exception as exc:  # noqa: BLE001 - the tool is told of any failure
                reply = request.reply(
                    code=ResponseCode.SYSTEM_ERROR,
                    remark=f"invoke consumer {who} Exception: {exc}",
                )
            peer.reply(request, reply)

        future.add_done_callback(answered)
        return None

    def _record(self, msg_id: str | None) -> memoryview:
        """The stored message that an offset id names."""
        try:
            _, _, offset = parse_offset_msg_id(msg_id or "")
        except IllegalNameError as exc:
            raise RequestRefusedError(ResponseCode.SYSTEM_ERROR, str(exc)) from exc
        record = self._core.store.lookup(offset)
        if record is None:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR, f"no message is stored at commit log offset {offset}"
            )
        return record

    def _add_sys_flags(self, header: ConsumeMessageDirectlyRequestHeader) -> None:
        """What RocketMQ tells of topic and group; a group that is unknown is made."""
        topic = self._topics.table.get(header.topic or "")
        group = self._groups.find_or_create(header.consumer_group, self._core.clock.time_ms())
        header.topic_sys_flag = None if topic is None else topic.topic_sys_flag
        header.group_sys_flag = None if group is None else group.group_sys_flag

    @handles(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS)
    def consumer_status(self, peer: Peer, request: Command) -> Reply:
        """Each member's own view of its offsets; members that do not answer are left out."""
        header = request.header(GetConsumerStatusRequestHeader)
        members = [
            member
            for member in self._group(header.group).members.values()
            if not header.client_addr or member.client_id == header.client_addr
        ]
        if not members:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR,
                f"no client {header.client_addr} of group {header.group} is connected to this "
                "broker",
            )
        code = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
        futures = [_ask(member, header, b"", STATUS_TIMEOUT_S, code=code) for member in members]

        def answered(gathered: asyncio.Future[list[Command | BaseException]]) -> None:
            # Members that do not answer are left out (E-29).
            table = {}
            for member, answer in zip(members, gathered.result(), strict=True):
                if isinstance(answer, Command) and answer.code == 0:
                    status = decode_body(answer.body_view, GetConsumerStatusBody, answer.encoding)
                    table[member.client_id] = status.message_queue_table
            body = GetConsumerStatusBody(consumer_table=table)
            peer.reply(request, request.reply(body=encode_body(body, request.encoding)))

        asyncio.gather(*futures, return_exceptions=True).add_done_callback(answered)
        return None

    def _group(self, group: str) -> ConsumerGroupInfo:
        info = self._consumers.get(group)
        if info is None:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR, f"no member of group {group} is connected to this broker"
            )
        return info


def _relayed(request: Command, answer: Command, body_type: type[BodyStruct]) -> Command:
    """A client's answer as ours; it used its own encoding, so a structured body is encoded anew."""
    body = answer.body_view
    if body and answer.encoding is not request.encoding:
        body = encode_body(decode_body(body, body_type, answer.encoding), request.encoding)
    return request.reply(body=body, code=answer.code, remark=answer.remark)


def _ask(
    member: ClientChannelInfo,
    header: Header,
    body: bytes | bytearray | memoryview,
    timeout_s: float,
    *,
    code: int | None = None,
) -> asyncio.Future[Command]:
    channel = member.channel
    assert isinstance(channel, Channel), "consumers are connected by channels"
    return channel.request(header, body, code=code, timeout_s=timeout_s)
