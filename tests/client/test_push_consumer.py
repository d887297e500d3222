"""A push consumer's life, and what its user and its operators see of it.

Against scripted brokers, in memory, on a manual clock.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from pocketmq.client import (
    MessageExt,
    MessageQueue,
)
from pocketmq.client.instance import DuplicateGroupError
from pocketmq.protocol.bodies.clients import ConsumerRunningInfo
from pocketmq.protocol.bodies.offsets import ResetOffsetBody
from pocketmq.protocol.body import decode_body, encode_body, mq_key
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import ClientError, IllegalNameError, SubscriptionError
from pocketmq.protocol.headers.clients import GetConsumerRunningInfoRequestHeader
from pocketmq.protocol.headers.offsets import ResetConsumerClientOffsetRequestHeader
from pocketmq.protocol.transport.channel import Channel
from pocketmq.runtime.errors import ConfigError
from support.client_rig import client_rig
from support.consuming import Collected, consuming
from support.eventually import PATIENCE_MS, eventually
from support.own_logs import own_logs

# -- consuming ----------------------------------------------------------------------------------


async def test_a_listener_gets_every_message_and_the_offset_is_written_down() -> None:
    # C-41, C-51, P-5, C-65
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put_many("T", 1, [b"%d" % i for i in range(100)])
        got = Collected()
        async with consuming(rig, got):
            await rig.advance(1)  # 5.x pulls 500 ms after the assignment (C-25.4)
            await eventually(lambda: len(got.messages) == 100, "all are consumed")
            await rig.advance(10)
            assert broker.offsets["consumers", "T", 1] == 100
    assert [m.queue_offset for m in got.messages] == list(range(100))


@pytest.mark.parametrize("encoding", ["msgpack", "json", "rocketmq"])
async def test_every_encoding_consumes(encoding: str) -> None:
    async with client_rig() as rig:
        rig.brokers[0].put("T", 0, b"x")
        got = Collected()
        async with consuming(rig, got, encoding=encoding):
            await rig.advance(1)
            await eventually(lambda: got.bodies == [b"x"], "consumed")
            await rig.advance(10)
        assert rig.brokers[0].offsets["consumers", "T", 0] == 1


# -- start and stop -----------------------------------------------------------------------------


async def test_start_subscribes_the_retry_topic_and_beats_before_it_rebalances() -> None:
    # C-2, C-12, C-13
    async with client_rig() as rig, consuming(rig, Collected()) as consumer:
        broker = rig.brokers[0]
        await eventually(lambda: consumer.assignment, "queues are assigned")
        codes = [each.code for each in broker.seen]
        assert codes.index(RequestCode.HEART_BEAT) < codes.index(
            RequestCode.GET_CONSUMER_LIST_BY_GROUP
        )
        [group] = broker.clients[consumer.client_id].consumer_data_set
        assert {each.topic for each in group.subscription_data_set} == {"T", "%RETRY%consumers"}
        assert group.consume_type == "CONSUME_PASSIVELY"
        assert group.consume_from_where == "CONSUME_FROM_FIRST_OFFSET"


async def test_a_heartbeat_that_is_answered_late_is_followed_by_a_rebalance() -> None:
    # C-20: time stands still, so the timer never looks again
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.postpone.add(RequestCode.HEART_BEAT)
        late = consuming(rig, Collected(), api_timeout_ms=PATIENCE_MS, profile="4.9")
        async with late as consumer:
            members = RequestCode.GET_CONSUMER_LIST_BY_GROUP
            await eventually(lambda: broker.count(members) > 0, "the broker knows no member")
            assert not consumer.assignment
            broker.answer_postponed()
            await eventually(lambda: consumer.assignment, "queues are assigned")


async def test_stopping_writes_offsets_down_then_unregisters() -> None:  # C-71
    async with client_rig("a", "b") as rig:
        rig.brokers[0].put_many("T", 0, [b"1", b"2"])
        got = Collected()
        consumer = consuming(rig, got)
        async with consumer:
            await rig.advance(1)
            await eventually(lambda: len(got.messages) == 2, "consumed")
        codes = [each.code for each in rig.brokers[0].seen]
        assert rig.brokers[0].offsets["consumers", "T", 0] == 2
        assert RequestCode.UPDATE_CONSUMER_OFFSET in codes
        assert codes[-1] == RequestCode.UNREGISTER_CLIENT
        for broker in rig.brokers:
            assert [each.consumer_group for each in broker.unregistered] == ["consumers"]
        assert consumer.assignment == []


async def test_a_listener_that_is_still_busy_does_not_hold_up_the_stop() -> None:  # C-71
    async with client_rig() as rig:
        rig.brokers[0].put("T", 0, b"x")
        began, cancelled = asyncio.Event(), asyncio.Event()

        async def listener(_message: MessageExt) -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise

        async with consuming(rig, listener):
            await rig.advance(1)
            await began.wait()
        assert cancelled.is_set()
        assert rig.brokers[0].offsets.get(("consumers", "T", 0), 0) == 0


async def test_the_same_group_twice_under_one_client_id_is_refused() -> None:  # P-2, C-8
    async with client_rig() as rig, consuming(rig, Collected(), instance_name="n"):
        with pytest.raises(DuplicateGroupError):
            await consuming(rig, Collected(), instance_name="n").start()


async def test_two_members_with_one_client_id_are_warned_of() -> None:  # B-28
    async with client_rig() as rig:
        with own_logs() as logs:
            consumer = consuming(rig, Collected(), instance_name="n")
            rig.brokers[0].extra_members.append("127.0.0.1@n")
            async with consumer:
                await eventually(
                    lambda: any(each["event"] == "client_id.duplicated" for each in logs), "said"
                )


async def test_what_a_consumer_may_not_be_told() -> None:  # C-1, C-15, 5.1
    async with client_rig() as rig:
        with pytest.raises(IllegalNameError):
            rig.consumer("DEFAULT_CONSUMER")
        with pytest.raises(ConfigError):
            rig.consumer(pull_batch_size=1025)
        with pytest.raises(ConfigError):
            rig.consumer(consume_timestamp="yesterday")
        consumer = rig.consumer()
        with pytest.raises(SubscriptionError):
            consumer.subscribe("T", " || ")
        with pytest.raises(IllegalNameError):
            consumer.subscribe("no.dots")
        with pytest.raises(ClientError, match="the listener is a str"):
            consumer.listen(cast(Any, "on_message"))
        consumer.listen(Collected())
        with pytest.raises(ClientError, match="already"):
            consumer.listen(Collected())


# -- while it runs ------------------------------------------------------------------------------


async def test_subscribing_while_running_tells_the_brokers_at_once() -> None:  # C-15
    async with client_rig() as rig:
        rig.nameserver.add_topic("U", rig.brokers, queues=2)
        async with consuming(rig, Collected()) as consumer:
            await eventually(lambda: len(consumer.assignment) == 4, "T")
            consumer.subscribe("U", "A")

            def topics() -> set[str]:
                [group] = rig.brokers[0].clients[consumer.client_id].consumer_data_set
                return {each.topic for each in group.subscription_data_set}

            await eventually(lambda: "U" in topics(), "the broker knows")
            await rig.advance(21)
            assert len(consumer.assignment) == 6


async def test_a_suspended_consumer_keeps_its_queues_and_pulls_nothing() -> None:  # C-72
    async with client_rig() as rig:
        broker = rig.brokers[0]
        got = Collected()
        async with consuming(rig, got) as consumer:
            await rig.advance(1)
            await eventually(lambda: len(broker.held) == 4, "pulled")
            consumer.suspend()
            broker.put_many("T", 0, [b"1"])
            broker.release_held()
            await eventually(lambda: got.bodies == [b"1"], "what was under way arrives")
            broker.put_many("T", 0, [b"2"])
            await rig.advance(40)
            assert got.bodies == [b"1"]
            assert len(consumer.assignment) == 4
            consumer.resume()
            await rig.advance(1.1)
            await eventually(lambda: got.bodies == [b"1", b"2"], "it goes on")


async def test_operators_move_a_running_consumer() -> None:  # C-70
    async with client_rig() as rig:
        broker = rig.brokers[0]
        rig.nameserver.add_topic("T", rig.brokers, queues=1)
        broker.put_many("T", 0, [b"0", b"1", b"2"])
        got = Collected()
        async with consuming(rig, got) as consumer:
            await rig.advance(1)
            await eventually(lambda: len(got.messages) == 3, "consumed")
            queue = MessageQueue("T", "a", 0)
            peer = broker.peers[consumer.client_id]
            body = ResetOffsetBody(offset_table={mq_key(queue): 1})
            peer.oneway(
                ResetConsumerClientOffsetRequestHeader(topic="T", group="consumers", timestamp=0),
                encode_body(body, peer.encoding),
            )
            await eventually(lambda: consumer.assignment == [], "the queue is dropped")
            await rig.advance(9)
            assert broker.offsets.get(("consumers", "T", 0), 3) == 3
            await rig.advance(3)
            await eventually(lambda: len(got.messages) == 5, "1 and 2 come again")
    assert [m.body for m in got.messages] == [b"0", b"1", b"2", b"1", b"2"]


async def test_operators_see_what_a_consumer_does() -> None:  # E-28: 307
    async with client_rig() as rig, consuming(rig, Collected()) as consumer:
        await rig.advance(1)
        await eventually(lambda: len(consumer.assignment) == 4, "assigned")
        peer = rig.brokers[0].peers[consumer.client_id]
        assert isinstance(peer, Channel)
        header = GetConsumerRunningInfoRequestHeader(
            consumer_group="consumers", client_id=consumer.client_id
        )
        reply = await peer.request(header)
        info = decode_body(reply.body_view, ConsumerRunningInfo, reply.encoding)
        assert len(info.mq_table) == 4
        assert {each.topic for each in info.subscription_set} == {"T", "%RETRY%consumers"}
        unknown = GetConsumerRunningInfoRequestHeader(consumer_group="other", client_id="x")
        assert (await peer.request(unknown)).code == 1
