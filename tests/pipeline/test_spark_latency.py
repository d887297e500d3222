"""The jobs of `pocketmq pipeline` over messages, by Spark: their results beside those that plain
Python finds in the same messages."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow.parquet as pq
import pytest

from pocketmq.cluster.cli.main import main
from pocketmq.pipeline.jobs import KeyRow, LatencyRow, latency, latency_sums
from pocketmq.pipeline.jobs.commit_samples import CommitSamples, Sample
from pocketmq.pipeline.jobs.latency_rows import BORN_TO_STORE, STORE_TO_COMMIT
from pocketmq.pipeline.jobs.latency_sums import latency_of
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.spark_store import START_MS, open_store, put, stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE = 60_000
GROUP = "billing"


class Put(NamedTuple):
    """One message of the store."""

    topic: str
    queue_id: int
    offset: int
    keys: str
    born_ms: int
    stored_ms: int


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Put]]:
    """A store with messages of some minutes, a group's retries and dead letters, and two looks at
    what the group has committed: in the file of its offsets, and in that file's copy."""
    root = tmp_path_factory.mktemp("jobs") / "broker-a"
    clock, random = ManualClock(START_MS), Random(37)
    ends: Counter[tuple[str, int]] = Counter()
    listed = []
    with open_store(root, clock) as store:
        for number in range(400):
            clock.skip_to(clock.time_ms() + random.randrange(600))
            now = clock.time_ms()
            topic = ("T", "T", "U", f"%RETRY%{GROUP}", f"%DLQ%{GROUP}")[number % 5]
            queue_id = random.choice((0, 0, 1)) if topic in ("T", "U") else 0
            keys = random.choice(("often", f"k{number}", "often twice", ""))
            born_ms = now - random.choice((-3, 0, 5, 40, random.randrange(90_000)))
            message = stored(b"x", topic=topic, queue_id=queue_id, keys=keys or None)
            put(store, [msgspec.structs.replace(message, born_timestamp_ms=born_ms)])
            offset = ends[topic, queue_id]
            ends[topic, queue_id] += 1
            listed.append(Put(topic, queue_id, offset, keys, born_ms, now))
    path = root / "config/consumerOffset.json"
    path.parent.mkdir(exist_ok=True)
    for name, offsets, after_ms in (
        (path.with_name(path.name + ".bak"), {0: 9, 1: 0}, 30_000),
        (path, {0: 90, 1: 20}, 100_000),
    ):
        name.write_text(json.dumps({"offsetTable": {f"T@{GROUP}": offsets}}))
        os.utime(name, ns=((START_MS + after_ms) * 1_000_000,) * 2)
    return root, listed


def rank(values: Sequence[int], share: float) -> int:
    return sorted(values)[math.ceil(share * len(values)) - 1]


def of_minutes(durations: Sequence[tuple[int, int, int]]) -> list[list[int]]:
    """Minute, number, percentiles, longest and error of (stored ms, duration, error)."""
    found = []
    for minute in sorted({stored_ms // MINUTE for stored_ms, _, _ in durations}):
        here = [each for each in durations if each[0] // MINUTE == minute]
        waits = [max(0, wait) for _, wait, _ in here]
        ranks = [rank(waits, share) for share in (0.5, 0.95, 0.99, 0.999, 1.0)]
        found.append([minute * MINUTE, len(here), *ranks, max(error for *_, error in here)])
    return found


def figures(rows: Sequence[LatencyRow], *of: str) -> list[list[int]]:
    """The same of the rows of a measure, topic and group."""
    return [
        [
            *(row.minute_ms, row.count, row.p50_ms, row.p95_ms, row.p99_ms, row.p999_ms),
            *(row.max_ms, row.error_ms),
        ]
        for row in rows
        if (row.measure, row.topic, row.group) == of
    ]


def test_latency_finds_what_the_messages_say(
    spark: SparkSession, sent: tuple[Path, list[Put]]
) -> None:
    root, listed = sent
    found = latency(f"store:{root}")
    ordinary = [each for each in listed if each.topic in ("T", "U")]
    assert found.messages == len(listed)
    assert found.clock_ahead == sum(each.stored_ms < each.born_ms for each in ordinary)
    for topic in ("T", "U"):
        of_topic = [each for each in ordinary if each.topic == topic]
        waits = [(each.stored_ms, each.stored_ms - each.born_ms, 0) for each in of_topic]
        assert figures(found.rows, BORN_TO_STORE, topic, "") == of_minutes(waits)
        words = Counter(word for each in of_topic for word in each.keys.split())
        hot = [(key, number) for key, number in words.most_common() if number > 1]
        assert [row for row in found.keys if row.topic == topic] == [
            KeyRow(topic, key, number, number / words.total()) for key, number in hot
        ]
        queues = Counter(each.queue_id for each in of_topic)
        assert [
            (row.broker, row.queue_id, row.messages, row.skew)
            for row in found.queues
            if row.topic == topic
        ] == [
            ("broker-a", queue, number, round(number / queues.total() * len(queues), 3))
            for queue, number in sorted(queues.items())
        ]
    first_ms, second_ms = START_MS + 30_000, START_MS + 100_000
    firsts, seconds = {0: 9, 1: 0}, {0: 90, 1: 20}
    of_t = [each for each in ordinary if each.topic == "T"]
    known = [each for each in of_t if firsts[each.queue_id] <= each.offset < seconds[each.queue_id]]
    waits = []
    for each in known:
        wait = second_ms - each.stored_ms
        waits.append((each.stored_ms, wait, min(second_ms - first_ms, max(0, wait))))
    assert figures(found.rows, STORE_TO_COMMIT, "T", GROUP) == of_minutes(waits)
    earlier = sum(each.offset < firsts[each.queue_id] for each in of_t)
    assert found.committed_before == earlier
    (group,) = found.groups
    assert (group.group, group.topics, group.messages) == (GROUP, "T", len(of_t))
    assert (group.retries, group.dead_letters) == (80, 80)
    assert group.retry_rate == group.dead_letter_rate == 80 / len(of_t)
    assert group.pending == len(of_t) - len(known) - earlier


@pytest.mark.parametrize("brokers", [1, 2])
def test_each_message_has_the_first_look_behind_it_of_each_group(
    spark: SparkSession, brokers: int
) -> None:
    random = Random(brokers)
    names = ["broker-a", "broker-b"]
    sent = [
        Put("T", queue_id, offset, name, START_MS, START_MS + random.randrange(3 * MINUTE))
        for name in names
        for queue_id in range(2)
        for offset in range(60)
    ]
    looks = []
    for number in range(100):
        offsets = {
            f"T@{group}": {queue_id: random.randrange(number // 2 + 1) for queue_id in range(2)}
            for group in ("one", "two")
        }
        name = names[number % brokers]
        looks.append(Sample(START_MS + 1000 * number + 1, name, offsets))
    waits: dict[str, list[tuple[int, int, int]]] = {"one": [], "two": []}
    pending: Counter[str] = Counter()
    earlier = 0
    for each in sent:
        mine = [look for look in looks if brokers == 1 or look.broker == each.keys]
        for group, found in waits.items():
            passed = [look.offsets[f"T@{group}"][each.queue_id] > each.offset for look in mine]
            if not any(passed):
                pending[group] += 1
            elif passed[0]:
                earlier += 1
            else:
                before, at = mine[passed.index(True) - 1], mine[passed.index(True)]
                wait = at.time_ms - each.stored_ms
                error = min(at.time_ms - before.time_ms, max(0, wait))
                found.append((each.stored_ms, wait, error))
    columns = "topic string, brokerName string, queueId int, queueOffset bigint, keys string"
    rows = spark.createDataFrame(
        [(each.topic, each.keys, each.queue_id, each.offset, "k", each.stored_ms) for each in sent],
        f"{columns}, stored bigint",
    ).selectExpr("*", *(f"timestamp_millis(stored) {name}Timestamp" for name in ("born", "store")))
    result = latency_of(rows, CommitSamples(looks))
    for group, found in waits.items():
        assert figures(result.rows, STORE_TO_COMMIT, "T", group) == of_minutes(found)
    assert {row.group: row.pending for row in result.groups} == pending
    assert result.committed_before == earlier


def test_a_message_is_not_compared_with_each_look_at_its_queue(spark: SparkSession) -> None:
    """Looks each second are many: these would be 400,000,000 comparisons."""
    count = 20_000
    rows = spark.range(count).selectExpr(
        *("'T' topic", "'broker-a' brokerName", "0 queueId", "id queueOffset", "'k' keys"),
        *(f"timestamp_millis({START_MS} + id) {name}Timestamp" for name in ("born", "store")),
    )
    looks = [Sample(START_MS + at + 5, "broker-a", {"T@g": {0: at}}) for at in range(count)]
    joined = latency_sums._with_commits(
        rows.selectExpr("*", "unix_millis(storeTimestamp) stored"), CommitSamples(looks)
    )
    assert joined.selectExpr("count(committed)", "sum(committed - stored)").first() == (
        count - 1,
        6 * (count - 1),
    )
    plan = joined._jdf.queryExecution().executedPlan().toString()
    conditions = [line for line in plan.splitlines() if "Join" in line]
    assert conditions
    assert not any("queueOffset" in line or "low" in line for line in conditions)


def rows_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        return rows
    text = path.read_text()
    return json.loads(text) if path.suffix == ".json" else [*map(json.loads, text.splitlines())]


def run(*words: str | Path, status: int = 0) -> None:
    assert main(["pipeline", *map(str, words)]) == status


def test_latency_writes_all_its_tables(
    spark: SparkSession,
    sent: tuple[Path, list[Put]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root, _ = sent
    words = ("--topic", "U", "-o", "table", "--out", tmp_path / "latency.json")
    run("latency", f"store:{root}", *words)
    shown = capsys.readouterr().out
    assert "born-to-store of U: p99 by minute" in shown
    rows = rows_of(tmp_path / "latency.json")
    assert {(row["measure"], row["topic"]) for row in rows} == {(BORN_TO_STORE, "U")}
    assert sum(row["count"] for row in rows) == 80
    assert rows_of(tmp_path / "latency-groups.json") == []
    queues = rows_of(tmp_path / "latency-queues.json")
    assert sum(row["messages"] for row in queues) == 80
    assert [row["key"] for row in rows_of(tmp_path / "latency-keys.json")] == ["often", "twice"]
    assert len(list(tmp_path.iterdir())) == 4


def test_replay_writes_what_it_would_do(
    spark: SparkSession, sent: tuple[Path, list[Put]], tmp_path: Path
) -> None:
    root, _ = sent
    out = tmp_path / "replay.parquet"
    run("replay", f"store:{root}", "again", "--topic", "U", "--dry-run", "--out", out)
    (row,) = rows_of(out)
    assert (row["messages"], row["bytes"]) == (80, 80)
