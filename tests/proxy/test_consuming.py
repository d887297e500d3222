"""SDKs receive through the proxy, as raw RPCs: what is answered, in which order, by which code."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pocketmq.client import ConsumeFromWhere, MessageExt
from pocketmq.proxy.assembly.proxy import Proxy
from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import ClientType, Code, FilterType, MessageType
from pocketmq.proxy.protos.shapes import PACKAGE, SERVICE
from support.eventually import eventually
from support.grpc_consuming import (
    about,
    ack,
    asked,
    consumer,
    create_group,
    entry,
    receive,
    received,
    refused,
    send,
)
from support.proxy_rig import ProxyRig, Sdk, proxy_rig

EXPIRED = "0 1000 10 0 0 a 0 0 0"
GARBAGE = "garbage"


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ProxyRig]:
    async with proxy_rig(tmp_path) as made:
        await made.cluster.create_topic("orders", 1)
        yield made


async def test_messages_come_in_a_stream_and_do_not_come_again_when_acknowledged(
    rig: ProxyRig,
) -> None:
    await send(rig, "one", "two", tags="new", keys="k")
    sdk = await consumer(rig)
    answers = await receive(rig, sdk)
    assert (answers[0].status.code, answers[0].status.message) == (Code.OK, "OK")
    messages = received(answers)
    assert [message.body for message in messages] == [b"one", b"two"]
    system = messages[0].system_properties
    assert (system.tag, list(system.keys), system.delivery_attempt) == ("new", ["k"], 1)
    assert system.message_type == MessageType.NORMAL
    assert len(system.receipt_handle.split(" ")) == 9
    answer = await ack(sdk, *map(entry, messages))
    assert (answer.status.code, answer.status.message) == (Code.OK, "OK")
    assert [each.status.code for each in answer.entries] == [Code.OK, Code.OK]
    assert [each.message_id for each in answer.entries] == [
        each.system_properties.message_id for each in messages
    ]
    await rig.cluster.advance(40)
    assert refused(await receive(rig, sdk)) == (Code.MESSAGE_NOT_FOUND, "no new message")


async def test_a_receive_waits_for_a_message(rig: ProxyRig) -> None:
    sdk = await consumer(rig)
    task = asyncio.ensure_future(sdk.receive(**asked(sdk)))
    await eventually(lambda: rig.proxy.receives_waiting == 1, "it waits")
    assert not task.done()
    await send(rig, "one")
    assert [message.body for message in received(await task)] == [b"one"]


async def test_a_receive_before_any_settings_is_served_by_the_groups_own(rig: ProxyRig) -> None:
    # Where RocketMQ's proxy fails (G-25): SDKs receive before their settings were sent.
    await send(rig, "one")
    sdk = rig.sdk()
    [message] = received(await receive(rig, sdk))
    assert (await ack(sdk, entry(message))).status.code == Code.OK
    assert [each.client_id for each in rig.proxy.clients.members("billing")] == ["sdk-1"]


@pytest.mark.parametrize(
    ("changes", "code", "sentence"),
    [
        (
            {"invisible_duration": pb.Duration(seconds=9)},
            Code.ILLEGAL_INVISIBLE_TIME,
            "the invisibleTime is too small. min is 10000",
        ),
        (
            {"invisible_duration": pb.Duration(seconds=12 * 3600 + 1)},
            Code.ILLEGAL_INVISIBLE_TIME,
            "the invisibleTime is too large. max is 43200000",
        ),
        (
            {"filter_expression": pb.FilterExpression(type=FilterType.TAG, expression="||")},
            Code.ILLEGAL_FILTER_EXPRESSION,
            "subString split error",
        ),
        (
            {"filter_expression": pb.FilterExpression(type=FilterType.SQL)},
            Code.ILLEGAL_FILTER_EXPRESSION,
            "Expression can't be null! SQL92",
        ),
        (
            {"message_queue": pb.MessageQueue(topic=pb.Resource(name=" "))},
            Code.ILLEGAL_TOPIC,
            "The specified topic is blank",
        ),
        (
            {"message_queue": pb.MessageQueue(topic=pb.Resource(name="nowhere"))},
            Code.TOPIC_NOT_FOUND,
            "CODE: 17  DESC: No topic route info in name server for the topic: nowhere",
        ),
        (
            {"group": pb.Resource(name="CID_RMQ_SYS_x")},
            Code.ILLEGAL_CONSUMER_GROUP,
            "cannot use system consumer group",
        ),
    ],
)
async def test_a_wrong_receive_is_refused_with_rocketmqs_sentence(
    rig: ProxyRig, changes: dict[str, Any], code: Code, sentence: str
) -> None:
    sdk = await consumer(rig)
    assert refused(await receive(rig, sdk, **changes)) == (code, sentence)


async def test_sql_that_cannot_be_read_is_refused_by_the_broker(rig: ProxyRig) -> None:
    sdk = await consumer(rig)
    wrong = pb.FilterExpression(type=FilterType.SQL, expression="a >")
    code, sentence = refused(await receive(rig, sdk, filter_expression=wrong))
    assert code == Code.INTERNAL_SERVER_ERROR  # measured: not ILLEGAL_FILTER_EXPRESSION
    assert "a >" in sentence


async def test_messages_are_chosen_by_sql_and_by_tag(rig: ProxyRig) -> None:
    await send(rig, "one", tags="a", properties={"number": "1"})
    await send(rig, "two", tags="b", properties={"number": "2"})
    sdk = await consumer(rig)
    by_sql = pb.FilterExpression(type=FilterType.SQL, expression="number = 2")
    by_tag = pb.FilterExpression(type=FilterType.TAG, expression="a")
    [two] = received(await receive(rig, sdk, filter_expression=by_sql))
    assert two.body == b"two"
    other = pb.Resource(name="other")
    [one] = received(await receive(rig, sdk, filter_expression=by_tag, group=other))
    assert one.body == b"one"


@pytest.mark.parametrize(
    ("version", "code"),
    [("5.1.2", Code.ILLEGAL_POLLING_TIME), ("5.0.2", Code.BAD_REQUEST), ("", Code.BAD_REQUEST)],
)
async def test_a_deadline_that_is_too_near_is_refused(
    rig: ProxyRig, version: str, code: Code
) -> None:
    sdk = rig.sdk(**{"x-mq-client-version": version} if version else {})
    invoke = sdk.channel.unary_stream(
        f"/{PACKAGE}.{SERVICE}/ReceiveMessage",
        request_serializer=pb.ReceiveMessageRequest.SerializeToString,
        response_deserializer=pb.ReceiveMessageResponse.FromString,
    )
    call = invoke(pb.ReceiveMessageRequest(**asked(sdk)), metadata=sdk.metadata, timeout=4.9)
    assert refused([each async for each in call]) == (
        code,
        "The deadline time remaining is not enough for polling, please check network condition",
    )


async def test_a_receive_says_who_asks(rig: ProxyRig) -> None:
    sdk = rig.sdk(client_id=" ")
    assert refused(await sdk.receive(**asked(sdk))) == (
        Code.CLIENT_ID_REQUIRED,
        "client id cannot be empty",
    )


async def test_the_client_that_cancels_loses_no_message(rig: ProxyRig) -> None:
    sdk = await consumer(rig)
    gone = asyncio.ensure_future(sdk.receive(**asked(sdk)))
    await eventually(lambda: rig.proxy.receives_waiting == 1, "it waits")
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    await eventually(lambda: rig.proxy.receives_waiting == 0, "the proxy knows that it has gone")
    await send(rig, "one")
    await rig.cluster.advance(5)
    [message] = received(await receive(rig, sdk))
    assert message.body == b"one"


async def test_no_more_receives_wait_than_the_proxy_can_bear(
    rig: ProxyRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pocketmq.proxy.edge.consuming.MOST_RECEIVES", 1)
    sdk = await consumer(rig)
    first = asyncio.ensure_future(sdk.receive(**asked(sdk)))
    await eventually(lambda: rig.proxy.receives_waiting == 1, "it waits")
    assert refused(await sdk.receive(**asked(sdk))) == (Code.TOO_MANY_REQUESTS, "flow limit")
    await send(rig, "one")
    assert len(received(await first)) == 1


async def test_a_broker_that_is_not_known_leaves_the_choice_to_the_proxy(rig: ProxyRig) -> None:
    await send(rig, "one")
    sdk = await consumer(rig)
    queue = pb.MessageQueue(topic=pb.Resource(name="orders"))
    queue.broker.name = "nobody"
    [message] = received(await receive(rig, sdk, message_queue=queue))
    assert message.body == b"one"


async def test_a_message_that_is_renewed_is_acknowledged_with_its_first_handle(
    rig: ProxyRig,
) -> None:
    await send(rig, "one")
    sdk = await consumer(rig, ClientType.PUSH_CONSUMER)
    [message] = received(await receive(rig, sdk, auto_renew=True, invisible_duration=pb.Duration()))
    for _ in range(20):  # five minutes, with the heartbeats of an SDK
        await rig.cluster.advance(15)
        await sdk.call(
            "Heartbeat",
            group=pb.Resource(name="billing"),
            client_type=ClientType.PUSH_CONSUMER,
        )
    assert refused(await receive(rig, sdk))[0] == Code.MESSAGE_NOT_FOUND
    assert (await ack(sdk, entry(message))).status.code == Code.OK


async def test_what_a_client_held_that_says_goodbye_comes_again_at_once(rig: ProxyRig) -> None:
    await send(rig, "one")
    sdk = await consumer(rig, ClientType.PUSH_CONSUMER)
    assert len(received(await receive(rig, sdk, auto_renew=True))) == 1
    await sdk.call("NotifyClientTermination", group=pb.Resource(name="billing"))
    await rig.cluster.advance(5)
    again = rig.sdk("sdk-2")
    [message] = received(await receive(rig, again))
    assert message.system_properties.delivery_attempt == 2


async def test_a_proxy_that_stops_gives_back_what_its_clients_held(tmp_path: Path) -> None:
    async with proxy_rig(tmp_path) as rig:
        await rig.cluster.create_topic("orders", 1)
        await send(rig, "one")
        sdk = await consumer(rig, ClientType.PUSH_CONSUMER)
        assert len(received(await receive(rig, sdk, auto_renew=True))) == 1
        await rig.proxy.stop()
        config = replace(rig.proxy.config, port=8082)
        async with Proxy(config, rig.cluster.clock, rig.cluster.network) as second:
            await rig.cluster.advance(5)  # not 60 s, for which it was popped
            other = ProxyRig(rig.cluster, second)
            [message] = received(await receive(other, other.sdk("sdk-2")))
            assert message.system_properties.delivery_attempt == 2
            await other.close()


async def test_consumers_move_between_two_proxies_and_lose_nothing(tmp_path: Path) -> None:
    async with proxy_rig(tmp_path) as rig:
        await rig.cluster.create_topic("orders", 1)
        config = replace(rig.proxy.config, port=8082)
        async with Proxy(config, rig.cluster.clock, rig.cluster.network) as second:
            proxies = [rig, ProxyRig(rig.cluster, second)]
            await send(rig, *map(str, range(12)))
            seen: list[bytes] = []
            for turn in range(4):
                sdk = proxies[turn % 2].sdk()
                [first, *others] = received(await receive(rig, sdk, batch_size=3))
                taken = [first, *others]
                seen += [each.body for each in taken]
                # What one proxy handed out is acknowledged at the other: a handle says all (G-90).
                answer = await ack(proxies[(turn + 1) % 2].sdk(), *map(entry, taken))
                assert answer.status.code == Code.OK
            assert seen == [str(number).encode() for number in range(12)]
            await rig.cluster.advance(40)
            assert refused(await receive(rig, rig.sdk()))[0] == Code.MESSAGE_NOT_FOUND
            await proxies[1].close()


async def test_a_remoting_group_and_a_grpc_group_both_get_everything(rig: ProxyRig) -> None:
    sdk = rig.sdk()
    await send(rig, "by remoting")
    await sdk.send("orders", b"by grpc")
    wanted = {b"by remoting", b"by grpc"}
    assert {each.body for each in received(await receive(rig, sdk))} == wanted
    seen: set[bytes] = set()
    remoting = rig.cluster.consumer("by-remoting", consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    remoting.subscribe("orders")

    async def listen(message: MessageExt) -> None:
        seen.add(message.body)

    remoting.listen(listen)
    async with remoting:
        await rig.cluster.until(lambda: seen == wanted, "the remoting group has both")


async def test_a_changed_duration_answers_with_the_handle_that_holds(rig: ProxyRig) -> None:
    await send(rig, "one")
    sdk = await consumer(rig)
    [message] = received(await receive(rig, sdk))
    answer = await sdk.call(
        "ChangeInvisibleDuration", **about(message), invisible_duration=pb.Duration(seconds=11)
    )
    assert answer.status.code == Code.OK
    words = answer.receipt_handle.split(" ")
    assert (words[2], len(words)) == ("11000", 9)
    await rig.cluster.advance(13)
    [again] = received(await receive(rig, sdk))
    assert again.system_properties.delivery_attempt == 2


@pytest.mark.parametrize(
    ("seconds", "sentence"),
    [
        (-1, "the invisibleTime is too small. min is 0"),
        (12 * 3600 + 1, "the invisibleTime is too large. max is 43200000"),
    ],
)
async def test_a_duration_has_bounds(rig: ProxyRig, seconds: int, sentence: str) -> None:
    answer = await rig.sdk().call(
        "ChangeInvisibleDuration",
        group=pb.Resource(name="billing"),
        topic=pb.Resource(name="orders"),
        receipt_handle=EXPIRED,
        invisible_duration=pb.Duration(seconds=seconds),
    )
    assert answer.status.code == Code.ILLEGAL_INVISIBLE_TIME
    assert answer.status.message == sentence


@pytest.mark.parametrize(
    ("handle", "code", "sentence"),
    [
        (EXPIRED, Code.INVALID_RECEIPT_HANDLE, "receipt handle is expired"),
        (GARBAGE, Code.INTERNAL_SERVER_ERROR, "Parse failed, dataList size 1"),
        (
            "0 9000000000000 9000 0 0 nobody 0 0 0",
            Code.INVALID_RECEIPT_HANDLE,
            "cannot find broker nobody",
        ),
    ],
)
async def test_a_wrong_handle_is_refused_alike_by_all(
    rig: ProxyRig, handle: str, code: Code, sentence: str
) -> None:
    sdk = await consumer(rig)
    answer = await ack(sdk, pb.AckMessageEntry(message_id="m", receipt_handle=handle))
    assert (answer.status.code, answer.status.message) == (code, code.name)
    [one] = answer.entries
    assert (one.status.code, one.status.message) == (code, sentence)
    assert (one.message_id, one.receipt_handle) == ("m", handle)
    changed = await sdk.call(
        "ChangeInvisibleDuration",
        group=pb.Resource(name="billing"),
        topic=pb.Resource(name="orders"),
        receipt_handle=handle,
        message_id="m",
        invisible_duration=pb.Duration(seconds=10),
    )
    assert (changed.status.code, changed.status.message) == (code, sentence)


async def test_acks_of_several_fates_say_so(rig: ProxyRig) -> None:
    await send(rig, "one")
    sdk = await consumer(rig)
    [message] = received(await receive(rig, sdk))
    wrong = pb.AckMessageEntry(message_id="m", receipt_handle=EXPIRED)
    answer = await ack(sdk, entry(message), wrong)
    assert answer.status.code == Code.MULTIPLE_RESULTS
    assert answer.status.message == "MULTIPLE_RESULTS"
    assert [each.status.code for each in answer.entries] == [
        Code.OK,
        Code.INVALID_RECEIPT_HANDLE,
    ]


async def test_an_ack_of_nothing_is_refused(rig: ProxyRig) -> None:
    answer = await ack(rig.sdk())
    assert answer.status.code == Code.INTERNAL_SERVER_ERROR
    assert answer.status.message == "ack message result is empty"


async def test_an_ack_that_is_said_twice_is_taken_twice(rig: ProxyRig) -> None:
    await send(rig, "one")
    sdk = await consumer(rig)
    [message] = received(await receive(rig, sdk))
    for _ in range(2):  # measured
        assert (await ack(sdk, entry(message))).status.code == Code.OK


async def test_what_is_forwarded_lies_among_the_dead_letters_and_does_not_come_again(
    rig: ProxyRig,
) -> None:
    await send(rig, "one")
    sdk = await consumer(rig)
    [message] = received(await receive(rig, sdk))
    answer = await sdk.call(
        "ForwardMessageToDeadLetterQueue",
        **about(message),
        delivery_attempt=1,
        max_delivery_attempts=1,
    )
    assert answer.status.code == Code.OK
    await rig.cluster.advance(40)
    assert refused(await receive(rig, sdk))[0] == Code.MESSAGE_NOT_FOUND
    await eventually(lambda: rig.cluster.queues_of("%DLQ%billing"), "dead letters have a topic")
    queue = pb.MessageQueue(topic=pb.Resource(name="%DLQ%billing"))
    undertaker = pb.Resource(name="undertaker")
    [dead] = received(await receive(rig, sdk, message_queue=queue, group=undertaker))
    assert dead.body == b"one"
    assert dead.system_properties.message_id == message.system_properties.message_id


async def test_a_handle_without_a_place_in_the_log_cannot_be_forwarded(rig: ProxyRig) -> None:
    answer = await rig.sdk().call(
        "ForwardMessageToDeadLetterQueue",
        group=pb.Resource(name="billing"),
        topic=pb.Resource(name="orders"),
        receipt_handle="0 1 2 3 0 a 0 0",
    )
    assert answer.status.code == Code.INVALID_RECEIPT_HANDLE
    assert answer.status.message == "commit log offset is empty"


async def assigned(rig: ProxyRig, sdk: Sdk, group: str, topic: str = "orders") -> Any:
    return await sdk.call(
        "QueryAssignment",
        topic=pb.Resource(name=topic),
        group=pb.Resource(name=group),
        endpoints=sdk.endpoints,
    )


async def test_a_group_is_assigned_each_broker_and_an_ordered_one_each_queue(
    rig: ProxyRig,
) -> None:
    await rig.cluster.create_topic("payments", 3)
    await create_group(rig, "in-order", consume_message_orderly=True)
    sdk = rig.sdk()
    any_order = await assigned(rig, sdk, "billing", "payments")
    assert any_order.status.code == Code.OK
    [one] = any_order.assignments
    assert (one.message_queue.id, one.message_queue.broker.name) == (-1, "a")
    assert one.message_queue.broker.endpoints == sdk.endpoints
    ordered = await assigned(rig, sdk, "in-order", "payments")
    assert [each.message_queue.id for each in ordered.assignments] == [0, 1, 2]


async def test_an_assignment_of_a_topic_that_is_not_there_is_refused(rig: ProxyRig) -> None:
    answer = await assigned(rig, rig.sdk(), "billing", "nowhere")
    assert answer.status.code == Code.TOPIC_NOT_FOUND
    assert not answer.assignments


async def test_an_ordered_group_gets_one_message_after_the_other(rig: ProxyRig) -> None:
    await create_group(rig, "billing", consume_message_orderly=True)
    await send(rig, "one", "two", properties={"__SHARDINGKEY": "g"})
    sdk = await consumer(rig)
    [first] = received(await receive(rig, sdk, batch_size=1))
    assert first.system_properties.message_group == "g"
    assert refused(await receive(rig, sdk, batch_size=1))[0] == Code.MESSAGE_NOT_FOUND
    assert (await ack(sdk, entry(first))).status.code == Code.OK
    [second] = received(await receive(rig, sdk, batch_size=1))
    assert second.body == b"two"


async def test_an_ordered_receive_that_is_repeated_brings_the_same(rig: ProxyRig) -> None:
    await create_group(rig, "billing", consume_message_orderly=True)
    await send(rig, "one", "two")
    sdk = await consumer(rig)
    for _ in range(2):
        messages = received(await receive(rig, sdk, attempt_id="try"))
        assert [message.body for message in messages] == [b"one", b"two"]


async def test_what_was_tried_as_often_as_the_group_allows_is_a_dead_letter(
    rig: ProxyRig,
) -> None:
    await create_group(rig, "billing", retry_max_times=1)
    await send(rig, "one")
    sdk = await consumer(rig)
    for attempt in (1, 2):
        [message] = received(await receive(rig, sdk))
        assert message.system_properties.delivery_attempt == attempt
        await rig.cluster.advance(35)
    assert refused(await receive(rig, sdk)) == (Code.MESSAGE_NOT_FOUND, "no match message")
    await eventually(lambda: rig.cluster.queues_of("%DLQ%billing"), "dead letters have a topic")
