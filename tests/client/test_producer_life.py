"""What a producer tells brokers from its start to its stop, against scripted brokers in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pocketmq.client import Message, MessageQueue, SendStatus
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.headers.send import SendMessageResponseHeader
from support.client_rig import client_rig
from support.eventually import PATIENCE_MS, eventually

PROBING: dict[str, Any] = {"send_latency_fault_enable": True, "start_detector_enable": True}
SENDS = (RequestCode.SEND_MESSAGE_V2, RequestCode.HEART_BEAT)


async def test_brokers_know_who_asks_before_the_first_request_is_stored() -> None:
    async with client_rig() as rig, rig.producer() as producer:
        broker = rig.brokers[0]
        asking = [asyncio.create_task(producer.request(Message("T", b"?"), timeout_ms=PATIENCE_MS))]
        await eventually(lambda: len(broker.messages("T")) == 1, "the request is stored")
        asking.append(
            asyncio.create_task(producer.request(Message("T", b"?"), timeout_ms=PATIENCE_MS))
        )
        await eventually(lambda: len(broker.messages("T")) == 2, "the second is stored")
        seen = [each.code for each in broker.seen if each.code in SENDS]
        assert seen == [
            RequestCode.HEART_BEAT,  # or the reply would find nobody
            RequestCode.SEND_MESSAGE_V2,
            RequestCode.SEND_MESSAGE_V2,
        ]
        for each in asking:
            each.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


@pytest.mark.parametrize(("profile", "beats"), [("5.x", 1), ("4.9", 0)])
async def test_a_broker_knows_a_producer_as_soon_as_it_is_connected(
    profile: str, beats: int
) -> None:  # P-8: it asks producers how transactions ended
    async with client_rig() as rig, rig.producer(profile=profile) as producer:
        broker = rig.brokers[0]
        await producer.send(Message("T", b"x"))
        await eventually(lambda: broker.count(RequestCode.HEART_BEAT) == beats, "known")
        await broker.stop()
        broker.clients.clear()
        await broker.start(rig.network)
        await producer.send(Message("T", b"x"))
        await eventually(lambda: len(broker.clients) == beats, "known again")
        assert broker.count(RequestCode.HEART_BEAT) == 2 * beats


async def test_a_second_producer_is_announced_at_brokers_that_the_first_has_found() -> None:  # P-70
    async with client_rig() as rig, rig.producer("first", instance_name="n") as first:
        await first.send(Message("T", b"x"))
        async with rig.producer("second", instance_name="n"):
            [data] = rig.brokers[0].clients.values()
            groups = {each.group_name for each in data.producer_data_set}
    assert groups == {"first", "second"}


async def test_after_the_last_stop_nothing_is_connected_and_a_second_stop_does_nothing() -> None:
    async with client_rig() as rig:  # P-70
        broker = rig.brokers[0]
        async with rig.producer("first", instance_name="n") as first:
            async with rig.producer("second", instance_name="n") as second:
                await second.send(Message("T", b"x"))
                await rig.advance(1)  # the first heartbeat, by which the broker knows the peer
                [peer] = broker.peers.values()
            assert peer.is_open, "the first producer uses the connection too"
            await second.stop()
            assert (await first.send(Message("T", b"x"))).is_ok
        await eventually(lambda: not peer.is_open, "the connection is closed")
        await first.stop()
        assert [each.producer_group for each in broker.unregistered] == ["second", "first"]


async def test_a_stopped_producer_probes_no_broker() -> None:  # P-38
    async with client_rig("a", "b") as rig:
        async with rig.producer(**PROBING) as producer:
            for broker in rig.brokers:
                broker.refuse[RequestCode.SEND_MESSAGE_V2] = lambda each: each.reply(code=1)
                broker.refuse[RequestCode.GET_MAX_OFFSET] = lambda each: each.reply(code=1)
            await asyncio.gather(producer.send(Message("T", b"x")), return_exceptions=True)
            await rig.advance(3.1)
            asked = [broker.count(RequestCode.GET_MAX_OFFSET) for broker in rig.brokers]
            assert asked == [1, 1]
        await rig.advance(30)
        assert [broker.count(RequestCode.GET_MAX_OFFSET) for broker in rig.brokers] == asked


async def test_a_broker_that_no_route_names_any_more_is_probed_no_more() -> None:  # P-38
    async with client_rig("a", "b") as rig, rig.producer(**PROBING) as producer:
        await producer.send(Message("T", b"x"))
        producer.fault_strategy.broker_failed("a", 100.0, rig.clock.monotonic())
        rig.brokers[0].refuse[RequestCode.GET_MAX_OFFSET] = lambda _: None
        assert list(producer.fault_strategy.unreachable_brokers()) == ["a"]
        rig.nameserver.add_topic("T", rig.brokers[1:])
        rig.nameserver.add_topic("TBW102", rig.brokers[1:])
        await rig.advance(70)  # routes are asked for every 30 s
        assert list(producer.fault_strategy.unreachable_brokers()) == []
        assert producer.fault_strategy.table.is_available("a", rig.clock.monotonic())


async def test_a_broker_that_cannot_be_reached_is_left_alone_for_a_while() -> None:  # P-35
    async with (
        client_rig("a", "b") as rig,
        rig.producer(send_latency_fault_enable=True) as producer,
    ):
        await producer.send(Message("T", b"x"))
        await rig.brokers[0].stop()
        for _ in range(9):  # enough for each queue to have had its turn
            assert (await producer.send(Message("T", b"x"))).queue.broker_name == "b"
        assert not producer.fault_strategy.table.is_available("a", rig.clock.monotonic())


async def test_a_one_way_send_goes_to_the_queue_that_is_named() -> None:  # P-47
    async with client_rig("a", "b") as rig, rig.producer() as producer:
        named = MessageQueue("T", "b", 3)
        for number in range(8):
            await producer.send_oneway(Message("T", b"%d" % number), queue=named)
        await producer.send(Message("T", b"last"), queue=named)
        stored = rig.brokers[1].queues["T", 3]
    assert [each.message.body for each in stored] == [b"%d" % n for n in range(8)] + [b"last"]


async def test_the_result_names_the_queue_that_the_broker_chose() -> None:  # P-43
    async with client_rig() as rig, rig.producer() as producer:
        chosen = SendMessageResponseHeader(msg_id="0" * 32, queue_id=1, queue_offset=7)
        rig.brokers[0].refuse[RequestCode.SEND_MESSAGE_V2] = lambda each: each.reply(chosen)
        result = await producer.send(Message("T", b"x"), queue=MessageQueue("T", "a", 2))
    assert result.status is SendStatus.SEND_OK
    assert (result.queue.queue_id, result.queue_offset) == (1, 7)
