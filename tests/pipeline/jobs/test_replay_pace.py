"""When messages are sent again, in which order, and where a replay goes on: no cluster."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pocketmq.pipeline import read_store
from pocketmq.pipeline.jobs.replay_job import ReplayOptions, replay
from pocketmq.pipeline.jobs.replay_pace import Pace, ReplayState
from pocketmq.pipeline.jobs.replay_rows import (
    COLUMNS,
    Row,
    key_of,
    place_of,
    properties_of,
    rows_in_order,
)
from pocketmq.pipeline.jobs.sources import source_of
from pocketmq.pipeline.progress.checkpoint import Checkpoint, Mark
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.errors import CallerError
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.spark_store import START_MS, open_store, put, stored

NOTHING = Checkpoint({})


def test_the_original_pace_is_kept_or_divided() -> None:
    for speed, factor in ((1.0, 1.0), (10.0, 0.1)):
        pace = Pace(speed)
        assert [pace.due_s(ms) for ms in (5000, 5000, 7000, 65_000)] == pytest.approx(
            [0.0, 0.0, 2 * factor, 60 * factor]
        )
    pace = Pace(0)
    assert [pace.due_s(ms) for ms in (5000, 9000)] == [0.0, 0.0]


def test_the_rate_is_a_limit_beside_the_pace() -> None:
    pace = Pace(speed=1, rate=2)
    assert [pace.due_s(ms) for ms in (0, 0, 0, 10_000, 10_000)] == [0.0, 0.5, 1.0, 10.0, 10.0]


def test_a_state_comes_back_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "state.json"
    assert ReplayState.load(path, "store:a", "T") is None
    queue = MessageQueue("S", "broker-a", 3)
    marks = {queue: Mark(START_MS, 4711)}
    state = ReplayState("store:a", "T", {queue: 7}, {MessageQueue("T", "b", 0): 9}, marks)
    state.save(path)
    assert ReplayState.load(path, "store:a", "T") == state
    with pytest.raises(CallerError, match="a replay of store:a to T"):
        ReplayState.load(path, "store:b", "T")
    path.write_text("{}")
    with pytest.raises(CallerError, match="no state of a replay"):
        ReplayState.load(path, "store:a", "T")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "broker-a"
    with open_store(root, ManualClock(START_MS)) as store:
        for number in range(60):
            put(
                store,
                [
                    stored(
                        b"%d" % number,
                        queue_id=number % 3,
                        tags="A",
                        keys=f"k{number % 5} extra",
                        properties={"mine": "1", "CLUSTER": "of a broker"},
                    )
                ],
            )
        put(store, [stored(b"other", topic="U")])
    return root


def rows_of(source: str, stand: Checkpoint = NOTHING) -> list[Row]:
    return list(rows_in_order(source_of(source, topics=["T"]).queues(COLUMNS, stand)))


def test_rows_of_stores_and_tables_come_by_time_and_in_the_order_of_their_queues(
    root: Path, tmp_path: Path
) -> None:
    (tmp_path / "table").mkdir()
    rows = read_store(str(root), topic="T", brokerName="broker-a").read_all()
    pq.write_table(rows.slice(30), tmp_path / "table/a.parquet")
    pq.write_table(rows.slice(0, 30), tmp_path / "table/b.parquet")
    of_store = rows_of(f"store:{root}")
    of_table = rows_of(f"parquet:{tmp_path / 'table'}")
    assert [row[:-1] for row in of_table] == [row[:-1] for row in of_store]
    assert len(of_store) == 60
    for queue_id in range(3):
        offsets = [row.offset for row in of_store if row.queue.queue_id == queue_id]
        assert offsets == list(range(20))
    start = Checkpoint({MessageQueue("T", "broker-a", 1): 15})
    for source in (f"store:{root}", f"parquet:{tmp_path / 'table'}"):
        left = rows_of(source, start)
        assert len(left) == 45
        assert min(row.offset for row in left if row.queue.queue_id == 1) == 15


def test_a_message_keeps_what_is_its_producers(root: Path) -> None:
    row = rows_of(f"store:{root}")[0]
    properties = properties_of(row)
    assert key_of(row) == "k0"
    assert place_of(row) == "T/broker-a/0/0"
    assert "CLUSTER" not in properties
    assert {name: properties[name] for name in ("TAGS", "KEYS", "mine")} == {
        "TAGS": "A",
        "KEYS": "k0 extra",
        "mine": "1",
    }
    assert properties["UNIQ_KEY"] == row.properties["UNIQ_KEY"]
    assert properties["REPLAY_STORE_MS"] == str(START_MS)
    assert properties["REPLAY_BORN_MS"] == str(START_MS - 5)
    alone = row._replace(properties={"__SHARDINGKEY": "shard"})
    assert key_of(alone) == "shard"
    assert key_of(row._replace(properties={})) == "T/broker-a/0"


def test_a_dry_run_says_what_would_be_sent_and_asks_nobody(root: Path) -> None:
    done = replay(
        f"store:{root}",
        "Again",
        nameservers="127.0.0.1:1",
        topics=["T"],
        options=ReplayOptions(rate=10),
        dry_run=True,
    )
    assert (done.messages, done.keys, done.bytes) == (60, 5, 10 + 100)
    assert done.lasts_s == pytest.approx(5.9)


def test_a_source_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CallerError, match="there is no table"):
        source_of(f"parquet:{tmp_path / 'no'}")
