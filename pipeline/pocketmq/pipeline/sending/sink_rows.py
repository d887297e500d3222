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

from pocketmq.pipeline.columns.repeats import ROW_PROPERTY, digest_of
from pocketmq.pipeline.errors import ColumnsError, TopicAwayError
from pocketmq.pipeline.sending.bad_rows import BadRow
from pocketmq.pipeline.sending.sink_columns import SinkColumns
from pocketmq.pipeline.topics.partition_numbers import partition_numbers
from pocketmq.protocol.errors import IllegalMessageError, IllegalNameError
from pocketmq.protocol.java import bucket, java_hash
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.properties import MAX_PROPERTIES_BYTES, encode_properties
from pocketmq.protocol.messages.validation import check_send_topic, names_time

_HEAD: Final = struct.Struct(">iiiii")
_LENGTH: Final = struct.Struct(">h")
_ENTRY_BYTES: Final = _HEAD.size + _LENGTH.size
_PARTS_A_ROW: Final = 4
"""Head, body, length of the properties, properties."""
SHOWN: Final = 8
"""Partition numbers that an error names."""
MAX_BODY_BYTES: Final = 4 * 1024 * 1024

_KEPT: Final = frozenset({names.KEYS, names.TAGS, names.SHARDING_KEY})
"""Reserved properties that a table which was read keeps."""


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
    def first(self) -> tuple[bytes, str]:
        """Body and properties of its first message."""
        if self.delayed_properties:
            return self.parts[0], self.delayed_properties
        return self.parts[1], self.parts[_PARTS_A_ROW - 1].decode()

    @property
    def body(self) -> bytes:
        """The body of the request."""
        return b"".join(self.parts)

    @classmethod
    def of_one(cls, queue: MessageQueue, body: bytes, properties: Mapping[str, str]) -> Batch:
        """A batch of one message."""
        batch = cls(queue)
        batch.append(body, encode_properties(properties).encode(), 0)
        return batch

    def append(self, body: bytes, properties: bytes, flag: int) -> None:
        """Add a message."""
        size = _ENTRY_BYTES + len(body) + len(properties)
        self.parts += (
            _HEAD.pack(size, 0, 0, flag, len(body)),
            body,
            _LENGTH.pack(len(properties)),
            properties,
        )
        self.size += size
        self.rows += 1

    def halves(self) -> tuple[Batch, Batch]:
        """The same messages as two batches, in order."""
        cut = self.rows // 2
        return self._part(0, cut), self._part(cut, self.rows)

    def _part(self, first: int, end: int) -> Batch:
        parts = self.parts[_PARTS_A_ROW * first : _PARTS_A_ROW * end]
        return Batch(self.queue, parts, sum(map(len, parts)), end - first)


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
    on_bad: Callable[[BadRow], None] | None = None
    """Takes rows that no broker would; without it they are errors."""
    rows: int = 0
    _open: dict[MessageQueue, Batch] = field(default_factory=dict)
    _turns: dict[str, tuple[MessageQueue, int]] = field(default_factory=dict)
    """Topic -> the queue for rows that name none, and how many more rows it takes."""
    _turn: int = 0
    _numbers: dict[str, dict[int, MessageQueue]] = field(default_factory=dict)
    """Topic -> the queue of each partition number."""

    def encode(self, record_batch: Any) -> Iterator[Batch]:
        """Add rows; yields the batches that are full now.

        Raises:
            IllegalMessageError: A row breaks a limit; it is named.
            ColumnsError: A row names a queue that there is not.
            TopicAwayError: Or a topic.
        """
        rows = _Rows(self.columns, record_batch)
        for index in range(rows.count):
            try:
                yield from self._row(rows, index)
            except (IllegalMessageError, IllegalNameError, ColumnsError, TopicAwayError) as exc:
                # A bad row takes a number too, so that later rows keep theirs when the task is
                # repeated.
                if self.on_bad is not None:
                    topic = self.topic or rows.value("topic", index)
                    self.on_bad(rows.bad(index, self.rows, topic, str(exc)))
                elif isinstance(exc, IllegalMessageError):
                    raise IllegalMessageError(f"row {self.rows}: {exc}") from None
                else:
                    raise
            self.rows += 1

    def _row(self, rows: _Rows, index: int) -> Iterator[Batch]:
        topic = self.topic or rows.value("topic", index) or ""
        body = rows.body(index)
        if not body:
            raise IllegalMessageError("RocketMQ refuses a message with an empty body")
        # Before the queue is chosen, which may add the sharding key.
        entries = rows.entries(index)
        queue = self._queue(topic, rows, index, entries)
        delay = rows.delay(index)
        # The row's properties may also delay the message.
        is_delayed = names.DELAY in entries or names_time(entries)
        if delay and is_delayed and not delay.keys() <= entries.keys():
            raise IllegalMessageError(
                "a column and a property of the row ask for different delays; leave out one of "
                "the two"
            )
        entries |= delay
        is_delayed = is_delayed or bool(delay)
        flag = rows.value("flag", index) or 0
        # After the other properties and before UNIQ_KEY, which differs with each attempt: the
        # digest must be the same in a repeat.
        entries[ROW_PROPERTY] = (
            f"{self.row_prefix}{self.rows}:{digest_of(topic, body, flag, entries)}"
        )
        entries[names.UNIQ_KEY] = self.new_key()
        entries[names.WAIT] = "true" if self.wait_store_ok else "false"
        yield from self._add(queue, body, encode_properties(entries), flag, alone=is_delayed)

    def rest(self) -> Iterator[Batch]:
        """Yield the batches that are not full; call it once, at the end."""
        yield from self._open.values()
        self._open.clear()

    def _add(
        self, queue: MessageQueue, body: bytes, text: str, flag: int, *, alone: bool
    ) -> Iterator[Batch]:
        if len(body) > MAX_BODY_BYTES:
            raise IllegalMessageError(
                f"the body has {len(body)} bytes, but may have at most {MAX_BODY_BYTES}"
            )
        properties = text.encode()
        if len(properties) > MAX_PROPERTIES_BYTES:
            raise IllegalMessageError(
                f"the properties have {len(properties)} bytes, but may have at most "
                f"{MAX_PROPERTIES_BYTES}"
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
        # Sent before the row is added, as brokers limit the size of a request.
        if batch is not None and batch.size + size > self.batch_bytes:
            yield batch
            batch = None
        if batch is None:
            batch = self._open[queue] = Batch(queue)
        batch.append(body, properties, flag)
        if batch.rows >= self.batch_rows:
            yield self._open.pop(queue)

    def _next_queue(self, topic: str) -> MessageQueue:
        """Queues take turns after as many rows as fill a batch."""
        queue, left = self._turns.get(topic, (None, 0))
        if queue is None or left == 0:
            queues = self._queues(topic)
            # Tasks begin at different queues, so that all queues get messages.
            queue = queues[(self.task + self._turn) % len(queues)]
            self._turn += 1
            left = self.batch_rows
        self._turns[topic] = (queue, left - 1)
        return queue

    def _queue(self, topic: str, rows: _Rows, index: int, entries: dict[str, str]) -> MessageQueue:
        """The queue that takes a row."""
        queues = self._queues(topic)
        broker, queue_id = rows.value("brokerName", index), rows.value("queueId", index)
        number = rows.value("partition", index)
        if number is not None:  # as kafkaCompatible tables number them
            queues = [self._numbered(topic, number)]
        if broker is not None:
            queues = [queue for queue in queues if queue.broker_name == broker]
        if queue_id is not None:
            queues = [queue for queue in queues if queue.queue_id == queue_id]
        if not queues:
            which = f" {queue_id}" if queue_id is not None else ""
            which += f" on broker {broker!r}" if broker is not None else ""
            raise ColumnsError(
                f"pocketmq: row {self.rows}: topic {topic!r} has no queue{which} that can be "
                "written to"
            )
        # The key chooses among the queues that the row's columns allow.
        key = rows.value("shardingKey", index)
        if key is not None:
            entries[names.SHARDING_KEY] = key
            return queues[bucket(java_hash(key), len(queues))]
        if broker is None and queue_id is None and number is None:
            # Rows that shared a queue share one again, which keeps their order.
            origin = rows.origin(index)
            if origin:
                return queues[bucket(java_hash(origin), len(queues))]
            return self._next_queue(topic)
        # One queue for the whole task: it must not depend on the row's number.
        return queues[self.task % len(queues)]

    def _numbered(self, topic: str, number: int) -> MessageQueue:
        numbers = self._numbers.get(topic)
        if numbers is None:
            found = partition_numbers(self._queues(topic))
            numbers = self._numbers[topic] = {each: queue for queue, each in found.items()}
        queue = numbers.get(number)
        if queue is None:
            some = ", ".join(str(each) for each in sorted(numbers)[:SHOWN])
            more = f" and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else ""
            raise ColumnsError(
                f"pocketmq: row {self.rows}: topic {topic!r} has no partition {number} that can be "
                f"written to; its partitions are {some}{more}"
            )
        return queue

    def _queues(self, topic: str) -> Sequence[MessageQueue]:
        if not topic:
            raise IllegalMessageError("its topic is null or empty")
        # Checked for each row, as the topic may come from a column.
        check_send_topic(topic)
        return self.queues_of(topic)


class _Rows:
    """A record batch as Python's values, by part."""

    def __init__(self, columns: SinkColumns, record_batch: Any) -> None:
        def values(index: int) -> list[Any]:
            found: list[Any] = record_batch.column(index).to_pylist()
            return found

        self.count = len(record_batch)
        self._columns = {role: values(index) for role, index in columns.place.items()}
        self._tags = None if columns.tags is None else values(columns.tags)
        self._keys = [values(index) for index in columns.keys]
        self._origin = [values(index) for index in columns.origin]

    def value(self, role: str, index: int) -> Any:
        """What a row says for a part; None without a column for it."""
        column = self._columns.get(role)
        return None if column is None else column[index]

    def body(self, index: int) -> bytes | None:
        """A row's body."""
        body = self._columns["body"][index]
        return body.encode() if isinstance(body, str) else body

    def delay(self, index: int) -> dict[str, str]:
        """The property that delays a row's message; none if no column does.

        Raises:
            IllegalMessageError: Several columns do, or the delay is negative.
        """
        level, after_ms = self.value("delayLevel", index), self.value("delayMs", index)
        at = self.value("deliverTimestamp", index)
        found = {}
        if level:
            found[names.DELAY] = str(level)
        if after_ms is not None:
            if after_ms < 0:
                raise IllegalMessageError(f"its delayMs is {after_ms}")
            found[names.TIMER_DELAY_MS] = str(after_ms)
        if at is not None:
            # Rounded: seconds as a float may be slightly off the millisecond.
            found[names.TIMER_DELIVER_MS] = str(round(at.timestamp() * 1000))
        if len(found) > 1:
            which = "delayLevel, delayMs and deliverTimestamp"
            raise IllegalMessageError(f"only one of the columns {which} may have a value in a row")
        return found

    def origin(self, index: int) -> str:
        """Which queue the row was in; empty for other tables."""
        return "/".join(str(column[index]) for column in self._origin)

    def entries(self, index: int) -> dict[str, str]:
        """A row's properties, its tag and its keys."""
        pairs = self.value("properties", index)
        entries = _entries(pairs) if pairs else {}
        if self._origin:  # the broker and the clients that it went through have put theirs there
            entries = {
                name: text
                for name, text in entries.items()
                if name not in names.RESERVED or name in _KEPT
            }
        # Each message gets a new UNIQ_KEY: otherwise a trace would take the copies for one message.
        entries.pop(names.UNIQ_KEY, None)
        entries.pop(ROW_PROPERTY, None)
        if self._tags and self._tags[index]:
            entries[names.TAGS] = self._tags[index]
        words = _key_words(each[index] for each in self._keys)
        if words:
            entries[names.KEYS] = words
        return entries

    def bad(self, index: int, row: int, topic: str | None, reason: str) -> BadRow:
        """A row that cannot be sent."""
        return BadRow(row, reason, topic, self.body(index), self.entries(index))


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
