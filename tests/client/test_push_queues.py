"""Which queues a push consumer has, and where it begins in them.

Against scripted brokers, in memory, on a manual clock.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import pytest

from pocketmq.client import (
    ConsumeFromWhere,
    MessageQueue,
)
from pocketmq.protocol.codes import RequestCode
from support.client_rig import client_rig
from support.consuming import Collected, consuming
from support.eventually import eventually
from support.own_logs import own_logs

RETRY = "%RETRY%consumers"


class Faulty:
    """A strategy of the user's own, with a bug on one topic."""

    name = "FAULTY"

    def __init__(self, topic: str) -> None:
        self.topic = topic

    def allocate(
        self, _group: str, _cid: str, mq_all: Sequence[MessageQueue], _cids: Sequence[str]
    ) -> Sequence[MessageQueue]:
        if mq_all[0].topic == self.topic:
            raise KeyError("a bug")
        return mq_all


def told_of(logs: Sequence[MutableMapping[str, Any]], event: str) -> list[Mapping[str, Any]]:
    return [line for line in logs if line["event"] == event]


# -- whose queues -------------------------------------------------------------------------------


async def test_two_consumers_share_the_queues_and_the_survivor_takes_over() -> None:
    # C-21, C-24, C-71, B-25
    async with client_rig("a", "b") as rig:
        one = consuming(rig, Collected())
        two = consuming(rig, Collected())
        async with one:
            await eventually(lambda: len(one.assignment) == 8, "one has it all")
            async with two:
                for broker in rig.brokers:
                    broker.notify("consumers")
                await rig.advance(1.1)  # 5.x: at least 1 s between two rebalances (C-20)
                await eventually(
                    lambda: len(one.assignment) == len(two.assignment) == 4, "they share"
                )
                assert not set(one.assignment) & set(two.assignment)
            await rig.advance(1.1)
            await eventually(lambda: len(one.assignment) == 8, "one has it all again")
    assert "took" in one.story()
    assert "gave up" in one.story()


async def test_without_a_notification_the_20_s_rebalance_notices() -> None:  # C-20
    async with client_rig() as rig, consuming(rig, Collected()) as one:
        await eventually(lambda: len(one.assignment) == 4, "one has it all")
        rig.brokers[0].extra_members.append("0.0.0.0@first")
        await rig.advance(19)
        assert len(one.assignment) == 4
        await rig.advance(2)
        assert len(one.assignment) == 2


async def test_queues_given_up_are_written_down_first() -> None:  # C-30
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put_many("T", 0, [b"1", b"2"])
        got = Collected()
        async with consuming(rig, got) as one:
            await rig.advance(1)
            await eventually(lambda: len(got.messages) == 2, "consumed")
            broker.extra_members.append("0.0.0.0@first")
            broker.notify("consumers")
            await rig.advance(1.1)
            await eventually(lambda: len(one.assignment) == 2, "half is given up")
            assert broker.offsets["consumers", "T", 0] == 2


@pytest.mark.parametrize("topic", ["T", RETRY])
async def test_a_bug_in_the_rebalance_of_a_topic_is_logged_with_its_traceback(topic: str) -> None:
    # C-22
    async with client_rig() as rig:
        rig.nameserver.add_topic(RETRY, rig.brokers, queues=1)
        other = "T" if topic == RETRY else RETRY
        with own_logs() as logs:
            async with consuming(rig, Collected(), strategy=Faulty(topic)) as one:
                await eventually(lambda: one.assignment, "the other topic is had")
                await eventually(lambda: told_of(logs, "rebalance.failed"), "the fault is told")
                assert {queue.topic for queue in one.assignment} == {other}
        told = told_of(logs, "rebalance.failed")
        assert all(line["topic"] == topic and line["exc_info"] for line in told)


@pytest.mark.parametrize("topic", ["T", RETRY])
async def test_a_topic_that_cannot_be_shared_out_now_is_told_in_one_line(topic: str) -> None:
    # C-22, C-24
    async with client_rig() as rig:
        rig.nameserver.add_topic(RETRY, rig.brokers, queues=1)
        rig.nameserver.routes[topic].queue_datas.clear()
        other = "T" if topic == RETRY else RETRY
        with own_logs() as logs:
            async with consuming(rig, Collected()) as one:
                await eventually(lambda: one.assignment, "the other topic is had")
                await eventually(lambda: told_of(logs, "rebalance.skipped"), "the fault is told")
                assert {queue.topic for queue in one.assignment} == {other}
        told = told_of(logs, "rebalance.skipped")
        assert all(line["topic"] == topic and "exc_info" not in line for line in told)
        assert not [line for line in logs if "exc_info" in line]


async def test_an_unknown_consumer_list_keeps_the_assignment() -> None:  # C-24
    async with client_rig() as rig, consuming(rig, Collected()) as one:
        await eventually(lambda: len(one.assignment) == 4, "one has it all")
        rig.brokers[0].refuse[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda r: r.reply(code=1)
        await rig.advance(60)
        assert len(one.assignment) == 4


async def test_in_5_x_a_round_that_failed_is_followed_by_another_after_a_second() -> None:
    # C-20, C-22
    async with client_rig() as rig:
        broker = rig.brokers[0]
        told: list[str] = []

        def fails(topic: str, *_queues: object) -> None:
            told.append(topic)
            raise ValueError("a mistake of the user's")

        async with consuming(rig, Collected(), on_assignment_changed=fails) as consumer:
            await eventually(lambda: told, "the user is told of the queues")
            assert len(consumer.assignment) == 4
            rounds = broker.count(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
            await rig.advance(1.1)
            assert broker.count(RequestCode.GET_CONSUMER_LIST_BY_GROUP) > rounds
            rounds = broker.count(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
            await rig.advance(10)  # nothing changed, so nobody was told, and nothing failed
            assert broker.count(RequestCode.GET_CONSUMER_LIST_BY_GROUP) == rounds
            assert told == ["T"]


async def test_unsubscribing_gives_the_queues_up_at_the_next_rebalance() -> None:  # C-15, C-26
    async with client_rig() as rig:
        rig.nameserver.add_topic("U", rig.brokers, queues=2)
        consumer = consuming(rig, Collected())
        consumer.subscribe("U")
        async with consumer:
            await eventually(lambda: len(consumer.assignment) == 6, "both topics")
            consumer.unsubscribe("T")
            assert len(consumer.assignment) == 6
            await rig.advance(21)
            assert {queue.topic for queue in consumer.assignment} == {"U"}


async def test_an_answer_for_a_queue_that_was_given_up_is_not_consumed() -> None:  # C-44
    async with client_rig() as rig:
        broker = rig.brokers[0]
        rig.nameserver.add_topic("T", rig.brokers, queues=1)
        got = Collected()
        async with consuming(rig, got) as consumer:
            await rig.advance(1)
            await eventually(lambda: broker.held, "the pull of the queue is held")
            consumer.unsubscribe("T")
            await rig.advance(20)
            assert MessageQueue("T", "a", 0) not in consumer.assignment
            broker.put("T", 0, b"late")  # answers the held pull
            await rig.advance(5)
            assert got.bodies == []
            assert consumer.offsets_in_memory("T") == {}
        assert ("consumers", "T", 0) not in broker.offsets


async def test_topic_limits_are_shared_out_over_the_owned_queues() -> None:  # C-27
    async with (
        client_rig() as rig,
        consuming(
            rig,
            Collected(),
            pull_threshold_for_topic=100,
            pull_threshold_size_for_topic_mib=2,
        ) as consumer,
    ):
        await eventually(lambda: len(consumer.assignment) == 4, "assigned")
        limits = consumer._made.pulls.limits
        assert limits.threshold_for_queue == 25
        assert limits.threshold_size_for_queue_mib == 1


async def test_the_user_hears_of_a_new_assignment_and_the_brokers_too() -> None:  # C-27
    async with client_rig() as rig:
        heard: list[tuple[str, int, int]] = []
        consumer = consuming(
            rig,
            Collected(),
            on_assignment_changed=lambda topic, every, mine: heard.append(
                (topic, len(every), len(mine))
            ),
        )
        async with consumer:
            await eventually(lambda: heard == [("T", 4, 4)], "told")
            assert rig.brokers[0].count(RequestCode.HEART_BEAT) == 2


# -- where it begins ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "stored", "first"),
    [
        (ConsumeFromWhere.FIRST_OFFSET, None, [0, 1, 2]),
        (ConsumeFromWhere.LAST_OFFSET, None, []),
        (ConsumeFromWhere.TIMESTAMP, None, [1, 2]),
        (ConsumeFromWhere.LAST_OFFSET, 2, [2]),
        (ConsumeFromWhere.LAST_OFFSET, 0, [0, 1, 2]),
    ],
)
async def test_where_a_group_begins(
    where: ConsumeFromWhere, stored: int | None, first: list[int]
) -> None:  # C-33
    async with client_rig() as rig:
        broker = rig.brokers[0]
        rig.nameserver.add_topic("T", rig.brokers, queues=1)
        broker.put_many("T", 0, [b"0", b"1", b"2"])
        if stored is not None:
            broker.offsets["consumers", "T", 0] = stored
        got = Collected()
        async with consuming(rig, got, consume_from_where=where):
            await rig.advance(1)
            await eventually(lambda: broker.held, "everything there is has been pulled")
            await eventually(
                lambda: [m.queue_offset for m in got.messages] == first, "it begins there"
            )
            broker.put("T", 0, b"3")
            await eventually(lambda: got.messages and got.messages[-1].body == b"3", "and goes on")


async def test_an_offset_that_cannot_be_asked_for_is_asked_for_at_the_next_rebalance() -> None:
    # C-25.3, C-33
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.refuse[RequestCode.QUERY_CONSUMER_OFFSET] = lambda r: r.reply(code=1)
        async with consuming(rig, Collected()) as consumer:
            await eventually(lambda: broker.count(RequestCode.QUERY_CONSUMER_OFFSET) == 4, "asked")
            assert consumer.assignment == []
            del broker.refuse[RequestCode.QUERY_CONSUMER_OFFSET]
            await rig.advance(1.1)  # 5.x: 1 s while unbalanced (C-20)
            assert len(consumer.assignment) == 4


@pytest.mark.parametrize(("profile", "seconds"), [("5.x", 2.0), ("4.9", 31.0)])
async def test_an_illegal_offset_is_corrected_and_the_queue_taken_anew(
    profile: str, seconds: float
) -> None:  # C-43
    async with client_rig() as rig:
        broker = rig.brokers[0]
        rig.nameserver.add_topic("T", rig.brokers, queues=1)
        broker.min_offsets["T", 0] = 5
        broker.put_many("T", 0, [b"5", b"6"])
        got = Collected()
        async with consuming(rig, got, profile=profile):
            await rig.advance(1)
            await rig.advance(seconds)
            await eventually(lambda: got.bodies == [b"5", b"6"], "it begins at the least offset")


async def test_in_4_9_a_rebalance_does_not_disturb_the_correction_of_an_offset() -> None:  # C-43
    async with client_rig() as rig:
        broker = rig.brokers[0]
        rig.nameserver.add_topic("T", rig.brokers, queues=1)
        broker.min_offsets["T", 0] = 5
        broker.put_many("T", 0, [b"5"])
        got = Collected()
        async with consuming(rig, got, profile="4.9") as consumer:
            await eventually(lambda: broker.count(RequestCode.PULL_MESSAGE) == 1, "pulled")
            for _ in range(8):
                broker.notify("consumers")
                await rig.advance(1)
            assert consumer.assignment == []
            assert broker.count(RequestCode.PULL_MESSAGE) == 1
            await rig.advance(3)  # corrected after 10 s, and taken at the next rebalance
            broker.notify("consumers")
            await eventually(lambda: got.bodies == [b"5"], "taken anew at once")
