"""Push consumers against scripted brokers, in memory, on a manual clock."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from pocketmq.client import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    MessageExt,
    MessageQueue,
    PushConsumer,
)
from pocketmq.client.consumer.send_back import SendBack
from pocketmq.client.instance import DuplicateGroupError
from pocketmq.protocol.bodies.clients import ConsumerRunningInfo
from pocketmq.protocol.bodies.offsets import ResetOffsetBody
from pocketmq.protocol.body import decode_body, encode_body, mq_key
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import ClientError, IllegalNameError, SubscriptionError
from pocketmq.protocol.headers.clients import GetConsumerRunningInfoRequestHeader
from pocketmq.protocol.headers.offsets import ResetConsumerClientOffsetRequestHeader
from pocketmq.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from pocketmq.protocol.transport.channel import Channel
from pocketmq.runtime.errors import ConfigError
from support.client_rig import ClientRig, client_rig
from support.eventually import eventually


class Collected:
    """A listener that keeps what it got."""

    def __init__(self) -> None:
        self.messages: list[MessageExt] = []

    async def __call__(self, message: MessageExt) -> None:
        self.messages.append(message)

    @property
    def bodies(self) -> list[bytes]:
        return sorted(message.body for message in self.messages)


def listening(rig: ClientRig, listener: Any, topic: str = "T", **options: Any) -> PushConsumer:
    options.setdefault("consume_from_where", ConsumeFromWhere.FIRST_OFFSET)
    consumer = rig.consumer(**options)
    consumer.subscribe(topic)
    consumer.listen(listener)
    return consumer


async def test_a_listener_gets_every_message_and_the_offset_is_written_down() -> None:
    # C-41, C-51, P-5, C-65
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put_many("T", 1, [b"%d" % i for i in range(100)])
        got = Collected()
        async with listening(rig, got):
            await rig.advance(1)  # 5.x pulls 500 ms after the assignment (C-25.4)
            await eventually(lambda: len(got.messages) == 100, "all are consumed")
            await rig.advance(10)
            assert broker.offsets["consumers", "T", 1] == 100
    assert [m.queue_offset for m in got.messages] == list(range(100))


async def test_in_4_9_the_first_pull_follows_the_assignment_at_once() -> None:  # C-25.4
    async with client_rig() as rig:
        rig.brokers[0].put("T", 0, b"x")
        got = Collected()
        async with listening(rig, got, profile="4.9"):
            await eventually(lambda: got.messages, "it is consumed while the clock stands")


async def test_a_message_that_arrives_later_wakes_the_held_pull() -> None:  # B-70, C-42
    async with client_rig() as rig:
        got = Collected()
        async with listening(rig, got):
            await rig.advance(1)
            await eventually(lambda: len(rig.brokers[0].held) == 4, "every queue is pulled")
            rig.brokers[0].put("T", 3, b"late")
            await eventually(lambda: got.bodies == [b"late"], "it arrives")
            await eventually(lambda: len(rig.brokers[0].held) == 4, "the queue is pulled again")


async def test_start_subscribes_the_retry_topic_and_beats_before_it_rebalances() -> None:
    # C-2, C-12, C-13
    async with client_rig() as rig, listening(rig, Collected()) as consumer:
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


async def test_two_consumers_share_the_queues_and_the_survivor_takes_over() -> None:
    # C-21, C-24, C-71, B-25
    async with client_rig("a", "b") as rig:
        one = listening(rig, Collected())
        two = listening(rig, Collected())
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
    async with client_rig() as rig, listening(rig, Collected()) as one:
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
        async with listening(rig, got) as one:
            await rig.advance(1)
            await eventually(lambda: len(got.messages) == 2, "consumed")
            broker.extra_members.append("0.0.0.0@first")
            broker.notify("consumers")
            await rig.advance(1.1)
            await eventually(lambda: len(one.assignment) == 2, "half is given up")
            assert broker.offsets["consumers", "T", 0] == 2


async def test_an_unknown_consumer_list_keeps_the_assignment() -> None:  # C-24
    async with client_rig() as rig, listening(rig, Collected()) as one:
        await eventually(lambda: len(one.assignment) == 4, "one has it all")
        rig.brokers[0].refuse[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda r: r.reply(code=1)
        await rig.advance(60)
        assert len(one.assignment) == 4


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
        async with listening(rig, got, consume_from_where=where):
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
        async with listening(rig, Collected()) as consumer:
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
        async with listening(rig, got, profile=profile):
            await rig.advance(1)
            await rig.advance(seconds)
            await eventually(lambda: got.bodies == [b"5", b"6"], "it begins at the least offset")


async def test_a_failed_message_is_sent_back_and_the_offset_moves_on() -> None:  # C-55
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put_many("T", 0, [b"good", b"bad"])
        consumed: list[bytes] = []

        async def listener(message: MessageExt) -> ConsumeConcurrentlyStatus | None:
            consumed.append(message.body)
            if message.body == b"bad":
                raise ValueError("no good")
            return None

        async with listening(rig, listener):
            await rig.advance(1)
            await eventually(lambda: broker.sent_back, "it is sent back")
            await rig.advance(10)
            [back] = broker.sent_back
            assert (back.group, back.delay_level, back.origin_topic) == ("consumers", 0, "T")
            assert back.max_reconsume_times == 16
            assert broker.offsets["consumers", "T", 0] == 2
    assert consumed == [b"good", b"bad"]


async def test_reconsume_later_is_a_failure() -> None:  # C-55
    async with client_rig() as rig:
        rig.brokers[0].put("T", 0, b"x")

        def listener(_message: MessageExt) -> ConsumeConcurrentlyStatus:
            return ConsumeConcurrentlyStatus.RECONSUME_LATER

        async with listening(rig, listener):
            await rig.advance(1)
            await eventually(lambda: rig.brokers[0].sent_back, "it is sent back")


async def test_what_cannot_be_sent_back_goes_to_the_retry_topic_as_a_plain_message() -> None:
    # C-55
    async with client_rig() as rig:
        broker = rig.brokers[0]
        rig.nameserver.add_topic("%RETRY%consumers", rig.brokers, queues=1)
        broker.put("T", 0, b"x", properties="UNIQ_KEY\x01key-1\x02")
        broker.refuse[RequestCode.CONSUMER_SEND_MSG_BACK] = lambda r: r.reply(code=1)
        seen: list[MessageExt] = []

        async def listener(message: MessageExt) -> ConsumeConcurrentlyStatus | None:
            seen.append(message)
            return ConsumeConcurrentlyStatus.RECONSUME_LATER if len(seen) == 1 else None

        async with listening(rig, listener):
            await rig.advance(1)
            await eventually(lambda: len(seen) == 2, "it comes again from the retry topic")
        [copy] = broker.messages("%RETRY%consumers")
        assert copy.reconsume_times == 1
        assert copy.delay_level == 3
        assert copy.properties["RETRY_TOPIC"] == "T"
        assert copy.properties["ORIGIN_MESSAGE_ID"] == "key-1"
        assert seen[1].topic == "T"  # C-54: shown under its original topic
        assert seen[1].body == b"x"


async def test_an_error_of_our_own_ends_no_worker_and_leaves_no_message_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def broken(*_arguments: object) -> bool:
        raise RuntimeError("a bug")

    attempts: list[bytes] = []

    async def fail_at_first(message: MessageExt) -> None:
        attempts.append(message.body)
        if attempts.count(message.body) == 1:
            raise ValueError("not today")

    monkeypatch.setattr(SendBack, "send_back", broken)
    async with client_rig() as rig:
        rig.brokers[0].put_many("T", 0, [b"%d" % i for i in range(3)])
        with capture_logs() as logs:
            async with listening(rig, fail_at_first, consume_thread_max=1):
                await rig.advance(1)
                await eventually(lambda: len(attempts) == 3, "all were tried by the one worker")
                await rig.advance(5)
                await eventually(lambda: len(attempts) == 6, "all were tried again")
                await rig.advance(10)
                assert rig.brokers[0].offsets["consumers", "T", 0] == 3
        assert [entry["event"] for entry in logs].count("run.failed") == 3


async def test_what_cannot_be_given_back_at_all_comes_to_the_listener_again_in_5_s() -> None:
    # C-55
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put("T", 0, b"x")
        broker.refuse[RequestCode.CONSUMER_SEND_MSG_BACK] = lambda r: r.reply(code=1)
        broker.refuse[RequestCode.SEND_MESSAGE_V2] = lambda r: r.reply(code=13)
        tries: list[int] = []
        got: list[MessageExt] = []

        async def listener(message: MessageExt) -> None:
            tries.append(message.reconsume_times)
            got.append(message)
            if len(tries) == 1:
                raise ValueError("not yet")

        async with listening(rig, listener) as consumer:
            await rig.advance(1)
            await eventually(lambda: got and got[0].reconsume_times == 1, "nobody took it back")
            await rig.advance(4)
            assert tries == [0]
            assert consumer.offsets_in_memory("T").get(MessageQueue("T", "a", 0), 0) == 0
            await rig.advance(2)
            await eventually(lambda: tries == [0, 1], "tried again")


async def test_a_batch_listener_tells_how_far_it_came() -> None:  # C-55
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put_many("T", 0, [b"%d" % i for i in range(10)])
        sizes = []

        async def listener(messages: list[MessageExt], context: ConsumeConcurrentlyContext) -> None:
            sizes.append(len(messages))
            context.ack_index = 1
            context.delay_level_when_next_consume = 2
            assert context.message_queue == MessageQueue("T", "a", 0)

        consumer = rig.consumer(
            consume_from_where=ConsumeFromWhere.FIRST_OFFSET, consume_message_batch_max_size=4
        )
        consumer.subscribe("T")
        consumer.listen_batch(listener)
        async with consumer:
            await rig.advance(1)
            await eventually(lambda: len(broker.sent_back) == 4, "0-3, 4-7 and 8-9 each keep two")
    assert sizes == [4, 4, 2]
    assert {back.delay_level for back in broker.sent_back} == {2}


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
        async with listening(rig, got) as consumer:
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


async def test_async_for_is_done_with_a_message_when_it_asks_for_the_next() -> None:
    async with client_rig() as rig:
        broker = rig.brokers[0]
        rig.nameserver.add_topic("T", rig.brokers, queues=1)
        broker.put_many("T", 0, [b"0", b"1", b"2"])
        consumer = rig.consumer(consume_from_where=ConsumeFromWhere.FIRST_OFFSET, profile="4.9")
        consumer.subscribe("T")
        got = []
        async with consumer:
            async for message in consumer:
                got.append(message.body)
                if len(got) == 3:
                    break
        assert got == [b"0", b"1", b"2"]
        assert broker.offsets["consumers", "T", 0] == 2  # the last was not done


async def test_async_for_ends_when_the_consumer_stops() -> None:
    async with client_rig() as rig:
        consumer = rig.consumer()
        consumer.subscribe("T")
        await consumer.start()

        async def iterate() -> int:
            return len([message async for message in consumer])

        iterating = asyncio.ensure_future(iterate())
        await eventually(lambda: consumer.assignment, "started")
        await consumer.stop()
        assert await iterating == 0


async def test_a_plain_listener_runs_in_threads_an_async_one_on_the_loop() -> None:
    async with client_rig() as rig:
        rig.brokers[0].put_many("T", 0, [b"0", b"1"])
        names: set[str] = set()

        def plain(_message: MessageExt) -> None:
            names.add(threading.current_thread().name)

        async with listening(rig, plain):
            await rig.advance(1)
            await eventually(lambda: names, "called")
    assert all(name.startswith("consume-consumers") for name in names)


async def test_at_most_20_listeners_run_at_the_same_time() -> None:  # C-54
    async with client_rig() as rig:
        rig.brokers[0].put_many("T", 0, [b"%d" % i for i in range(60)])
        running, most, gate = 0, 0, asyncio.Event()

        async def listener(_message: MessageExt) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await gate.wait()
            running -= 1

        async with listening(rig, listener):
            await rig.advance(1)
            await eventually(lambda: running == 20, "twenty wait at the gate")
            gate.set()
            await eventually(lambda: running == 0, "all are through")
    assert most == 20


async def test_flow_control_stops_pulling_above_the_threshold() -> None:  # C-36
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put_many("T", 0, [b"x"] * 200)
        gate = asyncio.Event()

        async def listener(_message: MessageExt) -> None:
            await gate.wait()

        async with listening(rig, listener, pull_threshold_for_queue=40) as consumer:
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


async def test_a_message_stuck_for_15_minutes_is_sent_back() -> None:  # C-53
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put_many("T", 0, [b"stuck", b"fine"])
        gate = asyncio.Event()

        async def listener(message: MessageExt) -> None:
            if message.body == b"stuck":
                await gate.wait()

        async with listening(rig, listener) as consumer:
            await rig.advance(1)
            await eventually(lambda: consumer.offsets_in_memory("T"), "the other is consumed")
            await rig.advance(31 * 60)  # the clean-up comes every 15 min
            [back] = broker.sent_back
            assert back.delay_level == 3
            gate.set()
            broker.release_held()  # with nothing cached an empty answer moves the offset (C-42)
            await eventually(
                lambda: consumer.offsets_in_memory("T")[MessageQueue("T", "a", 0)] == 2, "moves on"
            )


@pytest.mark.parametrize(("profile", "times"), [("5.x", 1), ("4.9", 2)])
async def test_what_was_sent_back_already_is_not_sent_back_again_when_its_listener_fails_at_last(
    profile: str, times: int
) -> None:  # C-53, C-56, C-57
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put("T", 0, b"stuck")
        gate, ended = asyncio.Event(), asyncio.Event()

        async def listener(_message: MessageExt) -> None:
            await gate.wait()
            ended.set()
            raise ValueError("too late")

        async with listening(rig, listener, profile=profile):
            await rig.advance(31 * 60)  # the clean-up comes every 15 min
            assert len(broker.sent_back) == 1
            gate.set()
            await ended.wait()
            await eventually(lambda: len(broker.sent_back) == times, "the failure is settled")
            await rig.advance(1)
            assert len(broker.sent_back) == times


async def test_an_answer_for_a_queue_that_was_given_up_is_not_consumed() -> None:  # C-44
    async with client_rig() as rig:
        broker = rig.brokers[0]
        rig.nameserver.add_topic("T", rig.brokers, queues=1)
        got = Collected()
        async with listening(rig, got) as consumer:
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


async def test_a_broker_error_on_pull_is_tried_again_after_a_second() -> None:  # C-40
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put("T", 0, b"x")
        broker.refuse[RequestCode.PULL_MESSAGE] = lambda r: r.reply(code=26, remark="no group")
        got = Collected()
        async with listening(rig, got):
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
        async with listening(rig, got):
            await rig.advance(1)
            await eventually(lambda: len(broker.held) == 4, "pulled")
            await broker.stop()
            broker.held.clear()
            await broker.start(rig.network)
            await rig.advance(1.5)
            await eventually(lambda: len(broker.held) == 4, "pulled again")


async def test_a_pull_that_is_never_answered_ends_after_30_s_on_the_clock() -> None:  # C-37
    async with client_rig() as rig:
        broker = rig.brokers[0]
        got = Collected()
        async with listening(rig, got):
            await rig.advance(1)
            await eventually(lambda: broker.count(RequestCode.PULL_MESSAGE) == 4, "pulled")
            await rig.advance(28)
            assert broker.count(RequestCode.PULL_MESSAGE) == 4
            await rig.advance(4)
            assert broker.count(RequestCode.PULL_MESSAGE) == 8


async def test_offsets_ride_along_on_pulls() -> None:  # C-37, B-35
    async with client_rig() as rig:
        broker = rig.brokers[0]
        rig.nameserver.add_topic("T", rig.brokers, queues=1)
        broker.put("T", 0, b"x")
        got = Collected()
        async with listening(rig, got):
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


async def test_unsubscribing_gives_the_queues_up_at_the_next_rebalance() -> None:  # C-15, C-26
    async with client_rig() as rig:
        rig.nameserver.add_topic("U", rig.brokers, queues=2)
        consumer = listening(rig, Collected())
        consumer.subscribe("U")
        async with consumer:
            await eventually(lambda: len(consumer.assignment) == 6, "both topics")
            consumer.unsubscribe("T")
            assert len(consumer.assignment) == 6
            await rig.advance(21)
            assert {queue.topic for queue in consumer.assignment} == {"U"}


async def test_subscribing_while_running_tells_the_brokers_at_once() -> None:  # C-15
    async with client_rig() as rig:
        rig.nameserver.add_topic("U", rig.brokers, queues=2)
        async with listening(rig, Collected()) as consumer:
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
        async with listening(rig, got) as consumer:
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
        async with listening(rig, got) as consumer:
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


async def test_operators_see_what_a_consumer_does() -> None:  # wire 3.8: 307
    async with client_rig() as rig, listening(rig, Collected()) as consumer:
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


async def test_stopping_writes_offsets_down_then_unregisters() -> None:  # C-71
    async with client_rig("a", "b") as rig:
        rig.brokers[0].put_many("T", 0, [b"1", b"2"])
        got = Collected()
        consumer = listening(rig, got)
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

        async with listening(rig, listener):
            await rig.advance(1)
            await began.wait()
        assert cancelled.is_set()
        assert rig.brokers[0].offsets.get(("consumers", "T", 0), 0) == 0


async def test_topic_limits_are_shared_out_over_the_owned_queues() -> None:  # C-27
    async with (
        client_rig() as rig,
        listening(
            rig,
            Collected(),
            pull_threshold_for_topic=100,
            pull_threshold_size_for_topic_mib=2,
        ) as consumer,
    ):
        await eventually(lambda: len(consumer.assignment) == 4, "assigned")
        limits = consumer._made.queues.limits
        assert limits.threshold_for_queue == 25
        assert limits.threshold_size_for_queue_mib == 1


async def test_the_user_hears_of_a_new_assignment_and_the_brokers_too() -> None:  # C-27
    async with client_rig() as rig:
        heard: list[tuple[str, int, int]] = []
        consumer = listening(
            rig,
            Collected(),
            on_assignment_changed=lambda topic, every, mine: heard.append(
                (topic, len(every), len(mine))
            ),
        )
        async with consumer:
            await eventually(lambda: heard == [("T", 4, 4)], "told")
            assert rig.brokers[0].count(RequestCode.HEART_BEAT) == 2


async def test_the_same_group_twice_under_one_client_id_is_refused() -> None:  # P-2, C-8
    async with client_rig() as rig, listening(rig, Collected(), instance_name="n"):
        with pytest.raises(DuplicateGroupError):
            await listening(rig, Collected(), instance_name="n").start()


async def test_two_members_with_one_client_id_are_warned_of() -> None:  # B-28
    async with client_rig() as rig:
        with capture_logs() as logs:
            consumer = listening(rig, Collected(), instance_name="n")
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
        with pytest.raises(ClientError, match="a str cannot listen"):
            consumer.listen(cast(Any, "on_message"))
        consumer.listen(Collected())
        with pytest.raises(ClientError, match="already"):
            consumer.listen(Collected())


@pytest.mark.parametrize("encoding", ["msgpack", "json", "rocketmq"])
async def test_every_encoding_consumes(encoding: str) -> None:
    async with client_rig() as rig:
        rig.brokers[0].put("T", 0, b"x")
        got = Collected()
        async with listening(rig, got, encoding=encoding):
            await rig.advance(1)
            await eventually(lambda: got.bodies == [b"x"], "consumed")
            await rig.advance(10)
        assert rig.brokers[0].offsets["consumers", "T", 0] == 1


@pytest.mark.parametrize(("profile", "beats"), [("5.x", True), ("4.9", False)])
async def test_a_restarted_broker_is_told_at_once_who_we_are(profile: str, beats: bool) -> None:
    # C-21
    async with client_rig() as rig:
        broker = rig.brokers[0]
        async with listening(rig, Collected(), profile=profile) as consumer:
            await rig.advance(2)
            await eventually(lambda: len(broker.held) == 4, "pulled")
            await broker.stop()
            broker.held.clear()
            broker.clients.clear()
            await broker.start(rig.network)
            await rig.advance(1.5)
            await eventually(lambda: len(broker.held) == 4, "pulled again")
            assert (consumer.client_id in broker.clients) is beats


async def test_in_4_9_a_rebalance_does_not_disturb_the_correction_of_an_offset() -> None:  # C-43
    async with client_rig() as rig:
        broker = rig.brokers[0]
        rig.nameserver.add_topic("T", rig.brokers, queues=1)
        broker.min_offsets["T", 0] = 5
        broker.put_many("T", 0, [b"5"])
        got = Collected()
        async with listening(rig, got, profile="4.9") as consumer:
            await eventually(lambda: broker.count(RequestCode.PULL_MESSAGE) == 1, "pulled")
            for _ in range(8):
                broker.notify("consumers")
                await rig.advance(1)
            assert consumer.assignment == []
            assert broker.count(RequestCode.PULL_MESSAGE) == 1
            await rig.advance(3)  # corrected after 10 s, and taken at the next rebalance
            broker.notify("consumers")
            await eventually(lambda: got.bodies == [b"5"], "taken anew at once")
