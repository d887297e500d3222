"""GET_ALL_DELAY_OFFSET (45) while replicas are behind."""

from __future__ import annotations

import pytest

from pocketmq.broker.store import PutStatus
from pocketmq.broker.storing.safe_puts import Safe, SafePuts
from pocketmq.protocol.bodies.offsets import DelayOffsetTable
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.headers.offsets import GetAllDelayOffsetRequestHeader
from support.broker_rig import BrokerRig, Voice


async def delivered(voice: Voice) -> int:
    """How far level 1 is delivered, as slaves are told."""
    reply = await voice.ask(GetAllDelayOffsetRequestHeader())
    table = decode_body(reply.body_view, DelayOffsetTable, reply.encoding)
    return table.offset_table.get(1, 0)


async def test_replicas_are_asked_once_however_often_the_table_is(
    rig: BrokerRig, voice: Voice, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Safe] = []
    await voice.send(properties={"DELAY": "1"})
    await rig.advance(15)  # it is delivered, and that is noted
    monkeypatch.setattr(SafePuts, "when_kept", lambda _puts, _end, done: asked.append(done))
    for _ in range(100):
        assert await delivered(voice) == 0
    assert len(asked) == 1
    asked.pop()(PutStatus.FLUSH_SLAVE_TIMEOUT)
    assert await delivered(voice) == 0
    asked.pop()(PutStatus.PUT_OK)  # the next request has asked again
    assert await delivered(voice) == 1
