"""A tool has one member consume one message: CONSUME_MESSAGE_DIRECTLY (309), E-28 and M-32."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pocketmq.client import (
    Admin,
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    ConsumeOrderlyContext,
    ConsumeOrderlyStatus,
    Message,
    MessageExt,
    PushConsumer,
    commands,
)
from pocketmq.protocol.bodies.clients import ConsumeMessageDirectlyResult
from pocketmq.protocol.errors import BrokerError, IllegalNameError
from pocketmq.protocol.messages.message import MessageQueue
from support.eventually import eventually
from support.memory_cluster import MemoryCluster, memory_cluster

LATER = ConsumeConcurrentlyStatus.RECONSUME_LATER
ORDERLY = ConsumeOrderlyStatus


async def stored(cluster: MemoryCluster, topic: str, body: bytes, **fields: Any) -> str:
    """Store one message; its offset id."""
    async with cluster.producer() as producer:
        sent = await producer.send(Message(topic, body, **fields))
    assert sent.offset_msg_id is not None
    return sent.offset_msg_id


@asynccontextmanager
async def member(
    cluster: MemoryCluster, set_listener: Callable[[PushConsumer], object], group: str = "consumers"
) -> AsyncIterator[PushConsumer]:
    """A member that consumes another topic, so that nothing comes to it by itself."""
    consumer = cluster.consumer(group, consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    consumer.subscribe("Empty")
    set_listener(consumer)
    async with consumer:
        broker = cluster.brokers["a"]
        known = broker.consumers
        await eventually(lambda: known.get(group) is not None, "the broker knows the member")
        yield consumer


@asynccontextmanager
async def asked(tmp_path: Path) -> AsyncIterator[tuple[MemoryCluster, Admin]]:
    async with memory_cluster(tmp_path, "a") as cluster:
        await cluster.create_topic("T", queues=1)
        await cluster.create_topic("Empty", queues=1)
        async with cluster.admin() as admin:
            yield cluster, admin


async def test_a_listener_gets_the_message_and_its_answer_comes_back(tmp_path: Path) -> None:
    seen: list[tuple[str, bytes, str, int]] = []

    async def listener(message: MessageExt) -> Any:
        seen.append((message.topic, message.body, message.broker_name, message.queue_offset))
        if message.tags == "bad":
            raise ValueError("no such order")
        return {"later": LATER, "odd": "done"}.get(message.tags or "")

    async with asked(tmp_path) as (cluster, admin):
        ids = {
            tag: await stored(cluster, "T", tag.encode() * 500, tags=tag)
            for tag in ("good", "later", "bad", "odd")
        }
        async with member(cluster, lambda each: each.listen(listener)) as consumer:
            answers = {
                tag: await admin.consume_directly("consumers", consumer.client_id, ids[tag])
                for tag in ids
            }
            assert consumer.offsets_in_memory("T") == {}
        queue = MessageQueue("T", "a", 0)
        assert await admin.consumer_offset("consumers", queue) == 0  # none was committed
    assert seen == [("T", tag.encode() * 500, "a", nth) for nth, tag in enumerate(ids)]
    results = {tag: (each.consume_result, each.remark) for tag, each in answers.items()}
    assert results == {
        "good": ("CR_SUCCESS", None),
        "later": ("CR_LATER", None),
        "bad": ("CR_THROW_EXCEPTION", "ValueError: no such order"),
        "odd": (None, "the listener answered 'done', which is no status"),
    }
    assert {(each.order, each.auto_commit) for each in answers.values()} == {(False, True)}


@pytest.mark.parametrize(
    ("status", "auto_commit", "result"),
    [
        (None, True, "CR_SUCCESS"),
        (ORDERLY.SUCCESS, True, "CR_SUCCESS"),
        (ORDERLY.COMMIT, False, "CR_COMMIT"),
        (ORDERLY.ROLLBACK, False, "CR_ROLLBACK"),
        (ORDERLY.SUSPEND_CURRENT_QUEUE_A_MOMENT, True, "CR_LATER"),
    ],
)
async def test_an_orderly_listener_answers_in_its_own_words(
    tmp_path: Path, status: ConsumeOrderlyStatus | None, auto_commit: bool, result: str
) -> None:
    async def listener(
        messages: list[MessageExt], context: ConsumeOrderlyContext
    ) -> ConsumeOrderlyStatus | None:
        assert [message.body for message in messages] == [b"x"]
        assert context.message_queue == MessageQueue("T", "a", 0)
        context.auto_commit = auto_commit
        return status

    async with asked(tmp_path) as (cluster, admin):
        msg_id = await stored(cluster, "T", b"x")
        async with member(
            cluster, lambda each: each.listen_batch(listener, orderly=True)
        ) as consumer:
            answer = await admin.consume_directly("consumers", consumer.client_id, msg_id)
    assert answer == ConsumeMessageDirectlyResult(
        order=True, auto_commit=auto_commit, consume_result=result, spent_time_mills=0
    )


async def test_a_listener_of_batches_gets_a_batch_of_one(tmp_path: Path) -> None:
    seen: list[tuple[int, MessageQueue]] = []

    def listener(messages: list[MessageExt], context: ConsumeConcurrentlyContext) -> None:
        seen.append((len(messages), context.message_queue))

    async with asked(tmp_path) as (cluster, admin):
        msg_id = await stored(cluster, "T", b"x")
        async with member(cluster, lambda each: each.listen_batch(listener)) as consumer:
            answer = await admin.consume_directly("consumers", consumer.client_id, msg_id)
    assert (answer.consume_result, seen) == ("CR_SUCCESS", [(1, MessageQueue("T", "a", 0))])


async def test_so_many_wait_for_a_listener_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "MAX_DIRECT", 2)
    begun, done = asyncio.Semaphore(0), asyncio.Event()

    async def listener(_: MessageExt) -> None:
        begun.release()
        await done.wait()

    async with asked(tmp_path) as (cluster, admin):
        msg_id = await stored(cluster, "T", b"1")
        async with member(cluster, lambda consumer: consumer.listen(listener)) as consumer:

            def ask() -> Coroutine[Any, Any, ConsumeMessageDirectlyResult]:
                return admin.consume_directly("consumers", consumer.client_id, msg_id)

            async with asyncio.TaskGroup() as tasks:
                first = [tasks.create_task(ask()) for _ in range(2)]
                for _ in first:
                    await begun.acquire()
                with pytest.raises(BrokerError, match="2 messages from tools are already waiting"):
                    await ask()
                done.set()
            assert [each.result().consume_result for each in first] == ["CR_SUCCESS"] * 2
            assert (await ask()).consume_result == "CR_SUCCESS"


async def test_those_that_come_in_one_turn_are_counted_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "MAX_DIRECT", 2)
    begun, done = list[MessageExt](), asyncio.Event()

    async def listener(message: MessageExt) -> None:
        begun.append(message)
        await done.wait()

    async with asked(tmp_path) as (cluster, admin):
        msg_id = await stored(cluster, "T", b"1")
        async with member(cluster, lambda each: each.listen(listener)) as consumer:
            asks = [
                asyncio.ensure_future(
                    admin.consume_directly("consumers", consumer.client_id, msg_id)
                )
                for _ in range(3)
            ]
            await eventually(
                lambda: len(begun) + sum(each.done() for each in asks) == 3, "all have arrived"
            )
            done.set()
            answers = await asyncio.gather(*asks, return_exceptions=True)
    assert len(begun) == 2
    [refused] = [each for each in answers if isinstance(each, BrokerError)]
    assert "2 messages from tools are already waiting" in str(refused)


async def test_a_dead_letter_is_consumed_where_it_lies(tmp_path: Path) -> None:
    topics: list[str] = []

    def listener(message: MessageExt) -> None:
        topics.append(message.topic)

    async with (
        asked(tmp_path) as (cluster, admin),
        member(cluster, lambda each: each.listen(listener)) as consumer,
    ):
        broker = cluster.brokers["a"]
        dead = await stored(cluster, "T", b"x")
        message = await admin.view_message(dead)
        message.broker_name = "a"
        assert await consumer.send_back(message, -1)
        [letter] = (await admin.read(MessageQueue("%DLQ%consumers", "a", 0), 0)).messages
        before = broker.store.commit_log.max_offset
        for _ in range(2):
            answer = await admin.consume_directly(
                "consumers", consumer.client_id, letter.offset_msg_id, topic=letter.topic
            )
            assert answer.consume_result == "CR_SUCCESS"
        assert broker.store.commit_log.max_offset == before
    assert topics == ["%DLQ%consumers"] * 2


async def test_who_cannot_be_asked_is_named(tmp_path: Path) -> None:
    async with asked(tmp_path) as (cluster, admin):
        msg_id = await stored(cluster, "T", b"x")

        async def refused(group: str, client_id: str, msg_id: str = msg_id) -> tuple[int, str]:
            with pytest.raises(BrokerError) as caught:
                await admin.consume_directly(group, client_id, msg_id)
            return caught.value.code, str(caught.value)

        code, text = await refused("consumers", "nobody")
        assert (code, "The Consumer <consumers> <nobody> not online" in text) == (1, True)
        with pytest.raises(IllegalNameError):
            await admin.consume_directly("consumers", "nobody", "no id")
        async with member(cluster, lambda each: None) as consumer:  # an iterator takes its messages
            code, text = await refused("consumers", consumer.client_id)
            expected = "The Consumer Group <consumers> not exist in this consumer"
            assert (code, expected in text) == (1, True)
            code, text = await refused(
                "consumers", consumer.client_id, msg_id[:16] + f"{10_000:016X}"
            )
            assert (code, "no message is stored at commit log offset 10000" in text) == (1, True)
