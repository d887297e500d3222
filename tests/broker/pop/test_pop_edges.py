"""Effects of pops that only a later request, another pop or a restart would show."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pocketmq.broker.pop.merge_service import MergeService
from pocketmq.broker.store import PutStatus
from pocketmq.protocol.bodies.pop import BatchAck, BatchAckBody, ack_bits
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.headers.pop import BatchAckMessageRequestHeader
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import PROFILE_5_X
from support.broker_rig import BrokerRig, Voice, running_broker
from support.pop_voice import (
    GROUP,
    REVIVED_S,
    PopAnswer,
    ack,
    ack_all,
    change,
    fill,
    pop,
    pop_later,
    read_pop,
)

RETRY_TOPIC = f"%RETRY%{GROUP}_orders"


async def batch_ack(voice: Voice, answer: PopAnswer) -> None:
    handle = answer.messages[0].handle
    entry = BatchAck(
        consumer_group=GROUP, topic="orders", retry="0", start_offset=handle.start_offset,
        queue_id=0, revive_queue_id=handle.revive_queue_id, pop_time=handle.pop_time_ms,
        invisible_time=handle.invisible_ms, bits=ack_bits(list(range(len(answer.messages)))),
    )  # fmt: skip
    body = BatchAckBody(broker_name="broker-a", acks=[entry])
    assert (await voice.ask(BatchAckMessageRequestHeader(), body)).code == 0


@pytest.mark.parametrize("how", ["each acknowledged", "acknowledged together", "come again"])
async def test_what_is_settled_is_in_flight_no_more(tmp_path: Path, how: str) -> None:  # K-146
    options: dict[str, Any] = {
        "enable_pop_message_threshold": True,
        "pop_inflight_message_threshold": 2,
    }
    async with running_broker(tmp_path, **options) as rig:
        voice = await rig.voice()
        sent = await fill(voice, 6, queues=1)
        first = await pop(voice, queue_id=0, max_msg_nums=3)
        assert first.bodies == sent[:3]
        assert (await pop(voice, queue_id=0)).bodies == [], "three are out, and two may be"
        if how == "each acknowledged":
            await ack_all(voice, first)
        elif how == "acknowledged together":
            await batch_ack(voice, first)
        else:
            await rig.advance(REVIVED_S)
            assert [m.body for m in await rig.queue(RETRY_TOPIC)] == sent[:3]
        answer = await pop(voice, queue_id=0)
        assert set(sent[3:]) <= set(answer.bodies)


async def test_a_change_that_cannot_be_stored_leaves_the_check_point_where_it_was(
    tmp_path: Path,
) -> None:  # K-101
    async with running_broker(tmp_path, enable_pop_buffer_merge=True) as rig:
        voice = await rig.voice()
        await fill(voice, 1, queues=1)
        (popped,) = (await pop(voice, invisible_time=60_000)).messages
        rig.broker.store.readiness.block("the disk is full")
        reply, _ = await change(voice, popped, 30_000)
        assert reply.code == ResponseCode.SYSTEM_ERROR
        rig.broker.store.readiness.unblock("the disk is full")
        assert (await ack(voice, popped)).code == 0
        assert await voice.committed(group=GROUP, queue_id=0) == 1, "it was settled in memory"
        assert await rig.queue("rmq_sys_wheel_timer") == []


async def test_a_pop_that_waits_less_long_is_answered_in_its_time(
    rig: BrokerRig, voice: Voice
) -> None:  # K-130
    await voice.create_topic()
    long = pop_later(voice, poll_time=60_000)
    short = pop_later(voice, poll_time=2_000)
    await rig.advance(2.1)
    assert short.done()
    assert not long.done()
    await rig.advance(60)
    assert read_pop(await long).bodies == []


async def test_a_pop_wakes_the_next_one_for_what_it_leaves(rig: BrokerRig, voice: Voice) -> None:
    # K-36, K-134: both messages come with one notice, which wakes one pop.
    await voice.create_topic(queues=1)
    waiting = [pop_later(voice, queue_id=0, max_msg_nums=1, poll_time=60_000) for _ in range(2)]
    await rig.settle()
    await asyncio.gather(*(voice.send("orders", body, queue_id=0) for body in (b"a", b"b")))
    answers = [read_pop(await each) for each in waiting]
    assert sorted(body for answer in answers for body in answer.bodies) == [b"a", b"b"]


async def test_a_group_keeps_what_it_has_read_of_a_retry_topic_that_is_missing(
    rig: BrokerRig, voice: Voice
) -> None:  # K-16
    await fill(voice, 1, queues=1)
    table = rig.broker.subjects.offsets.table
    table.commit(GROUP, RETRY_TOPIC, 0, 7, rig.clock.time_ms())
    await pop(voice)
    await rig.advance(REVIVED_S)
    assert len(await rig.queue(RETRY_TOPIC)) == 1
    assert table.query(GROUP, RETRY_TOPIC, 0) == 7


async def test_who_leads_again_reads_each_revive_queue_once(rig: BrokerRig, voice: Voice) -> None:
    await fill(voice, 1, queues=1)
    await pop(voice)
    revive = rig.broker.subjects.pop.revive
    assert revive is not None
    queues = len(revive.behind())
    revive.recovered()
    assert len(revive.behind()) == queues


async def test_check_points_are_on_the_disk_before_offsets_beyond_them_are_saved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # K-104; a power cut between the two would lose the messages.
    done: list[str] = []
    held: list[str] = ["a", "b"]

    async def flush() -> PutStatus:
        done.append("flush")
        return PutStatus.PUT_OK

    core: Any = SimpleNamespace(
        clock=ManualClock(0), store=SimpleNamespace(flush=flush), profile=PROFILE_5_X
    )
    service = MergeService(core, *([None] * 5))  # type: ignore[arg-type]

    def write(_now_ms: float) -> bool:
        done.append(f"write {held.pop(0)}")
        return bool(held)

    monkeypatch.setattr(service, "_write", write)
    monkeypatch.setattr(service, "_ask_again", lambda: done.append("offsets follow"))
    await service.stop()
    assert done == ["write a", "write b", "flush", "offsets follow"]


async def test_an_ordered_ack_moves_no_offset_that_a_tool_has_just_set(
    rig: BrokerRig, voice: Voice
) -> None:  # B-59, K-113
    await fill(voice, 3, queues=1)
    answer = await pop(voice, order=True, queue_id=0, attempt_id="a1")
    rig.broker.subjects.offsets.table.assign_reset(GROUP, "orders", 0, 1)
    for popped in answer.messages:
        assert (await ack(voice, popped)).code == 0
    assert await voice.committed(group=GROUP, queue_id=0) == 1
