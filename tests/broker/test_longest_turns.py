"""No request to a full broker holds its loop for long (`cost.SLOWEST_UNITS`).

The broker holds as many topics, groups, offsets and members as the budget allows, and a topic with
as many queues; then each request that it answers comes as large as its declaration and the budget
allow. `HYPOTHESIS_PROFILE=nightly` tries four times as many.
"""

from __future__ import annotations

import gc
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.frame import encode_frame
from pocketmq.protocol.headers.pop import NotificationRequestHeader
from pocketmq.protocol.headers.pull import PullMessageResponseHeader
from pocketmq.protocol.headers.query import QueryMessageRequestHeader
from pocketmq.protocol.messages.subscription import SQL92
from pocketmq.protocol.stored.index_hash import key_hash
from support.broker_rig import (
    START_MS,
    SUBSCRIPTION,
    BrokerRig,
    FakePeer,
    consumer,
    pull_header,
    running_broker,
)
from support.cost import slowest_s
from support.pop_voice import pop_header, read_pop
from support.turns import too_slow, turn_s

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

KNOWN = {
    "topic": "orders",
    "consumer_group": "readers",
    "producer_group": "makers",
    "group": "readers",
    "group_name": "readers",
    "queue_id": 1,
    "max_msg_nums": 32,
    "stats_name": "TOPIC_PUT_NUMS",
    "key": "k",
}
LAST = (
    RequestCode.UPDATE_AND_CREATE_TOPIC,
    RequestCode.UPDATE_BROKER_CONFIG,
    RequestCode.DELETE_SUBSCRIPTIONGROUP,
    RequestCode.DELETE_TOPIC_IN_BROKER,
)
"""They take away what the others need."""

RELAYED = (
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
    RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
)
"""They only pass on what a member is asked, and its answer."""


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[BrokerRig]:
    async with running_broker(tmp_path, enable_property_filter=True) as made:
        yield made


async def fill(rig: BrokerRig) -> None:
    """As many records as the budget allows."""
    broker, budget = rig.broker, rig.broker.dispatcher.budget()
    voice = await rig.voice()
    await voice.create_topic("orders", queues=budget.queues_per_topic)
    await voice.heartbeat(consumers=[consumer()])
    topic = broker.topics.table["orders"]
    while len(broker.topics.table) < budget.records:
        name = f"topic-{len(broker.topics.table)}"
        few = replace(topic, topic_name=name, read_queue_nums=4, write_queue_nums=4)
        broker.topics._table[name] = few
        group = f"group-{len(broker.groups.table)}"
        broker.groups._table[group] = SubscriptionGroupConfig(group_name=group)
    for queue_id in range(budget.queues_per_topic):
        broker.offsets.commit("readers", "orders", queue_id, 0, 0)
    while broker.offsets.count < budget.offsets:
        nth = broker.offsets.count
        broker.offsets.commit(f"group-{nth % 20_000}", f"topic-{nth // 20_000}", 0, 1, 0)
    for nth in range(5000):
        broker.consumers.heartbeat(
            consumer(), FakePeer(str(nth)), f"client-{nth}", language=0, version=479, now=0.0
        )
    for nth in range(100):
        await voice.send(
            "orders", b"x", queue_id=1, properties={"KEYS": "k", "UNIQ_KEY": f"u{nth}"}
        )
    await rig.settle()


async def test_the_largest_of_every_request_to_a_full_broker(rig: BrokerRig) -> None:
    await fill(rig)
    asked_codes = rig.broker.dispatcher.codes - set(RELAYED)
    codes = sorted(asked_codes, key=lambda code: (code in LAST, code))
    asked, slow = too_slow(rig.broker.dispatcher, FakePeer(), codes, KNOWN)
    assert slow == []
    assert asked > 800


async def test_a_long_expression_over_many_messages(rig: BrokerRig) -> None:
    # 801 messages are looked at in a pull, at up to 1 ms each.
    voice = await rig.voice()
    await voice.create_topic("orders", queues=1)
    for nth in range(801):
        pad = "y" * (20_000 if nth % 2 else 10)
        await voice.send("orders", b"x", queue_id=0, properties={"a": "2", "pad": pad})
    expression = " OR ".join(["a = 1"] * 990)
    header = pull_header(
        sys_flag=SUBSCRIPTION, subscription=expression, expression_type=SQL92, queue_offset=0
    )
    data = b"".join(bytes(part) for part in encode_frame(Command(header.CODE, header)))
    peer, dispatcher = FakePeer(), rig.broker.dispatcher
    turn_s(dispatcher, peer, data)  # compiled once
    assert min(turn_s(dispatcher, peer, data) for _ in range(5)) < slowest_s()
    reply = await voice.ask(header)
    assert reply.code == ResponseCode.PULL_RETRY_IMMEDIATELY, reply.remark
    went_on = reply.header(PullMessageResponseHeader).next_begin_offset
    assert 0 < went_on < 801, "the next pull goes on from there"


async def test_a_pop_by_expression_over_many_queues_of_unwanted_messages(rig: BrokerRig) -> None:
    # Each queue has as much to read in vain as one pop may read; the wanted one lies in the last.
    voice = await rig.voice()
    await voice.create_topic("orders", queues=20)
    for nth in range(20 * 60):
        await voice.send("orders", b"x", queue_id=nth // 60, properties={"a": "2"})
    await voice.send("orders", b"wanted", queue_id=19, properties={"a": "1"})
    expression = " OR ".join(["a = 1"] * 990)
    header = pop_header(poll_time=20_000, exp=expression, exp_type=SQL92)
    peek = NotificationRequestHeader(
        consumer_group=header.consumer_group,
        topic="orders",
        queue_id=-1,
        poll_time=0,
        exp=expression,
        exp_type=SQL92,
    )
    peer, dispatcher = FakePeer(), rig.broker.dispatcher
    asked = b"".join(bytes(part) for part in encode_frame(Command(peek.CODE, peek)))
    assert min(turn_s(dispatcher, peer, asked) for _ in range(5)) < slowest_s()
    took_s, codes, bodies = [], [], []
    while not bodies and len(codes) < 100:
        command = Command(header.CODE, replace(header, born_time=START_MS))
        began_s = time.thread_time()
        answer = dispatcher.process_batch([peer], [command])[0]
        took_s.append(time.thread_time() - began_s)
        assert answer is not None, "a pop that has more to look at does not wait"
        codes.append(answer.code)
        bodies = [popped.body for popped in read_pop(answer).messages]
    assert sorted(took_s)[len(took_s) // 2] < slowest_s()
    assert bodies == [b"wanted"]
    assert set(codes[:-1]) == {ResponseCode.POLLING_TIMEOUT}, "the next pop goes on from there"


async def test_a_connection_that_ends_and_was_in_every_group(rig: BrokerRig) -> None:
    rounds = 5
    peers = [FakePeer(f"127.0.0.1:{5000 + nth}") for nth in range(rounds + 1)]
    for nth in range(rig.broker.dispatcher.budget().records):
        for peer in peers:
            rig.broker.consumers.heartbeat(
                consumer(f"group-{nth}"), peer, peer.address, language=0, version=479, now=0.0
            )
    gc.collect()
    closed_s = []
    for peer in peers[:rounds]:
        began_s = time.thread_time()
        rig.broker.core.signals.channel_closed.emit(peer)
        closed_s.append(time.thread_time() - began_s)
    assert min(closed_s) < slowest_s()


async def test_keys_that_share_a_slot_of_the_index(tmp_path: Path) -> None:
    async with running_broker(tmp_path, max_index_num=250_000) as rig:
        await look_for_a_key_of_a_full_slot(rig)


async def look_for_a_key_of_a_full_slot(rig: BrokerRig) -> None:
    index = rig.broker.store.index
    assert index is not None
    wanted = key_hash("orders", "k")
    file = index._add_file(START_MS)
    file.reserve(200_000)
    hashes = [wanted + file.slots * (1 + nth % 3) for nth in range(200_000)]
    file.put(hashes, range(200_000), [START_MS] * 200_000)
    index.save()
    header = QueryMessageRequestHeader(
        topic="orders", key="k", max_num=32, begin_timestamp=0, end_timestamp=2**62
    )
    for encoding in Encoding:
        command = Command(header.CODE, header, encoding=encoding)
        data = b"".join(bytes(part) for part in encode_frame(command))
        costs = [turn_s(rig.broker.dispatcher, FakePeer(), data) for _ in range(3)]
        assert min(costs) < slowest_s()
