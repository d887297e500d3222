"""Requests and replies between clients, through brokers (R-1 to R-16)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pocketmq.client import (
    ConsumeFromWhere,
    Message,
    MessageExt,
    NoReplyError,
    SendFailedError,
)
from pocketmq.client.requests import OpenRequests
from pocketmq.protocol.errors import ClientError
from pocketmq.protocol.messages import properties as names
from support.eventually import eventually
from support.memory_cluster import MemoryCluster, memory_cluster


class Answering:
    """A consumer's listener that replies, by a producer of its own."""

    def __init__(self, producer: Any) -> None:
        self.producer = producer
        self.asked: list[MessageExt] = []
        self.errors: list[Exception] = []

    async def __call__(self, message: MessageExt) -> None:
        self.asked.append(message)
        try:
            await self.producer.send_reply(message, b"re: " + message.body)
        except SendFailedError as exc:
            self.errors.append(exc)


async def asked(cluster: MemoryCluster, request: asyncio.Task[MessageExt]) -> MessageExt:
    """Let time pass until the reply is there."""
    await cluster.until(request.done, "the reply is there", step_s=0.2)
    return await request


@pytest.mark.parametrize("encoding", ["msgpack", "json", "rocketmq"])
@pytest.mark.parametrize("smart", [True, False], ids=["v2", "v1"])
async def test_a_reply_comes_to_whoever_asked(tmp_path: Path, encoding: str, smart: bool) -> None:
    async with memory_cluster(tmp_path, "a", "b") as cluster:
        await cluster.create_topic("quotes")
        requester = cluster.producer("askers", encoding=encoding, instance_name="asker")
        replier = cluster.producer(
            "repliers", encoding=encoding, instance_name="replier", send_smart_msg=smart
        )
        answering = Answering(replier)
        consumer = cluster.consumer(encoding=encoding)
        consumer.subscribe("quotes")
        consumer.listen(answering)
        body = b"x" * 9_000  # compressed on both ways
        async with requester, replier, consumer:
            await cluster.until(lambda: len(consumer.assignment) > 4, "it consumes")
            request = asyncio.ensure_future(requester.request(Message("quotes", body)))
            reply = await asked(cluster, request)
            assert reply.body == b"re: " + body
            assert reply.topic == "DefaultCluster_REPLY_TOPIC"
            assert reply.properties[names.MESSAGE_TYPE] == "reply"
            assert names.PUSH_REPLY_TIME in reply.properties
            [message] = answering.asked
            correlation = message.properties[names.CORRELATION_ID]
            assert reply.properties[names.CORRELATION_ID] == correlation
            assert message.properties[names.MESSAGE_TTL] == "3000"
            reads = [broker.store.reads for broker in cluster.brokers.values()]
            await eventually(
                lambda: sum(r.max_offset("DefaultCluster_REPLY_TOPIC", 0) for r in reads) == 1,
                "the reply is stored",
            )


async def test_a_producer_that_only_sent_before_is_found_by_its_reply(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("quotes")
        requester = cluster.producer("askers", instance_name="asker")
        replier = cluster.producer("repliers", instance_name="replier")
        consumer = cluster.consumer()
        consumer.subscribe("quotes")
        consumer.listen(Answering(replier))
        async with requester, replier, consumer:
            await cluster.until(lambda: len(consumer.assignment) > 3, "it consumes")
            await requester.publish_queues("quotes")  # as a plain send does, without a heartbeat
            request = asyncio.ensure_future(requester.request(Message("quotes", b"1")))
            assert (await asked(cluster, request)).body == b"re: 1"


async def test_a_request_that_nobody_answers_ends_in_time(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("quotes")
        async with cluster.producer() as producer:
            with pytest.raises(NoReplyError, match="no reply came within 100 ms"):
                await producer.request(Message("quotes", b"1"), timeout_ms=100)
            await producer.send(Message("quotes", b"2"))


async def test_requests_that_nobody_answers_leave_nothing_behind(tmp_path: Path) -> None:
    requests = OpenRequests()
    for _ in range(3):
        message = Message("quotes", b"1")
        correlation_id = requests.open(message, "c", 100)
        assert message.properties[names.CORRELATION_ID] == correlation_id
        requests.close(correlation_id)
        with pytest.raises(KeyError):
            requests.reply_to(correlation_id)
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("quotes")
        async with cluster.producer() as producer:
            sent = [Message("quotes", b"1") for _ in range(20)]
            tasks = [producer.request(message, timeout_ms=1_000) for message in sent]
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert {type(outcome) for outcome in outcomes} == {NoReplyError}
            open_ones = producer._started().requests
            for message in sent:
                with pytest.raises(KeyError):
                    open_ones.reply_to(message.properties[names.CORRELATION_ID])


async def test_too_many_open_requests_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pocketmq.client.requests.MAX_OPEN", 2)
    requests = OpenRequests()
    first = requests.open(Message("quotes", b"1"), "c", 100)
    requests.open(Message("quotes", b"2"), "c", 100)
    with pytest.raises(ClientError, match="2 requests are already waiting for replies"):
        requests.open(Message("quotes", b"3"), "c", 100)
    requests.close(first)
    requests.open(Message("quotes", b"3"), "c", 100)


async def test_a_reply_to_one_who_left_is_stored_and_told_to_the_replier(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("quotes", queues=1)
        gone = cluster.producer("askers", instance_name="gone")
        async with gone:
            with pytest.raises(NoReplyError):
                await gone.request(Message("quotes", b"1"), timeout_ms=1_000)
        async with cluster.producer("repliers") as replier:
            answering = Answering(replier)
            consumer = cluster.consumer(consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
            consumer.subscribe("quotes")
            consumer.listen(answering)
            async with consumer:
                await cluster.until(lambda: answering.errors, "the replier is told")
        assert "not found" in str(answering.errors[0])
        broker = cluster.brokers["a"]  # each try stores it, whatever became of the push
        assert broker.store.reads.max_offset("DefaultCluster_REPLY_TOPIC", 0) >= 1


async def test_what_was_no_request_cannot_be_replied_to(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path) as cluster, cluster.producer() as producer:
        with pytest.raises(ClientError, match="sent by `request`") as caught:
            await producer.send_reply(Message("T", b"1"), b"2")
        assert caught.value.code == 10007


async def test_a_reply_to_a_topic_that_is_not_there_is_refused(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("plain")
        async with cluster.producer() as producer:
            reply = Message("plain", b"1", properties={names.MESSAGE_TYPE: "reply"})
            with pytest.raises(SendFailedError, match="REPLY_TO_CLIENT"):
                await producer.send(reply)
