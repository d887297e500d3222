"""How a push consumer pulls, and goes on after errors and lost brokers.

Against scripted brokers, in memory, on a manual clock.
"""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from pocketmq.client import (
    ConsumeFromWhere,
    MessageExt,
    MessageQueue,
)
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from support.client_rig import client_rig
from support.consuming import Collected, consuming
from support.eventually import eventually

# -- when and what ------------------------------------------------------------------------------


async def test_in_4_9_the_first_pull_follows_the_assignment_at_once() -> None:  # C-25.4
    async with client_rig() as rig:
        rig.brokers[0].put("T", 0, b"x")
        got = Collected()
        async with consuming(rig, got, profile="4.9"):
            await eventually(lambda: got.messages, "it is consumed while the clock stands")


async def test_a_message_that_arrives_later_wakes_the_held_pull() -> None:  # B-70, C-42
    async with client_rig() as rig:
        got = Collected()
        async with consuming(rig, got):
            await rig.advance(1)
            await eventually(lambda: len(rig.brokers[0].held) == 4, "every queue is pulled")
            rig.brokers[0].put("T", 3, b"late")
            await eventually(lambda: got.bodies == [b"late"], "it arrives")
            await eventually(lambda: len(rig.brokers[0].held) == 4, "the queue is pulled again")


async def test_only_wanted_tags_reach_the_listener_though_hashes_collide() -> None:  # C-41, B-57
    async with client_rig() as rig:
        broker = rig.brokers[0]
        for tag in ("AaAa", "BBBB", None, "AaBB"):  # equal Java hashes, and one without a tag
            broker.put("T", 0, (tag or "none").encode(), tags=tag)
        got = Collected()
        consumer = rig.consumer(consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
        consumer.subscribe("T", "AaAa || BBBB")
        consumer.listen(got)
        async with consumer:
            await rig.advance(1)
            await eventually(lambda: got.bodies == [b"AaAa", b"BBBB"], "two of four")
            assert got.messages[0].properties["MAX_OFFSET"] == "4"
            assert "CONSUME_START_TIME" in got.messages[0].properties


async def test_a_range_without_a_wanted_message_still_moves_the_offset() -> None:  # C-42, T-4
    async with client_rig() as rig:
        broker = rig.brokers[0]
        got = Collected()
        async with consuming(rig, got) as consumer:
            await rig.advance(1)
            await eventually(lambda: len(broker.held) == 4, "pulled")
            held = next(each for each in broker.held if each.header.queue_id == 2)
            broker.held.remove(held)
            held.peer.reply(
                held.request,
                held.request.reply(
                    PullMessageResponseHeader(
                        suggest_which_broker_id=0,
                        next_begin_offset=0,
                        min_offset=0,
                        max_offset=0,
                    ),
                    code=20,
                ),
            )
            await eventually(lambda: len(broker.held) == 4, "pulled again at once")
            assert consumer.offsets_in_memory("T")[MessageQueue("T", "a", 2)] == 0


async def test_flow_control_stops_pulling_above_the_threshold() -> None:  # C-36
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put_many("T", 0, [b"x"] * 200)
        gate = asyncio.Event()

        async def listener(_message: MessageExt) -> None:
            await gate.wait()

        async with consuming(rig, listener, pull_threshold_for_queue=40) as consumer:
            await rig.advance(1)
            info = consumer.running_info()
            [cached] = [each for each in info.mq_table.values() if each.cached_msg_count]
            assert cached.cached_msg_count == 64  # 32 + 32: the second pull began below 40
            await rig.advance(1)
            assert max(i.cached_msg_count for i in consumer.running_info().mq_table.values()) == 64
            gate.set()
            await eventually(
                lambda: consumer.offsets_in_memory("T").get(MessageQueue("T", "a", 0), 0) >= 64,
                "consumed",
            )
            await rig.advance(1)
            await eventually(
                lambda: consumer.offsets_in_memory("T")[MessageQueue("T", "a", 0)] > 64, "goes on"
            )


async def test_offsets_ride_along_on_pulls() -> None:  # C-37, B-35
    async with client_rig() as rig:
        broker = rig.brokers[0]
        rig.nameserver.add_topic("T", rig.brokers, queues=1)
        broker.put("T", 0, b"x")
        got = Collected()
        async with consuming(rig, got):
            await rig.advance(1)
            await eventually(lambda: got.messages and broker.held, "consumed, and held")
            broker.release_held()
            await eventually(lambda: broker.held, "held again")
            header = broker.held[0].header
            assert header.sys_flag == 3
            assert header.commit_offset == 1
            assert header.suspend_timeout_millis == 15_000
            assert header.subscription is None


async def test_the_subscription_travels_along_when_asked_for() -> None:  # C-37
    async with client_rig() as rig:
        consumer = rig.consumer(post_subscription_when_pull=True)
        consumer.subscribe("T", "A || B")
        consumer.listen(Collected())
        async with consumer:
            await rig.advance(1)
            await eventually(lambda: rig.brokers[0].held, "pulled")
            header = rig.brokers[0].held[0].request.header(PullMessageRequestHeader)
            assert header.sys_flag == 2 | 4
            assert header.subscription == "A || B"


# -- what goes wrong ----------------------------------------------------------------------------


async def test_a_broker_error_on_pull_is_tried_again_after_a_second() -> None:  # C-40
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put("T", 0, b"x")
        broker.refuse[RequestCode.PULL_MESSAGE] = lambda r: r.reply(code=26, remark="no group")
        got = Collected()
        async with consuming(rig, got):
            await rig.advance(1)
            first = broker.count(RequestCode.PULL_MESSAGE)
            assert first == 4
            await rig.advance(0.9)
            del broker.refuse[RequestCode.PULL_MESSAGE]
            await rig.advance(0.7)
            await eventually(lambda: got.bodies == [b"x"], "pulled after 1000 ms")


async def test_a_lost_connection_is_made_anew() -> None:  # C-38
    async with client_rig() as rig:
        broker = rig.brokers[0]
        got = Collected()
        async with consuming(rig, got):
            await rig.advance(1)
            await eventually(lambda: len(broker.held) == 4, "pulled")
            await broker.stop()
            broker.held.clear()
            await broker.start(rig.network)
            await rig.advance(1.5)
            await eventually(lambda: len(broker.held) == 4, "pulled again")


@pytest.mark.parametrize(("profile", "beats"), [("5.x", True), ("4.9", False)])
async def test_a_restarted_broker_is_told_at_once_who_we_are(profile: str, beats: bool) -> None:
    # C-21
    async with client_rig() as rig:
        broker = rig.brokers[0]
        async with consuming(rig, Collected(), profile=profile) as consumer:
            await rig.advance(2)
            await eventually(lambda: len(broker.held) == 4, "pulled")
            await broker.stop()
            broker.held.clear()
            broker.clients.clear()
            await broker.start(rig.network)
            await rig.advance(1.5)
            await eventually(lambda: len(broker.held) == 4, "pulled again")
            assert (consumer.client_id in broker.clients) is beats


async def test_a_pull_that_is_never_answered_ends_after_30_s_on_the_clock() -> None:  # C-37
    async with client_rig() as rig:
        broker = rig.brokers[0]
        got = Collected()
        async with consuming(rig, got):
            await rig.advance(1)
            await eventually(lambda: broker.count(RequestCode.PULL_MESSAGE) == 4, "pulled")
            await rig.advance(28)
            assert broker.count(RequestCode.PULL_MESSAGE) == 4
            await rig.advance(4)
            assert broker.count(RequestCode.PULL_MESSAGE) == 8


async def test_a_broker_that_is_away_for_long_is_pulled_again_when_it_is_back() -> None:  # C-38
    async with client_rig() as rig:
        broker = rig.brokers[0]
        async with consuming(rig, Collected()):
            await rig.advance(1)
            await eventually(lambda: len(broker.held) == 4, "pulled")
            await broker.stop()
            broker.held.clear()
            await rig.advance(7)  # several tries to connect come to nothing
            await broker.start(rig.network)
            await rig.advance(1.5)
            await eventually(lambda: len(broker.held) == 4, "pulled again")


async def test_a_broker_without_an_address_is_pulled_again_when_the_route_is_back() -> None:
    # C-38
    async with client_rig() as rig:
        broker = rig.brokers[0]
        async with consuming(rig, Collected()):
            await rig.advance(1)
            await eventually(lambda: len(broker.held) == 4, "pulled")
            whole = rig.nameserver.routes.copy()
            for topic, route in whole.items():
                rig.nameserver.routes[topic] = msgspec.structs.replace(route, broker_datas=[])
            await rig.advance(61)  # the route is asked for, and the address forgotten
            await broker.stop()
            broker.held.clear()
            await rig.advance(7)
            rig.nameserver.routes.update(whole)
            await broker.start(rig.network)
            await rig.advance(1.5)
            await eventually(lambda: len(broker.held) == 4, "pulled again")


async def test_each_pull_that_is_never_answered_ends_after_its_own_30_s() -> None:  # C-37
    async with client_rig() as rig:
        broker = rig.brokers[0]
        async with consuming(rig, Collected()):
            await rig.advance(1)
            await eventually(lambda: len(broker.held) == 4, "four pulls at 1 s")
            await rig.advance(5)
            broker.put("T", 0, b"x")
            await eventually(lambda: len(broker.held) == 4, "one of them anew at 6 s")
            assert broker.count(RequestCode.PULL_MESSAGE) == 5
            await rig.advance(27)
            assert broker.count(RequestCode.PULL_MESSAGE) == 5 + 3
            await rig.advance(5)
            assert broker.count(RequestCode.PULL_MESSAGE) == 5 + 3 + 1
