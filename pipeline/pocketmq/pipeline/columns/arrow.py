"""Builds Arrow record batches of messages; only the requested columns are made."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pocketmq.pipeline.columns.arrow_arrays import binaries, numbers, repeated_number, repeated_text
from pocketmq.pipeline.columns.property_columns import PropertyColumns, read_properties
from pocketmq.pipeline.columns.record_columns import RecordColumns, timestamps
from pocketmq.pipeline.columns.record_heads import RecordHeads
from pocketmq.protocol.compression import DEFAULT_MAX_BODY_BYTES, decompress
from pocketmq.protocol.errors import BodyError, BodyTooLargeError, CompressionUnavailableError
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.scalars import MessageSysFlag

MOST_INFLATED_BYTES: Final = 16 * 1024 * 1024
"""Of decompressed bodies in a record batch, or one of them if it is longer. The others lie in what
was read at a time, which is bounded; these may be a thousand times as long as what was read."""
TIMESTAMP: Final = pa.timestamp("us", "UTC")
PROPERTIES: Final = pa.map_(pa.string(), pa.string())
HEADERS: Final = pa.list_(
    pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
)

TYPES: Final[dict[str, pa.DataType]] = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "binary": pa.binary(),
    "timestamp": TIMESTAMP,
    "map<string,string>": PROPERTIES,
    "array<struct<key:string,value:binary>>": HEADERS,
}
"""The Arrow type that Spark expects in a record batch for each of its own types."""


def arrow_schema(columns: dict[str, str]) -> pa.Schema:
    """The schema of record batches with these columns, given as name and Spark type."""
    return _schema(tuple(columns.items()))


@lru_cache(maxsize=32)
def _schema(columns: tuple[tuple[str, str], ...]) -> pa.Schema:
    return pa.schema([pa.field(name, TYPES[kind]) for name, kind in columns])


@dataclass(slots=True)
class Problem:
    """A record that cannot become a row, and why."""

    row: int
    """Its index among the requested positions."""
    reason: str


@dataclass(frozen=True, slots=True)
class Shape:
    """Which columns a batch has, and how bodies are treated."""

    columns: dict[str, str]
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
    verify_crc: bool = False

    @property
    def wants_body(self) -> bool:
        """Whether bodies are needed."""
        return not self.columns.keys().isdisjoint(("body", "value"))

    @property
    def wants_heads_only(self) -> bool:
        """Whether fixed fields of the records, and their topics, are enough for every column."""
        return self.columns.keys() <= HEAD_COLUMNS and not self.verify_crc

    @property
    def head_fields(self) -> frozenset[str]:
        """The fixed fields that the columns are made of, beside flags and hosts."""
        return frozenset(_FIELDS[name] for name in self.columns if name in _FIELDS)


@dataclass
class MessageBatch:
    """Some records that are to become record batches; look at `problems` after each of `builds`.

    Args:
        records: The records that were read; `RecordColumns` unless `shape.wants_heads_only`.
        shape: Which columns to make of them.
        broker_name: The broker or store that they were read from.
        partition: The queue's number in a `kafkaCompatible` table; unused otherwise.
    """

    records: RecordHeads
    shape: Shape
    broker_name: str | None = None
    partition: int = 0
    topics: pa.Array | None = None
    """The records' topics, where they are known from elsewhere."""
    problems: list[Problem] = field(default_factory=list)
    """Records left out because of their bodies; known when the batch is that they would be in."""
    _plain: dict[int, bytes] = field(default_factory=dict)
    """Decompressed bodies by row."""
    _broken: dict[int, Problem] = field(default_factory=dict)
    """Bodies that cannot be decompressed, by row."""

    def builds(self) -> Iterator[pa.RecordBatch]:
        """The record batches, one at least; mostly one, and more where bodies are compressed."""
        packed: Any = ()
        if self.shape.wants_body:
            packed = np.flatnonzero((self.whole.sys_flags & MessageSysFlag.COMPRESSED) != 0)
        begin = size = 0
        plain: dict[int, bytes] = {}
        # Inflated before any array is made: the inflated sizes decide where a batch ends.
        for row in packed.tolist() if len(packed) else ():
            body = self._inflated(row)
            if body is None:
                continue
            # A single body over the limit gets a batch of its own; otherwise it could never be
            # read.
            if plain and size + len(body) > MOST_INFLATED_BYTES:
                yield self._built(begin, row, plain)
                begin, size, plain = row, 0, {}
            plain[row] = body
            size += len(body)
        yield self._built(begin, len(self.records), plain)

    def _inflated(self, row: int) -> bytes | None:
        """A compressed body; None if it is broken, which is a problem then."""
        records = self.whole
        at, length = int(records.body_at[row]), int(records.body_len[row])
        packed = records.buffer.data[at : at + length]
        try:
            return decompress(packed, int(records.sys_flags[row]), self.shape.max_body_bytes)
        # Not the record's fault: without the codec each such message would count as broken.
        except CompressionUnavailableError:
            raise
        except BodyTooLargeError as exc:
            reason = (
                f"its body has {exc.compressed_bytes} bytes and more than {exc.max_bytes} when "
            )
            reason += "it is decompressed; if such messages are meant, raise option maxBodyBytes"
        except BodyError as exc:
            reason = str(exc)
        self._broken[row] = Problem(int(records.rows[row]), reason)
        return None

    def _built(self, begin: int, end: int, plain: Mapping[int, bytes]) -> pa.RecordBatch:
        """The record batch of a section of the records."""
        # True for nearly all batches, which then need no copy.
        is_whole = end - begin == len(self.records)
        chosen = np.arange(begin, end)
        part = MessageBatch(
            self.records if is_whole else self.records.take(chosen),
            self.shape,
            self.broker_name,
            self.partition,
            self.topics if self.topics is None or is_whole else self.topics.take(numbers(chosen)),
            [problem for row, problem in self._broken.items() if begin <= row < end],
            {row - begin: body for row, body in plain.items()},
        )
        made = part._build()
        # Reported with the batch that the record belongs to, so that a caller can stop there.
        self.problems += part.problems
        return made

    def _build(self) -> pa.RecordBatch:
        """One record batch; a record that cannot become a row is left out, and is in `problems`."""
        bodies: Any = None
        # Bodies first: this step drops records, and the other columns are built from the rest.
        if self.shape.wants_body or self.shape.verify_crc:
            bodies = self._sound_bodies()
        made = []
        for name, kind in self.shape.columns.items():
            column = bodies if name in ("body", "value") else _MAKERS[name](self)
            wanted = TYPES[kind]
            made.append(column if column.type.equals(wanted) else column.cast(wanted))
        return pa.RecordBatch.from_arrays(made, schema=arrow_schema(self.shape.columns))

    @cached_property
    def properties(self) -> PropertyColumns:
        """The records' properties, split on first use."""
        return read_properties(self.whole.properties())

    @property
    def whole(self) -> RecordColumns:
        """The records, with topics, bodies and properties.

        Raises:
            TypeError: Only their heads were read.
        """
        if not isinstance(self.records, RecordColumns):
            raise TypeError(
                "only the heads of these records were read, so their topics, bodies and "
                "properties are not available"
            )
        return self.records

    def _sound_bodies(self) -> pa.Array | None:
        records = self.whole
        if self.shape.verify_crc:
            self.problems += _wrong_crcs(records)
        plain = self._plain
        # Broken bodies came in through the constructor; wrong checksums were found just above.
        if self.problems:
            lost = {problem.row for problem in self.problems}
            keep = np.array([row not in lost for row in records.rows.tolist()], np.bool_)
            self.records = records.take(keep)
            plain = {
                new: plain[old]
                for new, old in enumerate(np.flatnonzero(keep).tolist())
                if old in plain
            }
        if not self.shape.wants_body:
            return None
        return _with(self.whole.bodies(), plain)

    def column(self, name: str) -> Any:
        """A fixed field of all records, by its name in `fixed_fields.HEAD`."""
        return self.records.head[name]


def _wrong_crcs(records: RecordColumns) -> list[Problem]:
    """Records whose body does not have the stored checksum; takes 0.3 us per KiB and record."""
    view = records.buffer.data
    said = records.head["body_crc"]
    found = [
        # RocketMQ clears the highest bit, as Java has no unsigned int; it checks no empty body.
        zlib.crc32(view[at : at + length]) & 0x7FFFFFFF if length else crc
        for at, length, crc in zip(
            records.body_at.tolist(), records.body_len.tolist(), said.tolist(), strict=True
        )
    ]
    return [
        Problem(int(records.rows[row]), f"BODYCRC {said[row]}, the body has {found[row]}")
        for row in np.flatnonzero(said != np.array(found, np.int64)).tolist()
    ]


def _with(bodies: pa.Array, plain: dict[int, bytes]) -> pa.Array:
    if not plain:
        return bodies
    index = np.arange(len(bodies))
    # One `take` puts the inflated ones in their places: Arrow arrays cannot be written to.
    index[list(plain)] = len(bodies) + np.arange(len(plain))
    inflated = binaries(list(plain.values()))
    return pa.concat_arrays([bodies, inflated]).take(numbers(index))


def _msg_ids(batch: MessageBatch) -> pa.Array:
    """UNIQ_KEY, or the offset id where there is none, as `MessageExt.msg_id`."""
    uniq_keys = batch.properties.values_of(names.UNIQ_KEY)
    if uniq_keys.null_count == 0:
        return uniq_keys
    import pyarrow.compute as pc

    return pc.coalesce(uniq_keys, batch.records.offset_ids())


def _headers(batch: MessageBatch) -> pa.Array:
    maps = batch.properties.maps()
    entries = pa.StructArray.from_arrays(
        [maps.keys, maps.items.cast(pa.binary())], names=["key", "value"]
    )
    return pa.ListArray.from_arrays(maps.offsets, entries)


_Maker = Callable[[MessageBatch], Any]


_FIELDS: Final = {
    "queueId": "queue_id",
    "queueOffset": "queue_offset",
    "bornTimestamp": "born_timestamp",
    "storeTimestamp": "store_timestamp",
    "flag": "flag",
    "reconsumeTimes": "reconsume_times",
    "physicalOffset": "physical_offset",
    "offsetMsgId": "physical_offset",
    "offset": "queue_offset",
    "timestamp": "store_timestamp",
}
"""Column -> the field of `fixed_fields.HEAD` that it is made of."""


def _fixed(column: str, dtype: type) -> _Maker:
    return lambda batch: numbers(batch.column(_FIELDS[column]).astype(dtype))


def _time(column: str) -> _Maker:
    return lambda batch: timestamps(batch.column(_FIELDS[column]))


def _property(name: str) -> _Maker:
    return lambda batch: batch.properties.values_of(name)


_MAKERS: Final[dict[str, _Maker]] = {
    "topic": lambda batch: batch.whole.topics() if batch.topics is None else batch.topics,
    "brokerName": lambda batch: repeated_text(batch.broker_name, len(batch.records)),
    "queueId": _fixed("queueId", np.int32),
    "queueOffset": _fixed("queueOffset", np.int64),
    "keys": _property(names.KEYS),
    "tags": _property(names.TAGS),
    "bornTimestamp": _time("bornTimestamp"),
    "storeTimestamp": _time("storeTimestamp"),
    "flag": _fixed("flag", np.int32),
    "sysFlag": lambda batch: numbers(batch.records.sys_flags),
    "properties": lambda batch: batch.properties.maps(),
    "msgId": _msg_ids,
    "uniqKey": _property(names.UNIQ_KEY),
    "reconsumeTimes": _fixed("reconsumeTimes", np.int32),
    "physicalOffset": _fixed("physicalOffset", np.int64),
    "offsetMsgId": lambda batch: batch.records.offset_ids(),
    "bornHost": lambda batch: batch.records.born_hosts(),
    "storeHost": lambda batch: batch.records.store_hosts(),
    "key": lambda batch: batch.properties.values_of(names.KEYS).cast(pa.binary()),
    "partition": lambda batch: repeated_number(batch.partition, len(batch.records)),
    "offset": _fixed("offset", np.int64),
    "timestamp": _time("timestamp"),
    "timestampType": lambda batch: repeated_number(1, len(batch.records)),  # Kafka's LogAppendTime
    "headers": _headers,
}


HEAD_COLUMNS: Final = _MAKERS.keys() - {
    *("keys", "tags", "properties", "msgId", "uniqKey", "key", "headers")
}
"""Columns that are made of fixed fields only, if the topics are known."""
