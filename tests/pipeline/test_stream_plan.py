"""What a stream reads next, and what it says is lost: without a process around it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pocketmq.pipeline.errors import BrokerAwayError, DataLossError
from pocketmq.pipeline.options.offsets import Offsets
from pocketmq.pipeline.progress.checkpoint import Checkpoint, Early
from pocketmq.pipeline.progress.stream_plan import StreamPlan
from pocketmq.pipeline.topics.partition_numbers import partition_numbers
from pocketmq.protocol.errors import BrokerError
from pocketmq.protocol.messages.message import MessageQueue
from support.fake_topics import FakeBroker, FakeTopics, fake_plan

QUEUE = MessageQueue("T", "a", 0)
OTHER = MessageQueue("U", "a", 0)


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


def losses(plan: StreamPlan) -> tuple[int | None, ...]:
    """Messages that were lost, queues made anew, queues cut short."""
    counts = plan.counts()
    return counts["lost"], counts["remade"], counts["cut"]


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


async def test_a_topic_made_anew_says_that_going_on_reads_all_of_it() -> None:
    cluster = FakeTopics()
    stand = await standing(cluster, 10)
    cluster.remake()
    cluster.send(7)
    says = "ends at 7: the topic was made anew.* from its beginning .* comes a second time"
    with pytest.raises(DataLossError, match=says):
        await batch(fake_plan(cluster), stand)
    plan = fake_plan(cluster, failOnDataLoss="false")
    end = await batch(plan, stand)
    assert await ranges(plan, stand, end) == {(0, 7)}
    assert losses(plan) == (0, 1, 0)


@pytest.mark.parametrize("again", [0, 6])
async def test_a_topic_made_anew_of_which_nothing_was_read_is_told_as_such(again: int) -> None:
    cluster = FakeTopics()
    cluster.send(20)
    for fails in ("true", "false"):
        plan = fake_plan(cluster, failOnDataLoss=fails)
        stand = await plan.initial()
        assert await plan.latest(stand, lambda *_: None) == stand
        before = cluster.queue().copy()
        cluster.remake()
        cluster.send(again)
        if fails == "true":
            with pytest.raises(DataLossError, match="the topic was made anew"):
                await batch(plan, stand)
            cluster.broker().queues[QUEUE] = before
            continue
        end = await batch(plan, stand)
        assert await ranges(plan, stand, end) == ({(0, 6)} if again else set())
        assert await batch(plan, end) == end
        assert losses(plan) == (20, 1, 0)


# -- queues that are cut short -------------------------------------------------------------------


@pytest.mark.parametrize("since", [0, 4, 10, 30])
async def test_a_failover_to_a_shorter_log_is_told_as_such_and_nothing_is_read_twice(
    since: int,
) -> None:
    """However many messages the new master has got since."""
    cluster = FakeTopics()
    stand = await standing(cluster, 5_010)
    cluster.cut(10)
    cluster.send(since)
    says = (
        "the stream has read it up to offset 5010, and it is the same queue up to 5000: the broker "
        "has lost its last 10 messages; a slave that lacked them became master.*; nothing is read "
        "twice: set failOnDataLoss=false to go on at offset 5000;"
    )
    with pytest.raises(DataLossError, match=says) as caught:
        await batch(fake_plan(cluster), stand)
    assert "made anew" not in str(caught.value)

    plan = fake_plan(cluster, failOnDataLoss="false")
    end = await batch(plan, stand)
    assert await ranges(plan, stand, end) == ({(5_000, 5_000 + since)} if since else set())
    assert losses(plan) == (10, 0, 1)
    cluster.send(3)
    for process in (plan, fake_plan(cluster)):  # the same one, and one that is started again
        after = await batch(process, end)
        assert await ranges(process, end, after) == {(5_000 + since, 5_003 + since)}
    assert losses(plan) == (10, 0, 1)


async def test_a_checkpoint_without_early_marks_tells_a_cut_by_store_times() -> None:
    cluster = FakeTopics()
    stand = replace(await standing(cluster, 50), early={})
    cluster.cut(10)
    cluster.send(20)
    with pytest.raises(DataLossError, match="the same queue up to 40"):
        await batch(fake_plan(cluster), stand)
    cluster.remake()
    cluster.send(20)
    with pytest.raises(DataLossError, match="the topic was made anew"):
        await batch(fake_plan(cluster), stand)


async def test_a_checkpoint_without_any_marks_is_read_on() -> None:
    cluster = FakeTopics()
    stand = Checkpoint((await standing(cluster, 50)).offsets)
    cluster.send(5)
    plan = fake_plan(cluster)
    end = await batch(plan, stand)
    assert await ranges(plan, stand, end) == {(50, 55)}
    assert end.early == {QUEUE: Early(0, cluster.queue().messages[0])}


async def test_an_early_message_that_retention_removed_is_followed_by_a_later_one() -> None:
    cluster = FakeTopics()
    stand = await standing(cluster, 50)
    assert stand.early[QUEUE].offset == 0
    cluster.queue().low = 30
    cluster.send(50)
    stand = await batch(fake_plan(cluster), stand)
    assert stand.early[QUEUE].offset == 49
    cluster.cut(10)
    with pytest.raises(DataLossError, match="the same queue up to 90"):
        await batch(fake_plan(cluster), stand)


async def test_a_queue_that_is_cut_short_twice_is_not_taken_for_one_made_anew() -> None:
    """Though its early message went with retention: the next one is not among those lost."""
    cluster = FakeTopics()
    stand = await standing(cluster, 50)
    cluster.queue().low = 30
    cluster.cut(5)
    plan = fake_plan(cluster, failOnDataLoss="false")
    stand = await batch(plan, stand)
    cluster.send(20)
    stand = await batch(plan, stand)
    cluster.cut(10)
    with pytest.raises(DataLossError, match="the same queue up to 55"):
        await batch(fake_plan(cluster), stand)


async def test_messages_that_were_seen_and_lost_before_they_were_read_are_told_once() -> None:
    cluster = FakeTopics()
    stand = await standing(cluster, 10)
    cluster.send(10)
    some = {QUEUE: 15}
    says = "has seen it up to offset 20, and it is the same queue up to 18.* lost 2 messages"
    for fails in ("true", "false"):
        plan = fake_plan(cluster, failOnDataLoss=fails)
        middle = await plan.latest(stand, lambda *_: some)
        cluster.cut(2)
        if fails == "true":
            with pytest.raises(DataLossError, match=says):
                await batch(plan, middle)
            cluster.send(2)
            continue
        end = await batch(plan, middle)
        assert await ranges(plan, middle, end) == {(15, 18)}
        assert await batch(plan, end) == end
        assert losses(plan) == (2, 0, 0)


@pytest.mark.parametrize("since", [0, 3, 20])
async def test_a_batch_that_is_repeated_after_a_failover_reads_nothing_of_the_next_one(
    since: int,
) -> None:
    """As after a kill: it was planned up to offset 20, the new master has the same up to 16."""
    cluster = FakeTopics()
    start = await standing(cluster, 10)
    cluster.send(10)
    end = await batch(fake_plan(cluster), start)
    cluster.cut(4)
    cluster.send(since)
    with pytest.raises(DataLossError, match=r"the same queue up to 16.* lost 4 messages"):
        await ranges(fake_plan(cluster), start, end)
    plan = fake_plan(cluster, failOnDataLoss="false")
    assert await ranges(plan, start, end) == {(10, 16)}
    after = await batch(plan, end)
    assert await ranges(plan, end, after) == ({(16, 16 + since)} if since else set())
    assert losses(plan)[0] == 4


@pytest.mark.parametrize("read", [0, 10])
@pytest.mark.parametrize("again", [6, 20, 30])
async def test_a_batch_that_is_repeated_reads_nothing_of_a_topic_made_anew(
    read: int, again: int
) -> None:
    """The next batch reads that from its beginning: nothing comes twice."""
    cluster = FakeTopics()
    cluster.send(read)
    plan = fake_plan(cluster)
    start = await plan.initial()
    start = await batch(plan, start) if read else start
    cluster.send(20 - read)
    end = await batch(plan, start)
    cluster.remake()
    cluster.send(again)
    with pytest.raises(DataLossError, match="the topic was made anew"):
        await ranges(fake_plan(cluster), start, end)
    plan = fake_plan(cluster, failOnDataLoss="false")
    assert await ranges(plan, start, end) == set()
    after = await batch(plan, end)
    assert await ranges(plan, end, after) == {(0, again)}
    assert losses(plan)[0] == 20 - read


async def test_a_batch_that_is_repeated_tells_of_a_new_queue_that_is_empty_again() -> None:
    cluster = FakeTopics()
    start = await standing(cluster, 10)
    cluster.send(5, number=1)
    end = await batch(fake_plan(cluster), start)
    cluster.remake(number=1)
    with pytest.raises(DataLossError, match=r"queueId=1\]"):
        await ranges(fake_plan(cluster), start, end)
    plan = fake_plan(cluster, failOnDataLoss="false")
    assert await ranges(plan, start, end) == set()
    assert losses(plan)[0] == 5


async def test_a_broker_too_busy_to_say_whether_a_queue_is_as_it_was_is_an_error() -> None:
    """It is not taken for one that has nothing stored, and the queue not for one made anew."""
    cluster = FakeTopics()
    stand = await standing(cluster, 10)
    cluster.cut(2)
    cluster.broker().is_busy = True
    with pytest.raises(BrokerError, match="SYSTEM_BUSY"):
        await batch(fake_plan(cluster, failOnDataLoss="false"), stand)


# -- brokers with another name -------------------------------------------------------------------


async def two_queues(cluster: FakeTopics) -> tuple[StreamPlan, Checkpoint]:
    """A stream that has read two of three queues; of the third there was nothing."""
    cluster.send(10)
    cluster.send(10, number=1)
    cluster.queue(number=2)
    plan = fake_plan(cluster)
    return plan, await batch(plan, await plan.initial())


@pytest.mark.parametrize("is_same_process", [True, False])
@pytest.mark.parametrize("is_bounded", [True, False])
@pytest.mark.parametrize("has_others", [True, False])
async def test_a_broker_with_another_name_is_read_on_where_it_was(
    is_same_process: bool, is_bounded: bool, has_others: bool, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = FakeTopics()
    if has_others:
        cluster.brokers.append(FakeBroker("o"))
        cluster.send(1, broker="o")
    plan, stand = await two_queues(cluster)
    cluster.rename("a", "x")
    cluster.send(4, broker="x", number=1)
    cluster.send(2, broker="x", number=2)
    plan = plan if is_same_process else fake_plan(cluster)
    if is_bounded:
        await plan.set_target()
    end = await batch(plan, stand)
    assert await ranges(plan, stand, end) == {(10, 14), (0, 2)}
    assert await ranges(fake_plan(cluster), stand, end) == {(10, 14), (0, 2)}
    assert {queue.broker_name for queue in end.offsets} == {"x", "o"} if has_others else {"x"}
    assert "event='broker.renamed'" in caplog.text

    cluster.send(3, broker="x")
    after = await batch(fake_plan(cluster), end)
    assert await ranges(fake_plan(cluster), end, after) == {(10, 13)}


async def test_a_batch_that_was_planned_is_read_under_the_new_name() -> None:
    cluster = FakeTopics()
    plan, start = await two_queues(cluster)
    cluster.send(4)
    end = await batch(plan, start)
    cluster.rename("a", "x")
    plan = fake_plan(cluster)
    tasks = await plan.parts(start, end)
    assert [(part.queue.broker_name, part.start, part.end) for task in tasks for part in task] == [
        ("x", 10, 14)
    ]
    cluster.send(5, broker="x", number=1)
    after = await batch(plan, end)
    assert await ranges(plan, end, after) == {(10, 15)}


async def test_a_broker_with_other_messages_is_another_one() -> None:
    cluster = FakeTopics()
    _, stand = await two_queues(cluster)
    away = cluster.brokers.pop()
    cluster.brokers.append(FakeBroker("x"))
    cluster.send(12, broker="x")
    plan = fake_plan(cluster, retries="0")
    with pytest.raises(BrokerAwayError):
        await batch(plan, stand)
    cluster.brokers.append(away)
    end = await batch(plan, stand)
    assert await ranges(plan, stand, end) == {(0, 12)}


async def test_a_renamed_broker_has_the_partition_numbers_of_its_new_name() -> None:
    cluster = FakeTopics()
    cluster.send(10)
    plan = fake_plan(cluster, kafkaCompatible="true")
    stand = await batch(plan, await plan.initial())
    cluster.rename("a", "x")
    cluster.send(1, broker="x")
    end = await batch(plan, stand)
    assert end.partitions == partition_numbers([MessageQueue("T", "x", 0)])


# -- what the options name no more ---------------------------------------------------------------


@pytest.mark.parametrize(
    "narrower",
    [{"topic": "T"}, {"subscribePattern": "T"}, {"assign": '{"T":{"a":[0]}}'}],
    ids=lambda each: next(iter(each)),
)
@pytest.mark.parametrize("is_deleted", [False, True])
async def test_topics_that_are_not_named_for_one_run_stay_where_they_are(
    narrower: dict[str, str], is_deleted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """They are no loss, and nobody is told to give them queues back."""
    cluster = FakeTopics()
    cluster.send(10, "U")
    cluster.send(10)
    plan = fake_plan(cluster, "T,U")
    stand = await batch(plan, await plan.initial())
    cluster.send(5, "U")
    cluster.send(3)
    removed = cluster.broker().queues.pop(OTHER) if is_deleted else None
    narrow = fake_plan(cluster, **{"topic": "", **narrower})
    await narrow.set_target()
    end = await batch(narrow, stand)
    assert await ranges(narrow, stand, end) == {(10, 13)}
    assert await batch(narrow, end) == end
    assert losses(narrow) == (0, 0, 0)
    assert caplog.text.count("event='topic.left_out'") == 1

    if removed is not None:
        cluster.broker().queues[OTHER] = removed
    wide = fake_plan(cluster, "T,U")
    after = await batch(wide, end)
    assert await ranges(wide, end, after) == {(10, 15)}


async def test_a_batch_that_was_planned_is_read_though_its_topic_is_not_named_any_more() -> None:
    cluster = FakeTopics()
    cluster.send(10, "U")
    cluster.send(10)
    plan = fake_plan(cluster, "T,U")
    start = await plan.initial()
    end = await batch(plan, start)
    parts = await fake_plan(cluster).parts(start, end)
    assert {each.queue.topic for task in parts for each in task} == {"T", "U"}


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
