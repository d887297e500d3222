"""Moving a group by time or to an offset (222), in both profiles' ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pocketmq.protocol.bodies.offsets import ResetOffsetBody
from pocketmq.protocol.body import decode_body, parse_mq_key
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.headers.offsets import ResetOffsetRequestHeader
from pocketmq.protocol.headers.topics import UpdateAndCreateTopicRequestHeader
from pocketmq.runtime.profile import PROFILE_4_9
from support.broker_rig import START_MS, BrokerRig, Voice, consumer, running_broker

PUSH = RequestCode.RESET_CONSUMER_CLIENT_OFFSET


def reset(at_s: float = -1, **fields: Any) -> ResetOffsetRequestHeader:
    time_ms = START_MS + round(at_s * 1000) if at_s >= 0 else -1
    values = {"topic": "orders", "group": "readers", "timestamp": time_ms} | fields
    return ResetOffsetRequestHeader(**values)


def offsets(reply: Command) -> dict[int, int]:
    table = decode_body(reply.body_view, ResetOffsetBody, reply.encoding).offset_table
    return {parse_mq_key(key).queue_id: offset for key, offset in table.items()}


async def ten_messages(rig: BrokerRig, voice: Voice) -> None:
    """One a second in queue 0; the group has consumed 8."""
    await voice.heartbeat(consumers=[consumer()])
    for n in range(10):
        await voice.send(body=b"%d" % n)
        await rig.advance(1)
    for queue_id in range(4):
        await voice.commit(8 if queue_id == 0 else 0, queue_id=queue_id)


async def test_5_x_moves_the_next_pull_by_time(  # E-29 (222), 4.3, fault 54
    rig: BrokerRig, encoding: Encoding
) -> None:
    voice = await rig.voice(encoding)
    await ten_messages(rig, voice)
    reply = await voice.ask(reset(at_s=2.5))
    assert reply.code == 0, reply.remark
    assert offsets(reply) == {0: 3, 1: 0, 2: 0, 3: 0}
    assert not voice.told(PUSH)
    # The consumer commits what it still had in hand: that is ignored (B-33).
    assert (await voice.commit(9)).code == 0
    assert await voice.committed() == 3
    assert rig.broker.offsets.query("readers", "orders", 0) == 3, "a restart would find 9"
    moved = await voice.pull(offset=9)
    assert (moved.code, moved.status, moved.header.next_begin_offset) == (21, "OFFSET_RESET", 3)
    # From here on the group goes its way again.
    assert (await voice.pull(offset=3)).bodies[0] == b"3"
    await voice.commit(5)
    assert await voice.committed() == 5


async def test_5_x_skips_to_the_end(rig: BrokerRig, voice: Voice) -> None:  # E-29
    await ten_messages(rig, voice)
    assert offsets(await voice.ask(reset()))[0] == 10
    assert offsets(await voice.ask(reset(timestamp=0)))[0] == 0, "only before 1970 is the end"


async def test_5_x_moves_one_queue_to_one_offset(rig: BrokerRig, voice: Voice) -> None:  # E-29
    await ten_messages(rig, voice)
    assert offsets(await voice.ask(reset(queue_id=0, offset=6))) == {0: 6}
    assert (await voice.pull(offset=8)).header.next_begin_offset == 6


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": "nobody"}, 17),
        ({"group": "nobody"}, 26),
        ({"queue_id": 9}, 1),
        ({"queue_id": 0, "offset": 11}, 1),
        ({"queue_id": 0, "offset": -5}, 1),
    ],
)
async def test_5_x_refuses_what_cannot_be_reset(  # E-29
    rig: BrokerRig, voice: Voice, fields: dict[str, Any], code: int
) -> None:
    await ten_messages(rig, voice)
    assert (await voice.ask(reset(**fields))).code == code
    assert rig.broker.offsets.pending_reset("readers", "orders", 0) is None


async def test_5_x_refuses_a_topic_without_queues_to_read_from(voice: Voice) -> None:  # E-29
    await voice.heartbeat(consumers=[consumer()])
    topic = UpdateAndCreateTopicRequestHeader(
        topic="written", read_queue_nums=0, write_queue_nums=2, perm=6
    )
    assert (await voice.ask(topic)).code == 0
    reply = await voice.ask(reset(topic="written"))
    assert (reply.code, "No queues to reset" in str(reply.remark)) == (1, True)


async def test_4_9_pushes_the_offsets_to_every_member(  # E-28 (220), 6, trap 6
    tmp_path: Path, encoding: Encoding
) -> None:
    async with running_broker(tmp_path, PROFILE_4_9) as rig:
        voice = await rig.voice(encoding)
        await ten_messages(rig, voice)
        reply = await voice.ask(reset(at_s=2.7))
        assert offsets(reply) == {0: 3, 1: 0, 2: 0, 3: 0}
        await rig.settle()
        (push,) = voice.told(PUSH)
        assert offsets(push) == {0: 3, 1: 0, 2: 0, 3: 0}
        if encoding is not Encoding.MSGPACK:
            assert bytes(push.body_view).startswith(
                b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:3,'
            )
        assert await voice.committed() == 8


async def test_4_9_pushes_only_to_members_that_know_how(tmp_path: Path) -> None:  # E-7
    async with running_broker(tmp_path, PROFILE_4_9) as rig:
        voices = [await rig.voice(version=version) for version in (27, 28)]
        await ten_messages(rig, voices[0])
        await voices[1].heartbeat("127.0.0.1@2", consumers=[consumer()])
        assert (await voices[0].ask(reset(at_s=2.7))).code == 0
        await rig.settle()
        assert [len(voice.told(PUSH)) for voice in voices] == [0, 1]


async def test_4_9_never_skips_messages_without_force(tmp_path: Path) -> None:  # E-29
    async with running_broker(tmp_path, PROFILE_4_9) as rig:
        voice = await rig.voice()
        await ten_messages(rig, voice)
        assert offsets(await voice.ask(reset(is_force=False)))[0] == 8
        assert offsets(await voice.ask(reset(at_s=2.7, is_force=False)))[0] == 3
        assert offsets(await voice.ask(reset(is_force=True)))[0] == 10


async def test_4_9_needs_a_member(tmp_path: Path) -> None:  # E-29
    async with running_broker(tmp_path, PROFILE_4_9) as rig:
        voice = await rig.voice()
        await ten_messages(rig, voice)
        await voice.leave()
        assert (await voice.ask(reset())).code == 206
        assert (await voice.ask(reset(group="nobody"))).code == 1


async def test_in_4_9_a_topic_that_is_missing_is_a_system_error(tmp_path: Path) -> None:  # E-30
    async with running_broker(tmp_path, PROFILE_4_9) as rig:
        voice = await rig.voice()
        assert (await voice.ask(reset(at_s=1, topic="nobody"))).code == 1
