"""Questions that the broker passes on to its clients (307, 309, 223)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pocketmq.broker.groups import relay_processor
from pocketmq.protocol.bodies.clients import (
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    ProcessQueueInfo,
)
from pocketmq.protocol.bodies.offsets import GetConsumerStatusBody
from pocketmq.protocol.body import decode_body, encode_body, mq_key
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.headers.clients import (
    ConsumeMessageDirectlyRequestHeader,
    GetConsumerRunningInfoRequestHeader,
)
from pocketmq.protocol.headers.offsets import GetConsumerStatusRequestHeader
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.stored.record import decode_records
from pocketmq.runtime.profile import PROFILE_4_9, PROFILES, Profile
from support.broker_rig import BrokerRig, Voice, consumer, running_broker

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


def directly(msg_id: str, client_id: str = "one") -> ConsumeMessageDirectlyRequestHeader:
    return ConsumeMessageDirectlyRequestHeader(
        consumer_group="readers", client_id=client_id, msg_id=msg_id, topic="orders"
    )


async def listening(rig: BrokerRig, answers: bool = True) -> tuple[Voice, list[Command]]:
    """A consumer with RocketMQ's JSON that notes what it is asked to consume."""
    voice, asked = await rig.voice(Encoding.JSON), list[Command]()

    def consume(_peer: Any, request: Command) -> Command | None:
        asked.append(request)
        body = ConsumeMessageDirectlyResult(consume_result="CR_LATER", spent_time_mills=3)
        return request.reply(body=encode_body(body, request.encoding)) if answers else None

    voice.channel.dispatcher.register(RequestCode.CONSUME_MESSAGE_DIRECTLY, consume)
    await voice.heartbeat("one", consumers=[consumer()])
    return voice, asked


async def test_a_stored_message_reaches_the_member_that_a_tool_names(  # M-32
    rig: BrokerRig, encoding: Encoding
) -> None:
    _, asked = await listening(rig)
    tool = await rig.voice(encoding)
    sent = await tool.send("orders", b"again", properties={"TAGS": "t"})
    reply = await tool.ask(directly(sent.msg_id))
    assert (reply.code, reply.remark) == (0, None)
    result = decode_body(reply.body_view, ConsumeMessageDirectlyResult, encoding)
    assert (result.consume_result, result.spent_time_mills) == ("CR_LATER", 3)
    [request] = asked
    [message] = decode_records(bytes(request.body_view))
    assert (message.topic, message.body, message.tags) == ("orders", b"again", "t")
    assert dict(request.fields) == {
        "consumerGroup": "readers",
        "clientId": "one",
        "msgId": sent.msg_id,
        "brokerName": "broker-a",
        "topic": "orders",
        "topicSysFlag": "0",
        "groupSysFlag": "0",
    }


async def test_the_broker_of_4_9_tells_its_name_alone(tmp_path: Path) -> None:  # M-32
    async with running_broker(tmp_path, PROFILE_4_9) as rig:
        _, asked = await listening(rig)
        tool = await rig.voice(Encoding.JSON)
        sent = await tool.send("orders", b"again")
        assert (await tool.ask(directly(sent.msg_id))).code == 0
    assert {"topicSysFlag", "groupSysFlag"}.isdisjoint(asked[0].fields)


async def test_what_cannot_be_consumed_directly_is_refused_in_rocketmqs_words(  # M-32
    rig: BrokerRig, voice: Voice
) -> None:
    sent = await voice.send("orders")

    async def refused(header: ConsumeMessageDirectlyRequestHeader) -> str:
        reply = await voice.ask(header)
        assert reply.code == ResponseCode.SYSTEM_ERROR
        return reply.remark or ""

    assert await refused(directly(sent.msg_id)) == "The Consumer <readers> <one> not online"
    await listening(rig)
    assert await refused(directly(sent.msg_id, "x")) == "The Consumer <readers> <x> not online"
    nameless = ConsumeMessageDirectlyRequestHeader(consumer_group="readers", msg_id=sent.msg_id)
    assert await refused(nameless) == "The Consumer <readers> <None> not online"
    assert "no message is stored at commit log offset 77" in await refused(
        directly(sent.msg_id[:16] + f"{77:016X}")
    )
    assert "has not 32 or 56 hex characters" in await refused(directly("ABC"))
    assert "has not 32 or 56 hex characters" in await refused(
        ConsumeMessageDirectlyRequestHeader(consumer_group="readers", client_id="one")
    )


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
async def test_whoever_consumes_directly_makes_the_group_from_5_0_on(  # M-32
    tmp_path: Path, profile: Profile
) -> None:
    async with running_broker(tmp_path, profile) as rig:
        voice = await rig.voice(Encoding.JSON)
        assert (await voice.ask(directly("ABC"))).code == ResponseCode.SYSTEM_ERROR
        assert (rig.broker.groups.get("readers") is None) is (profile is PROFILE_4_9)


async def test_a_listener_that_takes_too_long_is_207_and_one_that_leaves_an_error(  # M-32
    rig: BrokerRig, voice: Voice, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = await voice.send("orders")
    gone, _ = await listening(rig, answers=False)
    monkeypatch.setattr(relay_processor, "DIRECT_TIMEOUT_S", 0.05)
    reply = await voice.ask(directly(sent.msg_id))
    assert reply.code == ResponseCode.CONSUME_MSG_TIMEOUT
    assert (reply.remark or "").startswith("consumer <readers> <one> Timeout: ")
    monkeypatch.setattr(relay_processor, "DIRECT_TIMEOUT_S", 60.0)
    asked = asyncio.ensure_future(voice.ask(directly(sent.msg_id)))
    await rig.settle()
    gone.channel.close()
    reply = await asked
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert (reply.remark or "").startswith("invoke consumer <readers> <one> Exception: ")


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
