"""Receipt handles that no broker gave: told so or passed over, and no message is lost (K-50)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from pocketmq.protocol.bodies.pop import BatchAck, BatchAckBody, ack_bits
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.headers.pop import BatchAckMessageRequestHeader
from pocketmq.protocol.messages.receipts import ORDERED_QUEUE, ReceiptHandle
from support.broker_rig import BrokerRig, Voice, running_broker
from support.pop_voice import GROUP, Popped, ack, change, pop

AGAIN_S = 14.0
"""After this the messages of a pop that hid them for 10 s are there again."""

ALTERED = {
    "another start": {"start_offset": 1},
    "a start below 0": {"start_offset": -(2**63)},
    "popped long ago": {"pop_time_ms": 1},
    "popped before time": {"pop_time_ms": -(2**63)},
    "popped in the far future": {"pop_time_ms": 2**62},
    "hidden for ages": {"invisible_ms": 2**62},
    "hidden for less than nothing": {"invisible_ms": -(2**62)},
    "no such revive queue": {"revive_queue_id": 99},
    "a revive queue below 0": {"revive_queue_id": -1},
    "of an ordered pop": {"revive_queue_id": ORDERED_QUEUE},
    "of another broker": {"broker_name": "broker-z"},
    "of a retry topic": {"mark": 1, "start_offset": 7},
}
REFUSALS = {
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.MESSAGE_ILLEGAL,
    ResponseCode.INVALID_PARAMETER,
    ResponseCode.NO_MESSAGE,
}


async def by_ack(voice: Voice, popped: Popped, handle: ReceiptHandle) -> Command:
    return await ack(voice, popped, extra_info=str(handle))


async def by_change(voice: Voice, popped: Popped, handle: ReceiptHandle) -> Command:
    reply, _ = await change(voice, popped, 10_000, extra_info=str(handle))  # as long as the pop
    return reply


async def by_batch(voice: Voice, popped: Popped, handle: ReceiptHandle) -> Command:
    entry = BatchAck(
        consumer_group=GROUP, topic="orders", retry="0", start_offset=handle.start_offset,
        queue_id=handle.queue_id, revive_queue_id=handle.revive_queue_id,
        pop_time=handle.pop_time_ms, invisible_time=handle.invisible_ms, bits=ack_bits([0]),
    )  # fmt: skip
    body = BatchAckBody(broker_name=handle.broker_name, acks=[entry])
    return await voice.ask(BatchAckMessageRequestHeader(), body)


@pytest.mark.parametrize("merge", [False, True], ids=["stored", "in memory"])
@pytest.mark.parametrize("tell", [by_ack, by_change, by_batch], ids=["ack", "change", "batch"])
@pytest.mark.parametrize("change_of", ALTERED.values(), ids=ALTERED)
async def test_an_altered_handle_loses_nothing(
    tmp_path: Path,
    change_of: dict[str, int | str],
    tell: Callable[..., object],
    *,
    merge: bool,
) -> None:
    async with running_broker(tmp_path, enable_pop_buffer_merge=merge) as rig:
        voice = await rig.voice()
        for n in range(3):
            await voice.send("orders", b"%d" % n)
        first, *rest = (await pop(voice)).messages
        altered = msgspec.structs.replace(first.handle, **change_of)
        reply = await tell(voice, first, altered)  # type: ignore[misc]
        told_to_hide = tell is by_change and reply.code == 0
        if reply.code:
            assert reply.code in REFUSALS
            assert reply.remark
        # What hides a message and where its check point lies are no part of a check point's name,
        # nor is the broker of a batch: those are acks of the message itself, unless the ack comes
        # before its check point. All others name what nobody popped.
        nameless = {"invisible_ms", *(["revive_queue_id"] if merge else [])}
        nameless |= {"broker_name"} if tell is by_batch else set()
        is_ack = not reply.code and tell is not by_change and not nameless.isdisjoint(change_of)
        done, open_one = rest
        assert (await ack(voice, done)).code == 0
        seen: list[bytes] = []
        for _ in range(3):
            await rig.advance(AGAIN_S)
            seen += (await pop(voice, invisible_time=200_000)).bodies
        assert is_ack or first.body in seen
        assert seen.count(open_one.body) == 1, "of the same pop, and nobody named it"
        assert set(seen) <= {first.body, open_one.body}
        assert len(seen) <= 2 + told_to_hide


async def test_a_handle_of_another_queue_acknowledges_nothing(rig: BrokerRig, voice: Voice) -> None:
    await voice.create_topic()
    await voice.send("orders", b"done", queue_id=1)
    [done] = (await pop(voice)).messages
    assert (await ack(voice, done)).code == 0
    await voice.send("orders", b"here", queue_id=0)
    await voice.send("orders", b"there", queue_id=1)
    here, there = sorted((await pop(voice)).messages, key=lambda popped: popped.body)
    assert (await ack(voice, here, extra_info=str(there.handle))).code == 0  # of a pop at offset 1
    refused = await ack(voice, here, offset=there.handle.queue_offset + 1)
    assert refused.code == ResponseCode.NO_MESSAGE
    await rig.advance(AGAIN_S)
    assert sorted((await pop(voice)).bodies) == [b"here", b"there"]


async def test_an_ack_after_its_time_does_nothing(rig: BrokerRig, voice: Voice) -> None:  # K-82
    await voice.send("orders", b"late")
    [popped] = (await pop(voice)).messages
    await rig.advance(AGAIN_S)
    assert (await ack(voice, popped)).code == 0
    [again] = (await pop(voice)).messages
    assert (again.body, again.message.reconsume_times) == (b"late", 1)
    assert (await ack(voice, popped)).code == 0  # nor does the old one for the new delivery
    await rig.advance(AGAIN_S)
    assert (await pop(voice)).bodies == [b"late"]


@pytest.mark.parametrize("text", ["", "x" * 20_000, "x " * 10_000, "0 1 1 0 x b 0 0"])
async def test_a_text_that_is_no_handle_is_refused_in_few_words(
    rig: BrokerRig, voice: Voice, text: str
) -> None:
    await voice.send("orders", b"kept")
    [popped] = (await pop(voice)).messages
    for reply in (
        await ack(voice, popped, extra_info=text),
        (await change(voice, popped, 1000, extra_info=text))[0],
    ):
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert "receipt handle" in (reply.remark or "")
        assert len(reply.remark or "") < 500
    await rig.advance(AGAIN_S)
    assert (await pop(voice)).bodies == [b"kept"]


@pytest.mark.parametrize("bits", ["", "A", "?" * 100, "/" * 100_000])
async def test_bits_of_a_batch_ack_cost_what_a_pop_can_have(
    rig: BrokerRig, voice: Voice, bits: str
) -> None:  # K-52
    await voice.send("orders", b"kept")
    [popped] = (await pop(voice)).messages
    handle = popped.handle
    entry = BatchAck(
        consumer_group=GROUP, topic="orders", retry="0", start_offset=handle.start_offset + 1,
        queue_id=0, revive_queue_id=handle.revive_queue_id, pop_time=handle.pop_time_ms,
        invisible_time=handle.invisible_ms, bits=bits,
    )  # fmt: skip
    body = BatchAckBody(broker_name="broker-a", acks=[entry])
    reply = await voice.ask(BatchAckMessageRequestHeader(), body)
    assert reply.code in {0, ResponseCode.SYSTEM_ERROR, ResponseCode.NO_MESSAGE}
    assert len(reply.remark or "") < 500
    await rig.advance(AGAIN_S)
    assert (await pop(voice)).bodies == [b"kept"]


async def test_names_of_groups_that_acks_make_up_are_not_remembered(
    rig: BrokerRig, voice: Voice
) -> None:
    # Each took some KB for ever, and a look every 10 s.
    await voice.create_topic()
    await voice.send("orders", b"x", queue_id=0)
    [popped] = (await pop(voice)).messages
    named = dict(rig.broker.stats.named)
    for number in range(20):
        group = f"nobody-{number}"
        await ack(voice, popped, consumer_group=group)
        await change(voice, popped, 10_000, consumer_group=group)
        entry = BatchAck(
            consumer_group=group, topic="orders", retry="0", start_offset=0, queue_id=0,
            revive_queue_id=0, pop_time=0, invisible_time=10_000, bits=ack_bits([0]),
        )  # fmt: skip
        await voice.ask(BatchAckMessageRequestHeader(), BatchAckBody(acks=[entry]))
    assert rig.broker.stats.named.keys() == named.keys()
    assert (await ack(voice, popped)).code == ResponseCode.SUCCESS
    assert ("GROUP_ACK_NUMS", f"orders@{GROUP}") in rig.broker.stats.named
