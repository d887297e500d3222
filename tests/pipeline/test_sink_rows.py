"""Rows become batches that a broker takes, and the same rows always the same batches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.pipeline.columns.record_columns import RecordColumns, positions_in, read_columns
from pocketmq.pipeline.columns.repeats import SeenRows, digest_of, row_prefix
from pocketmq.pipeline.errors import ColumnsError
from pocketmq.pipeline.options.schema import KAFKA, MESSAGE
from pocketmq.pipeline.sending.bad_rows import BadRow, BadRowTable
from pocketmq.pipeline.sending.sink_columns import SinkColumns
from pocketmq.pipeline.sending.sink_rows import Batch, RowEncoder
from pocketmq.pipeline.topics.partition_numbers import partition_numbers
from pocketmq.protocol.errors import IllegalMessageError, IllegalNameError
from pocketmq.protocol.messages.batch import decode_batch
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.properties import decode_properties
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
    "partition": ("int", pa.int32()),
    "offset": ("bigint", pa.int64()),
    "queueOffset": ("bigint", pa.int64()),
    "delayLevel": ("int", pa.int32()),
    "delayMs": ("bigint", pa.int64()),
    "deliverTimestamp": ("timestamp", pa.timestamp("us", "UTC")),
    "properties": ("map<string,string>", pa.map_(pa.string(), pa.string())),
}


def batches(
    columns: dict[str, Sequence[Any]],
    *,
    topic: str = "T",
    task: int = 0,
    batch_rows: int = 3,
    on_bad: Callable[[BadRow], None] | None = None,
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
        on_bad=on_bad,
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
    first = digest_of("T", b"one", 0, {"TAGS": "TagA", "KEYS": "k"})
    second = digest_of("T", b"two", 0, {})
    assert sent(made) == [
        ("one", "a", 0, {"TAGS": "TagA", "KEYS": "k", "UNIQ_KEY": "key0", "WAIT": "true",
                         "SPARK_ROW": f"w:7:0:0:{first}"}),
        ("two", "a", 0, {"UNIQ_KEY": "key1", "WAIT": "true", "SPARK_ROW": f"w:7:0:1:{second}"}),
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


def test_a_row_may_name_its_queue_by_the_number_that_kafka_would_give_it() -> None:
    numbered = partition_numbers(QUEUES)
    wanted = [QUEUES[3], QUEUES[0], QUEUES[1]]
    given = [*(numbered[queue] for queue in wanted), None]
    made = sent(batches({"body": list("pqrs"), "partition": given}))
    place = {body: (broker, queue) for body, broker, queue, _ in made}
    assert [MessageQueue("T", *place[body]) for body in "pqr"] == wanted
    assert place["s"] == ("a", 0), "null: the queues take turns"
    has = ", ".join(map(str, sorted(numbered.values())))
    for wrong in (4, -1):
        says = (
            rf"row 0: topic 'T' has no partition {wrong} that can be written to; "
            rf"its partitions are {has}"
        )
        with pytest.raises(ColumnsError, match=says):
            batches({"body": ["p"], "partition": [wrong]})


@pytest.mark.parametrize("other", ["queueId", "brokerName"])
def test_a_row_cannot_name_its_queue_twice(other: str) -> None:
    columns = {"body": "binary", "partition": "int", other: TYPES[other][0]}
    with pytest.raises(ColumnsError, match=f"'partition' and '{other}' both name the queue"):
        SinkColumns.of(columns, topic="T", tag_column="tags", key_columns=["keys"])


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
    ("column", "value", "name", "text"),
    [
        ("delayMs", 1500, "TIMER_DELAY_MS", "1500"),
        ("deliverTimestamp", 1_700_000_000_123_000, "TIMER_DELIVER_MS", "1700000000123"),
    ],
)
def test_a_column_delays_a_row_by_any_time(column: str, value: int, name: str, text: str) -> None:
    made = batches({"body": list("ab"), column: [value, None], "queueId": [0, 0]})
    assert [bool(batch.delayed_properties) for batch in made] == [True, False]
    assert decode_properties(made[0].delayed_properties)[name] == text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TIMER_DELAY_SEC", "60"),
        ("TIMER_DELAY_MS", "60000"),
        ("TIMER_DELIVER_MS", "1700000000000"),
        ("DELAY", "3"),
    ],
)
def test_a_row_whose_properties_delay_it_travels_alone(name: str, value: str) -> None:
    """Brokers overlook delays in a batch."""
    made = batches({"body": list("ab"), "properties": [[(name, value)], []], "queueId": [0, 0]})
    assert [batch.rows for batch in made] == [1, 1]
    assert decode_properties(made[0].delayed_properties)[name] == value
    assert not made[1].delayed_properties


@pytest.mark.parametrize(
    ("columns", "error", "says"),
    [
        ({"body": ["x", None]}, IllegalMessageError, "row 1: .*an empty body"),
        ({"body": ["x"], "delayMs": [-1]}, IllegalMessageError, "row 0: its delayMs is -1"),
        (
            {"body": ["x"], "delayMs": [5], "delayLevel": [3]},
            *(IllegalMessageError, "may have a value"),
        ),
        ({"body": ["x" * (4 * 1024 * 1024 + 1)]}, IllegalMessageError, "4194305 bytes"),
        ({"body": ["x"], "tags": ["a\x02b"]}, IllegalMessageError, "row 0: .* property 'TAGS'"),
        ({"body": ["x"], "keys": ["k" * 40_000]}, IllegalMessageError, "at most 32767"),
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


def records_of(*rows: str) -> RecordColumns:
    data = b"".join(
        RecordFields(properties=f"SPARK_ROW\x01{row}\x02".encode() if row else b"").encode()
        for row in rows
    )
    return read_columns(np.frombuffer(data, np.uint8), np.array(positions_in(data)))


def test_repeats_are_told_from_new_rows() -> None:
    records = records_of(
        *("w:7:0:0:aa", "w:7:0:1:bb", "w:7:0:0:aa", "w:7:1:0:aa"),
        *("", "", "x", "w:7:0:9999999999:aa", "w:7:0:0", "w:7:0:0:no", "w:7:0:0:1" + "0" * 16),
    )
    seen = SeenRows()
    assert seen.first_time(records).tolist() == [True, True, False, *[True] * 8]
    assert seen.first_time(records).tolist() == [False] * 4 + [True] * 7
    assert seen.dropped == 5


def test_rows_that_come_in_another_order_the_second_time_are_none_of_them_dropped() -> None:
    seen = SeenRows()
    first, second = ["w:0:0:0:aa", "w:0:0:1:bb"], ["w:0:0:0:bb", "w:0:0:1:aa"]
    assert seen.first_time(records_of(*first)).all()
    assert seen.first_time(records_of(*second)).all()
    assert not seen.first_time(records_of(*first, *second)).any()


@given(
    st.tuples(st.text(), st.binary(), st.integers(), st.dictionaries(st.text(), st.text())),
    st.tuples(st.text(), st.binary(), st.integers(), st.dictionaries(st.text(), st.text())),
)
def test_a_digest_tells_rows_apart_and_knows_no_order_of_properties(
    one: tuple[str, bytes, int, dict[str, str]], other: tuple[str, bytes, int, dict[str, str]]
) -> None:
    assert (digest_of(*one) == digest_of(*other)) == (one == other)
    backwards = dict(reversed(one[3].items()))
    assert digest_of(*one[:3], backwards) == digest_of(*one)


# -- tables that were read ----------------------------------------------------------------------


def test_a_table_that_was_read_can_be_written() -> None:
    columns = SinkColumns.of(MESSAGE, topic="T", tag_column="tags", key_columns=["keys"])
    assert set(columns.place) == {"body", "topic", "properties", "flag"}
    assert len(columns.origin) == 2
    kafka = SinkColumns.of(KAFKA, topic="", tag_column="tags", key_columns=["keys"])
    assert set(kafka.place) == {"body", "topic", "properties"}
    some = {"body": "binary", "queueId": "int", "msgId": "string"}
    chosen = SinkColumns.of(some, topic="T", tag_column="tags", key_columns=["msgId"])
    assert (set(chosen.place), chosen.keys, chosen.origin) == ({"body", "queueId"}, (2,), ())


def test_partitions_of_a_table_that_was_read_name_no_queue_unless_their_offsets_are_left_out() -> (
    None
):
    columns: dict[str, Sequence[Any]] = {"body": list("abcd"), "partition": [9, 8, 9, 8]}
    made = sent(batches({**columns, "offset": [0, 0, 1, 1]}, batch_rows=1))
    place = {body: (broker, queue) for body, broker, queue, _ in made}
    assert place["a"] == place["c"]
    assert place["b"] == place["d"]
    with pytest.raises(ColumnsError, match="has no partition 9"):
        batches(columns)


def test_rows_of_one_queue_share_a_queue_again_and_brokers_properties_stay_behind() -> None:
    made = batches(
        {
            "body": list("abcdefgh"),
            "brokerName": ["x", "y"] * 4,
            "queueId": [7, 7, 8, 8] * 2,
            "queueOffset": list(range(8)),
            "properties": [[("mine", "1"), ("DELAY", "3"), ("UNIQ_KEY", "old"), ("KEYS", "k")]] * 8,
        },
        batch_rows=1,
    )
    place = {body: (broker, queue) for body, broker, queue, _ in sent(made)}
    assert all(place[one] == place[other] for one, other in ("ae", "bf", "cg", "dh"))
    for _, _, _, entries in sent(made):
        assert (entries["mine"], entries["KEYS"]) == ("1", "k")
        assert entries["UNIQ_KEY"].startswith("key")
        assert "DELAY" not in entries


# -- rows that cannot be sent -------------------------------------------------------------------


def test_rows_that_no_broker_takes_are_handed_over_and_the_others_are_sent() -> None:
    bad: list[BadRow] = []
    made = batches(
        {
            "body": ["ok", None, "", "x" * (4 * 1024 * 1024 + 1), "fine", "p"],
            "topic": ["T", "T", "T", "T", "T", "no/pe"],
            "tags": ["a", "b", None, None, None, None],
        },
        topic="",
        on_bad=bad.append,
    )
    assert [body for body, *_ in sent(made)] == ["ok", "fine"]
    assert [(row.row, row.topic) for row in bad] == [
        (1, "T"), (2, "T"), (3, "T"), (5, "no/pe"),
    ]  # fmt: skip
    assert "an empty body" in bad[0].reason
    assert bad[0].properties == {"TAGS": "b"}
    assert "4194305 bytes" in bad[2].reason
    rows = [entries["SPARK_ROW"].split(":")[3] for *_, entries in sent(made)]
    assert rows == ["0", "4"]  # numbers are places in the task, whatever is left out


def test_a_batch_can_be_sent_in_halves() -> None:
    (made,) = batches({"body": list("abcde")}, batch_rows=9)
    first, second = made.halves()
    assert [body for body, *_ in sent([first, second])] == list("abcde")
    assert (first.rows, second.rows) == (2, 3)
    assert first.size + second.size == made.size


def test_bad_rows_are_a_table_whose_files_a_second_attempt_replaces(tmp_path: Path) -> None:
    for _ in range(2):
        table = BadRowTable(str(tmp_path / "bad"), "w", 7, 3)
        for number in range(300):
            table.add(BadRow(number, "why", None, None if number % 2 else b"x", {"a": "1"}))
        table.finish()
    BadRowTable(str(tmp_path / "bad"), "w", 7, 4).finish()
    failed = BadRowTable(str(tmp_path / "bad"), "w", 7, 5)
    for number in range(300):
        failed.add(BadRow(number, "why", None, None, {}))
    failed.cancel()
    assert [path.name for path in (tmp_path / "bad").iterdir()] == ["w-00000007-00003.parquet"]
    rows = pq.read_table(tmp_path / "bad").to_pylist()
    assert [row["row"] for row in rows] == list(range(300))
    assert (rows[0]["body"], rows[1]["body"], rows[0]["reason"]) == (b"x", None, "why")
