"""Orderly consumption against scripted brokers, in memory, on a manual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from pocketmq.client import (
    ConsumeFromWhere,
    ConsumeOrderlyContext,
    ConsumeOrderlyStatus,
    MessageExt,
    MessageModel,
    MessageQueue,
    PushConsumer,
)
from pocketmq.client.consumer.listener import ListenerCall, PooledThreads
from pocketmq.client.consumer.offset_table import OffsetTable
from pocketmq.client.consumer.orderly import OrderlyConsumeService
from pocketmq.client.consumer.process_queue import ProcessQueue
from pocketmq.client.consumer.queue_locks import QueueLocks
from pocketmq.client.consumer.settings import PushSettings
from pocketmq.client.rebalance.claims import Claims
from pocketmq.protocol.codes import RequestCode
from pocketmq.runtime.manual_clock import ManualClock
from pocketmq.runtime.profile import PROFILE_5_X
from support.claims import buffer
from support.client_rig import START_MS, ClientRig, client_rig
from support.eventually import eventually
from support.messages import pulled_message

QUEUE = MessageQueue("T", "a", 0)
SUSPEND = ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT


def orderly(rig: ClientRig, listener: Any, *, batch: int = 0, **options: Any) -> PushConsumer:
    """A consumer of T in order; `batch` hands lists and a context to the listener."""
    rig.nameserver.add_topic("T", rig.brokers, queues=options.pop("queues", 1))
    if batch:
        options["consume_message_batch_max_size"] = batch
    consumer = rig.consumer(consume_from_where=ConsumeFromWhere.FIRST_OFFSET, **options)
    consumer.subscribe("T")
    if batch:
        consumer.listen_batch(listener, orderly=True)
    else:
        consumer.listen(listener, orderly=True)
    return consumer


async def test_queues_are_locked_before_they_are_pulled_and_unlocked_at_the_end() -> None:
    # C-25.3, C-71
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put_many("T", 0, [b"0", b"1", b"2"])
        got: list[bytes] = []

        async def listener(message: MessageExt) -> None:
            got.append(message.body)

        async with orderly(rig, listener) as consumer:
            await rig.advance(1)
            await eventually(lambda: got == [b"0", b"1", b"2"], "in order")
            assert broker.locks[QUEUE] == consumer.client_id
            codes = [request.code for request in broker.seen]
            assert codes.index(RequestCode.LOCK_BATCH_MQ) < codes.index(RequestCode.PULL_MESSAGE)
        assert broker.locks == {}
        assert broker.offsets["consumers", "T", 0] == 3


async def test_the_groups_retry_queue_is_locked_as_any_other() -> None:  # C-63
    async with client_rig() as rig:
        broker = rig.brokers[0]
        rig.nameserver.add_topic("%RETRY%consumers", rig.brokers, queues=1)
        broker.put("%RETRY%consumers", 0, b"again")
        got: list[bytes] = []

        async def listener(message: MessageExt) -> None:
            got.append(message.body)

        async with orderly(rig, listener) as consumer:
            await rig.advance(1)
            await eventually(lambda: got == [b"again"], "consumed")
            assert broker.locks[MessageQueue("%RETRY%consumers", "a", 0)] == consumer.client_id


async def test_a_queue_locked_by_another_is_not_consumed_and_asked_for_again() -> None:
    # C-25.3, C-21
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put("T", 0, b"x")
        broker.locks[QUEUE] = "another"
        got: list[bytes] = []

        async def listener(message: MessageExt) -> None:
            got.append(message.body)

        async with orderly(rig, listener) as consumer:
            await rig.advance(5)
            assert consumer.assignment == []
            assert broker.count(RequestCode.PULL_MESSAGE) == 0
            del broker.locks[QUEUE]
            await rig.advance(2)  # 5.x looks again 500 ms after a refusal, 1 s apart
            await eventually(lambda: got == [b"x"], "consumed once the lock is free")


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


async def test_over_the_limit_the_broker_gets_it_and_the_queue_goes_on() -> None:  # C-60, B-86
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

        async with orderly(rig, listener, max_reconsume_times=2) as consumer:
            await rig.advance(5)
            await eventually(lambda: consumer.offsets_in_memory("T")[QUEUE] == 2, "it goes on")
    assert got == [b"bad", b"bad", b"bad", b"good"]
    [copy] = broker.messages("%RETRY%consumers")
    assert copy.reconsume_times == 2  # equal to the maximum: 'greater than or equal'
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


async def test_locks_are_renewed_every_20_s_and_a_lost_one_stops_the_queue() -> None:
    # C-52, C-58, T-12
    async with client_rig() as rig:
        broker = rig.brokers[0]
        got: list[bytes] = []

        async def listener(message: MessageExt) -> None:
            got.append(message.body)

        async with orderly(rig, listener) as consumer:
            await rig.advance(2)
            before = broker.count(RequestCode.LOCK_BATCH_MQ)
            await rig.advance(40)
            assert broker.count(RequestCode.LOCK_BATCH_MQ) == before + 2
            broker.locks[QUEUE] = "another"
            await rig.advance(21)
            broker.put("T", 0, b"x")
            await rig.advance(2)
            assert got == []
            broker.locks[QUEUE] = consumer.client_id
            await rig.advance(21)
            await eventually(lambda: got == [b"x"], "asked for again, and granted")


async def test_a_lock_that_was_not_renewed_for_30_s_is_not_believed_in() -> None:  # C-52
    async with client_rig() as rig:
        broker = rig.brokers[0]
        got: list[bytes] = []

        async def listener(message: MessageExt) -> None:
            got.append(message.body)

        async with orderly(rig, listener):
            await rig.advance(2)
            await eventually(lambda: broker.held, "pulled")
            broker.refuse[RequestCode.LOCK_BATCH_MQ] = lambda request: request.reply(code=1)
            await rig.advance(26)
            broker.release_held()
            await eventually(lambda: broker.held, "pulled again")
            broker.put("T", 0, b"in time")
            await eventually(lambda: got == [b"in time"], "still believed in")
            await rig.advance(4)
            broker.put("T", 0, b"late")
            await rig.advance(10)
            assert got == [b"in time"]
            del broker.refuse[RequestCode.LOCK_BATCH_MQ]
            await rig.advance(5)
            await eventually(lambda: got == [b"in time", b"late"], "after a new lock")


@pytest.mark.parametrize(("profile", "forced_after_s"), [("5.x", 24), ("4.9", None)])
async def test_a_queue_whose_listener_runs_is_given_up_later(
    profile: str, forced_after_s: float | None
) -> None:  # C-30
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put("T", 0, b"x")
        gate, began = asyncio.Event(), asyncio.Event()

        async def listener(_message: MessageExt) -> None:
            began.set()
            await gate.wait()

        async with orderly(rig, listener, profile=profile) as consumer:
            await rig.advance(2)
            await began.wait()
            broker.extra_members.append("0.0.0.0@first")
            broker.notify("consumers")
            await rig.advance(3)
            assert consumer.assignment == []  # dropped ...
            assert broker.locks[QUEUE] == consumer.client_id  # ... but not let go
            broker.refuse[RequestCode.LOCK_BATCH_MQ] = lambda request: request.reply(code=1)
            await rig.advance(forced_after_s or 60)
            assert (QUEUE in broker.locks) is (forced_after_s is None)
            gate.set()
            await rig.advance(25)
            assert QUEUE not in broker.locks


async def test_what_is_done_after_the_queue_was_dropped_is_not_committed() -> None:  # C-62
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put_many("T", 0, [b"0", b"1"])
        gate, got = asyncio.Event(), list[bytes]()

        async def listener(message: MessageExt) -> None:
            got.append(message.body)
            if message.body == b"1":
                await gate.wait()

        async with orderly(rig, listener) as consumer:
            await rig.advance(2)
            await eventually(lambda: got == [b"0", b"1"], "the second is at work")
            broker.extra_members.append("0.0.0.0@first")
            broker.notify("consumers")
            while consumer.assignment:
                await rig.advance(0.1)
            gate.set()  # while the removal waits for it (C-30)
            await rig.advance(1)
            assert QUEUE not in broker.locks, "let go, and its offset written down"
            assert broker.offsets["consumers", "T", 0] == 1, "the next owner gets the second again"


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


class NotedLocks(QueueLocks):
    """Locks that are always granted; notes what is unlocked."""

    def __init__(self) -> None:
        self.unlocked: list[MessageQueue] = []

    async def unlock(self, queues: Iterable[MessageQueue], *, oneway: bool) -> None:
        assert oneway
        self.unlocked += queues


async def test_a_queue_that_was_taken_anew_is_not_unlocked_before_its_old_listener_ends() -> None:
    # C-30, C-70. The lock would let another consumer in (found by seed 52305 of the simulation).
    clock, gate, locks = ManualClock(START_MS), asyncio.Event(), NotedLocks()
    at_work = asyncio.Event()

    async def listener(_messages: list[MessageExt], _context: ConsumeOrderlyContext) -> None:
        at_work.set()
        await gate.wait()

    service = OrderlyConsumeService(
        "consumers",
        clock,
        PROFILE_5_X.client,
        PushSettings(),
        ListenerCall(listener, one_by_one=False, threads=PooledThreads("consumers", 1)),
        offsets=OffsetTable(),
        gives_to_broker=None,  # type: ignore[arg-type]  # nothing fails here
        locks=locks,
    )
    held = ProcessQueue(Claims().take(QUEUE, clock.monotonic(), locked=True), clock.monotonic())
    messages = [pulled_message(offset=0)]
    held.put(messages)
    service.submit(messages, held, dispatch=True)
    await at_work.wait()
    anew = ProcessQueue(Claims().take(QUEUE, clock.monotonic(), locked=True), clock.monotonic())
    released = asyncio.ensure_future(service.release(anew))
    await clock.move_to(START_MS + 1_000)
    assert not await released
    gate.set()
    assert await service.release(anew)
    assert locks.unlocked == [QUEUE]
    await service.stop()
