"""What a stream tells of itself while it runs: above all what it has lost, as numbers above 0."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from pocketmq.client import Admin, Message, MessageQueue
from pocketmq.pipeline.errors import DataLossError
from pocketmq.pipeline.progress.checkpoint import Mark
from pocketmq.pipeline.progress.stream_losses import LossPolicy, deleted, remade, removed
from pocketmq.pipeline.spark.stream_figures import BatchFigures, figures_of
from pocketmq.pipeline.spark.stream_source import TopicStreamReader
from pocketmq.pipeline.topics.settings import ReadSettings
from support.eventually import PATIENCE_MS, eventually
from support.forgetful import SHORT_LIVED, retain
from support.spark_cluster import SparkCluster, spark_cluster
from support.spark_query import send

Tree = dict[str, Any]
ALL = ReadAllAvailable()


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    folder = tmp_path_factory.mktemp("forgetful")
    with spark_cluster(folder, brokers=1, broker_arguments=SHORT_LIVED, clock="manual") as cluster:
        yield cluster


class Stream:
    """A stream as Spark drives it: plan, report, read; each batch has a progress."""

    def __init__(self, cluster: SparkCluster, topic: str, **options: str) -> None:
        given = {"startingOffsets": "earliest", "failOnDataLoss": "false", **options}
        given |= {"nameServer": cluster.nameservers, "topic": topic}
        settings = ReadSettings(given, streaming=True)
        self.reader = TopicStreamReader(settings, settings.columns)
        self.at: Tree = {}
        self.end: Tree = {}
        self._latest: Tree = {}

    def begin(self, at: Tree | None = None) -> None:
        self.at = self.reader.initialOffset() if at is None else at

    def plan(self, limit: Any = ALL) -> list[Any]:
        """Plan a batch; its tasks."""
        self.end = self.reader.latestOffset(self.at, limit)
        self._latest = self.reader.reportLatestOffset()
        return list(self.reader.partitions(self.at, self.end))

    def read(self, tasks: list[Any]) -> BatchFigures:
        """Read them, and tell what the listener would."""
        rows = sum(len(each) for task in tasks for each in self.reader.read(task))
        source = {
            "startOffset": self.at,
            "endOffset": self.end,
            "latestOffset": self._latest,
            "numInputRows": rows,
        }
        self.at = self.end
        found = figures_of({"id": "q", "batchId": 0, "sources": [source]})
        assert found is not None
        return found

    def batch(self, limit: Any = ALL) -> BatchFigures:
        return self.read(self.plan(limit))


def lost(figures: BatchFigures) -> tuple[int, int, int, int | None]:
    return figures.rows, figures.lost, figures.remade, figures.unread


def on_a(topic: str, queue_id: int = 0) -> MessageQueue:
    return MessageQueue(topic, "broker-a", queue_id)


def delete_topic(cluster: SparkCluster, topic: str) -> None:
    async def delete() -> None:
        async with Admin(nameservers=cluster.nameservers, api_timeout_ms=PATIENCE_MS) as admin:
            await admin.delete_topic(topic)

            async def is_gone() -> bool:
                return await admin.route(topic) is None

            await eventually(is_gone, f"the name servers have forgotten {topic}")

    cluster.run(delete())


# -- found when a batch is planned ---------------------------------------------------------------


def test_what_retention_removed_is_counted_with_the_batch_that_goes_on_behind_it(
    forgetful: SparkCluster,
) -> None:
    forgetful.create_topic("Kept", queues=1)
    send(forgetful, "Kept", range(10))
    stream = Stream(forgetful, "Kept")
    stream.begin()
    assert lost(stream.batch()) == (10, 0, 0, 0)
    send(forgetful, "Kept", range(10, 200), size=2000)
    first = retain(forgetful, "Kept")
    assert 10 < first < 200
    assert lost(stream.batch()) == (200 - first, first - 10, 0, 0)
    assert lost(stream.batch()) == (0, first - 10, 0, 0), "told once"


def test_a_batch_that_waits_for_more_messages_does_not_count_its_losses_again(
    forgetful: SparkCluster,
) -> None:
    forgetful.create_topic("Waits", queues=1)
    stream = Stream(forgetful, "Waits")
    stream.begin()
    for until in (200, 400):
        send(forgetful, "Waits", range(until - 200, until), size=2000)
        first = retain(forgetful, "Waits")
        assert lost(stream.batch(ReadMinRows(10_000))) == (0, first, 0, 0)
    assert lost(stream.batch()) == (400 - first, first, 0, 0)


def test_a_batch_that_another_process_planned_counts_what_it_has_lost_and_no_more(
    forgetful: SparkCluster,
) -> None:
    """As after a kill: it ends at 30, and the messages up to `first` are gone."""
    forgetful.create_topic("Killed", queues=1)
    send(forgetful, "Killed", range(200), size=2000)
    killed = Stream(forgetful, "Killed")
    killed.begin()
    killed.plan(ReadMaxRows(30))
    first = retain(forgetful, "Killed")
    assert first > 30
    again = Stream(forgetful, "Killed")
    assert again.reader.partitions(killed.at, killed.end) == []
    assert again.reader.plan.counts()["lost"] == 30
    again.begin(killed.end)
    assert lost(again.batch()) == (200 - first, first, 0, 0)


def test_starting_offsets_that_are_not_stored_are_counted(forgetful: SparkCluster) -> None:
    forgetful.create_topic("Starts", queues=1)
    send(forgetful, "Starts", range(200), size=2000)
    first = retain(forgetful, "Starts")
    stream = Stream(forgetful, "Starts", startingOffsets='{"Starts":{"broker-a":{"0":3}}}')
    stream.begin()
    assert lost(stream.batch()) == (200 - first, first - 3, 0, 0)


def test_a_queue_that_appears_behind_0_is_counted(forgetful: SparkCluster) -> None:
    forgetful.create_topic("Appears", queues=1)
    stream = Stream(forgetful, "Appears")
    stream.begin()
    forgetful.shape_topic("Appears", 2)
    send(forgetful, "Appears", range(200), size=2000, queue=on_a("Appears", 1))
    first = retain(forgetful, "Appears", queue_id=1)
    assert first > 0
    assert lost(stream.batch()) == (200 - first, first, 0, 0)


def test_of_a_topic_made_anew_what_had_been_seen_is_counted_and_the_queue_too(
    forgetful: SparkCluster,
) -> None:
    forgetful.create_topic("Anew", queues=1)
    send(forgetful, "Anew", range(20))
    stream = Stream(forgetful, "Anew")
    stream.begin()
    assert lost(stream.batch(ReadMaxRows(15))) == (15, 0, 0, 0)
    forgetful.remake_topic("Anew", queues=1)
    send(forgetful, "Anew", range(100, 130))  # longer than the old one was
    assert lost(stream.batch(ReadMinRows(10_000))) == (0, 5, 1, 0)
    assert lost(stream.batch()) == (30, 5, 1, 0)
    forgetful.remake_topic("Anew", queues=1)
    send(forgetful, "Anew", range(200, 203))
    assert lost(stream.batch()) == (3, 5, 2, 0), "all of it had been read"


def test_of_a_topic_that_is_deleted_what_had_been_seen_is_counted_and_others_are_read_on(
    forgetful: SparkCluster,
) -> None:
    forgetful.create_topic("Gone", queues=1)
    forgetful.create_topic("Stays", queues=1)
    send(forgetful, "Gone", range(20))
    stream = Stream(forgetful, "Gone,Stays")
    stream.begin()
    assert stream.batch(ReadMaxRows(12)).rows == 12
    delete_topic(forgetful, "Gone")
    send(forgetful, "Stays", range(3))
    assert lost(stream.batch()) == (3, 8, 1, 0)
    assert lost(stream.batch()) == (0, 8, 1, 0)
    forgetful.create_topic("Gone", queues=1)
    send(forgetful, "Gone", range(4))
    assert lost(stream.batch()) == (4, 8, 1, 0), "one queue, deleted and made anew"


def test_messages_of_queues_that_went_away_are_counted_until_the_queues_are_back(
    forgetful: SparkCluster,
) -> None:
    forgetful.create_topic("Shrunk", queues=2)
    stream = Stream(forgetful, "Shrunk")
    stream.begin()
    send(forgetful, "Shrunk", range(5), queue=on_a("Shrunk", 1))
    forgetful.shape_topic("Shrunk", 1)
    assert lost(stream.batch()) == (0, 5, 0, 0)
    forgetful.shape_topic("Shrunk", 2)
    assert lost(stream.batch()) == (5, 0, 0, 0)


# -- found by the tasks --------------------------------------------------------------------------


def test_what_retention_removes_while_tasks_run_shows_as_messages_that_were_not_read(
    forgetful: SparkCluster,
) -> None:
    forgetful.create_topic("Running", queues=1)
    send(forgetful, "Running", range(200), size=2000)
    stream = Stream(forgetful, "Running")
    stream.begin()
    tasks = stream.plan()
    first = retain(forgetful, "Running")
    assert first > 0
    assert lost(stream.read(tasks)) == (200 - first, 0, 0, first)
    assert lost(stream.batch()) == (0, 0, 0, 0), "a number for each batch"


@pytest.mark.parametrize(
    "option",
    [{"tags": "a"}, {"dedupe": "true"}, {"mode": "PERMISSIVE"}],
    ids=lambda each: str(each),
)
def test_where_the_source_leaves_out_messages_itself_nobody_knows_how_many_were_not_read(
    forgetful: SparkCluster, option: dict[str, str]
) -> None:
    topic = f"Leaves-{next(iter(option))}"
    forgetful.create_topic(topic, queues=1)
    forgetful.send([Message(topic, b"1", tags=tag) for tag in "aab"])
    stream = Stream(forgetful, topic, **option)
    stream.begin()
    assert stream.batch().unread is None


def test_a_query_that_reads_its_source_twice_has_not_read_less_than_nothing() -> None:
    counts = {"repeated": 0, "lost": 0, "remade": 0, "planned": 10}
    source = {"latestOffset": {"@counts": counts}, "endOffset": {}, "numInputRows": 20}
    found = figures_of({"id": "q", "batchId": 1, "sources": [source]})
    assert found is not None
    assert (found.rows, found.unread) == (20, 0)


# -- counted once --------------------------------------------------------------------------------


def test_a_loss_that_grows_is_counted_as_far_as_it_has_grown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    policy = LossPolicy(fails=False)
    for low, count in ((50, 40), (50, 40), (70, 60)):
        policy.judge([removed(on_a("T"), 10, low, low)])
        assert policy.lost == count
    assert [line.count("messages.lost") for line in caplog.messages] == [1, 1]
    policy.judge([removed(on_a("T"), 70, 75, 75)])
    assert policy.lost == 65


def test_a_queue_made_anew_twice_at_the_same_offset_was_made_anew_twice() -> None:
    policy = LossPolicy(fails=False)
    for mark in (Mark(1, 0), Mark(1, 0), Mark(2, 0)):
        policy.judge([remade(on_a("T"), 20, 5, mark, None, seen=25)])
    assert (policy.lost, policy.remade) == (10, 2)
    policy.judge([deleted(on_a("T", 1), 20, seen=None)])
    assert (policy.lost, policy.remade) == (10, 3)


def test_losses_that_stop_a_stream_are_named_and_not_counted() -> None:
    policy = LossPolicy(fails=True)
    with pytest.raises(
        DataLossError, match=r"queueId=0\]: offsets 10 to 49 \(40 messages\)"
    ) as told:
        policy.judge([removed(on_a("T", each), 10, 50, 50) for each in (1, 0)])
    assert "1 more" in str(told.value)
    assert policy.lost == 0


def test_lag_is_told_in_seconds_and_by_how_much_one_queue_is_behind_the_others() -> None:
    first, second = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)

    def batch(rate: float, lags: dict[MessageQueue, int]) -> BatchFigures:
        return BatchFigures("q", 1, 10, rate, None, sum(lags.values()), lags)

    assert (batch(50.0, {first: 300, second: 100}).lag_s, batch(0.0, {first: 3}).lag_s) == (8, None)
    assert batch(50.0, {first: 300, second: 100}).skew == 1.5
    assert (batch(0.0, {first: 0}).lag_s, batch(0.0, {first: 0}).skew) == (0, 1)
