"""Requests of admin tools that only a client can answer (E-28, E-29).

GET_CONSUMER_RUNNING_INFO (307) and INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223).

The broker relays them over the client's own connection, and returns the answer.
"""

from __future__ import annotations

import asyncio

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.groups.consumers import ClientChannelInfo, ConsumerGroupInfo, ConsumerManager
from pocketmq.protocol.bodies.clients import ConsumerRunningInfo
from pocketmq.protocol.bodies.offsets import GetConsumerStatusBody
from pocketmq.protocol.body import decode_body, encode_body
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, error_reply, handles
from pocketmq.protocol.errors import RemotingError
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.clients import GetConsumerRunningInfoRequestHeader
from pocketmq.protocol.headers.offsets import GetConsumerStatusRequestHeader
from pocketmq.protocol.transport.channel import Channel

RUNNING_INFO_TIMEOUT_S = 10.0
STATUS_TIMEOUT_S = 5.0
"""Real seconds, as RocketMQ has them."""


class RelayProcessor:
    """Relays requests of tools to consumers."""

    def __init__(self, consumers: ConsumerManager) -> None:
        self._consumers = consumers

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
        future = _ask(member, header, request.body_view, RUNNING_INFO_TIMEOUT_S)

        def answered(future: asyncio.Future[Command]) -> None:
            try:
                answer = future.result()
            except RemotingError as exc:
                reply = request.reply(code=ResponseCode.CONSUME_MSG_TIMEOUT, remark=str(exc))
            except Exception as exc:  # noqa: BLE001 - the tool is told of any failure
                reply = error_reply(peer, request, exc)
            else:
                # The client answered in its own encoding; a structured body has to be encoded anew.
                body = answer.body_view
                if body and answer.encoding is not request.encoding:
                    told = decode_body(body, ConsumerRunningInfo, answer.encoding)
                    body = encode_body(told, request.encoding)
                reply = request.reply(body=body, code=answer.code, remark=answer.remark)
            peer.reply(request, reply)

        future.add_done_callback(answered)
        return None

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
                f"group {header.group} has no client {header.client_addr} here",
            )
        code = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
        futures = [_ask(member, header, b"", STATUS_TIMEOUT_S, code=code) for member in members]

        def answered(gathered: asyncio.Future[list[Command | BaseException]]) -> None:
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
                ResponseCode.SYSTEM_ERROR, f"no member of group {group} is connected here"
            )
        return info


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
