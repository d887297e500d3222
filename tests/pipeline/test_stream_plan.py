"""What a stream reads next, and what it says is lost: without a process around it."""

from __future__ import annotations

import pytest

from pocketmq.pipeline.checkpoint import Checkpoint
from pocketmq.pipeline.errors import BrokerAwayError, DataLossError
from pocketmq.pipeline.offsets import Offsets
from pocketmq.pipeline.stream_plan import StreamPlan
from pocketmq.protocol.message import MessageQueue
from support.fake_topics import FakeBroker, FakeTopics, fake_plan

QUEUE = MessageQueue("T", "a", 0)


def all_of(_begin: Offsets, end: Offsets) -> Offsets:
    return end


async def batch(plan: StreamPlan, start: Checkpoint) -> Checkpoint:
    """The next batch; what Spark stores between two goes through JSON."""
    end = await plan.latest(start, all_of)
    return Checkpoint.of_tree(end.tree())


async def ranges(plan: StreamPlan, start: Checkpoint, end: Checkpoint) -> set[tuple[int, int]]:
    """Offsets that the tasks of a batch read, of one queue."""
    tasks = await plan.parts(start, end)
    return {(part.start, part.end) for task in tasks for part in task}


async def standing(cluster: FakeTopics, count: int) -> Checkpoint:
    """A stream that has read so many messages."""
    cluster.send(count)
    plan = fake_plan(cluster)
    return await batch(plan, await plan.initial())


# -- a topic made anew ---------------------------------------------------------------------------


async def test_a_topic_made_anew_with_as_many_messages_is_noticed_after_a_restart() -> None:
    """Its queues have not moved, so nothing but their marks tells."""
    cluster = FakeTopics()
    stand = await standing(cluster, 10)
    cluster.remake()
    cluster.send(10)
    with pytest.raises(DataLossError, match="the topic was made anew"):
        await batch(fake_plan(cluster), stand)


async def test_a_stream_that_runs_compares_the_marks_of_queues_that_move() -> None:
    cluster = FakeTopics()
    stand = await standing(cluster, 10)
    plan = fake_plan(cluster)
    assert await batch(plan, stand) == stand
    cluster.remake()
    cluster.send(11)
    with pytest.raises(DataLossError, match="the topic was made anew"):
        await batch(plan, stand)


# -- masters that are away -----------------------------------------------------------------------


@pytest.mark.parametrize("acting", [False, True])
@pytest.mark.parametrize("fails", ["true", "false"])
async def test_the_end_of_a_slave_whose_master_is_away_is_none_of_the_queue(
    acting: bool, fails: str
) -> None:
    """Though routes may show the slave as master (`supportActingMaster`)."""
    cluster = FakeTopics()
    stand = await standing(cluster, 10)
    master = cluster.broker()
    slave = FakeBroker("a", 1, {QUEUE: master.queues[QUEUE].copy()})
    del slave.queues[QUEUE].messages[5:]
    cluster.brokers = [slave]
    cluster.shows_acting = acting
    plan = fake_plan(cluster, failOnDataLoss=fails)
    with pytest.raises(BrokerAwayError, match="a is not registered with any name server"):
        await batch(plan, stand)
    assert plan.counts()["lost"] == 0

    cluster.brokers = [master]
    cluster.send(3)
    end = await batch(plan, stand)
    assert await ranges(plan, stand, end) == {(10, 13)}


async def test_while_one_broker_has_no_master_the_others_are_read() -> None:
    cluster = FakeTopics()
    cluster.brokers.append(FakeBroker("b"))
    cluster.send(4, broker="b")
    stand = await standing(cluster, 10)
    cluster.broker().broker_id = 1
    cluster.send(5, broker="b")
    plan = fake_plan(cluster)
    end = await batch(plan, stand)
    assert await ranges(plan, stand, end) == {(4, 9)}
