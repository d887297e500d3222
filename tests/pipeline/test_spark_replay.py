"""A replay by Spark: its rows, and that all of them arrive, in order by key, whoever is killed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from pocketmq.client import Message, MessageQueue
from pocketmq.pipeline import read_store, read_topic
from pocketmq.pipeline.jobs import replay_rows
from pocketmq.pipeline.jobs.commit_samples import read_samples, samples_of_source
from pocketmq.pipeline.jobs.offset_looks import sample
from pocketmq.pipeline.jobs.replay_job import Replayed, ReplayOptions, replay
from pocketmq.pipeline.jobs.replay_rows import ROWS_AT_ONCE, Row, in_order, partitions, read_parts
from pocketmq.pipeline.jobs.sources import source_of
from pocketmq.pipeline.progress.checkpoint import Checkpoint, Mark
from pocketmq.pipeline.sending.sender import Sender
from pocketmq.pipeline.sending.sink_rows import Batch
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.exported import as_exported
from support.remade_store import write
from support.spark_cluster import SparkCluster
from support.spark_store import START_MS, open_store, put, stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.timeout(600)]

NOTHING = Checkpoint({})
NO_MARK = Mark(0, 0)


class Killed(BaseException):
    """Ends a replay as a kill does: what it has sent since its last state is in no file."""


def kill_after(monkeypatch: pytest.MonkeyPatch, batches: int) -> None:
    """Let the next replay be killed when it has sent so many batches."""
    send, sent = Sender.send, []

    def counted(self: Sender, batch: Batch) -> None:
        send(self, batch)
        sent.append(batch)
        if len(sent) == batches:
            self.finish()  # so that it is certain what was sent: the state does not know of it
            raise Killed

    monkeypatch.setattr(Sender, "send", counted)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 messages in each of 3 queues with 5 keys; after 30 the broker's clock is set back."""
    root = tmp_path_factory.mktemp("replay") / "broker-a"
    for half, start_ms in ((0, START_MS), (30, START_MS - 60_000)):
        with open_store(root, ManualClock(start_ms)) as store:
            for number in range(half, half + 30):
                message = stored(
                    b"%d" % number,
                    queue_id=number % 3,
                    tags="A",
                    keys=f"k{number % 5} extra",
                    properties={"mine": "1", "CLUSTER": "of a broker", "REPLAY_FROM": "before"},
                )
                put(store, [message])
            if half:
                put(store, [stored(b"other", topic="U")])
    return root


def rows_in(spark: SparkSession, source: str, stand: Checkpoint = NOTHING) -> list[Row]:
    parts = source_of(source, topics=["T"]).queues(stand)
    rows = read_parts(spark, source, parts, nameservers="")
    return list(in_order(rows, sum(each.high - each.low for each in parts)))


def test_rows_of_stores_and_tables_come_by_time_and_in_the_order_of_their_queues(
    spark: SparkSession, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "table").mkdir()
    rows = read_store(str(root), topic="T", brokerName="broker-a").read_all()
    pq.write_table(rows.slice(30), tmp_path / "table/a.parquet")
    pq.write_table(rows.slice(0, 30), tmp_path / "table/b.parquet")
    store, table = f"store:{root}", f"parquet:{tmp_path / 'table'}"
    of_store, of_table = rows_in(spark, store), rows_in(spark, table)
    assert [row._replace(mark=NO_MARK) for row in of_table] == [
        row._replace(mark=NO_MARK) for row in of_store
    ]
    assert [row.stored_ms for row in of_store] == [START_MS] * 60
    assert {row.mark.store_ms for row in of_store} == {START_MS, START_MS - 60_000}
    for queue_id in range(3):
        offsets = [row.offset for row in of_store if row.queue.queue_id == queue_id]
        assert offsets == list(range(20))
    start = Checkpoint({MessageQueue("T", "broker-a", 1): 15})
    left = rows_in(spark, table, start)
    assert len(left) == 45
    assert min(row.offset for row in left if row.queue.queue_id == 1) == 15
    row = of_store[0]
    assert (row.key, row.body) == ("k0", b"0")
    (original,) = [each for each in rows.to_pylist() if each["body"] == b"0"]
    assert row.properties == {
        "TAGS": "A",
        "KEYS": "k0 extra",
        "mine": "1",
        "UNIQ_KEY": original["uniqKey"],
        "REPLAY_FROM": "T/broker-a/0/0",
        "REPLAY_BORN_MS": str(START_MS - 5),
        "REPLAY_STORE_MS": str(START_MS),
        "WAIT": "true",
    }


def test_stores_of_one_name_are_found_however_their_paths_are_written(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    brokers = [f"{tmp_path}/{folder}/broker-a" for folder in ("one", "two")]
    for broker in brokers:
        write(Path(broker), range(3))
        (Path(broker) / "config").mkdir(exist_ok=True)
        table = {"offsetTable": {"T@billing": {"0": 2}}}
        (Path(broker) / "config/consumerOffset.json").write_text(json.dumps(table))
    source = f"store:{tmp_path}/one/broker-a/, ~/two/./broker-a"
    found = Counter(row.queue.broker_name for row in rows_in(spark, source))
    assert found == dict.fromkeys(brokers, 3)
    looks = [look for each in samples_of_source(source) for look in each]
    assert {look.broker for look in looks} == set(brokers)


def test_there_are_more_parts_the_more_rows_there_are() -> None:
    assert [partitions(count) for count in (0, 1, ROWS_AT_ONCE)] == [1, 1, 1]
    assert partitions(ROWS_AT_ONCE + 1) == 2
    assert partitions(1000 * ROWS_AT_ONCE) == 1000


def test_rows_that_come_in_many_parts_have_the_same_order(
    spark: SparkSession, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = f"store:{root}"
    parts = source_of(source).queues(NOTHING)
    rows = read_parts(spark, source, parts, nameservers="").cache()
    every = rows.orderBy("latest", "topic", "brokerName", "queueId", "queueOffset").collect()
    monkeypatch.setattr(replay_rows, "ROWS_AT_ONCE", 7)
    found = list(in_order(rows, 61))
    assert [row.properties["REPLAY_FROM"] for row in found] == [row.place for row in every]
    sizes = replay_rows.in_parts(rows, 61).rdd.glom().map(len).collect()
    assert (len(sizes), sum(sizes)) == (9, 61)
    assert max(sizes) <= 2 * 7
    rows.unpersist()


def test_the_key_is_the_sharding_key_or_the_queue_of_messages_without_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = tmp_path / "broker-a"
    with open_store(root) as store:
        put(store, [stored(keys="k", properties={"__SHARDINGKEY": "shard"}), stored(queue_id=2)])
    assert [row.key for row in rows_in(spark, f"store:{root}")] == ["shard", "T/broker-a/2"]


def test_a_dry_run_says_what_would_be_sent_and_asks_nobody(spark: SparkSession, root: Path) -> None:
    done = replay(
        f"store:{root}",
        "Again",
        nameservers="127.0.0.1:1",
        topics=["T"],
        options=ReplayOptions(rate=10),
        dry_run=True,
    )
    assert (done.messages, done.keys, done.bytes) == (60, 5, 10 + 100)
    assert (done.first_ms, done.last_ms) == (START_MS, START_MS)
    assert done.lasts_s == pytest.approx(5.9)


@pytest.fixture(scope="module")
def table(spark_brokers: SparkCluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An export of 500 messages with 7 keys; those of a key are numbered in their order."""
    spark_brokers.create_topic("Original")
    queues = spark_brokers.queues("Original")
    for key in range(7):
        spark_brokers.send(
            [
                Message(
                    "Original",
                    f"{key}:{number}".encode(),
                    keys=f"key-{key}",
                    tags="T",
                    properties={"n": str(number)},
                )
                for number in range(500 // 7 + (key < 500 % 7))
            ],
            queue=queues[key],
        )
    folder = tmp_path_factory.mktemp("table") / "original"
    rows = read_topic("Original", nameServer=spark_brokers.nameservers).read_all()
    assert rows.num_rows == 500
    as_exported(folder, rows)
    return f"parquet:{folder}"


def rows_of(spark_brokers: SparkCluster, topic: str) -> list[dict[str, Any]]:
    rows = read_topic(topic, nameServer=spark_brokers.nameservers).read_all().to_pylist()
    return sorted(rows, key=lambda row: (row["brokerName"], row["queueId"], row["queueOffset"]))


def check_order(rows: list[dict[str, Any]]) -> None:
    """Everything is there once, and each key in one queue in its order."""
    assert len(rows) == 500
    assert len({row["body"] for row in rows}) == 500
    for key in range(7):
        mine = [row for row in rows if row["keys"] == f"key-{key}"]
        assert len({(row["brokerName"], row["queueId"]) for row in mine}) == 1
        numbers = [int(row["body"].split(b":")[1]) for row in mine]
        assert numbers == list(range(len(numbers)))


def test_a_table_is_sent_again_with_everything(
    spark: SparkSession, spark_brokers: SparkCluster, table: str
) -> None:
    spark_brokers.create_topic("Again")
    done = replay(table, "Again", nameservers=spark_brokers.nameservers)
    assert (done.messages, done.skipped_empty, done.already_sent) == (500, 0, 0)
    rows = rows_of(spark_brokers, "Again")
    check_order(rows)
    originals = {row["uniqKey"]: row for row in rows_of(spark_brokers, "Original")}
    for row in rows:
        original = originals[row["uniqKey"]]
        properties = dict(row["properties"])
        assert (row["body"], row["tags"]) == (original["body"], "T")
        assert properties["n"] == dict(original["properties"])["n"]
        stored_ms = round(original["storeTimestamp"].timestamp() * 1000)
        assert abs(int(properties["REPLAY_STORE_MS"]) - stored_ms) <= 1000
        place = f"Original/{original['brokerName']}/{original['queueId']}"
        assert properties["REPLAY_FROM"] == f"{place}/{original['queueOffset']}"


def test_a_replay_that_is_killed_goes_on_without_gap_or_repeat(
    spark: SparkSession,
    spark_brokers: SparkCluster,
    table: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spark_brokers.create_topic("Killed")
    options = ReplayOptions(state=tmp_path / "state.json", state_rows=100)
    names = spark_brokers.nameservers
    for batches in (1, 2):
        with monkeypatch.context() as until_killed:
            kill_after(until_killed, batches)
            with pytest.raises(Killed):
                replay(table, "Killed", nameservers=names, options=options)
    seen: list[Replayed] = []
    done = replay(table, "Killed", nameservers=names, options=options, on_state=seen.append)
    assert seen
    assert 0 < done.messages < 500
    assert done.already_sent > 0
    check_order(rows_of(spark_brokers, "Killed"))
    again = replay(table, "Killed", nameservers=names, options=options)
    assert (again.messages, again.already_sent) == (0, 0)


def test_a_topic_is_a_source_and_the_rate_is_a_limit(
    spark: SparkSession, spark_brokers: SparkCluster, table: str
) -> None:
    spark_brokers.create_topic("Slow")
    dry = replay(
        "topic:Original",
        "Slow",
        nameservers=spark_brokers.nameservers,
        options=ReplayOptions(rate=1000),
        dry_run=True,
    )
    assert (dry.messages, dry.keys) == (500, 7)
    assert dry.lasts_s == pytest.approx(0.499)
    replay("topic:Original", "Slow", nameservers=spark_brokers.nameservers, options=ReplayOptions())
    check_order(rows_of(spark_brokers, "Slow"))


@pytest.mark.cluster
def test_looks_at_the_committed_offsets_of_a_cluster(
    spark_brokers: SparkCluster, tmp_path: Path
) -> None:
    from pocketmq.pipeline.topics.settings import access_of_text
    from pocketmq.pipeline.workers.loop import shared_loop

    spark_brokers.create_topic("Looked", queues=1)
    queue = MessageQueue("Looked", "broker-a", 0)
    spark_brokers.send([Message("Looked", b"x")] * 3, queue=queue)
    client = access_of_text("test", spark_brokers.nameservers).client()
    shared_loop().result(client.commit("looker", {queue: 2}))
    path = tmp_path / "looks.jsonl"
    assert sample(path, nameservers=spark_brokers.nameservers, every_s=0.01, rounds=3) == 6
    first, *_ = [each for each in read_samples(path) if each.broker == "broker-a"]
    assert first.offsets["Looked@looker"] == {0: 2}
    later = [json.loads(line)["offsets"] for line in path.read_text().splitlines()[2:]]
    assert all("Looked@looker" not in offsets for offsets in later)
