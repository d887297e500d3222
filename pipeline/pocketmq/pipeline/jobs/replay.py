"""Sends the messages of a store, a table or a topic to a topic again: `pocketmq pipeline replay`.

    replay("delta:tables/orders", "orders-again", nameservers="127.0.0.1:9876", speed=10)

Messages are sent in the order of their store times. Those with one key go to one queue, so their
order is kept; the key is `__SHARDINGKEY`, else the first of KEYS, else the queue they were in.
Bodies, flags, tags, keys and the producer's own properties are kept, and UNIQ_KEY, so a message has
its `msgId` again. What a broker sets anew is kept as properties:

    REPLAY_FROM         topic/broker/queue/offset that it was at
    REPLAY_BORN_MS      its born timestamp
    REPLAY_STORE_MS     its store timestamp

With a state file a replay goes on where it was. State is written after so many messages were
acknowledged. Messages that were sent after that are recognised in the target by REPLAY_FROM, and
are not sent again; only a send that was still under way when the process was killed may come twice.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pocketmq.pipeline.jobs.replay_pace import Pace, ReplayState
from pocketmq.pipeline.jobs.sources import QueueRows, Source, source_of
from pocketmq.protocol import properties as names
from pocketmq.protocol.java import bucket, java_hash
from pocketmq.protocol.message import MessageQueue
from pocketmq.protocol.properties import encode_properties
from pocketmq.protocol.validation import check_send_topic

if TYPE_CHECKING:
    import pyarrow as pa

    from pocketmq.pipeline.sender import Sender
    from pocketmq.pipeline.sink_rows import Batch

FROM: Final = "REPLAY_FROM"
BORN_MS: Final = "REPLAY_BORN_MS"
STORE_MS: Final = "REPLAY_STORE_MS"
COLUMNS: Final = (
    *("topic", "brokerName", "queueId", "queueOffset", "body", "flag"),
    *("bornTimestamp", "storeTimestamp", "properties"),
)
STATE_ROWS: Final = 10_000
"""Messages between two states."""

_KEPT: Final = frozenset({names.KEYS, names.TAGS, names.SHARDING_KEY, names.UNIQ_KEY})
_BATCH_ROWS: Final = 256
_BATCH_BYTES: Final = 1024 * 1024
_SOON_S: Final = 0.001


class Row(NamedTuple):
    """One message of the source; compares by store time, queue and offset."""

    stored_ms: int
    queue: MessageQueue
    offset: int
    body: bytes
    flag: int
    properties: Mapping[str, str]
    born_ms: int


@dataclass(slots=True)
class Replayed:
    """What a replay has done, or with `dry_run` would do."""

    messages: int = 0
    bytes: int = 0
    """Of the bodies."""
    skipped_empty: int = 0
    """Messages without a body, which brokers refuse."""
    already_sent: int = 0
    """Found in the target: a replay that was killed had sent them."""
    keys: int = 0
    """With `dry_run`: different keys, by which messages are ordered."""
    first_ms: int = 0
    last_ms: int = 0
    """Store times of the first and the last message."""
    lasts_s: float = 0.0
    """With `dry_run`: how long it takes at this speed and rate."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How a replay is done.

    Args:
        speed: 1.0 for the original pace, N for N times as fast, 0 for as fast as possible.
        rate: Most messages a second; 0 for no limit.
        state: File that says how far it is; without one a replay begins at the beginning.
        state_rows: Messages between two states.
        group: Producer group.
        in_flight: Sends that may be unanswered at a time.
    """

    speed: float = 0.0
    rate: float = 0.0
    state: Path | None = None
    state_rows: int = STATE_ROWS
    group: str = "pocketmq-replay"
    in_flight: int = 8


def replay(
    source: str,
    topic: str,
    *,
    nameservers: str,
    topics: Sequence[str] = (),
    options: ReplayOptions | None = None,
    dry_run: bool = False,
    on_state: Callable[[Replayed], None] | None = None,
) -> Replayed:
    """Send all messages of a source to a topic.

    Args:
        source: As `source_of` takes it; a topic is read up to its present end.
        topic: The target; it must exist.
        nameservers: Of the target, and of a source that is a topic.
        topics: Only these topics of the source.
        options: See there.
        dry_run: Send nothing, and say what would be sent.
        on_state: Called after each state, whether it is written to a file or not.

    Raises:
        CallerError: There is no such source or topic, or the state is of another replay.
        BrokerError, RemotingError: A message could not be sent; run it again to go on.
    """
    options = options or ReplayOptions()
    check_send_topic(topic)
    found = source_of(source, topics=topics, nameservers=nameservers)
    path = options.state
    state = None if path is None else ReplayState.load(path, source, topic)
    if dry_run:
        return _dry_run(found, state, options)
    work = _Replay(found, state or ReplayState(source, topic), nameservers, options)
    return work.run(is_resumed=state is not None, on_state=on_state)


def rows_in_order(
    source: Source, start: Mapping[MessageQueue, int], columns: tuple[str, ...] = COLUMNS
) -> Iterator[Row]:
    """Rows of all queues by store time; those of a queue stay in its order."""
    return heapq.merge(*(_rows(each) for each in source.queues(columns, start)))


def _rows(queue: QueueRows) -> Iterator[Row]:
    latest = 0
    for batch in queue.batches:
        for row in _of_batch(batch, queue.queue):
            # A broker's clock may have been set back: the order of the queue counts.
            latest = max(latest, row.stored_ms)
            yield row._replace(stored_ms=latest)


def _of_batch(batch: pa.RecordBatch, queue: MessageQueue) -> Iterator[Row]:
    import pyarrow as pa

    def values(name: str) -> list[Any]:
        column = batch.column(name)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
        found: list[Any] = column.to_pylist()
        return found

    columns = ("storeTimestamp", "queueOffset", "body", "flag", "properties", "bornTimestamp")
    for stored, offset, body, flag, pairs, born in zip(*map(values, columns), strict=True):
        yield Row(stored, queue, offset, body or b"", flag, dict(pairs or ()), born)


def key_of(row: Row) -> str:
    """What decides the queue: messages with the same one keep their order."""
    key = row.properties.get(names.SHARDING_KEY)
    if key:
        return key
    words = row.properties.get(names.KEYS, "").split(names.KEY_SEPARATOR)
    if words[0]:
        return words[0]
    return f"{row.queue.topic}/{row.queue.broker_name}/{row.queue.queue_id}"


def place_of(row: Row) -> str:
    """Where the message was; the value of REPLAY_FROM."""
    queue = row.queue
    return f"{queue.topic}/{queue.broker_name}/{queue.queue_id}/{row.offset}"


def properties_of(row: Row) -> dict[str, str]:
    """The properties that it is sent with."""
    kept = {
        name: text
        for name, text in row.properties.items()
        if name not in names.RESERVED or name in _KEPT
    }
    kept[FROM] = place_of(row)
    kept[BORN_MS], kept[STORE_MS] = str(row.born_ms), str(row.stored_ms)
    kept[names.WAIT] = "true"
    return kept


def _dry_run(source: Source, state: ReplayState | None, options: ReplayOptions) -> Replayed:
    done = Replayed()
    pace = Pace(options.speed, options.rate)
    keys: set[str] = set()
    for row in rows_in_order(source, state.done if state is not None else {}):
        if not row.body:
            done.skipped_empty += 1
            continue
        _count(done, row)
        keys.add(key_of(row))
        done.lasts_s = pace.due_s(row.stored_ms)
    done.keys = len(keys)
    return done


def _count(done: Replayed, row: Row) -> None:
    if not done.messages:
        done.first_ms = row.stored_ms
    done.messages += 1
    done.bytes += len(row.body)
    done.last_ms = row.stored_ms


@dataclass(slots=True)
class _Replay:
    """One run."""

    source: Source
    state: ReplayState
    nameservers: str
    options: ReplayOptions
    _done: Replayed = field(default_factory=Replayed)
    _open: dict[MessageQueue, Batch] = field(default_factory=dict)
    _next: dict[MessageQueue, int] = field(default_factory=dict)
    """Of each queue of the source, the offset behind the last message that was handed over."""

    def run(self, *, is_resumed: bool, on_state: Callable[[Replayed], None] | None) -> Replayed:
        """Send everything that is not done."""
        sender = self._sender()
        queues = sender.queues_of(self.state.topic)
        clock = sender.access.client().clock
        self._next = dict(self.state.done)
        sent_before: set[str] = set()
        if is_resumed:
            # The ends in the file stay as they are until all before them is done.
            sent_before = self._sent_before()
        else:
            self._save(queues, sender)
        pace = Pace(self.options.speed, self.options.rate)
        start_s = clock.monotonic()
        since = 0
        try:
            for row in rows_in_order(self.source, self.state.done):
                self._next[row.queue] = row.offset + 1
                if not row.body:
                    self._done.skipped_empty += 1
                    continue
                if sent_before and place_of(row) in sent_before:
                    self._done.already_sent += 1
                    continue
                wait_s = start_s + pace.due_s(row.stored_ms) - clock.monotonic()
                if wait_s > _SOON_S:
                    self._flush(sender)
                    _wait(sender, wait_s)
                self._add(sender, queues, row)
                since += 1
                if since >= self.options.state_rows:
                    since = 0
                    self._save(queues, sender)
                    if on_state is not None:
                        on_state(self._done)
            self._save(queues, sender)
        except BaseException:
            sender.cancel()
            raise
        if on_state is not None:
            on_state(self._done)
        return self._done

    def _sender(self) -> Sender:
        from pocketmq.pipeline.sender import Sender
        from pocketmq.pipeline.settings import access_of_text

        access = access_of_text("replay", self.nameservers)
        return Sender(access, self.options.group, self.options.in_flight)

    def _add(self, sender: Sender, queues: list[MessageQueue], row: Row) -> None:
        from pocketmq.pipeline.sink_rows import Batch

        queue = queues[bucket(java_hash(key_of(row)), len(queues))]
        text = encode_properties(properties_of(row)).encode()
        batch = self._open.get(queue)
        if batch is not None and batch.size + len(row.body) + len(text) > _BATCH_BYTES:
            sender.send(self._open.pop(queue))
            batch = None
        if batch is None:
            batch = self._open[queue] = Batch(queue)
        batch.append(row.body, text, row.flag)
        _count(self._done, row)
        if batch.rows >= _BATCH_ROWS:
            sender.send(self._open.pop(queue))

    def _flush(self, sender: Sender) -> None:
        for batch in self._open.values():
            sender.send(batch)
        self._open.clear()

    def _save(self, queues: list[MessageQueue], sender: Sender) -> None:
        """Wait for all acknowledgements, and write down what is done with that."""
        from pocketmq.pipeline.loop import shared_loop

        self._flush(sender)
        sender.finish()
        self.state.done.update(self._next)
        if self.options.state is not None:
            self.state.ends = shared_loop().run(sender.access.client().ends(queues))
            self.state.save(self.options.state)

    def _sent_before(self) -> set[str]:
        """REPLAY_FROM of what stands in the target behind the ends that the state knows."""
        from pocketmq.pipeline.arrow_reads import read_topic

        starts: dict[str, dict[str, int]] = {}
        for queue, end in self.state.ends.items():
            starts.setdefault(queue.broker_name, {})[str(queue.queue_id)] = end
        found: set[str] = set()
        topic = self.state.topic
        rows = read_topic(
            topic,
            nameServer=self.nameservers,
            columns="properties",
            startingOffsets=json.dumps({topic: starts}),
            failOnDataLoss="false",
        )
        for batch in rows:
            for pairs in batch.column("properties").to_pylist():
                place = dict(pairs or ()).get(FROM)
                if place is not None:
                    found.add(place)
        return found


def _wait(sender: Sender, wait_s: float) -> None:
    from pocketmq.pipeline.loop import shared_loop

    shared_loop().run(sender.access.client().clock.sleep(wait_s))
