"""Pops, acks and changes that a broker refuses (K-30 to K-83)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.headers.topics import DeleteTopicRequestHeader
from pocketmq.runtime.profile import PROFILE_4_9
from support.broker_rig import START_MS, BrokerRig, Voice, running_broker
from support.pop_voice import (
    REVIVED_S,
    ack,
    change,
    fill,
    pop,
    pop_header,
)


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"born_time": START_MS - 1000}, 210, "timeout too much"),
        ({"max_msg_nums": 33}, 29, "greater than 32"),
        ({"topic": "nowhere"}, 17, "not exist"),
        ({"queue_id": 4}, 29, "queueId[4] is illegal"),
        ({"exp": "||", "exp_type": "TAG"}, 23, "names no tag"),
        ({"invisible_time": 259_200_001}, 29, "timerMaxDelaySec"),
    ],
)
async def test_a_pop_that_cannot_be_is_refused_with_rocketmq_s_code(
    voice: Voice, fields: dict[str, Any], code: int, words: str
) -> None:  # K-30, K-1
    await voice.create_topic()
    answer = await pop(voice, **fields)
    assert (answer.code, words in answer.remark) == (code, True), answer.remark
    header = answer.header
    assert (header.pop_time, header.invisible_time, header.rest_num) == (0, 0, 0)


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"topic": "nowhere"}, 17, "not exist"),
        ({"queue_id": 9}, 13, "queueId[9] is illegal"),
        ({"offset": 99}, 208, "offset is illegal"),
        ({"extra_info": "x"}, 1, "receipt handle"),
        ({"extra_info": "0 1 1 99 0 broker-a 0 0"}, 13, "revive queue 99"),
        ({"extra_info": "0 1 1 0 0 broker-a 0 0"}, 0, ""),  # unknown, so nobody misses it
        ({"extra_info": "0 1 1 0 0 broker-a 0"}, 0, ""),  # of an old client
    ],
)
async def test_an_ack_that_cannot_be_is_refused_and_loses_nothing(
    rig: BrokerRig, voice: Voice, fields: dict[str, Any], code: int, words: str
) -> None:  # K-50
    await fill(voice, 1)
    [popped] = (await pop(voice)).messages
    reply = await ack(voice, popped, **fields)
    assert (reply.code, words in (reply.remark or "")) == (code, True), reply.remark
    await rig.advance(REVIVED_S)
    assert (await pop(voice)).bodies == [popped.body]


async def test_a_change_of_the_offset_behind_the_last_is_refused(voice: Voice) -> None:  # K-54
    await fill(voice, 1)
    [popped] = (await pop(voice)).messages
    reply, header = await change(voice, popped, 1000, offset=1)
    assert (reply.code, header.pop_time) == (ResponseCode.NO_MESSAGE, 0)
    reply, _ = await change(voice, popped, 259_200_001)
    assert reply.code == ResponseCode.INVALID_PARAMETER


async def test_a_4_9_broker_does_not_know_pop(tmp_path: Path) -> None:
    async with running_broker(tmp_path, profile=PROFILE_4_9) as rig:
        reply = await (await rig.voice()).ask(pop_header())
        assert reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


async def test_a_deleted_topic_revives_nothing(rig: BrokerRig, voice: Voice) -> None:  # K-83
    await fill(voice, 2)
    await pop(voice)
    assert (await voice.ask(DeleteTopicRequestHeader(topic="orders"))).code == 0
    await rig.advance(60)
    assert "%RETRY%poppers_orders" not in rig.broker.topics.table
