"""Bodies into the rows of their tables: what Spark's executors do, Arrow batches in and out.

    judged    a message in, one row out: the rows that its body makes, or why it makes none
    opened    those rows, each with the place of its message, as one table has them

Which table a body belongs to is known when it is decoded, and tables differ in their columns. So
the first step says the table and its columns beside the rows, which it packs; the second unpacks.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from pocketmq.pipeline.jobs.schemas.bodies import BadBodyError, Body
from pocketmq.pipeline.jobs.schemas.columns import (
    CHANGE,
    PLACE,
    Column,
    arrow_schema,
    columns,
    fitting,
    json_text,
    unicode_of,
)
from pocketmq.pipeline.jobs.schemas.decoders import TopicDecoder
from pocketmq.pipeline.jobs.schemas.envelopes import changes
from pocketmq.pipeline.jobs.schemas.json_schema import object_of
from pocketmq.pipeline.jobs.schemas.registry import Registry
from pocketmq.pipeline.spark.plainly import rows_plainly

COLUMNS: Final = (*PLACE.names, "body")
"""Of the messages that are judged."""
JUDGED: Final = pa.schema(
    [
        *PLACE,
        ("body", pa.binary()),  # of bad ones only
        ("message", pa.string()),
        ("columns", pa.binary()),
        ("rows", pa.binary()),
        ("count", pa.int64()),
        ("reason", pa.string()),
    ]
)
ROWS: Final = 1_000
"""Of a batch that Spark is given."""

_pack: Final = msgspec.msgpack.Encoder().encode
_unpack: Final = msgspec.msgpack.Decoder().decode
_MS: Final = 1000
"""In the unit of Spark's times."""


class Verdict(NamedTuple):
    """What a body comes to."""

    message: str | None = None
    """Its table: that of a Protobuf message or of a record of an Avro union, empty for the topic's
    own. None if it makes no row."""
    columns: bytes | None = None
    """Of that table, as Arrow says them."""
    rows: bytes | None = None
    """Lists of the values of those columns that bodies fill."""
    made: int = 0
    """How many rows."""
    reason: str | None = None
    """Why it is bad."""


class _Table(NamedTuple):
    columns: list[Column]
    said: bytes


@dataclass(frozen=True)
class BodyJudge:
    """Judges the bodies of messages. It travels to executors, the registry with it.

    Args:
        registry: With the versions of all topics that are read, so that all tasks have the same;
            none for change events in plain JSON.
        framed: Whether bodies begin with the id of their schema.
        envelope: Whether they are change events.
        keys: Columns of the primary key, for change events that do not say it.
    """

    registry: Registry | None
    framed: bool
    envelope: bool
    keys: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of `COLUMNS` become batches of `JUDGED`."""
        return rows_plainly(self._batches(batches))

    def _batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        topics: dict[str, TopicBodies] = {}
        for whole in batches:
            # In small pieces: Python's objects take several times the bytes of the batch.
            for at in range(0, whole.num_rows, ROWS):
                yield self._judged(whole.slice(at, ROWS), topics)

    def _judged(self, batch: pa.RecordBatch, topics: dict[str, TopicBodies]) -> pa.RecordBatch:
        found, bad = [], []
        names = batch.column("topic").to_pylist()
        for topic, body in zip(names, batch.column("body").to_pylist(), strict=True):
            if topic not in topics:
                topics[topic] = self.of_topic(topic)
            verdict = topics[topic].verdict(body or b"")
            found.append(verdict)
            bad.append(None if verdict.reason is None else body)
        said = zip(*found, strict=True)
        arrays = [
            *(batch.column(name) for name in PLACE.names),
            pa.array(bad, pa.binary()),
            *(
                pa.array(each, field.type)
                for each, field in zip(said, list(JUDGED)[-len(Verdict._fields) :], strict=True)
            ),
        ]
        return pa.RecordBatch.from_arrays(arrays, names=JUDGED.names)

    def of_topic(self, topic: str) -> TopicBodies:
        """What judges a topic's bodies.

        Raises:
            CallerError: The topic has no schema, or one that cannot be used.
        """
        return TopicBodies(self, topic)


class TopicBodies:
    """Judges the bodies of one topic; see `BodyJudge.of_topic`."""

    def __init__(self, judge: BodyJudge, topic: str) -> None:
        self._judge = judge
        self._tables: dict[str, _Table] = {}
        self._topic: TopicDecoder | None = None
        self._decode: Callable[[bytes], Body] = _plain_json
        if judge.registry is not None:
            self._topic = TopicDecoder(topic, judge.registry, is_framed=judge.framed)
            self._decode = self._topic

    def verdict(self, body: bytes) -> Verdict:
        """What a body comes to."""
        # Such a body is a tombstone after a deleted key, and has no row.
        if self._judge.envelope and body.strip() in (b"", b"null"):
            return Verdict()
        try:
            fields, message = self._decode(body)
            # Change events of a topic make one table, messages of Protobuf one each.
            if self._judge.envelope:
                message = ""
            table = self._table(message)
            # One bad row makes the whole body bad.
            rows = list(self._rows(fields, table.columns))
        except BadBodyError as exc:
            return Verdict(reason=str(exc).encode(errors="backslashreplace").decode())
        return Verdict(message, table.said, _pack(rows), len(rows))

    def _table(self, message: str) -> _Table:
        if message not in self._tables:
            if self._judge.envelope:
                schema = CHANGE
            else:
                # Without a registry there are change events only.
                assert self._topic is not None
                schema = arrow_schema(self._topic.schema_of(message))
            self._tables[message] = _Table(columns(schema), schema.serialize().to_pybytes())
        return self._tables[message]

    def _rows(self, fields: dict[str, Any], places: list[Column]) -> Iterator[list[Any]]:
        if not self._judge.envelope:
            yield [_fitting(column, fields.get(column.field)) for column in places]
            return
        for number, change in enumerate(changes(fields, self._judge.keys)):
            yield [
                number,
                change.operation,
                unicode_of("table", change.table),
                json_text(list(change.key)),
                None if change.before is None else json_text(change.before),
                None if change.after is None else json_text(change.after),
                _time(change.time_ms),
            ]


def _fitting(column: Column, value: Any) -> Any:
    # A missing field is null in the table.
    return None if value is None else fitting(column, value)


def _time(time_ms: int) -> int:
    """As `TIMESTAMP` has it."""
    try:
        datetime.datetime.fromtimestamp(time_ms / _MS, datetime.UTC)
    except (OSError, OverflowError, ValueError) as exc:
        raise BadBodyError(
            f"the message's time is {time_ms!r:.60} ms, which is outside the years 1 to 9999"
        ) from exc
    return time_ms * _MS


def _plain_json(body: bytes) -> Body:
    return Body(object_of(body))


@dataclass(frozen=True)
class Opened:
    """Makes the rows of one table of what was judged.

    Args:
        columns: Of the table, as a verdict says them.
    """

    columns: bytes

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return pa.ipc.read_schema(pa.py_buffer(self.columns))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches with the places of messages and their packed rows become batches of the table."""
        schema = self.schema
        filled = [schema.field(each.name) for each in columns(schema)]
        for whole in batches:
            for start in range(0, whole.num_rows, ROWS):
                batch = whole.slice(start, ROWS)
                packed = [_unpack(each) for each in batch.column("rows").to_pylist()]
                at = pa.array([n for n, rows in enumerate(packed) for _ in rows], pa.int64())
                listed = [row for rows in packed for row in rows]
                arrays = [batch.column(name).take(at) for name in PLACE.names]
                arrays += [
                    pa.array([row[n] for row in listed], field.type)
                    for n, field in enumerate(filled)
                ]
                yield pa.RecordBatch.from_arrays(arrays, names=schema.names)
