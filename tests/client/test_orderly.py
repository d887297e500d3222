"""Orderly consumption against scripted brokers, in memory, on a manual clock."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pocketmq.client import (
    ConsumeOrderlyContext,
    ConsumeOrderlyStatus,
    MessageExt,
    MessageModel,
)
from pocketmq.client.consumer.consuming.listener import ListenerCall
from pocketmq.client.consumer.consuming.orderly import OrderlyConsumeService
from pocketmq.client.consumer.progress.offset_table import OffsetTable
from pocketmq.client.consumer.settings import PushSettings
from pocketmq.client.listener_threads import PooledThreads
from pocketmq.protocol.codes import RequestCode
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import PROFILE_5_X, ProfileName
from support.claims import buffer
from support.client_rig import START_MS, client_rig
from support.eventually import eventually
from support.messages import pulled_message
from support.orderly import QUEUE, orderly

SUSPEND = ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT


async def test_the_start_offset_is_looked_up_again_under_the_lock() -> None:  # C-36
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put_many("T", 0, [b"0", b"1", b"2"])
        got: list[bytes] = []

        async def listener(message: MessageExt) -> None:
            got.append(message.body)

        async with orderly(rig, listener) as consumer:
            await eventually(lambda: consumer.assignment, "assigned")
            broker.offsets["consumers", "T", 0] = 2  # its last owner's late commit
            await rig.advance(1)
            await eventually(lambda: got == [b"2"], "from there on")


async def test_a_failed_message_comes_again_after_a_second_before_any_later_one() -> None:
    # C-59, C-61
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put_many("T", 0, [b"0", b"1"])
        tries: list[tuple[bytes, int, int]] = []

        async def listener(message: MessageExt) -> None:
            tries.append((message.body, message.reconsume_times, rig.clock.time_ms()))
            if len(tries) < 3:
                raise ValueError("not yet")

        async with orderly(rig, listener) as consumer:
            await rig.advance(0.6)
            await eventually(lambda: len(tries) == 1, "tried once")
            await rig.advance(0.9)
            assert len(tries) == 1
            await rig.advance(0.2)
            await eventually(lambda: len(tries) == 2, "again after a second")
            assert consumer.offsets_in_memory("T").get(QUEUE, 0) == 0
            await rig.advance(1.1)
            await eventually(lambda: len(tries) == 4, "done, and the next one")
    assert [(body, times) for body, times, _ in tries] == [
        (b"0", 0),
        (b"0", 1),
        (b"0", 2),
        (b"1", 0),
    ]


@pytest.mark.parametrize(("profile", "times"), [("4.9", 2), ("5.3", 3)])
async def test_over_the_limit_the_broker_gets_it_and_the_queue_goes_on(
    profile: ProfileName, times: int
) -> None:  # C-60, B-86
    async with client_rig() as rig:
        broker = rig.brokers[0]
        rig.nameserver.add_topic("%RETRY%consumers", rig.brokers, queues=1)
        broker.put_many("T", 0, [b"bad", b"good"])
        got: list[bytes] = []

        async def listener(message: MessageExt) -> ConsumeOrderlyStatus | None:
            if message.get_property("RETRY_TOPIC"):
                return None  # the copy: a real broker would have made a dead letter of it
            got.append(message.body)
            return SUSPEND if message.body == b"bad" else None

        async with orderly(rig, listener, max_reconsume_times=2, profile=profile) as consumer:
            await rig.advance(5)
            await eventually(lambda: consumer.offsets_in_memory("T")[QUEUE] == 2, "it goes on")
    assert got == [b"bad", b"bad", b"bad", b"good"]
    [copy] = broker.messages("%RETRY%consumers")
    assert copy.reconsume_times == times
    assert copy.wait_store_ok, "it is all there is of the message"


async def test_by_default_a_bad_message_blocks_its_queue_for_ever() -> None:  # C-60
    async with client_rig() as rig:
        rig.brokers[0].put_many("T", 0, [b"bad", b"good"])
        got: list[bytes] = []

        async def listener(message: MessageExt) -> ConsumeOrderlyStatus:
            got.append(message.body)
            return SUSPEND

        async with orderly(rig, listener):
            await rig.advance(100)
    assert set(got) == {b"bad"}
    assert len(got) > 90


async def test_one_queue_at_a_time_runs_once_but_queues_run_side_by_side() -> None:  # C-58
    async with client_rig() as rig:
        for queue_id in range(4):
            rig.brokers[0].put_many("T", queue_id, [b"0", b"1", b"2"])
        running: set[int] = set()
        most = 0
        gate = asyncio.Event()

        async def listener(message: MessageExt) -> None:
            nonlocal most
            assert message.queue_id not in running
            running.add(message.queue_id)
            most = max(most, len(running))
            await gate.wait()
            running.discard(message.queue_id)

        async with orderly(rig, listener, queues=4) as consumer:
            await rig.advance(1)
            await eventually(lambda: len(running) == 4, "four queues wait at the gate")
            gate.set()
            await eventually(
                lambda: list(consumer.offsets_in_memory("T").values()) == [3] * 4, "all done"
            )
    assert most == 4


async def test_manual_commit_moves_the_offset_only_on_commit() -> None:  # C-59
    async with client_rig() as rig:
        rig.brokers[0].put_many("T", 0, [b"0", b"1", b"2"])
        got: list[bytes] = []

        async def listener(
            messages: list[MessageExt], context: ConsumeOrderlyContext
        ) -> ConsumeOrderlyStatus:
            context.auto_commit = False
            got.extend(message.body for message in messages)
            if len(got) == 3:
                return ConsumeOrderlyStatus.COMMIT
            return ConsumeOrderlyStatus.SUCCESS

        async with orderly(rig, listener, batch=1) as consumer:
            await rig.advance(1)
            await eventually(lambda: len(got) == 3, "all seen")
            await eventually(lambda: consumer.offsets_in_memory("T").get(QUEUE) == 3, "committed")


async def test_rollback_hands_out_again_what_was_not_committed() -> None:  # C-59
    async with client_rig() as rig:
        rig.brokers[0].put_many("T", 0, [b"0", b"1"])
        got: list[bytes] = []

        async def listener(
            messages: list[MessageExt], context: ConsumeOrderlyContext
        ) -> ConsumeOrderlyStatus:
            context.auto_commit = False
            got.extend(message.body for message in messages)
            if len(got) == 2:
                return ConsumeOrderlyStatus.ROLLBACK
            if len(got) == 4:
                return ConsumeOrderlyStatus.COMMIT
            return ConsumeOrderlyStatus.SUCCESS

        async with orderly(rig, listener, batch=1) as consumer:
            await rig.advance(0.6)
            await eventually(lambda: len(got) == 2, "rolled back")
            assert consumer.offsets_in_memory("T").get(QUEUE, 0) == 0
            await rig.advance(1.1)
            await eventually(lambda: consumer.offsets_in_memory("T").get(QUEUE) == 2, "committed")
    assert got == [b"0", b"1", b"0", b"1"]


@pytest.mark.parametrize("answer", [ConsumeOrderlyStatus.COMMIT, ConsumeOrderlyStatus.ROLLBACK])
async def test_with_auto_commit_commit_and_rollback_count_as_success(
    answer: ConsumeOrderlyStatus,
) -> None:  # C-59
    async with client_rig() as rig:
        rig.brokers[0].put("T", 0, b"0")

        async def listener(_message: MessageExt) -> ConsumeOrderlyStatus:
            return answer

        async with orderly(rig, listener) as consumer:
            await rig.advance(1)
            await eventually(lambda: consumer.offsets_in_memory("T").get(QUEUE) == 1, "committed")


@pytest.mark.parametrize(("asked", "waits"), [(5, 0.01), (200, 0.2), (60_000, 30.0)])
async def test_the_pause_is_clamped_to_10_ms_and_30_s(asked: int, waits: float) -> None:  # C-61
    async with client_rig() as rig:
        rig.brokers[0].put("T", 0, b"0")
        at: list[float] = []

        async def listener(
            _messages: list[MessageExt], context: ConsumeOrderlyContext
        ) -> ConsumeOrderlyStatus:
            at.append(rig.clock.monotonic())
            context.suspend_current_queue_time_ms = asked
            return SUSPEND

        async with orderly(rig, listener, batch=1):
            await rig.advance(0.6)
            await eventually(lambda: len(at) == 1, "once")
            await rig.advance(waits + 0.05)
            await eventually(lambda: len(at) >= 2, "again")
    assert at[1] - at[0] == pytest.approx(waits, abs=0.12)


async def test_progress_in_order_is_taken_also_when_it_is_smaller() -> None:  # C-62
    clock, table, held = ManualClock(START_MS), OffsetTable(), buffer()
    table.update(QUEUE, 9, increase_only=False)

    async def listener(_messages: list[MessageExt], _context: ConsumeOrderlyContext) -> None:
        pass

    service = OrderlyConsumeService(
        "consumers",
        clock,
        PROFILE_5_X.client,
        PushSettings(consume_thread_max=1),
        ListenerCall(listener, one_by_one=False, threads=PooledThreads("consumers", 1)),
        offsets=table,
        gives_to_broker=None,  # type: ignore[arg-type]  # nothing fails here
        locks=None,
    )
    messages = [pulled_message(offset=offset) for offset in (3, 4)]
    service.submit(messages, held, dispatch=held.put(messages))
    await eventually(lambda: held.count == 0, "consumed")
    assert table.get(QUEUE) == 5
    await service.stop()


async def test_broadcasting_in_order_needs_no_lock(tmp_path: Any) -> None:  # C-58
    async with client_rig() as rig:
        rig.brokers[0].put_many("T", 0, [b"0", b"1"])
        got: list[bytes] = []

        async def listener(message: MessageExt) -> None:
            got.append(message.body)

        async with orderly(
            rig,
            listener,
            message_model=MessageModel.BROADCASTING,
            local_offset_store_dir=tmp_path,
        ):
            await rig.advance(1)
            await eventually(lambda: got == [b"0", b"1"], "in order")
        assert rig.brokers[0].count(RequestCode.LOCK_BATCH_MQ) == 0


@pytest.mark.parametrize(
    ("profile", "busy_s", "moved_after_s"),
    [("5.5", 0, 0), ("5.5", 4, 4), ("5.5", 40, 10), ("5.3", 0, 10), ("5.3", 4, 10), ("4.9", 0, 10)],
)
async def test_a_reset_waits_for_an_ordered_listener_from_5_5_on(
    profile: ProfileName, busy_s: int, moved_after_s: int
) -> None:  # C-70
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put_many("T", 0, [b"0", b"1"])
        gates = {b"0": asyncio.Event(), b"1": asyncio.Event()}
        got: list[bytes] = []

        async def listener(message: MessageExt) -> None:
            got.append(message.body)
            await gates[message.body].wait()

        gates[b"0"].set()
        async with orderly(rig, listener, profile=profile) as consumer:
            await rig.advance(1)
            await eventually(lambda: got == [b"0", b"1"], "the second is at work")
            if not busy_s:
                gates[b"1"].set()
                await rig.advance(1)
            consumer.reset_offsets("T", {QUEUE: 0})
            for second in range(1, moved_after_s + 1):
                await rig.advance(0.9)
                assert broker.offsets.get(("consumers", "T", 0)) != 0, f"moved after {second} s"
                if second == busy_s:
                    gates[b"1"].set()
                await rig.advance(0.1)
            await eventually(lambda: broker.offsets.get(("consumers", "T", 0)) == 0, "moved")
            gates[b"1"].set()
            await rig.advance(3)
            await eventually(lambda: got[2:] == [b"0", b"1"], "both come again")


async def test_a_queue_that_was_taken_anew_waits_for_its_old_listener() -> None:
    # C-58, C-70. A reset of 4.9 drops a queue and takes it again while the listener is at work
    # (found by seed 200 of the simulation).
    clock, gate = ManualClock(START_MS), asyncio.Event()
    running: list[str] = []
    got: list[str] = []

    async def listener(messages: list[MessageExt], _context: ConsumeOrderlyContext) -> None:
        assert running == []
        running.append(messages[0].topic)
        got.append(bytes(messages[0].body).decode())
        await gate.wait()
        running.clear()

    service = OrderlyConsumeService(
        "consumers",
        clock,
        PROFILE_5_X.client,
        PushSettings(consume_thread_max=4),
        ListenerCall(listener, one_by_one=False, threads=PooledThreads("consumers", 1)),
        offsets=OffsetTable(),
        gives_to_broker=None,  # type: ignore[arg-type]  # nothing fails here
        locks=None,
    )
    for number in range(2):
        held = buffer()
        messages = [pulled_message(offset=number)]
        held.put(messages)
        service.submit(messages, held, dispatch=True)
        await eventually(lambda: running != [], "the first is at work")
    assert len(got) == 1
    gate.set()
    await eventually(lambda: len(got) == 2, "then the other")
    await service.stop()


async def test_messages_that_come_while_the_only_worker_ends_are_consumed() -> None:
    # C-58. A worker that had ended, but was counted until the loop's next turn, kept the queue of
    # messages that came just then waiting for ever (found by lab 5).
    got: list[int] = []

    async def listener(messages: list[MessageExt], _context: ConsumeOrderlyContext) -> None:
        got.append(messages[0].queue_offset)

    for turns in range(12):
        got.clear()
        held = buffer()
        service = OrderlyConsumeService(
            "consumers",
            ManualClock(START_MS),
            PROFILE_5_X.client,
            PushSettings(consume_thread_max=1),
            ListenerCall(listener, one_by_one=False, threads=PooledThreads("consumers", 1)),
            offsets=OffsetTable(),
            gives_to_broker=None,  # type: ignore[arg-type]  # nothing fails here
            locks=None,
        )
        for number in range(2):
            messages = [pulled_message(offset=number)]
            service.submit(messages, held, dispatch=held.put(messages))
            for _ in range(turns):
                await asyncio.sleep(0)  # noqa: TID251 - one turn
        await eventually(lambda: got == [0, 1], f"both consumed, {turns} turns apart")
        await service.stop()
