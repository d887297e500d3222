"""A replay into a cluster: everything arrives, in order by key, whoever is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pocketmq.client import Message, MessageQueue
from pocketmq.pipeline import read_topic
from pocketmq.pipeline.jobs.commit_samples import read_samples
from pocketmq.pipeline.jobs.offset_looks import sample
from pocketmq.pipeline.jobs.replay_job import Replayed, ReplayOptions, replay
from pocketmq.pipeline.lake import ParquetTarget, export
from support.spark_cluster import SparkCluster, spark_cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

KILLED = """
import os, signal, sys
from pathlib import Path
from pocketmq.pipeline.jobs.replay_job import ReplayOptions, replay
from pocketmq.pipeline.sending.sender import Sender
source, topic, nameservers, state, batches = sys.argv[1:]
send, sent = Sender.send, []
def counted(self, batch):
    send(self, batch)
    sent.append(batch)
    if len(sent) == int(batches):
        self.finish()  # so that it is certain what was sent: the state does not know of it
        os.kill(os.getpid(), signal.SIGKILL)
Sender.send = counted
replay(source, topic, nameservers=nameservers,
       options=ReplayOptions(state=Path(state), state_rows=100))
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def table(cluster: SparkCluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An export of 500 messages with 7 keys; those of a key are numbered in their order."""
    cluster.create_topic("Original")
    queues = cluster.queues("Original")
    for key in range(7):
        cluster.send(
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
    done = export("Original", ParquetTarget(folder), nameServer=cluster.nameservers)
    assert done.rows == 500
    return f"parquet:{folder}"


def rows_of(cluster: SparkCluster, topic: str) -> list[dict[str, Any]]:
    rows = read_topic(topic, nameServer=cluster.nameservers).read_all().to_pylist()
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


def test_a_table_is_sent_again_with_everything(cluster: SparkCluster, table: str) -> None:
    cluster.create_topic("Again")
    done = replay(table, "Again", nameservers=cluster.nameservers)
    assert (done.messages, done.skipped_empty, done.already_sent) == (500, 0, 0)
    rows = rows_of(cluster, "Again")
    check_order(rows)
    originals = {row["uniqKey"]: row for row in rows_of(cluster, "Original")}
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
    cluster: SparkCluster, table: str, tmp_path: Path
) -> None:
    cluster.create_topic("Killed")
    state = tmp_path / "state.json"
    for batches in (1, 2, 1):
        killed = subprocess.run(
            [
                *(sys.executable, "-c", KILLED, table, "Killed"),
                *(cluster.nameservers, str(state), str(batches)),
            ],
            check=False,
        )
        assert killed.returncode == -9
    seen: list[Replayed] = []
    options = ReplayOptions(state=state, state_rows=100)
    done = replay(
        table, "Killed", nameservers=cluster.nameservers, options=options, on_state=seen.append
    )
    assert 0 < done.messages < 500
    assert done.already_sent > 0
    check_order(rows_of(cluster, "Killed"))
    again = replay(table, "Killed", nameservers=cluster.nameservers, options=options)
    assert (again.messages, again.already_sent) == (0, 0)


def test_a_topic_is_a_source_and_the_rate_is_a_limit(cluster: SparkCluster, table: str) -> None:
    cluster.create_topic("Slow")
    dry = replay(
        "topic:Original",
        "Slow",
        nameservers=cluster.nameservers,
        options=ReplayOptions(rate=1000),
        dry_run=True,
    )
    assert (dry.messages, dry.keys) == (500, 7)
    assert dry.lasts_s == pytest.approx(0.499)
    replay("topic:Original", "Slow", nameservers=cluster.nameservers, options=ReplayOptions())
    check_order(rows_of(cluster, "Slow"))


def test_looks_at_the_committed_offsets_of_a_cluster(cluster: SparkCluster, tmp_path: Path) -> None:
    from pocketmq.pipeline.topics.settings import access_of_text
    from pocketmq.pipeline.workers.loop import shared_loop

    cluster.create_topic("Looked", queues=1)
    queue = MessageQueue("Looked", "broker-a", 0)
    cluster.send([Message("Looked", b"x")] * 3, queue=queue)
    client = access_of_text("test", cluster.nameservers).client()
    shared_loop().result(client.commit("looker", {queue: 2}))
    path = tmp_path / "looks.jsonl"
    assert sample(path, nameservers=cluster.nameservers, every_s=0.01, rounds=3) == 6
    first, *_ = [each for each in read_samples(path) if each.broker == "broker-a"]
    assert first.offsets["Looked@looker"] == {0: 2}
    later = [json.loads(line)["offsets"] for line in path.read_text().splitlines()[2:]]
    assert all("Looked@looker" not in offsets for offsets in later)
