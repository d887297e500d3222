"""Questions that the broker passes on to its clients (307, 223)."""

from __future__ import annotations

import asyncio
from typing import Any

from pocketmq.protocol.bodies.clients import ConsumerRunningInfo, ProcessQueueInfo
from pocketmq.protocol.bodies.offsets import GetConsumerStatusBody
from pocketmq.protocol.body import decode_body, encode_body, mq_key
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.headers.clients import GetConsumerRunningInfoRequestHeader
from pocketmq.protocol.headers.offsets import GetConsumerStatusRequestHeader
from pocketmq.protocol.message import MessageQueue
from support.broker_rig import BrokerRig, Voice, consumer

QUEUE = mq_key(MessageQueue("orders", "broker-a", 0))


async def member(rig: BrokerRig, client_id: str, encoding: Encoding = Encoding.MSGPACK) -> Voice:
    """A consumer that answers both questions."""
    voice = await rig.voice(encoding)

    def running(_peer: Any, request: Command) -> Command:
        info = ConsumerRunningInfo(
            properties={"who": client_id}, mq_table={QUEUE: ProcessQueueInfo(commit_offset=7)}
        )
        return request.reply(body=encode_body(info, request.encoding))

    def status(_peer: Any, request: Command) -> Command:
        body = GetConsumerStatusBody(message_queue_table={QUEUE: 7})
        return request.reply(body=encode_body(body, request.encoding))

    voice.channel.dispatcher.register(RequestCode.GET_CONSUMER_RUNNING_INFO, running)
    voice.channel.dispatcher.register(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, status)
    await voice.heartbeat(client_id, consumers=[consumer()])
    return voice


def running_info(client_id: str = "one") -> GetConsumerRunningInfoRequestHeader:
    return GetConsumerRunningInfoRequestHeader(consumer_group="readers", client_id=client_id)


async def test_a_consumers_own_words_reach_the_tool(rig: BrokerRig, encoding: Encoding) -> None:
    # E-28 (307)
    await member(rig, "one", Encoding.JSON)
    await member(rig, "two")
    tool = await rig.voice(encoding)
    for client_id in ("one", "two"):
        reply = await tool.ask(running_info(client_id))
        assert reply.code == 0, reply.remark
        info = decode_body(reply.body_view, ConsumerRunningInfo, encoding)
        assert info.properties == {"who": client_id}
        assert info.mq_table[QUEUE].commit_offset == 7


async def test_a_client_or_group_that_is_not_here_is_named(rig: BrokerRig, voice: Voice) -> None:
    assert (await voice.ask(running_info())).code == 1
    await member(rig, "one")
    reply = await voice.ask(running_info("other"))
    assert reply.code == 1
    assert "one" in (reply.remark or "")


async def test_a_consumer_that_leaves_instead_of_answering_is_207(  # E-28
    rig: BrokerRig, voice: Voice
) -> None:
    gone = await member(rig, "one")
    gone.channel.dispatcher.single[RequestCode.GET_CONSUMER_RUNNING_INFO] = lambda *_: None
    asked = asyncio.ensure_future(voice.ask(running_info()))
    await rig.settle()
    gone.channel.close()
    assert (await asked).code == ResponseCode.CONSUME_MSG_TIMEOUT


async def test_all_members_views_of_their_offsets_are_gathered(  # E-29 (223)
    rig: BrokerRig, encoding: Encoding
) -> None:
    await member(rig, "one", Encoding.JSON)
    await member(rig, "two")
    tool = await rig.voice(encoding)

    async def ask(client: str | None) -> dict[str, dict[str, int]]:
        header = GetConsumerStatusRequestHeader(topic="orders", group="readers", client_addr=client)
        reply = await tool.ask(header)
        assert reply.code == 0, reply.remark
        return decode_body(reply.body_view, GetConsumerStatusBody, encoding).consumer_table

    assert await ask(None) == {"one": {QUEUE: 7}, "two": {QUEUE: 7}}
    assert list(await ask("two")) == ["two"]
    nobody = GetConsumerStatusRequestHeader(topic="orders", group="nobody")
    assert (await tool.ask(nobody)).code == 1
