"""A message's life is told from stores and tables, by Spark."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from pocketmq.pipeline import read_store
from pocketmq.pipeline.jobs import trace_job
from pocketmq.pipeline.jobs.trace_job import Step, trace
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.spark_store import START_MS, open_store, put, stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ID = "7F0000010E1A2A139A5500000000001C"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A message that is stored, sent back once, retried, and becomes a dead letter."""
    root = tmp_path_factory.mktemp("trace") / "broker-a"
    clock = ManualClock(START_MS)
    same = {"UNIQ_KEY": ID, "KEYS": "order-17 other"}
    retry = same | {"ORIGIN_MESSAGE_ID": "first", "RETRY_TOPIC": "T"}
    with open_store(root, clock) as store:
        put(store, [stored(b"another", keys="order-170")])
        put(store, [stored(b"x", properties=same)])
        put(
            store,
            [
                stored(
                    b"x",
                    topic="SCHEDULE_TOPIC_XXXX",
                    queue_id=2,
                    properties=retry | {"REAL_TOPIC": "%RETRY%billing", "DELAY": "3"},
                ),
                stored(b"x", topic="%RETRY%billing", properties=retry),
                stored(b"x", topic="%DLQ%billing", properties=retry),
            ],
        )
    (root / "config").mkdir(exist_ok=True)
    table = {"offsetTable": {"T@billing": {"0": 2}, "T@slow": {"0": 1}}}
    (root / "config/consumerOffset.json").write_text(json.dumps(table))
    return root


def told(steps: list[Step]) -> list[tuple[str, str]]:
    return [(step.group, step.what) for step in steps]


LIFE = [
    ("", "was stored"),
    ("billing", "was sent back, waits at delay level 3 for retry 0"),
    ("billing", "was delivered again, retry 0"),
    ("billing", "became a dead letter after 0 retries"),
]


@pytest.mark.parametrize("wanted", [ID, "order-17"])
def test_a_life_is_told_by_key_and_by_id(spark: SparkSession, wanted: str, root: Path) -> None:
    steps = trace(wanted, [f"store:{root}"])
    assert {step.message for step in steps} == {ID}
    assert told(steps)[:4] == LIFE
    assert told(steps)[4:] == [
        ("billing", "has committed it, is at offset 2"),
        ("slow", "has not committed it, is at offset 1"),
    ]
    assert (steps[0].topic, steps[0].broker, steps[0].offset) == ("T", "broker-a", 1)


@pytest.mark.parametrize("most", [1, trace_job.MOST_LITERALS])
def test_an_offset_id_leads_to_the_other_copies(
    spark: SparkSession, most: int, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_job, "MOST_LITERALS", most)
    rows = read_store(str(root), columns="uniqKey,offsetMsgId,topic").read_all().to_pylist()
    (first,) = [row for row in rows if row["uniqKey"] == ID and row["topic"] == "T"]
    assert told(trace(first["offsetMsgId"], [f"store:{root}"]))[:4] == LIFE


def test_an_id_that_many_messages_come_from_leads_to_the_dead_letters_of_all(
    spark: SparkSession, tmp_path: Path
) -> None:
    count = trace_job.MOST_LITERALS + 1
    with open_store(tmp_path / "broker-a") as store:
        for number in range(count):
            name = {"UNIQ_KEY": f"id-{number}"}
            retry = name | {"ORIGIN_MESSAGE_ID": "first"}
            put(store, [stored(topic="%RETRY%billing", properties=retry)])
            if number % 100 == 0:
                put(store, [stored(topic="%DLQ%billing", properties=name)])
        put(store, [stored(properties={"UNIQ_KEY": "another"})])
    whats = Counter(step.what for step in trace("first", [f"store:{tmp_path / 'broker-a'}"]))
    assert whats == {
        "was delivered again, retry 0": count,
        "became a dead letter after 0 retries": 1 + count // 100,
    }


def test_an_export_and_a_replicas_store_tell_each_copy_once(
    spark: SparkSession, root: Path, tmp_path: Path
) -> None:
    rows = read_store(str(root)).read_all()
    (tmp_path / "table").mkdir()
    pq.write_table(rows, tmp_path / "table/rows.parquet")
    table = f"parquet:{tmp_path / 'table'}"
    steps = told(trace(ID, [f"store:{root}", table]))
    assert steps[:4] == LIFE
    assert len(steps) == 6  # and how far two groups are


def test_what_is_not_there_has_no_steps(spark: SparkSession, root: Path) -> None:
    assert trace("order-1", [f"store:{root}"]) == []
