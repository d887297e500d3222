"""The events of a running cluster, checked against its stores and its brokers' answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

import pytest

from pocketmq.client import Message, PullConsumer
from pocketmq.cluster.steering.shape import Mode
from pocketmq.cluster.watch_page.present import present
from pocketmq.operation.events import Event
from pocketmq.operation.events.groups import (
    Allocated,
    MemberJoined,
    MemberLeft,
    Rebalanced,
    RouteLearned,
)
from pocketmq.operation.events.messages import (
    MessageConsumed,
    MessagePulled,
    MessageSent,
    MessageStored,
    OffsetCommitted,
    SendAnswered,
)
from pocketmq.operation.events.roles import FaultBegan, FaultEnded
from pocketmq.protocol.messages.message import MessageExt, MessageQueue
from pocketmq.testing import Cluster, start_cluster
from support.cluster_state import ClusterState
from support.event_order import in_order
from support.eventually import PATIENCE_S, eventually

MESSAGES = 40
QUEUES = 2


@contextmanager
def watched(cluster: Cluster) -> Iterator[list[Event]]:
    """All events from now on, as they come."""
    found: list[Event] = []
    is_there: Future[None] = Future()

    async def collect() -> None:
        async with cluster.control.events.watch() as watching:
            is_there.set_result(None)
            while True:
                found.append(await watching.get())

    task = cluster.thread.submit(collect())
    is_there.result(PATIENCE_S)
    try:
        yield found
    finally:
        task.cancel()


async def stored_messages(cluster: Cluster, topic: str) -> dict[MessageQueue, list[MessageExt]]:
    """Everything that the brokers have stored, as they answer a pull."""
    found: dict[MessageQueue, list[MessageExt]] = {}
    async with (
        cluster.control.admin() as admin,
        PullConsumer("reader", nameservers=cluster.nameservers) as reader,
    ):
        for queue in await admin.subscribe_queues(topic):
            found[queue] = []
            end = await admin.max_offset(queue)
            while len(found[queue]) < end:
                pulled = await reader.pull(queue, "*", len(found[queue]), 32)
                found[queue] += pulled.messages
    return found


async def test_who_watches_late_is_told_routes_and_faults() -> None:
    with start_cluster(brokers=2) as cluster:
        topic = cluster.sync.create_topic("orders", queues=QUEUES)
        with cluster.sync.producer() as producer:
            producer.send(Message(topic, b"1"))  # it knows the route before anybody watches
            cluster.faults.partition("broker-a", "nameserver-1")
            with watched(cluster) as events:

                def told(kind: type[Event]) -> list[Event]:
                    return [each for each in list(events) if isinstance(each, kind)]

                await eventually(lambda: bool(told(RouteLearned)), "the route is told")
                present_too = cluster.thread.result(present(cluster.control))
                cluster.faults.clear()
                await eventually(lambda: bool(told(FaultEnded)), "the end of the fault is told")
        [route] = [each for each in events if isinstance(each, RouteLearned)]
        assert route.queues == [f"broker-{at}/{queue}" for at in "ab" for queue in range(QUEUES)]
        [again] = [each for each in present_too if isinstance(each, RouteLearned)]
        assert (again.client_id, again.queues) == (route.client_id, route.queues)
        [fault] = [each for each in present_too if isinstance(each, FaultBegan)]
        assert (fault.do, fault.role, fault.other) == ("partition", "broker-a", "nameserver-1")


@pytest.mark.parametrize(
    "mode", ["in-process", pytest.param("processes", marks=pytest.mark.cluster)]
)
def test_every_stored_message_has_its_events_in_causal_order(mode: Mode) -> None:
    asyncio.run(_every_stored_message_has_its_events(mode))


async def _every_stored_message_has_its_events(mode: Mode) -> None:
    with start_cluster(brokers=2, mode=mode) as cluster, watched(cluster) as events:
        sync = cluster.sync
        topic = sync.create_topic("orders", queues=QUEUES)
        with sync.producer() as producer, sync.consumer("billing", topic) as consumer:
            for number in range(MESSAGES):
                producer.send(Message(topic, b"%d" % number, keys=f"order-{number}"))
            for _ in range(MESSAGES):
                consumer.receive(limit_s=PATIENCE_S)
        ends = MESSAGES // (2 * QUEUES)

        def all_committed() -> bool:
            state = ClusterState().take_all(list(events))
            committed = [
                offset for (group, _), offset in state.committed.items() if group == "billing"
            ]
            left = any(isinstance(each, MemberLeft) for each in events)
            return left and committed.count(ends) == 2 * QUEUES

        await eventually(all_committed, "the events say that all is committed")
        told = list(events)
        stored = await stored_messages(cluster, topic)
        async with cluster.control.admin() as admin:
            committed = {queue: await admin.consumer_offset("billing", queue) for queue in stored}

    in_order(told, topic)
    by_place = {
        (each.broker, each.queue, each.offset): each
        for each in told
        if isinstance(each, MessageStored) and each.topic == topic
    }
    sent = {each.unique_key: each for each in told if isinstance(each, MessageSent)}
    answered = {each.unique_key: each for each in told if isinstance(each, SendAnswered)}
    consumed = {each.unique_key: each for each in told if isinstance(each, MessageConsumed)}
    messages = [(queue, each) for queue, found in stored.items() for each in found]
    assert len(messages) == len(by_place) == len(sent) == len(consumed) == MESSAGES
    for queue, message in messages:
        event = by_place[queue.broker_name, queue.queue_id, message.queue_offset]
        assert event.physical_offset == message.commit_log_offset
        assert event.size == message.store_size
        assert event.unique_key == message.uniq_key
        assert event.keys == message.keys
        assert message.uniq_key is not None
        assert answered[message.uniq_key].offset == message.queue_offset
        assert consumed[message.uniq_key].offset == message.queue_offset
        assert consumed[message.uniq_key].status == "success"
    pulled = sum(
        each.count for each in told if isinstance(each, MessagePulled) and each.topic == topic
    )
    assert pulled >= MESSAGES

    state = ClusterState().take_all(told)
    for queue, found in stored.items():
        place = (queue.topic, queue.broker_name, queue.queue_id)
        assert state.ends[place] == len(found)
        assert state.committed["billing", place] == committed[queue]
    assert not [group for _, group in state.members if group == "billing"]

    [client_id] = {each.client_id for each in told if isinstance(each, MemberJoined)}
    shares = [each for each in told if isinstance(each, Allocated) and each.topic == topic]
    assert shares[-1].own == [f"broker-{at}/{queue}" for at in "ab" for queue in range(QUEUES)]
    assert shares[-1].members == [client_id]
    assert shares[-1].arithmetic == "AVG: 4 queues / 1 member, I am number 0: 4 from position 0"
    owners = {each.by for each in told if isinstance(each, Rebalanced)}
    assert owners == {client_id}  # it tells them itself, and nobody else does
    sources = {each.by for each in told if isinstance(each, OffsetCommitted)}
    assert sources == {"broker-a", "broker-b"}
