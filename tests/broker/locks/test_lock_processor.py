"""Queue locks asked of a running broker (41, 42)."""

from __future__ import annotations

from itertools import count

from pocketmq.protocol.bodies.clients import LockBatchBody, LockedQueues
from pocketmq.protocol.body import decode_body, encode_body
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.headers.locks import LockBatchMqRequestHeader, UnlockBatchMqRequestHeader
from pocketmq.protocol.messages.message import MessageQueue
from support.broker_rig import BrokerRig, FakePeer, Voice
from support.growth import least_s

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


async def test_a_resend_of_a_group_with_locks_goes_to_the_dlq(  # B-86
    rig: BrokerRig, voice: Voice
) -> None:
    await lock(voice, "one")
    await voice.send("%RETRY%readers", reconsume_times=1)
    assert len(await rig.queue("%DLQ%readers")) == 1
    await rig.advance(61)
    await voice.send("%RETRY%readers", reconsume_times=1)
    assert len(await rig.queue("%RETRY%readers")) == 1


async def test_a_lock_costs_the_same_while_many_groups_hold_locks(rig: BrokerRig) -> None:
    numbers, header = count(), LockBatchMqRequestHeader()
    wanted = encode_body(body("one", QUEUES[:1]), Encoding.MSGPACK)

    def lock_again() -> None:
        request = Command(header.CODE, header, wanted, encoding=Encoding.MSGPACK)
        answer = rig.broker.dispatcher.process(FakePeer(), request)
        assert isinstance(answer, Command)
        assert answer.code == 0

    before_s = least_s(lock_again, runs=5, steps=20)
    for _ in range(50_000):
        rig.broker.locks.lock(f"group-{next(numbers)}", "one", QUEUES[:1], 0.0)
    assert least_s(lock_again, runs=5, steps=20) < 10 * before_s
    assert rig.broker.locks.count == 50_001
    await rig.advance(80)
    assert rig.broker.locks.count == 0
