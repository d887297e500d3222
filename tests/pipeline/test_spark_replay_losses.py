"""A replay that goes on stops, or counts, when what it had read is gone or is another queue."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest

from pocketmq.client import Message, MessageQueue
from pocketmq.pipeline import read_store, read_topic
from pocketmq.pipeline.errors import DataLossError
from pocketmq.pipeline.jobs import replay_job
from pocketmq.pipeline.jobs.replay_job import Replayed, ReplayOptions, replay
from pocketmq.pipeline.jobs.replay_rows import read_parts
from support.exported import as_exported
from support.remade_store import remake, retain, write
from support.spark_cluster import SparkCluster, spark_cluster
from support.spark_store import open_store, put, stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

SHORT_LIVED = (
    *("--mapped-file-size-commit-log", str(64 * 1024), "--max-message-size", "4096"),
    *("--file-reserved-time-h", "0", "--delete-when", ";".join(map(str, range(24)))),
)
"""A broker that deletes every file of its log but the last when it looks."""
NEW_QUEUE = "with what there is, or name another state file"


@pytest.fixture(scope="module")
def cluster(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with spark_cluster(folder, brokers=1, broker_arguments=SHORT_LIVED, clock="manual") as cluster:
        yield cluster


class Job:
    """A replay with a state file, which is run again and again."""

    def __init__(self, cluster: SparkCluster, source: str, to: str, folder: Path) -> None:
        self.cluster = cluster
        self.source = source
        self.to = to
        self.state = folder / "state.json"
        cluster.create_topic(to, queues=1)

    def run(self, *, fails: bool = True) -> Replayed:
        options = ReplayOptions(state=self.state, fail_on_data_loss=fails)
        names = self.cluster.nameservers
        return replay(self.source, self.to, nameservers=names, options=options)

    def stops(self, why: str) -> None:
        """It stops and says why and what to do, and has sent nothing; so does a dry run."""
        before = self.sent()
        for dry_run in (False, True):
            with pytest.raises(DataLossError, match=f"{why}.*{NEW_QUEUE}") as caught:
                replay(
                    self.source,
                    self.to,
                    nameservers=self.cluster.nameservers,
                    options=ReplayOptions(state=self.state),
                    dry_run=dry_run,
                )
            assert str(caught.value).startswith("MessageQueue [topic=")
        assert self.sent() == before

    def sent(self) -> list[int]:
        """What the target has, in its order."""
        rows = read_topic(self.to, nameServer=self.cluster.nameservers, columns="body").read_all()
        return [int(body) for body in rows.column("body").to_pylist()]


def send(cluster: SparkCluster, topic: str, start: int, end: int, *, size: int = 0) -> None:
    queue = MessageQueue(topic, "broker-a", 0)
    padded = b" " * size
    cluster.send([Message(topic, b"%d" % n + padded) for n in range(start, end)], queue=queue)


@pytest.fixture
def topic(cluster: SparkCluster, request: pytest.FixtureRequest) -> str:
    """A topic of this test, with 10 messages."""
    name = re.sub(r"\W+", "-", request.node.name)[-60:].strip("-")
    cluster.create_topic(name, queues=1)
    send(cluster, name, 0, 10)
    return name


@pytest.mark.parametrize(("count", "why"), [(5, "offset 10 does not exist"), (30, "offset 9 has")])
def test_a_topic_made_anew_stops_a_replay_or_is_sent_from_its_new_beginning(
    cluster: SparkCluster, topic: str, tmp_path: Path, count: int, why: str
) -> None:
    job = Job(cluster, f"topic:{topic}", f"To-{count}", tmp_path)
    assert job.run().messages == 10
    cluster.remake_topic(topic, queues=1)
    send(cluster, topic, 100, 100 + count)
    job.stops(why)
    assert job.run(fails=False).messages == count
    send(cluster, topic, 200, 203)
    assert job.run().messages == 3
    assert job.sent() == [*range(10), *range(100, 100 + count), *range(200, 203)]


def test_a_topic_made_anew_that_is_empty_stops_a_replay(
    cluster: SparkCluster, topic: str, tmp_path: Path
) -> None:
    job = Job(cluster, f"topic:{topic}", "To-empty", tmp_path)
    job.run()
    cluster.remake_topic(topic, queues=1)
    job.stops("offset 10 does not exist; the queue now ends at 0")
    assert job.run(fails=False).messages == 0
    job.run()  # it has been told


def test_what_retention_removed_stops_a_replay_or_is_counted(
    cluster: SparkCluster, topic: str, tmp_path: Path
) -> None:
    job = Job(cluster, f"topic:{topic}", "To-retained", tmp_path)
    job.run()
    send(cluster, topic, 10, 200, size=2000)
    cluster.advance(3600)
    job.stops(r"offsets 10 to \d+ \(\d+ messages\) were removed .* now begins at \d+")
    done = job.run(fails=False)
    assert 0 < done.lost < 190
    assert done.messages == 190 - done.lost
    assert job.run() == Replayed()


def test_what_is_removed_before_anything_was_sent_is_a_loss_too(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    cluster.create_topic("Begun", queues=1)
    job = Job(cluster, "topic:Begun", "To-begun", tmp_path)
    assert job.run() == Replayed()
    send(cluster, "Begun", 0, 200, size=2000)
    cluster.advance(3600)
    job.stops(r"offsets 0 to \d+ ")


def test_queues_that_go_away_are_named_if_they_have_messages_that_were_not_sent(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    cluster.create_topic("Shrunk", queues=4)
    job = Job(cluster, "topic:Shrunk", "To-shrunk", tmp_path)
    queue = MessageQueue("Shrunk", "broker-a", 3)
    cluster.send([Message("Shrunk", b"1")] * 5, queue=queue)
    assert job.run().messages == 5
    cluster.shape_topic("Shrunk", 2)
    assert job.run() == Replayed()
    cluster.shape_topic("Shrunk", 4)
    cluster.send([Message("Shrunk", b"2")] * 5, queue=queue)
    cluster.shape_topic("Shrunk", 2)
    job.stops(r"queueId=3\]: cannot be read any more, and 5 messages from offset 5 on not read")
    cluster.shape_topic("Shrunk", 4)
    assert job.run().messages == 5


def test_messages_of_a_former_topic_are_not_taken_for_those_of_a_new_one(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    cluster.create_topic("Former", queues=1)
    job = Job(cluster, "topic:Former", "To-former", tmp_path)
    job.run()
    first = job.state.read_text()
    send(cluster, "Former", 0, 10)
    job.run()
    job.state.write_text(first)  # as if it had been killed before the next state
    cluster.advance(1)
    cluster.remake_topic("Former", queues=1)
    send(cluster, "Former", 100, 120)
    assert job.run().messages == 20
    assert job.sent() == [*range(10), *range(100, 120)]


def test_a_store_that_was_replaced_stops_a_replay(cluster: SparkCluster, tmp_path: Path) -> None:
    root = tmp_path / "broker-a"
    job = Job(cluster, f"store:{root}", "To-store", tmp_path)
    write(root, range(10))
    assert job.run().messages == 10
    write(root, range(10, 12))
    assert job.run().messages == 2
    remake(root, range(100, 130))
    job.stops("offset 11 has another message")
    remake(root, range(100, 105))
    job.stops("offset 12 does not exist; the queue now ends at 5")
    assert job.run(fails=False).messages == 5
    write(root, range(200, 300), size=1000)
    retain(root, 1)
    job.stops(r"offsets 5 to \d+ ")
    done = job.run(fails=False)
    assert (done.messages, done.lost > 0) == (100 - done.lost, True)
    shutil.rmtree(root)
    write(root, range(3), topic="Other")
    job.stops("there is no such queue any more; it was read up to offset 105")
    assert job.run(fails=False).messages == 3
    assert job.run() == Replayed()  # it has been told


def test_what_a_store_loses_before_spark_reads_it_stops_a_replay_or_is_counted(
    cluster: SparkCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "broker-a"
    job = Job(cluster, f"store:{root}", "To-read-late", tmp_path)
    write(root, range(200), size=1000)

    def read_late(*words: Any, **named: Any) -> Any:
        retain(root, 1)
        return read_parts(*words, **named)

    monkeypatch.setattr(replay_job, "read_parts", read_late)
    with pytest.raises(DataLossError, match=rf"offsets 0 to \d+ .* were removed .*{NEW_QUEUE}"):
        job.run()
    done = job.run(fails=False)
    assert (done.messages, done.lost > 0) == (200 - done.lost, True)


@pytest.mark.parametrize("kind", ["topic", "store"])
def test_a_source_made_anew_while_it_is_sent_stops_the_replay(
    cluster: SparkCluster, topic: str, tmp_path: Path, kind: str
) -> None:
    root = tmp_path / "broker-a"
    write(root, range(10))
    job = Job(
        cluster,
        f"topic:{topic}" if kind == "topic" else f"store:{root}",
        f"To-{kind}-while",
        tmp_path,
    )

    def after_state(done: Replayed) -> None:
        if done.messages != 4:
            return
        cluster.advance(1)
        cluster.remake_topic(topic, queues=1)
        send(cluster, topic, 100, 130)
        remake(root, range(100, 130))

    with pytest.raises(
        DataLossError, match=r"another message .* while it was read; run the job again"
    ):
        replay(
            job.source,
            job.to,
            nameservers=cluster.nameservers,
            options=ReplayOptions(state=job.state, state_rows=4),
            on_state=after_state,
        )
    job.stops("offset 3 has another message")
    assert job.run(fails=False).messages == 30


@pytest.mark.parametrize(("count", "why"), [(5, "offset 20 does not exist"), (30, "offset 19 has")])
def test_a_table_that_was_replaced_stops_a_replay(
    cluster: SparkCluster, tmp_path: Path, count: int, why: str
) -> None:
    root, table = tmp_path / "broker-a", tmp_path / "table"
    job = Job(cluster, f"parquet:{table}", f"To-table-{count}", tmp_path)
    write(root, range(20))
    as_exported(table, read_store(str(root), brokerName="broker-a").read_all())
    assert job.run().messages == 20
    shutil.rmtree(table)
    remake(root, range(100, 100 + count))
    as_exported(table, read_store(str(root), brokerName="broker-a").read_all())
    job.stops(why)
    assert job.run(fails=False).messages == count
    assert job.run() == Replayed()


def test_a_queue_that_a_table_does_not_have_any_more_stops_a_replay(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    root, table = tmp_path / "broker-a", tmp_path / "table"
    job = Job(cluster, f"parquet:{table}", "To-table-gone", tmp_path)
    with open_store(root) as store:
        for number in range(20):
            put(store, [stored(b"%d" % number, queue_id=number % 2)])
    as_exported(table, read_store(str(root), brokerName="broker-a").read_all())
    assert job.run().messages == 20
    shutil.rmtree(table)
    rows = read_store(str(root), brokerName="broker-a").read_all()
    as_exported(table, rows.filter(pc.field("queueId") == 0))
    job.stops(r"queueId=1\]: there is no such queue any more; it was read up to offset 10")
    assert job.run(fails=False) == Replayed()
    assert job.run() == Replayed()


def test_a_state_of_an_earlier_version_is_gone_on_with(
    cluster: SparkCluster, topic: str, tmp_path: Path
) -> None:
    job = Job(cluster, f"topic:{topic}", "To-unmarked", tmp_path)
    job.run()
    said = json.loads(job.state.read_text())
    assert re.fullmatch(r"\d+@\d+", said.pop("marks")[0][-1])
    job.state.write_text(json.dumps(said))
    send(cluster, topic, 10, 15)
    assert job.run().messages == 5
    cluster.remake_topic(topic, queues=1)
    send(cluster, topic, 100, 130)
    job.stops("offset 14 has another message")
