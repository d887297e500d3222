"""In which order a pop reads queues and retry topic, by the lot that it draws (K-33, V-3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.store.conftest import make_message
from pocketmq.broker.pop import pop_reads
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.headers.groups import UpdateSubscriptionGroupRequestHeader
from pocketmq.protocol.headers.pop import PeekMessageRequestHeader, PopMessageResponseHeader
from pocketmq.protocol.stored.record import decode_records
from pocketmq.runtime.profile import PROFILE_5_3, PROFILE_5_5, Profile
from support.broker_rig import BrokerRig, Voice, running_broker
from support.pop_voice import GROUP, pop

RETRY = f"%RETRY%{GROUP}_orders"


def draw(monkeypatch: pytest.MonkeyPatch, lot: int) -> None:
    """Let pops draw this lot of a hundred."""
    monkeypatch.setattr(pop_reads, "randrange", lambda _end: lot)


def put_retry(rig: BrokerRig) -> None:
    rig.broker.topics.put(TopicConfig(topic_name=RETRY, read_queue_nums=1, write_queue_nums=1), 0)
    rig.broker.store.put_messages([make_message(b"again", topic=RETRY)])


@pytest.mark.parametrize(
    ("profile", "ascending", "order"),
    [
        (PROFILE_5_3, True, [2, 3, 0, 1]),
        (PROFILE_5_3, False, [2, 3, 0, 1]),
        (PROFILE_5_5, True, [1, 0, 3, 2]),
        (PROFILE_5_5, False, [2, 3, 0, 1]),
    ],
)
async def test_a_pop_goes_round_from_the_queue_of_its_lot(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    profile: Profile,
    ascending: bool,
    order: list[int],
) -> None:  # K-33
    async with running_broker(tmp_path, profile, priority_order_asc=ascending) as rig:
        voice = await rig.voice()
        await voice.create_topic(queues=4)
        for queue_id in range(4):
            await voice.send(body=b"%d" % queue_id, queue_id=queue_id)
        draw(monkeypatch, 50)
        assert [int(body) for body in (await pop(voice)).bodies] == order


@pytest.mark.parametrize(("lot", "order"), [(19, [b"again", b"new"]), (20, [b"new", b"again"])])
async def test_one_pop_in_five_reads_the_retry_topic_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lot: int, order: list[bytes]
) -> None:  # K-33
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        put_retry(rig)
        await voice.send(body=b"new")
        draw(monkeypatch, lot)
        assert (await pop(voice)).bodies == order


async def test_a_full_pop_does_not_look_at_the_retry_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # K-33
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        put_retry(rig)
        for _ in range(3):
            await voice.send(body=b"new")
        draw(monkeypatch, 50)
        full = await pop(voice, max_msg_nums=2)
        assert (full.bodies, full.header.rest_num) == ([b"new"] * 2, 1), "of the topic alone"
        draw(monkeypatch, 19)
        first = await pop(voice, max_msg_nums=1)
        assert (first.bodies, first.header.rest_num) == ([b"again"], 1)


@pytest.mark.parametrize(("lot", "rest"), [(19, 2), (20, 1)])
async def test_a_pop_of_no_messages_counts_what_it_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lot: int, rest: int
) -> None:  # K-33, K-36
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        put_retry(rig)
        await voice.send(body=b"new")
        draw(monkeypatch, lot)
        nothing = await pop(voice, max_msg_nums=0)
        assert (nothing.bodies, nothing.header.rest_num) == ([], rest)


@pytest.mark.parametrize(("lot", "order"), [(19, [b"again", b"3"]), (20, [b"3", b"again"])])
async def test_by_priority_the_same_lot_says_when_retries_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lot: int, order: list[bytes]
) -> None:  # V-3: of the pops that go by priority, here every other has a lot below 20
    async with running_broker(tmp_path, pop_from_retry_probability_for_priority=20) as rig:
        voice = await rig.voice()
        await voice.create_topic(attributes="+message.type=PRIORITY")
        config = SubscriptionGroupConfig(group_name=GROUP, attributes={"+priority.factor": "40"})
        assert (await voice.ask(UpdateSubscriptionGroupRequestHeader(), config)).code == 0
        put_retry(rig)
        for queue_id in (0, 3):
            await voice.send(body=b"%d" % queue_id, queue_id=queue_id)
        draw(monkeypatch, lot)
        got = (await pop(voice)).bodies
        assert [body for body in got if body != b"0"] == order


async def test_a_peek_shows_as_many_as_wanted_and_counts_what_it_looked_at(
    rig: BrokerRig, voice: Voice, monkeypatch: pytest.MonkeyPatch
) -> None:  # K-67
    await voice.create_topic(queues=2)
    put_retry(rig)
    for n in range(6):
        await voice.send("orders", b"%d" % n, queue_id=n % 2)

    async def peek(wanted: int, lot: int) -> tuple[int, list[bytes]]:
        draw(monkeypatch, lot)
        header = PeekMessageRequestHeader(
            consumer_group=GROUP, topic="orders", queue_id=-1, max_msg_nums=wanted
        )
        reply = await voice.ask(header)
        bodies = [m.body for m in decode_records(reply.body_view)]
        return reply.header(PopMessageResponseHeader).rest_num, bodies

    assert await peek(32, 1) == (7, [b"0", b"2", b"4", b"1", b"3", b"5", b"again"])
    assert await peek(32, 0) == (7, [b"again", b"0", b"2", b"4", b"1", b"3", b"5"])
    # Four of the topic are enough, so that the retry topic is not looked at.
    assert await peek(4, 1) == (6, [b"0", b"2", b"4", b"1"])
    assert await peek(4, 0) == (7, [b"again", b"0", b"2", b"4"])
    # An offset beyond the end: read from the end, counted from the offset.
    table = rig.broker.subjects.offsets.table
    table.commit(GROUP, "orders", 0, 10, rig.clock.time_ms())
    assert await peek(32, 1) == (-3, [b"1", b"3", b"5", b"again"])


async def test_a_peek_of_everything_reads_no_more_than_a_frame_holds(
    rig: BrokerRig, voice: Voice, monkeypatch: pytest.MonkeyPatch
) -> None:  # K-67
    await voice.create_topic(queues=3)
    for queue_id in range(3):
        await voice.send("orders", b"x" * 1000, queue_id=queue_id)
    draw(monkeypatch, 1)
    monkeypatch.setattr(pop_reads, "MOST_PEEKED_BYTES", 1500)
    header = PeekMessageRequestHeader(
        consumer_group=GROUP, topic="orders", queue_id=-1, max_msg_nums=2**31 - 1
    )
    reply = await voice.ask(header)
    assert len(decode_records(reply.body_view)) == 2, "the second passes the limit"
    assert reply.header(PopMessageResponseHeader).rest_num == 3
