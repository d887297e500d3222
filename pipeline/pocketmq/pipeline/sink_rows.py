"""Encodes rows of a data frame as bodies of SEND_BATCH_MESSAGE (320) (E-47, P-49).

Unless a column names the queue, it depends only on the row's position in its task. So a task that
Spark runs again sends each row to the queue that has it already, and a reader of that queue can
drop the second (`repeats`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pocketmq.pipeline.errors import ColumnsError, near
from pocketmq.pipeline.repeats import ROW_PROPERTY
from pocketmq.protocol import properties as names
from pocketmq.protocol.errors import IllegalMessageError
from pocketmq.protocol.java import bucket, java_hash
from pocketmq.protocol.message import MessageQueue
from pocketmq.protocol.properties import MAX_PROPERTIES_BYTES, encode_properties
from pocketmq.protocol.validation import check_send_topic

_HEAD: Final = struct.Struct(">iiiii")
_LENGTH: Final = struct.Struct(">h")
_ENTRY_BYTES: Final = _HEAD.size + _LENGTH.size
MAX_BODY_BYTES: Final = 4 * 1024 * 1024

TEXT: Final = ("string",)
ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    "body": ("binary", "string"),
    "topic": TEXT,
    "properties": ("map<string,string>", "array<struct<key:string,value:binary>>"),
    "queueId": ("int", "bigint"),
    "brokerName": TEXT,
    "shardingKey": TEXT,
    "delayLevel": ("int", "bigint"),
    "flag": ("int", "bigint"),
}
"""The sink's columns and their types; options may choose other columns for tags and keys."""

KAFKA_NAMES: Final[Mapping[str, str]] = {"value": "body", "headers": "properties"}
KEY_TYPES: Final = ("string", "binary", "array<string>")


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """The column of the data frame for each of the sink's columns."""

    place: Mapping[str, int]
    """Column of the sink -> index in the data frame."""
    tags: int | None
    keys: tuple[int, ...]

    @classmethod
    def of(
        cls, schema: Mapping[str, str], *, topic: str, tag_column: str, key_columns: Sequence[str]
    ) -> SinkColumns:
        """Assign the data frame's columns to those of the sink.

        Args:
            schema: Column names and Spark types.
            topic: Option `topic`; if empty there must be a column `topic`.
            tag_column: Column with the tag; the default one need not exist.
            key_columns: Columns with keys; the default one need not exist.

        Raises:
            ColumnsError: A column is unknown or has the wrong type, or a required one is missing.
        """
        place: dict[str, int] = {}
        keys: list[int] = []
        tags = None
        by_lower = {role.lower(): role for role in (*ROLES, *KAFKA_NAMES)}
        key_names = {name.lower() for name in key_columns} | {"key"}
        for index, (name, kind) in enumerate(schema.items()):
            lower = name.lower()
            if lower in key_names:
                _check_type(name, kind, KEY_TYPES)
                keys.append(index)
            elif lower == tag_column.lower():
                _check_type(name, kind, TEXT)
                tags = index
            elif lower in by_lower:
                role = KAFKA_NAMES.get(by_lower[lower], by_lower[lower])
                if role in place:
                    raise ColumnsError(f"pocketmq: two columns are both {role!r}; leave one out")
                _check_type(name, kind, ROLES[role])
                place[role] = index
            else:
                every = [*ROLES, tag_column, *key_columns]
                meant = near(name, every)
                hint = f"did you mean {meant[0]!r}?" if meant else f"it has {', '.join(every)}"
                raise ColumnsError(f"pocketmq: the sink has no column {name!r}; {hint}")
        if "body" not in place:
            raise ColumnsError("pocketmq: the sink needs a column 'body' of type binary or string")
        if not topic and "topic" not in place:
            raise ColumnsError("pocketmq: the sink needs option 'topic' or a column 'topic'")
        missing = {name.lower() for name in (tag_column, *key_columns)} - {
            name.lower() for name in schema
        }
        for name in missing - {"tags", "keys"}:
            raise ColumnsError(f"pocketmq: there is no column {name!r} for tags or keys")
        return cls(place, tags, tuple(keys))


def _check_type(name: str, kind: str, allowed: Sequence[str]) -> None:
    if kind not in allowed:
        raise ColumnsError(
            f"pocketmq: column {name!r} is {kind}; it must be {' or '.join(allowed)}"
        )


@dataclass(slots=True)
class Batch:
    """Messages for one queue that are sent together; or one delayed message, sent alone."""

    queue: MessageQueue
    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    rows: int = 0
    delayed_properties: str = ""
    """Properties of a delayed message; `body` then is that message's body only."""
    flag: int = 0

    @property
    def body(self) -> bytes:
        """The body of the request."""
        return b"".join(self.parts)


@dataclass(slots=True)
class RowEncoder:
    """Turns record batches into batches to send: call `encode` for each, and `rest` at the end.

    Args:
        columns: The column of the data frame for each of the sink's columns.
        topic: The topic of all rows; if empty, each row names its topic.
        row_prefix: Prefix of the rows' property SPARK_ROW.
        task: Number of the task; tasks begin with different queues.
        queues_of: Queues that a topic can be written to, in order.
        new_key: Makes UNIQ_KEYs.
        batch_rows: Maximum messages of a batch.
        batch_bytes: Maximum bytes of a batch.
    """

    columns: SinkColumns
    topic: str
    row_prefix: str
    task: int
    queues_of: Callable[[str], Sequence[MessageQueue]]
    new_key: Callable[[], str]
    batch_rows: int
    batch_bytes: int
    wait_store_ok: bool = True
    rows: int = 0
    _open: dict[MessageQueue, Batch] = field(default_factory=dict)
    _turns: dict[str, tuple[MessageQueue, int]] = field(default_factory=dict)
    """Topic -> the queue for rows that name none, and how many more rows it takes."""
    _turn: int = 0

    def encode(self, record_batch: Any) -> Iterator[Batch]:
        """Add rows; yields the batches that are full now.

        Raises:
            IllegalMessageError: A row breaks a limit; the message has its number.
            ColumnsError: A row names a queue that does not exist.
        """
        place = self.columns.place
        column = {role: record_batch.column(index).to_pylist() for role, index in place.items()}
        bodies = column.pop("body")
        topics = column.pop("topic", None)
        maps = column.pop("properties", None)
        delays = column.pop("delayLevel", None)
        flags = column.pop("flag", None)
        tags = None if self.columns.tags is None else _list(record_batch, self.columns.tags)
        keys = [_list(record_batch, index) for index in self.columns.keys]
        is_placed = bool(column)
        wait = "true" if self.wait_store_ok else "false"
        for index, body in enumerate(bodies):
            topic = self.topic or (topics[index] if topics else "")
            try:
                entries = _entries(maps[index]) if maps and maps[index] else {}
                if tags and tags[index]:
                    entries[names.TAGS] = tags[index]
                if keys:
                    words = _key_words(each[index] for each in keys)
                    if words:
                        entries[names.KEYS] = words
                entries[names.UNIQ_KEY] = self.new_key()
                entries[names.WAIT] = wait
                entries[ROW_PROPERTY] = f"{self.row_prefix}{self.rows}"
                if is_placed:
                    row = {role: values[index] for role, values in column.items()}
                    queue = self._placed(topic, row, entries)
                else:
                    queue = self._next_queue(topic)
                flag = flags[index] or 0 if flags else 0
                data = body.encode() if isinstance(body, str) else body
                delay = delays[index] if delays else 0
                if delay:
                    entries[names.DELAY] = str(delay)
                text = encode_properties(entries)
                yield from self._add(queue, data, text, flag, alone=bool(delay))
            except IllegalMessageError as exc:
                raise IllegalMessageError(f"row {self.rows}: {exc}") from None
            self.rows += 1

    def rest(self) -> Iterator[Batch]:
        """Yield the batches that are not full; call it once, at the end."""
        yield from self._open.values()
        self._open.clear()

    def _add(
        self, queue: MessageQueue, body: bytes | None, text: str, flag: int, *, alone: bool
    ) -> Iterator[Batch]:
        if not body:
            raise IllegalMessageError("its body is empty; RocketMQ refuses such messages")
        if len(body) > MAX_BODY_BYTES:
            raise IllegalMessageError(f"its body has {len(body)} bytes, {MAX_BODY_BYTES} fit")
        properties = text.encode()
        if len(properties) > MAX_PROPERTIES_BYTES:
            raise IllegalMessageError(
                f"its properties take {len(properties)} bytes, {MAX_PROPERTIES_BYTES} fit"
            )
        if alone:
            # A batch cannot be delayed (P-49). Earlier rows of the queue are sent first.
            before = self._open.pop(queue, None)
            if before is not None:
                yield before
            yield Batch(queue, [body], len(body), 1, delayed_properties=text, flag=flag)
            return
        size = _ENTRY_BYTES + len(body) + len(properties)
        batch = self._open.get(queue)
        if batch is not None and batch.size + size > self.batch_bytes:
            yield batch
            batch = None
        if batch is None:
            batch = self._open[queue] = Batch(queue)
        batch.parts += (
            _HEAD.pack(size, 0, 0, flag, len(body)),
            body,
            _LENGTH.pack(len(properties)),
            properties,
        )
        batch.size += size
        batch.rows += 1
        if batch.rows >= self.batch_rows:
            yield self._open.pop(queue)

    def _next_queue(self, topic: str) -> MessageQueue:
        """Queues take turns after as many rows as fill a batch."""
        queue, left = self._turns.get(topic, (None, 0))
        if queue is None or left == 0:
            queues = self._queues(topic)
            queue = queues[(self.task + self._turn) % len(queues)]
            self._turn += 1
            left = self.batch_rows
        self._turns[topic] = (queue, left - 1)
        return queue

    def _placed(self, topic: str, row: Mapping[str, Any], entries: dict[str, str]) -> MessageQueue:
        queues = self._queues(topic)
        broker, queue_id = row.get("brokerName"), row.get("queueId")
        if broker is not None:
            queues = [queue for queue in queues if queue.broker_name == broker]
        if queue_id is not None:
            queues = [queue for queue in queues if queue.queue_id == queue_id]
        if not queues:
            wanted = f"{topic!r} has no queue {queue_id if queue_id is not None else ''}"
            wanted += f" on {broker!r}" if broker is not None else ""
            raise ColumnsError(f"pocketmq: row {self.rows}: topic {wanted} to write to")
        key = row.get("shardingKey")
        if key is not None:
            entries[names.SHARDING_KEY] = key
            return queues[bucket(java_hash(key), len(queues))]
        if broker is None and queue_id is None:
            return self._next_queue(topic)
        return queues[self.task % len(queues)]

    def _queues(self, topic: str) -> Sequence[MessageQueue]:
        if not topic:
            raise IllegalMessageError("its topic is null or empty")
        check_send_topic(topic)
        return self.queues_of(topic)


def _list(record_batch: Any, index: int) -> list[Any]:
    values: list[Any] = record_batch.column(index).to_pylist()
    return values


def _entries(value: Any) -> dict[str, str]:
    """Properties from a map's pairs, or from Kafka's headers."""
    entries = {}
    for pair in value:
        name, text = (pair["key"], pair["value"]) if isinstance(pair, dict) else pair
        if isinstance(text, bytes):
            text = text.decode("utf-8", "replace")
        if name and text:  # readers would ignore the others (S-6)
            entries[name] = text
    return entries


def _key_words(values: Iterator[Any]) -> str:
    words: list[str] = []
    for value in values:
        if isinstance(value, bytes):
            words.append(value.decode("utf-8", "replace"))
        elif isinstance(value, str):
            words.append(value)
        elif value:
            words += [word for word in value if word]
    return names.KEY_SEPARATOR.join(word for word in words if word)
