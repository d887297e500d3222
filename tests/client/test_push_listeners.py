"""How a push consumer calls its listener, and what becomes of messages that it fails.

Against scripted brokers, in memory, on a manual clock.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from pocketmq.client import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    MessageExt,
    MessageQueue,
)
from pocketmq.client.consumer.consuming.batch_records import BatchRecords
from pocketmq.client.consumer.consuming.message_iterator import MESSAGES_PER_TURN
from pocketmq.client.consumer.consuming.send_back import SendBack
from pocketmq.protocol.codes import RequestCode
from support.client_rig import client_rig
from support.consuming import consuming
from support.eventually import PATIENCE_S, eventually
from support.own_logs import own_logs

# -- calling ------------------------------------------------------------------------------------


async def test_a_plain_listener_runs_in_threads_an_async_one_on_the_loop() -> None:
    async with client_rig() as rig:
        rig.brokers[0].put_many("T", 0, [b"0", b"1"])
        names: set[str] = set()
        on_loop: set[str] = set()

        def plain(_message: MessageExt) -> None:
            names.add(threading.current_thread().name)

        async def concurrent(_message: MessageExt) -> None:
            on_loop.add(threading.current_thread().name)

        async with consuming(rig, plain), consuming(rig, concurrent, group="others"):
            await rig.advance(1)
            await eventually(lambda: names and on_loop, "both are called")
    assert all(name.startswith("consume-consumers") for name in names)
    assert on_loop == {threading.current_thread().name}


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

        async with consuming(rig, listener):
            await rig.advance(1)
            await eventually(lambda: running == 20, "twenty wait at the gate")
            gate.set()
            await eventually(lambda: running == 0, "all are through")
    assert most == 20


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


async def test_who_takes_a_number_of_messages_is_done_with_all_of_them() -> None:
    async with client_rig() as rig:
        broker = rig.brokers[0]
        rig.nameserver.add_topic("T", rig.brokers, queues=1)
        broker.put_many("T", 0, [b"0", b"1", b"2", b"3"])
        consumer = rig.consumer(consume_from_where=ConsumeFromWhere.FIRST_OFFSET, profile="4.9")
        consumer.subscribe("T")
        async with consumer:
            assert [message.body async for message in consumer.take(2)] == [b"0", b"1"]
            last = aiter(consumer)
            assert (await anext(last)).body == b"2"
            await last.done()  # and the fourth waits in vain
        assert broker.offsets["consumers", "T", 0] == 3


async def test_async_for_hands_out_what_is_there_without_a_turn_for_each_message() -> None:
    """The body never waits; other tasks get a turn after each 256 messages all the same."""
    count, turns, iterating = 3 * MESSAGES_PER_TURN, 0, False

    def count_turn() -> None:
        nonlocal turns
        if iterating:
            turns += 1
            asyncio.get_running_loop().call_soon(count_turn)

    async with client_rig() as rig:
        broker = rig.brokers[0]
        rig.nameserver.add_topic("T", rig.brokers, queues=1)
        broker.put_many("T", 0, [b"%d" % number for number in range(count)])
        consumer = rig.consumer(consume_from_where=ConsumeFromWhere.FIRST_OFFSET, profile="4.9")
        consumer.subscribe("T")
        async with consumer:

            def cached() -> int:
                table = consumer.running_info().mq_table.values()
                return sum(each.cached_msg_count for each in table)

            await eventually(lambda: cached() == count, "all are pulled")
            iterating = True
            count_turn()
            got = [message.body async for message in consumer.take(count)]
            iterating = False
        assert got == [b"%d" % number for number in range(count)]
        assert broker.offsets["consumers", "T", 0] == count
    assert 3 <= turns <= 30


async def test_who_stops_waiting_for_a_message_gets_as_many_as_were_asked_for() -> None:
    async with client_rig() as rig:
        broker = rig.brokers[0]
        rig.nameserver.add_topic("T", rig.brokers, queues=1)
        consumer = rig.consumer(consume_from_where=ConsumeFromWhere.FIRST_OFFSET, profile="4.9")
        consumer.subscribe("T")
        async with consumer:
            messages = consumer.take(2)
            waiting = asyncio.ensure_future(anext(messages))
            await eventually(lambda: consumer.assignment, "started")
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            broker.put_many("T", 0, [b"0", b"1", b"2"])
            assert [message.body async for message in messages] == [b"0", b"1"]


async def test_iterators_of_one_consumer_do_not_wait_for_each_others_bodies() -> None:
    async with client_rig() as rig:
        broker = rig.brokers[0]
        rig.nameserver.add_topic("T", rig.brokers, queues=1)
        consumer = rig.consumer(consume_from_where=ConsumeFromWhere.FIRST_OFFSET, profile="4.9")
        consumer.subscribe("T")
        async with consumer:
            first, second = aiter(consumer), aiter(consumer)
            waiting = [asyncio.ensure_future(anext(each)) for each in (first, second)]
            await eventually(lambda: consumer.assignment, "started")
            broker.put_many("T", 0, [b"0", b"1"])
            async with asyncio.timeout(PATIENCE_S):
                got = await asyncio.gather(*waiting)
        assert {message.body for message in got} == {b"0", b"1"}


async def test_what_one_iterator_leaves_the_next_one_gets() -> None:
    async with client_rig() as rig:
        broker = rig.brokers[0]
        rig.nameserver.add_topic("T", rig.brokers, queues=1)
        broker.put_many("T", 0, [b"%d" % number for number in range(5)])
        consumer = rig.consumer(consume_from_where=ConsumeFromWhere.FIRST_OFFSET, profile="4.9")
        consumer.subscribe("T")
        async with consumer:
            assert [message.body async for message in consumer.take(2)] == [b"0", b"1"]
            assert [message.body async for message in consumer.take(3)] == [b"2", b"3", b"4"]
        assert broker.offsets["consumers", "T", 0] == 5


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


# -- failing ------------------------------------------------------------------------------------


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

        async with consuming(rig, listener):
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

        async with consuming(rig, listener):
            await rig.advance(1)
            await eventually(lambda: rig.brokers[0].sent_back, "it is sent back")


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

        async with consuming(rig, listener):
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
        with own_logs() as logs:
            async with consuming(rig, fail_at_first, consume_thread_max=1):
                await rig.advance(1)
                await eventually(lambda: len(attempts) == 3, "all were tried by the one worker")
                await rig.advance(5)
                await eventually(lambda: len(attempts) == 6, "all were tried again")
                await rig.advance(10)
                assert rig.brokers[0].offsets["consumers", "T", 0] == 3
        assert [entry["event"] for entry in logs].count("run.failed") == 3


@pytest.mark.parametrize("batches", [False, True], ids=["one", "batch"])
@pytest.mark.parametrize("step", ["prepare", "done"])
async def test_a_message_that_could_not_be_prepared_or_noted_as_done_comes_again_in_5_s(
    monkeypatch: pytest.MonkeyPatch, step: str, batches: bool
) -> None:
    failed: list[str] = []
    got: list[bytes] = []

    async def one(message: MessageExt) -> None:
        got.append(message.body)

    async def many(messages: list[MessageExt], _context: ConsumeConcurrentlyContext) -> None:
        got.extend(message.body for message in messages)

    for name in (step, f"{step}_one"):
        works = getattr(BatchRecords, name)

        def fails_once(*arguments: object, works: Any = works) -> Any:
            if not failed:
                failed.append(step)
                raise RuntimeError("a bug")
            return works(*arguments)

        monkeypatch.setattr(BatchRecords, name, fails_once)
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put_many("T", 0, [b"0", b"1", b"2"])
        consumer = rig.consumer(consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
        consumer.subscribe("T")
        consumer.listen_batch(many) if batches else consumer.listen(one)
        with own_logs() as logs:
            async with consumer:
                await rig.advance(1)
                at_first = [b"0", b"1", b"2"] if step == "done" else [b"1", b"2"]
                await eventually(lambda: got == at_first, "the others are not held up")
                await rig.advance(5)
                await eventually(lambda: got == [*at_first, b"0"], "it comes again")
                await rig.advance(10)
                assert broker.offsets["consumers", "T", 0] == 3
    assert [entry["event"] for entry in logs].count("run.failed") == 1


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

        async with consuming(rig, listener) as consumer:
            await rig.advance(1)
            await eventually(lambda: got and got[0].reconsume_times == 1, "nobody took it back")
            await rig.advance(4)
            assert tries == [0]
            assert consumer.offsets_in_memory("T").get(MessageQueue("T", "a", 0), 0) == 0
            await rig.advance(2)
            await eventually(lambda: tries == [0, 1], "tried again")


# -- too slow -----------------------------------------------------------------------------------


async def test_a_message_stuck_for_15_minutes_is_sent_back() -> None:  # C-53
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put_many("T", 0, [b"stuck", b"fine"])
        gate = asyncio.Event()

        async def listener(message: MessageExt) -> None:
            if message.body == b"stuck":
                await gate.wait()

        async with consuming(rig, listener) as consumer:
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

        async with consuming(rig, listener, profile=profile):
            await rig.advance(31 * 60)  # the clean-up comes every 15 min
            assert len(broker.sent_back) == 1
            gate.set()
            await ended.wait()
            await eventually(lambda: len(broker.sent_back) == times, "the failure is settled")
            await rig.advance(1)
            assert len(broker.sent_back) == times
