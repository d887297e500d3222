"""Queue locks asked of a running broker (41, 42)."""

from __future__ import annotations

from pocketmq.protocol.bodies.clients import LockBatchBody, LockedQueues
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.headers.locks import LockBatchMqRequestHeader, UnlockBatchMqRequestHeader
from pocketmq.protocol.message import MessageQueue
from support.broker_rig import BrokerRig, Voice

QUEUES = [MessageQueue("orders", "broker-a", n) for n in range(2)]


def body(client_id: str, queues: list[MessageQueue] = QUEUES) -> LockBatchBody:
    return LockBatchBody(consumer_group="readers", client_id=client_id, mq_set=queues)


async def lock(voice: Voice, client_id: str) -> list[MessageQueue]:
    reply = await voice.ask(LockBatchMqRequestHeader(), body(client_id))
    assert reply.code == 0, reply.remark
    return decode_body(reply.body_view, LockedQueues, reply.encoding).lock_ok_mq_set


async def test_a_lock_is_refused_to_others_until_it_is_released(  # B-46, B-48
    rig: BrokerRig, encoding: Encoding
) -> None:
    voice = await rig.voice(encoding)
    assert await lock(voice, "one") == QUEUES
    assert await lock(voice, "two") == []
    assert (await voice.ask(UnlockBatchMqRequestHeader(), body("one", QUEUES[:1]))).code == 0
    assert await lock(voice, "two") == QUEUES[:1]


async def test_a_lock_outlives_its_holders_connection_by_60_s(  # B-50, T-13, fault 47
    rig: BrokerRig, voice: Voice
) -> None:
    gone = await rig.voice()
    assert await lock(gone, "one") == QUEUES
    gone.channel.close()
    await rig.advance(60)
    assert await lock(voice, "two") == []
    await rig.advance(0.1)
    assert await lock(voice, "two") == QUEUES


async def test_a_resend_of_a_group_with_locks_goes_to_the_dlq(  # B-86 [H]
    rig: BrokerRig, voice: Voice
) -> None:
    await lock(voice, "one")
    await voice.send("%RETRY%readers", reconsume_times=1)
    assert len(await rig.queue("%DLQ%readers")) == 1
    await rig.advance(61)
    await voice.send("%RETRY%readers", reconsume_times=1)
    assert len(await rig.queue("%RETRY%readers")) == 1
