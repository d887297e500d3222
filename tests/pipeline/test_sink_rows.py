"""Rows become batches that a broker takes, and the same rows always the same batches."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pocketmq.pipeline.errors import ColumnsError
from pocketmq.pipeline.record_columns import positions_in, read_columns
from pocketmq.pipeline.repeats import SeenRows, row_prefix
from pocketmq.pipeline.sink_rows import Batch, RowEncoder, SinkColumns
from pocketmq.protocol.batch import decode_batch
from pocketmq.protocol.errors import IllegalMessageError, IllegalNameError
from pocketmq.protocol.message import MessageQueue
from pocketmq.protocol.properties import decode_properties
from support.strategies import RecordFields

QUEUES = [MessageQueue("T", broker, queue) for broker in ("a", "b") for queue in range(2)]
TYPES = {
    "body": ("string", pa.string()),
    "tags": ("string", pa.string()),
    "keys": ("string", pa.string()),
    "topic": ("string", pa.string()),
    "brokerName": ("string", pa.string()),
    "shardingKey": ("string", pa.string()),
    "queueId": ("int", pa.int32()),
    "delayLevel": ("int", pa.int32()),
    "properties": ("map<string,string>", pa.map_(pa.string(), pa.string())),
}


def batches(
    columns: dict[str, Sequence[Any]], *, topic: str = "T", task: int = 0, batch_rows: int = 3
) -> list[Batch]:
    schema = {name: TYPES[name][0] for name in columns}
    counter = itertools.count()
    encoder = RowEncoder(
        SinkColumns.of(schema, topic=topic, tag_column="tags", key_columns=["keys"]),
        topic,
        row_prefix("w", 7, task),
        task,
        lambda name: [queue for queue in QUEUES if queue.topic == name],
        lambda: f"key{next(counter)}",
        batch_rows,
        100_000,
    )
    arrays = [pa.array(values, TYPES[name][1]) for name, values in columns.items()]
    record_batch = pa.RecordBatch.from_arrays(arrays, names=list(columns))
    return [*encoder.encode(record_batch), *encoder.rest()]


def sent(made: Sequence[Batch]) -> list[tuple[str, str, int, dict[str, str]]]:
    """(body, broker, queue id, properties) of each message."""
    return [
        (
            entry.body.decode(),
            batch.queue.broker_name,
            batch.queue.queue_id,
            decode_properties(entry.properties.decode()),
        )
        for batch in made
        for entry in decode_batch(batch.body)
    ]


def test_a_batch_is_what_a_broker_takes_apart() -> None:
    made = batches({"body": ["one", "two"], "tags": ["TagA", None], "keys": ["k", ""]})
    assert sent(made) == [
        ("one", "a", 0, {"TAGS": "TagA", "KEYS": "k", "UNIQ_KEY": "key0", "WAIT": "true",
                         "SPARK_ROW": "w:7:0:0"}),
        ("two", "a", 0, {"UNIQ_KEY": "key1", "WAIT": "true", "SPARK_ROW": "w:7:0:1"}),
    ]  # fmt: skip


def test_queues_take_turns_a_full_batch_each_and_tasks_begin_at_different_ones() -> None:
    bodies = {"body": [str(number) for number in range(8)]}
    assert [(b.queue.broker_name, b.queue.queue_id, b.rows) for b in batches(bodies)] == [
        ("a", 0, 3),
        ("a", 1, 3),
        ("b", 0, 2),
    ]
    assert batches(bodies, task=2)[0].queue == QUEUES[2]


def test_a_task_that_runs_again_sends_the_same_rows_to_the_same_queues() -> None:
    columns = {
        "body": [str(number) for number in range(20)],
        "shardingKey": [None if number % 3 else f"s{number}" for number in range(20)],
    }

    def places() -> list[tuple[str, str, int, str]]:
        return [
            (body, broker, queue, entries["SPARK_ROW"])
            for body, broker, queue, entries in sent(batches(columns))
        ]

    assert places() == places()


def test_equal_sharding_keys_meet_in_one_queue_in_order() -> None:
    made = sent(batches({"body": list("abcdef"), "shardingKey": ["x", "y"] * 3}))
    of_x = [(broker, queue) for body, broker, queue, _ in made if body in "ace"]
    assert len(set(of_x)) == 1
    assert [body for body, *_ in made if body in "ace"] == ["a", "c", "e"]
    assert all(entries["__SHARDINGKEY"] in "xy" for *_, entries in made)


def test_a_row_may_name_its_queue() -> None:
    made = sent(batches({"body": ["p", "q"], "queueId": [1, 0], "brokerName": ["b", None]}))
    assert [(body, broker, queue) for body, broker, queue, _ in made] == [
        ("p", "b", 1),
        ("q", "a", 0),
    ]
    with pytest.raises(ColumnsError, match=r"row 0: topic 'T' has no queue 9"):
        batches({"body": ["p"], "queueId": [9]})


def test_properties_of_a_row_travel_and_names_of_ours_win() -> None:
    ((_, _, _, entries),) = sent(
        batches({"body": ["p"], "properties": [[("a", "1"), ("TAGS", "old"), ("", "x")]],
                 "tags": ["new"]})
    )  # fmt: skip
    assert (entries["a"], entries["TAGS"]) == ("1", "new")


def test_a_delayed_row_travels_alone_after_what_came_before_it() -> None:
    made = batches(
        {"body": list("abc"), "delayLevel": [None, 3, 0], "queueId": [0, 0, 0]}, batch_rows=9
    )
    assert [(batch.rows, bool(batch.delayed_properties)) for batch in made] == [
        (1, False),
        (1, True),
        (1, False),
    ]
    assert made[1].body == b"b"
    assert decode_properties(made[1].delayed_properties)["DELAY"] == "3"


@pytest.mark.parametrize(
    ("columns", "error", "says"),
    [
        ({"body": ["x", None]}, IllegalMessageError, "row 1: .*body is empty"),
        ({"body": ["x" * (4 * 1024 * 1024 + 1)]}, IllegalMessageError, "4194305 bytes"),
        ({"body": ["x"], "tags": ["a\x02b"]}, IllegalMessageError, "row 0: property 'TAGS'"),
        ({"body": ["x"], "keys": ["k" * 40_000]}, IllegalMessageError, "32767 fit"),
        ({"body": ["x"], "topic": [None]}, IllegalMessageError, "its topic is null"),
        ({"body": ["x"], "topic": ["no/pe"]}, IllegalNameError, "no/pe"),
        ({"body": ["x"], "topic": ["SCHEDULE_TOPIC_XXXX"]}, IllegalNameError, "SCHEDULE"),
    ],
)
def test_a_row_that_no_broker_takes_is_named(
    columns: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        batches(columns, topic="" if "topic" in columns else "T")


def test_repeats_are_told_from_new_rows() -> None:
    rows = ["w:7:0:0", "w:7:0:1", "w:7:0:0", "w:7:1:0", "", "", "x", "w:7:0:9999999999"]
    data = b"".join(
        RecordFields(properties=f"SPARK_ROW\x01{row}\x02".encode() if row else b"").encode()
        for row in rows
    )
    records = read_columns(np.frombuffer(data, np.uint8), np.array(positions_in(data)))
    seen = SeenRows()
    assert seen.first_time(records).tolist() == [True, True, False, True, True, True, True, True]
    assert seen.first_time(records).tolist() == [False] * 4 + [True] * 4
    assert seen.dropped == 5
