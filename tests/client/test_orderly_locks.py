"""Locks of queues that are consumed in order: kept, lost, given back when a queue is dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from pocketmq.client import (
    ConsumeOrderlyContext,
    MessageExt,
    MessageQueue,
)
from pocketmq.client.consumer.consuming.listener import ListenerCall
from pocketmq.client.consumer.consuming.orderly import OrderlyConsumeService
from pocketmq.client.consumer.consuming.queue_locks import QueueLocks
from pocketmq.client.consumer.progress.offset_table import OffsetTable
from pocketmq.client.consumer.settings import PushSettings
from pocketmq.client.listener_threads import PooledThreads
from pocketmq.client.pulling.process_queue import ProcessQueue
from pocketmq.client.rebalance.claims import Claims
from pocketmq.protocol.codes import RequestCode
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import PROFILE_5_X
from support.client_rig import START_MS, client_rig
from support.eventually import eventually
from support.messages import pulled_message
from support.orderly import QUEUE, orderly


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
