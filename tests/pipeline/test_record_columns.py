"""Records as columns say what `decode_records` says, and no bytes make them raise."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pocketmq.pipeline.columns.property_columns import read_properties
from pocketmq.pipeline.columns.record_columns import (
    RecordColumns,
    binary,
    binary_views,
    positions_in,
    read_columns,
    timestamps,
)
from pocketmq.protocol.errors import RecordError
from pocketmq.protocol.hosts import pack_host
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.properties import decode_properties
from pocketmq.protocol.stored.record import decode_record, decode_records
from support.strategies import RecordFields, mutated, record_fields

record_lists = st.lists(record_fields().map(RecordFields.encode), max_size=8)


def as_array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def read_all(data: bytes) -> RecordColumns:
    return read_columns(as_array(data), np.array(positions_in(data), np.int64))


def rows_of(columns: RecordColumns) -> list[dict[str, object]]:
    """The columns as one dict a record."""
    head = columns.head
    named = {
        "queue_id": head["queue_id"],
        "flag": head["flag"],
        "queue_offset": head["queue_offset"],
        "commit_log_offset": head["physical_offset"],
        "sys_flag": columns.sys_flags,
        "born": head["born_timestamp"],
        "store": head["store_timestamp"],
        "reconsume_times": head["reconsume_times"],
        "prepared": head["prepared"],
        "body_crc": head["body_crc"],
        "size": columns.sizes,
    }
    lists = {name: values.astype(np.int64).tolist() for name, values in named.items()}
    properties = read_properties(columns.properties())
    lists |= {
        "body": columns.bodies().to_pylist(),
        "topic": columns.topics().to_pylist(),
        "offset_id": columns.offset_ids().to_pylist(),
        "properties": [dict(entries) for entries in properties.maps().to_pylist()],
        "tags": properties.values_of("TAGS").to_pylist(),
    }
    return [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]


def row_of(message: MessageExt) -> dict[str, object]:
    """The same from the codec."""
    return {
        "queue_id": message.queue_id,
        "flag": message.flag,
        "queue_offset": message.queue_offset,
        "commit_log_offset": message.commit_log_offset,
        "sys_flag": message.sys_flag,
        "born": message.born_timestamp_ms,
        "store": message.store_timestamp_ms,
        "reconsume_times": message.reconsume_times,
        "prepared": message.prepared_transaction_offset,
        "body_crc": message.body_crc,
        "size": message.store_size,
        "body": bytes(message.raw_body),
        "topic": message.topic,
        "offset_id": message.offset_msg_id,
        "properties": message.properties,
        "tags": message.tags,
    }


@given(record_lists)
@example([])
def test_columns_hold_what_the_codec_decodes(records: list[bytes]) -> None:
    data = b"".join(records)
    columns = read_all(data)
    assert rows_of(columns) == [row_of(message) for message in decode_records(data)]
    assert len(columns.bad) == 0


@given(mutated(record_lists.map(b"".join)))
def test_flipped_bytes_never_raise_and_judge_like_the_codec(data: bytes) -> None:
    positions = positions_in(data)
    columns = read_columns(as_array(data), np.array(positions, np.int64))
    assert sorted([*columns.rows.tolist(), *columns.bad.tolist()]) == list(range(len(positions)))
    rows = rows_of(columns)
    for row, index in zip(rows, columns.rows.tolist(), strict=True):
        at = positions[index]
        if row["topic"] is None:
            with pytest.raises(RecordError, match="UTF-8"):
                decode_record(data, at)
        else:
            assert row == row_of(decode_record(data, at))
    for index in columns.bad.tolist():
        with pytest.raises(RecordError):
            decode_record(data, positions[index])


@given(st.binary(max_size=400), st.lists(st.integers(-10, 500), max_size=5))
def test_any_positions_in_any_bytes_are_judged_without_raising(
    data: bytes, positions: list[int]
) -> None:
    columns = read_columns(as_array(data), np.array(positions, np.int64))
    assert len(columns) + len(columns.bad) == len(positions)


@given(record_lists, st.integers(0, 2**31))
def test_a_queue_that_says_another_size_makes_the_record_bad(
    records: list[bytes], seed: int
) -> None:
    data = b"".join(records)
    positions = np.array(positions_in(data), np.int64)
    sizes = np.array([len(record) for record in records], np.int64)
    wrong = np.random.default_rng(seed).random(len(sizes)) < 0.5
    columns = read_columns(as_array(data), positions, sizes + wrong)
    assert columns.bad.tolist() == np.flatnonzero(wrong).tolist()
    assert columns.rows.tolist() == np.flatnonzero(~wrong).tolist()


def test_records_in_any_order_come_in_that_order() -> None:
    records = [RecordFields(queue_offset=n, body=b"x" * n).encode() for n in range(5)]
    data = b"".join(records)
    positions = np.array(positions_in(data))[[3, 0, 3, 4]]
    columns = read_columns(as_array(data), positions)
    assert columns.head["queue_offset"].tolist() == [3, 0, 3, 4]
    assert [len(body) for body in columns.bodies().to_pylist()] == [3, 0, 3, 4]
    assert columns.take(np.array([3, 1])).head["queue_offset"].tolist() == [4, 0]


def test_rows_with_ipv6_hosts_do_not_disturb_their_neighbours() -> None:
    v4, v6 = pack_host("10.0.0.1", 1), pack_host("2001:db8::1", 2)
    pairs = [(v4, v4), (v6, v4), (v4, v6), (v6, v6), (v4, v4)]
    fields = [
        RecordFields(born_host=born, store_host=store, store_timestamp_ms=100 + n, queue_offset=n)
        for n, (born, store) in enumerate(pairs)
    ]
    data = b"".join(record.encode() for record in fields)
    columns = read_all(data)
    assert columns.head["store_timestamp"].tolist() == [100, 101, 102, 103, 104]
    assert columns.offset_ids().to_pylist() == [m.offset_msg_id for m in decode_records(data)]
    messages = decode_records(data)
    assert columns.born_hosts().to_pylist() == [m.born_host for m in messages]
    assert columns.store_hosts().to_pylist() == [m.store_host for m in messages]


def test_mixed_topics_are_told_apart() -> None:
    topics = [b"A", b"B", b"A", b"long" * 60, b"\xff"]
    data = b"".join(RecordFields(topic=topic).encode() for topic in topics)
    columns = read_all(data)
    assert columns.topics().to_pylist() == ["A", "B", "A", "long" * 60, None]
    assert columns.topic_is(b"A").tolist() == [True, False, True, False, False]
    assert columns.topic_is(b"long" * 60).tolist() == [False, False, False, True, False]


@given(st.lists(st.binary(max_size=30), max_size=20), st.binary(max_size=3))
def test_slices_of_a_buffer_become_arrow_binaries(parts: list[bytes], behind: bytes) -> None:
    data = as_array(b"".join(parts) + behind)
    lengths = np.array([len(part) for part in parts], np.int64)
    starts = np.cumsum(lengths) - lengths
    assert binary(data, starts, lengths).to_pylist() == parts
    views = binary_views(data, starts, lengths)
    views.validate(full=True)
    assert views.to_pylist() == parts


property_texts = st.lists(
    st.text(st.sampled_from("aé\x01\x02TAGS"), max_size=12)
    | st.sampled_from(["TAGS\x01x\x02", "TAGS\x01y\x02TAGS\x01z\x02", "a\x01b\x01c\x02"]),
    max_size=12,
)


@given(property_texts)
@example(["TAGS\x01x\x02", "", "KEYS\x01k\x02"])
@example(["a\x01b\x02a\x01c\x02", "a\x01b"])
def test_property_columns_follow_the_rules_of_the_codec(texts: list[str]) -> None:
    expected = [decode_properties(text) for text in texts]
    columns = read_properties(pa.array([text.encode() for text in texts], pa.binary()))
    maps = columns.maps()
    maps.validate(full=True)
    assert [list(entries) for entries in maps.to_pylist()] == [
        list(entries.items()) for entries in expected
    ]
    for name in ("TAGS", "a", "none"):
        assert columns.values_of(name).to_pylist() == [entries.get(name) for entries in expected]


@given(st.lists(st.binary(max_size=12), max_size=8))
def test_properties_of_any_bytes_read_as_in_a_message(texts: list[bytes]) -> None:
    expected = [decode_properties(str(text, "utf-8", "replace")) for text in texts]
    columns = read_properties(pa.array(texts, pa.binary()))
    assert [dict(entries) for entries in columns.maps().to_pylist()] == expected


def test_moments_beyond_what_spark_can_hold_are_null() -> None:
    column = timestamps(np.array([0, 1_700_000_000_123, 2**62, -(2**62)], ">i8"))
    assert column.type == pa.timestamp("us", "UTC")
    assert column.cast(pa.int64()).to_pylist() == [0, 1_700_000_000_123_000, None, None]


def test_positions_end_where_bytes_are_no_record() -> None:
    record = RecordFields().encode()
    assert positions_in(record + record + bytes(200)) == [0, len(record)]
    assert positions_in(b"") == []
    assert positions_in(record, start=7) == [7]
