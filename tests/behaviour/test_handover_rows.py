"""Behaviours 15 to 17: how a queue is given up, and how it is taken.

Over loopback TCP, on a manual clock. Brokers are scripted where a test must see or bend what they
are asked, real where the behaviour is theirs.
"""

from __future__ import annotations

import pytest

from pocketmq.client import (
    ConsumeOrderlyStatus,
    MessageExt,
    MessageQueue,
)
from pocketmq.client.rebalance.planner import RebalancePlanner
from pocketmq.protocol.allocation.averagely import AllocateMessageQueueAveragely
from pocketmq.protocol.allocation.steps import (
    DropQueue,
    FindStartOffset,
    QueueReleased,
    StartFound,
    TopicSeen,
)
from pocketmq.protocol.codes import RequestCode
from support.consuming import Collected, consuming
from support.eventually import eventually
from support.rebalancing import ANOTHER, OnDemand, held
from support.tcp import tcp_rig

PULL = RequestCode.PULL_MESSAGE

# -- giving up ----------------------------------------------------------------------------------


async def test_a_queue_of_another_is_dropped_written_down_and_forgotten() -> None:
    # behaviour 15: C-25.1, C-30
    async with tcp_rig() as rig:
        broker, got = rig.brokers[0], Collected()
        lost = MessageQueue("T", "a", 0)
        broker.put_many("T", 0, [b"1", b"2"])
        async with consuming(rig, got, profile="4.9") as consumer:
            await eventually(lambda: len(got) == 2, "consumed")
            await held(broker, 4)
            broker.offsets.clear()
            broker.extra_members.append(ANOTHER)
            broker.notify("consumers")
            await eventually(lambda: lost not in consumer.assignment, "it is given up")
            await eventually(lambda: broker.offsets.get(("consumers", "T", 0)) == 2, "written")
            await eventually(lambda: lost not in consumer.offsets_in_memory("T"), "forgotten")
            asked = broker.count(PULL)
            broker.put("T", 0, b"3")  # answers the pull that is still held
            await held(broker, 3)
            await rig.advance(2)
            assert broker.count(PULL) == asked, "the dropped queue is not pulled again"
            assert len(got) == 2, "and its messages are not consumed"


def test_a_queue_not_pulled_for_over_120_s_is_given_up_and_taken_anew_at_once() -> None:
    # behaviour 15: C-25.2
    queue = MessageQueue("T", "a", 0)
    seen = TopicSeen("T", [queue], ["me"])
    planner = RebalancePlanner("g", "me", AllocateMessageQueueAveragely())
    planner.on(seen, 0.0)
    planner.on(StartFound(queue, 5), 0.0)
    old = planner.claims.get(queue)
    assert old is not None
    assert planner.on(seen, 120.0) == [], "120 s are not too long"
    [drop] = planner.on(seen, 120.001)
    assert isinstance(drop, DropQueue)
    assert old.dropped
    assert planner.on(QueueReleased(queue), 120.001) == [FindStartOffset(queue)]
    planner.on(StartFound(queue, 7), 120.001)
    assert planner.claims.get(queue) is not old
    assert planner.owned() == [queue]


async def test_5_x_unlocks_an_orderly_queue_so_that_its_new_owner_gets_it_at_once() -> None:
    # behaviour 16: C-30
    async with tcp_rig() as rig:
        broker, lost = rig.brokers[0], MessageQueue("T", "a", 0)
        consumer = consuming(rig, Collected(), orderly=True)
        async with consumer:
            await eventually(lambda: len(broker.locks) == 4, "all are locked")
            await rig.advance(1.1)
            broker.extra_members.append(ANOTHER)
            broker.notify("consumers")
            await eventually(lambda: lost not in broker.locks, "it is unlocked")
            await eventually(lambda: len(consumer.assignment) == 2, "and given up")
            assert set(broker.locks.values()) == {consumer.client_id}
            assert len(broker.locks) == 2


async def test_4_9_unlocks_an_orderly_queue_with_cached_messages_20_s_later() -> None:
    # behaviour 16: C-30
    async with tcp_rig() as rig:
        broker, lost = rig.brokers[0], MessageQueue("T", "a", 0)
        broker.put("T", 0, b"bad")
        tries: list[bytes] = []

        async def refuse(message: MessageExt) -> ConsumeOrderlyStatus:
            tries.append(message.body)
            return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT

        consumer = consuming(rig, refuse, orderly=True, profile="4.9")
        async with consumer:
            await eventually(lambda: tries, "it failed and waits for its next try")
            broker.extra_members.append(ANOTHER)
            broker.notify("consumers")
            await eventually(lambda: len(consumer.assignment) == 2, "half is given up")
            await eventually(lambda: len(broker.locks) == 3, "an empty queue is unlocked at once")
            await rig.advance(19)
            assert broker.locks[lost] == consumer.client_id
            await rig.advance(2)
            await eventually(lambda: lost not in broker.locks, "20 s later the other one too")


# -- taking -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("profile", "delay_s"), [("4.9", 0.0), ("5.x", 0.5)])
async def test_a_new_orderly_queue_is_locked_then_looked_up_then_pulled(
    profile: str, delay_s: float
) -> None:
    # behaviour 17: C-25.3, C-25.4
    async with tcp_rig(queues=1) as rig:
        broker = rig.brokers[0]
        queue = MessageQueue("T", "a", 0)
        broker.locks[queue] = "another"
        async with consuming(rig, Collected(), orderly=True, profile=profile) as consumer:
            await rig.advance(21)
            assert broker.count(RequestCode.LOCK_BATCH_MQ) > 0
            assert broker.count(RequestCode.QUERY_CONSUMER_OFFSET) == 0
            assert consumer.assignment == [], "no lock, no queue"
            del broker.locks[queue]
            broker.notify("consumers")
            if profile == "5.x":
                await rig.advance(1)  # no two rounds within a second
            await eventually(lambda: consumer.assignment == [queue], "the lock was granted")
            await rig.advance(delay_s)
            await held(broker, 1)
            codes = [request.code for request in broker.seen]
            lock = max(i for i, code in enumerate(codes) if code == RequestCode.LOCK_BATCH_MQ)
            asked = codes.index(RequestCode.QUERY_CONSUMER_OFFSET)
            assert lock < asked < codes.index(PULL)


async def test_a_queue_that_comes_back_starts_where_the_broker_says() -> None:
    # behaviour 17: C-25.3
    async with tcp_rig(queues=1) as rig:
        broker = rig.brokers[0]
        broker.put_many("T", 0, [b"0", b"1", b"2"])
        got = Collected()
        consumer = consuming(rig, got, orderly=True, profile="4.9", strategy=(own := OnDemand()))
        own.gives = True
        async with consumer:
            await eventually(lambda: len(got) == 3, "all is consumed")
            own.gives = False
            broker.notify("consumers")
            await eventually(lambda: consumer.assignment == [], "the queue is given up")
            await eventually(lambda: not broker.locks, "and unlocked")
            broker.release_held()
            broker.offsets["consumers", "T", 0] = 1  # another owner was reset
            own.gives = True
            broker.notify("consumers")
            await eventually(lambda: len(got) == 5, "from there on")
            assert [message.queue_offset for message in got.messages] == [0, 1, 2, 1, 2]
