"""Plain and lite pull consumers against scripted brokers, in memory, on a manual clock."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pocketmq.client import (
    ConsumeFromWhere,
    LitePullConsumer,
    MessageQueue,
    PullConsumer,
    PullStatus,
)
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import BrokerError, ClientError
from pocketmq.protocol.headers.pull import PullMessageRequestHeader
from support.client_rig import ClientRig, client_rig
from support.eventually import eventually

FIRST = ConsumeFromWhere.FIRST_OFFSET
Q = [MessageQueue("T", "a", i) for i in range(4)]


def lite(rig: ClientRig, **options: Any) -> LitePullConsumer:
    options.setdefault("consume_from_where", FIRST)
    return LitePullConsumer("lite", **(rig.options | options))


# -- plain ----------------------------------------------------------------------------------------


async def test_a_queue_is_read_by_hand() -> None:
    async with client_rig() as rig:
        broker = rig.brokers[0]
        for number in range(40):
            broker.put("T", 2, b"%d" % number, tags="AB"[number % 2])
        async with PullConsumer("g", **rig.options) as consumer:
            assert await consumer.queues("T") == Q
            assert await consumer.queues("unknown") == []
            assert await consumer.max_offset(Q[2]) == 40
            assert await consumer.min_offset(Q[2]) == 0
            assert await consumer.search_offset(Q[2], 5) == 1
            result = await consumer.pull(Q[2], "*", 0)
            assert (result.status, result.next_begin_offset) == (PullStatus.FOUND, 32)
            assert [m.queue_offset for m in result.messages] == list(range(32))
            result = await consumer.pull(Q[2], "A", 32, 4)
            assert [m.body for m in result.messages] == [b"32", b"34"]  # tags by text
            assert (await consumer.pull(Q[2], "*", 40)).status is PullStatus.NO_NEW_MSG
            illegal = await consumer.pull(Q[2], "*", 99)
            assert (illegal.status, illegal.next_begin_offset) == (PullStatus.OFFSET_ILLEGAL, 40)


async def test_a_pull_may_wait_for_a_message() -> None:
    async with client_rig() as rig:
        broker = rig.brokers[0]
        async with PullConsumer("g", **rig.options) as consumer:
            await consumer.queues("T")
            pulling = asyncio.ensure_future(consumer.pull(Q[0], "*", 0, wait=True))
            await eventually(lambda: broker.held, "held")
            assert broker.held[0].header.suspend_timeout_millis == 20_000
            broker.put("T", 0, b"x")
            assert [m.body for m in (await pulling).messages] == [b"x"]

            pulling = asyncio.ensure_future(consumer.pull(Q[1], "*", 0, wait=True))
            await eventually(lambda: broker.held, "held")
            await rig.advance(31)
            with pytest.raises(TimeoutError):
                await pulling


async def test_a_refused_pull_is_the_callers_error() -> None:
    async with client_rig() as rig:
        rig.brokers[0].refuse[RequestCode.PULL_MESSAGE] = lambda r: r.reply(code=16)
        async with PullConsumer("g", **rig.options) as consumer:
            with pytest.raises(BrokerError):
                await consumer.pull(Q[0], "*", 0)


async def test_offsets_by_hand_are_written_down() -> None:
    async with client_rig() as rig:
        broker = rig.brokers[0]
        async with PullConsumer("g", **rig.options) as consumer:
            await consumer.queues("T")
            assert await consumer.consume_offset(Q[0]) == -1
            consumer.update_consume_offset(Q[0], 7)
            assert await consumer.consume_offset(Q[0]) == 7
            assert await consumer.consume_offset(Q[0], from_store=True) == -1
            await rig.advance(11)
            assert broker.offsets["g", "T", 0] == 7
            consumer.update_consume_offset(Q[0], 3)
        assert broker.offsets["g", "T", 0] == 3
        assert [each.consumer_group for each in broker.unregistered] == ["g"]


# -- lite -----------------------------------------------------------------------------------------


async def test_subscribed_queues_are_pulled_ahead_and_polled() -> None:  # L-3, L-5
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put_many("T", 1, [b"%d" % i for i in range(25)])
        async with lite(rig) as consumer:
            await consumer.subscribe("T")
            await rig.advance(1.1)  # 5.x rebalances once a second (C-20)
            await eventually(lambda: len(consumer.assignment) == 4, "assigned")
            got = []
            for _ in range(3):
                got += [m.body for m in await consumer.poll()]
            assert got == [b"%d" % i for i in range(25)]
            [first] = [
                each.header(PullMessageRequestHeader)
                for each in broker.seen
                if each.code == RequestCode.LITE_PULL_MESSAGE
                and each.header(PullMessageRequestHeader).queue_id == 1
                and each.header(PullMessageRequestHeader).queue_offset == 0
            ]
            assert first.sys_flag == 2 | 4 | 16
            assert (first.subscription, first.sub_version, first.max_msg_nums) == ("*", 0, 10)
            assert first.suspend_timeout_millis == 20_000
        [group] = broker.clients.values() or [None]
        assert group is None  # unregistered


async def test_4_9_pulls_by_the_common_code() -> None:  # L-3
    async with client_rig() as rig, lite(rig, profile="4.9") as consumer:
        await consumer.subscribe("T")
        await rig.advance(1.1)  # 5.x rebalances once a second (C-20)
        await eventually(lambda: len(rig.brokers[0].held) == 4, "pulled")
        assert rig.brokers[0].count(RequestCode.LITE_PULL_MESSAGE) == 0


async def test_its_heartbeat_says_that_it_pulls_and_there_is_no_retry_topic() -> None:  # L-2, L-7
    async with client_rig() as rig, lite(rig) as consumer:
        await consumer.subscribe("T", "A")
        [data] = rig.brokers[0].clients[consumer.client_id].consumer_data_set
        assert data.consume_type == "CONSUME_ACTIVELY"
        assert [each.topic for each in data.subscription_data_set] == ["T"]


async def test_an_empty_poll_ends_after_5_s_on_the_clock() -> None:  # L-1a
    async with client_rig() as rig, lite(rig) as consumer:
        await consumer.subscribe("T")
        await rig.advance(1.1)  # 5.x rebalances once a second (C-20)
        polling = asyncio.ensure_future(consumer.poll())
        await rig.advance(4.9)
        assert not polling.done()
        await rig.advance(0.2)
        assert await polling == []


async def test_a_message_wakes_the_poll() -> None:
    async with client_rig() as rig, lite(rig) as consumer:
        await consumer.subscribe("T")
        await rig.advance(1.1)  # 5.x rebalances once a second (C-20)
        polling = asyncio.ensure_future(consumer.poll())
        await eventually(lambda: len(rig.brokers[0].held) == 4, "pulled")
        rig.brokers[0].put("T", 3, b"x")
        assert [m.body for m in await polling] == [b"x"]


async def test_auto_commit_follows_polls_every_5_s() -> None:  # L-1c
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put_many("T", 0, [b"x"] * 30)
        async with lite(rig) as consumer:
            await consumer.subscribe("T")
            await rig.advance(1.1)  # 5.x rebalances once a second (C-20)
            await eventually(lambda: consumer.assignment, "assigned")
            assert len(await consumer.poll()) == 10
            assert await consumer.committed(Q[0]) == -1  # polled is not committed
            await rig.advance(6)
            await consumer.poll()
            assert await consumer.committed(Q[0]) == 10
            await rig.advance(6)
            assert broker.offsets["lite", "T", 0] == 10


async def test_commit_by_hand() -> None:  # L-5
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put_many("T", 0, [b"x"] * 15)
        async with lite(rig, auto_commit=False) as consumer:
            await consumer.subscribe("T")
            await rig.advance(1.1)  # 5.x rebalances once a second (C-20)
            await eventually(lambda: consumer.assignment, "assigned")
            await consumer.poll()
            await rig.advance(20)
            await consumer.poll()
            assert ("lite", "T", 0) not in broker.offsets
            await consumer.commit(persist=True)
            await eventually(lambda: broker.offsets.get(("lite", "T", 0)) == 15, "written")


async def test_assign_and_subscribe_exclude_each_other() -> None:  # L-2
    async with client_rig() as rig:
        consumer = lite(rig)
        await consumer.assign(Q[:1])
        with pytest.raises(ClientError, match="both subscribe"):
            await consumer.subscribe("T")


async def test_assigned_queues_are_pulled_without_asking_who_else_is_there() -> None:  # L-2
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put_many("T", 0, [b"0"])
        broker.put_many("T", 1, [b"1"])
        consumer = lite(rig)
        await consumer.assign(Q[:1])
        async with consumer:
            assert [m.body for m in await consumer.poll()] == [b"0"]
            assert consumer.assignment == Q[:1]
            await consumer.assign(Q[1:2])
            assert consumer.assignment == Q[1:2]
            assert [m.body for m in await consumer.poll()] == [b"1"]
            # In a heartbeat `*` would replace what members that subscribe want of the topic.
            [data] = broker.clients[consumer.client_id].consumer_data_set
            assert data.subscription_data_set == []
        assert broker.count(RequestCode.GET_CONSUMER_LIST_BY_GROUP) == 0


async def test_pulls_by_hand_name_their_broker_and_no_limit_of_bytes() -> None:  # L-3, E-22
    async with client_rig() as rig:
        held = rig.brokers[0].held
        consumer = lite(rig)
        await consumer.assign(Q[:1])
        async with consumer, PullConsumer("g", **rig.options) as reader:
            reading = asyncio.ensure_future(reader.pull(Q[1], "A", 0, wait=True))
            await eventually(lambda: len(held) == 2, "both are held")
            for header in (each.header for each in held):
                assert (header.bname, header.max_msg_bytes) == ("a", 2**31 - 1)
            # Brokers take the group for one that wants all: the pull says itself what it wants.
            await rig.advance(30)
            datas = rig.brokers[0].clients[reader.client_id].consumer_data_set
            [told] = [each for each in datas if each.group_name == "g"]
            assert [each.sub_string for each in told.subscription_data_set] == ["*"]
            reading.cancel()


async def test_seek_forgets_what_was_pulled_ahead() -> None:  # L-6
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put_many("T", 0, [b"%02d" % i for i in range(40)])
        consumer = lite(rig)
        await consumer.assign(Q[:1])
        async with consumer:
            await eventually(lambda: broker.held, "all is pulled ahead")
            await consumer.seek(Q[0], 37)
            assert [m.body for m in await consumer.poll()] == [b"37", b"38", b"39"]
            await consumer.seek_to_begin(Q[0])
            assert (await consumer.poll())[0].body == b"00"
            await consumer.seek_to_end(Q[0])
            broker.put("T", 0, b"new")
            assert [m.body for m in await consumer.poll()] == [b"new"]
            with pytest.raises(ClientError, match="not assigned"):
                await consumer.seek(Q[1], 0)
            with pytest.raises(ClientError, match="is outside"):
                await consumer.seek(Q[0], 42)


async def test_a_paused_queue_is_not_pulled() -> None:
    async with client_rig() as rig:
        broker = rig.brokers[0]
        consumer = lite(rig)
        await consumer.assign(Q[:2])
        async with consumer:
            await eventually(lambda: len(broker.held) == 2, "pulled")
            consumer.pause([Q[0]])
            broker.release_held()
            await eventually(lambda: len(broker.held) == 1, "one is pulled on")
            broker.put("T", 0, b"0")
            broker.put("T", 1, b"1")
            assert [m.body for m in await consumer.poll()] == [b"1"]
            await rig.advance(3)
            consumer.resume([Q[0]])
            await rig.advance(1.1)
            assert [m.body for m in await consumer.poll()] == [b"0"]


async def test_an_illegal_offset_simply_goes_on_elsewhere() -> None:  # L-4
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.min_offsets["T", 0] = 5
        broker.put_many("T", 0, [b"5"])
        consumer = lite(rig)
        await consumer.assign(Q[:1])
        async with consumer:
            assert [m.queue_offset for m in await consumer.poll()] == [5]


async def test_too_many_messages_waiting_stop_the_pulling() -> None:  # L-1d
    async with client_rig() as rig:
        broker = rig.brokers[0]
        for queue_id in range(4):
            broker.put_many("T", queue_id, [b"x"] * 100)
        async with lite(rig, pull_threshold_for_all=50) as consumer:
            await consumer.subscribe("T")
            await rig.advance(1.1)  # 5.x rebalances once a second (C-20)
            await eventually(lambda: consumer.assignment, "assigned")
            await rig.advance(1)
            pulls = broker.count(RequestCode.LITE_PULL_MESSAGE)
            assert pulls < 12
            got = 0
            while got < 400:
                got += len(await consumer.poll())
                await rig.advance(0.06)
            assert got == 400


async def test_two_members_share_and_a_slow_poller_keeps_its_queues() -> None:  # L-7
    async with client_rig() as rig:
        async with lite(rig) as one, lite(rig) as two:
            for each in (one, two):
                await each.subscribe("T")
            rig.brokers[0].notify("lite")
            await rig.advance(2)
            assert len(one.assignment) == len(two.assignment) == 2
            await rig.advance(300)
            assert len(one.assignment) == len(two.assignment) == 2
        assert one.assignment == []


async def test_listeners_hear_of_other_queues() -> None:  # L-1f
    async with client_rig() as rig:
        heard: list[tuple[str, int]] = []
        async with lite(rig) as consumer:
            await consumer.subscribe("T")
            await rig.advance(1.1)  # 5.x rebalances once a second (C-20)
            consumer.on_queues_changed("T", lambda *what: heard.append((what[0], len(what[1]))))
            await rig.advance(45)
            assert heard == []
            rig.nameserver.add_topic("T", rig.brokers, queues=6)
            await rig.advance(61)
            assert heard == [("T", 6)]


async def test_a_topic_that_is_only_listened_to_is_not_consumed() -> None:  # L-1f
    async with client_rig() as rig:
        rig.nameserver.add_topic("other", rig.brokers, queues=2)
        async with lite(rig) as consumer:
            await consumer.subscribe("T")
            consumer.on_queues_changed("other", lambda *_: None)
            await rig.advance(21)
            assert {queue.topic for queue in consumer.assignment} == {"T"}


async def test_polling_when_not_started_says_so() -> None:
    async with client_rig() as rig:
        with pytest.raises(ClientError, match="not running"):
            await lite(rig).poll()
