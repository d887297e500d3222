"""Producers that send several messages at once, against scripted brokers."""

from __future__ import annotations

import asyncio

import pytest

from pocketmq.client import Message, SendFailedError
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import (
    IllegalMessageError,
)
from support.client_rig import client_rig


async def test_a_batch_lands_in_one_queue_each_with_its_own_key() -> None:  # P-49
    async with client_rig() as rig, rig.producer() as producer:
        messages = [Message("T", b"%d" % number, tags="A") for number in range(3)]
        result = await producer.send_batch(messages)
    stored = rig.brokers[0].messages("T")
    assert [message.body for message in stored] == [b"0", b"1", b"2"]
    assert {message.queue_id for message in stored} == {result.queue.queue_id}
    assert len({message.msg_id for message in stored}) == 3
    assert rig.brokers[0].count(RequestCode.SEND_BATCH_MESSAGE) == 1
    assert result.msg_id == ",".join(message.msg_id for message in stored)


@pytest.mark.parametrize(
    "second",
    [
        Message("U", b"x"),
        Message("T", b"x", delay_level=1),
        Message("T", b"x", wait_store_ok=False),
        Message("T", b""),
    ],
)
async def test_what_may_not_travel_in_one_batch(second: Message) -> None:  # P-49
    async with client_rig() as rig, rig.producer() as producer:
        with pytest.raises(IllegalMessageError):
            await producer.send_batch([Message("T", b"x"), second])


async def test_64_coroutines_send_at_the_same_time() -> None:
    async with client_rig("a", "b") as rig, rig.producer() as producer:

        async def work(number: int) -> None:
            for i in range(20):
                await producer.send(Message("T", b"%d-%d" % (number, i)))

        await asyncio.gather(*(work(number) for number in range(64)))
    bodies = {m.body for broker in rig.brokers for m in broker.messages("T")}
    assert len(bodies) == 64 * 20
    assert rig.nameserver.seen.count("T") == 1  # P-11: callers share one question


async def test_many_messages_travel_in_batches_that_split_themselves() -> None:  # P-49
    async with client_rig() as rig, rig.producer() as producer:
        messages = [Message("T", b"%03d" % number * 100, tags="A") for number in range(100)]
        messages.insert(50, Message("T", b"later", delay_level=3))
        results = await producer.send_many(messages, max_batch_bytes=8_000)
        broker = rig.brokers[0]
        assert sorted(m.body for m in broker.messages("T")) == sorted(m.body for m in messages)
        assert broker.count(RequestCode.SEND_MESSAGE_V2) == 1
        assert len(results) == 1 + broker.count(RequestCode.SEND_BATCH_MESSAGE)
        assert all(
            len(request.body_view) <= 8_000
            for request in broker.seen
            if request.code == RequestCode.SEND_BATCH_MESSAGE
        )


async def test_a_batch_that_went_well_frees_its_broker_as_a_message_does() -> None:  # P-36, P-37
    async with (
        client_rig() as rig,
        rig.producer(send_latency_fault_enable=True, profile="4.9") as producer,
    ):
        [broker] = rig.brokers
        broker.refuse[RequestCode.SEND_MESSAGE_V2] = lambda request: request.reply(code=1)
        with pytest.raises(SendFailedError):
            await producer.send(Message("T", b"x"))
        table = producer.fault_strategy.table
        assert not table.is_available("a", rig.clock.monotonic())
        assert (await producer.send_batch([Message("T", b"1"), Message("T", b"2")])).is_ok
        assert table.is_available("a", rig.clock.monotonic())
