"""Pops that wait for messages, and notifications, asked of a broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pocketmq.broker.pop.waiting import WaitingPop
from pocketmq.broker.pop.waking import WakingPops
from pocketmq.protocol.command import Command
from pocketmq.protocol.frame import FrameDecoder, encode_frame
from pocketmq.protocol.headers.pop import (
    NotificationRequestHeader,
    NotificationResponseHeader,
    PeekMessageRequestHeader,
    PollingInfoRequestHeader,
    PollingInfoResponseHeader,
)
from pocketmq.protocol.stored.record import decode_records
from support.broker_rig import START_MS, BrokerRig, FakePeer, Voice, running_broker
from support.cost import peak_bytes
from support.pop_voice import (
    GROUP,
    REVIVED_S,
    fill,
    pop,
    pop_header,
    pop_later,
    read_pop,
)


async def test_a_waiting_pop_is_answered_by_the_next_message(rig: BrokerRig, voice: Voice) -> None:
    await voice.create_topic()
    future = pop_later(voice, poll_time=20_000)
    await rig.settle()
    key = PollingInfoRequestHeader(consumer_group=GROUP, topic="orders", queue_id=-1)
    reply = await voice.ask(key)
    assert reply.header(PollingInfoResponseHeader).polling_num == 1
    other = await rig.voice()
    await other.send(body=b"now", queue_id=3)
    assert read_pop(await future).bodies == [b"now"]
    reply = await voice.ask(key)
    assert reply.header(PollingInfoResponseHeader).polling_num == 0


async def test_a_waiting_pop_is_answered_210_when_its_time_is_up(
    rig: BrokerRig, voice: Voice
) -> None:  # K-131
    await voice.create_topic()
    future = pop_later(voice, poll_time=3000, born_time=START_MS)
    await rig.advance(2.9)
    assert not future.done()
    await rig.advance(0.1)
    answer = read_pop(await future)
    assert (answer.code, answer.remark) == (210, "NO_MESSAGE_IN_QUEUE")
    assert (answer.header.start_offset_info, answer.header.msg_offset_info) == ("", "")


async def test_a_waiting_pop_is_woken_by_a_message_that_comes_again(
    rig: BrokerRig, voice: Voice
) -> None:  # K-133: RocketMQ before 5.4 wakes nobody here
    await fill(voice, 1)
    await pop(voice)
    future = pop_later(await rig.voice(), poll_time=60_000, born_time=START_MS)
    await rig.advance(REVIVED_S)
    assert read_pop(await future).bodies == [b"000"]


async def test_waiting_pops_share_what_comes(rig: BrokerRig, voice: Voice) -> None:  # K-36
    await voice.create_topic()
    futures = [
        pop_later(await rig.voice(), poll_time=60_000, max_msg_nums=1, born_time=START_MS)
        for _ in range(4)
    ]
    await rig.settle()
    for n in range(4):
        await voice.send(body=b"%d" % n, queue_id=n % 2)
    await rig.settle()
    answers = [read_pop(await future) for future in futures]
    assert sorted(body for answer in answers for body in answer.bodies) == [b"0", b"1", b"2", b"3"]


async def test_a_notification_tells_and_takes_nothing(rig: BrokerRig, voice: Voice) -> None:  # K-65
    await voice.create_topic()
    header = NotificationRequestHeader(
        consumer_group=GROUP, topic="orders", queue_id=-1, poll_time=20_000, born_time=START_MS
    )
    future = voice.channel.request(header, timeout_s=60.0)
    await rig.settle()
    other = await rig.voice()
    await other.send()
    assert (await future).header(NotificationResponseHeader).has_msg
    peeked = await other.ask(
        PeekMessageRequestHeader(consumer_group=GROUP, topic="orders", queue_id=-1, max_msg_nums=8)
    )
    assert [m.body for m in decode_records(peeked.body_view)] == [b"hello"]
    assert (await pop(voice, invisible_time=60_000)).bodies == [b"hello"]
    future = voice.channel.request(header, timeout_s=60.0)
    await rig.advance(20)
    assert not (await future).header(NotificationResponseHeader).has_msg


async def test_a_notification_sees_a_retry_in_the_newer_topic(tmp_path: Path) -> None:  # K-65
    """A pop draws the older or the newer retry topic; who only asks is told of both."""
    async with running_broker(tmp_path, enable_retry_topic_v2=True) as rig:
        voice = await rig.voice()
        await fill(voice, 1)
        await pop(voice)
        await rig.advance(REVIVED_S)
        header = NotificationRequestHeader(
            consumer_group=GROUP, topic="orders", queue_id=-1, poll_time=0, born_time=START_MS
        )
        assert (await voice.ask(header)).header(NotificationResponseHeader).has_msg


async def test_other_work_goes_on_while_many_pops_are_answered(rig: BrokerRig) -> None:
    answered: list[int] = []
    seen: list[int] = []

    def answer(_pop: WaitingPop[int]) -> None:
        answered.append(len(answered))
        if len(answered) == 1:
            asyncio.get_running_loop().call_soon(lambda: seen.append(len(answered)))

    pops: WakingPops[int] = WakingPops("many", rig.broker.core, answer)
    for number in range(1_000):
        key, until_ms = ("orders", f"group-{number}", -1), START_MS + 3_000
        pops.hold(WaitingPop(FakePeer(), Command(1, None), 0, key, until_ms, None))  # type: ignore[arg-type]
    await pops.start()
    await rig.advance(3)
    await pops.stop()
    assert len(answered) == 1_000
    assert seen[0] < 1_000


async def test_what_a_waiting_pop_takes_counts_as_memory_of_its_peer(
    rig: BrokerRig, voice: Voice
) -> None:
    await voice.create_topic()
    peers = short, long = FakePeer(), FakePeer()

    def wait(peer: FakePeer, text: str) -> None:
        for number in range(50):
            header = pop_header(poll_time=20_000, attempt_id=f"{text}{number}")
            command = Command(header.CODE, header, opaque=number, remark=text)
            data = b"".join(bytes(part) for part in encode_frame(command))
            (request,) = FrameDecoder().feed(data)
            assert rig.broker.dispatcher.process_batch([peer], [request]) == [None]  # type: ignore[list-item]

    for peer, text in zip(peers, ("", "x" * 50_000 + "\U0001f600"), strict=True):
        taken = peak_bytes(lambda peer=peer, text=text: wait(peer, text))  # type: ignore[misc]
        assert 0.5 * taken < peer.kept_bytes < 4 * taken
    assert long.kept_bytes > 50 * short.kept_bytes
    await rig.advance(30)
    assert [peer.kept_bytes for peer in peers] == [0, 0]
