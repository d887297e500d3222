"""What `latency` finds, summed up batch by batch: memory does not grow with the messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pocketmq.pipeline.columns.fixed_fields import Ints
from pocketmq.pipeline.jobs.commit_samples import CommitSamples
from pocketmq.pipeline.jobs.hot_keys import HotKeys
from pocketmq.pipeline.jobs.latency_rows import (
    BORN_TO_STORE,
    STORE_TO_COMMIT,
    GroupRow,
    KeyRow,
    Latencies,
    LatencyRow,
    QueueRow,
)
from pocketmq.pipeline.jobs.percentiles import DurationCounts
from pocketmq.protocol.messages.properties import KEY_SEPARATOR
from pocketmq.protocol.messages.validation import (
    dlq_topic,
    is_dlq,
    is_retry,
    is_system_topic,
    retry_topic,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

COLUMNS: Final = (
    *("topic", "brokerName", "queueId", "queueOffset", "keys"),
    *("bornTimestamp", "storeTimestamp"),
)
MINUTE_MS: Final = 60_000
MOST_HOT_KEYS: Final = 10


def latency_of(
    batches: Iterable[pa.RecordBatch],
    samples: CommitSamples,
    *,
    on_batch: Callable[[int], None] | None = None,
) -> Latencies:
    """The result of `latency` from record batches with `COLUMNS`, of any reader."""
    work = _Work(samples)
    for batch in batches:
        work.add(batch)
        if on_batch is not None:
            on_batch(work.found.messages)
    return work.result()


class _Work:
    """Sums over batches."""

    def __init__(self, samples: CommitSamples) -> None:
        self.found = Latencies()
        self._samples = samples
        self._counts = DurationCounts()
        self._groups: dict[tuple[str, str, str, int], int] = {}
        """(measure, topic, group, minute) -> number."""
        self._errors: dict[int, int] = {}
        self._queues: dict[tuple[str, str, int], int] = {}
        self._keys: dict[str, HotKeys] = {}
        self._pending: dict[str, int] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Take a batch in, queue by queue."""
        self.found.messages += len(batch)
        table = pa.Table.from_batches([batch])
        places = table.group_by(["topic", "brokerName", "queueId"]).aggregate([([], "count_all")])
        for place in places.to_pylist():
            topic, broker, queue_id = place["topic"], place["brokerName"], place["queueId"]
            name = topic, broker, queue_id
            self._queues[name] = self._queues.get(name, 0) + place["count_all"]
            if not _is_ordinary(topic):
                continue
            rows = batch
            if len(places) > 1:
                same = pc.and_(
                    pc.equal(batch.column("topic"), topic),
                    pc.and_(
                        pc.equal(batch.column("brokerName"), broker),
                        pc.equal(batch.column("queueId"), pa.scalar(queue_id, pa.int32())),
                    ),
                )
                rows = batch.filter(same)
            self._add_queue(name, rows)

    def _add_queue(self, name: tuple[str, str, int], rows: pa.RecordBatch) -> None:
        topic, broker, queue_id = name
        born, stored = _ms(rows, "bornTimestamp"), _ms(rows, "storeTimestamp")
        minutes = stored // MINUTE_MS
        self.found.clock_ahead += int(np.count_nonzero(stored < born))
        self._count(BORN_TO_STORE, topic, "", minutes, stored - born)
        offsets = rows.column("queueOffset").to_numpy(zero_copy_only=False)
        for group, commits in self._samples.commits(broker, topic, queue_id, offsets, stored):
            self._pending[group] = self._pending.get(group, 0) + commits.pending
            self.found.committed_before += commits.earlier
            if len(commits.rows):
                minute = minutes[commits.rows]
                numbers = self._count(STORE_TO_COMMIT, topic, group, minute, commits.waited_ms)
                for number in numbers:
                    self._errors[number] = max(self._errors.get(number, 0), commits.error_ms)
        keys = self._keys.setdefault(topic, HotKeys())
        keys.add(_key_counts(rows.column("keys")))

    def _count(
        self, measure: str, topic: str, group: str, minutes: Ints, durations: Ints
    ) -> list[int]:
        different, places = np.unique(minutes, return_inverse=True)
        numbers = [
            self._groups.setdefault((measure, topic, group, minute), len(self._groups))
            for minute in different.tolist()
        ]
        self._counts.add(np.array(numbers, np.int64)[places], durations)
        return numbers

    def result(self) -> Latencies:
        found = self.found
        names = {number: name for name, number in self._groups.items()}
        for each in self._counts.results():
            measure, topic, group, minute = names[each.group]
            start = minute * MINUTE_MS
            error = self._errors.get(each.group, 0)
            found.rows.append(LatencyRow(measure, topic, group, start, *each[1:], error))
        found.rows.sort(key=lambda row: (row.measure, row.topic, row.group, row.minute_ms))
        found.queues = queue_rows(self._queues)
        found.keys = [
            KeyRow(topic, key, count, count / keys.messages)
            for topic, keys in sorted(self._keys.items())
            for key, count in keys.top(MOST_HOT_KEYS)
            if count > 1
        ]
        found.groups = self._group_rows()
        return found

    def _group_rows(self) -> list[GroupRow]:
        sums: dict[str, int] = {}
        for (topic, _, _), count in self._queues.items():
            sums[topic] = sums.get(topic, 0) + count
        topics = self._samples.topics_of_groups()
        for topic in sums:
            if is_retry(topic) or is_dlq(topic):
                topics.setdefault(topic.split("%", 2)[2], set())
        rows = []
        for group, listed in sorted(topics.items()):
            messages = sum(sums.get(topic, 0) for topic in listed)
            retries, dead = sums.get(retry_topic(group), 0), sums.get(dlq_topic(group), 0)
            if messages or retries or dead:
                rows.append(
                    GroupRow(
                        group,
                        ",".join(sorted(listed)),
                        messages,
                        retries,
                        dead,
                        retries / messages if messages else 0.0,
                        dead / messages if messages else 0.0,
                        self._pending.get(group, 0),
                    )
                )
        return rows


def queue_rows(counts: Mapping[tuple[str, str, int], int]) -> list[QueueRow]:
    """Messages of each queue of ordinary topics, with their skew."""
    by_topic: dict[str, list[tuple[str, int, int]]] = {}
    for (topic, broker, queue_id), count in counts.items():
        if _is_ordinary(topic):
            by_topic.setdefault(topic, []).append((broker, queue_id, count))
    rows = []
    for topic, listed in sorted(by_topic.items()):
        mean = sum(count for _, _, count in listed) / len(listed)
        rows += [
            QueueRow(topic, broker, queue_id, count, round(count / mean, 3))
            for broker, queue_id, count in sorted(listed)
        ]
    return rows


def _is_ordinary(topic: str) -> bool:
    """Retries and dead letters are stored long after they were born; so are delayed messages."""
    return not (is_retry(topic) or is_dlq(topic) or is_system_topic(topic))


def _ms(rows: pa.RecordBatch, name: str) -> Ints:
    times: Ints = rows.column(name).cast(pa.int64()).to_numpy(zero_copy_only=False) // 1000
    return times


def _key_counts(column: pa.Array) -> list[tuple[str, int]]:
    counted = pc.value_counts(column.drop_null())
    found: dict[str, int] = {}
    for pair in counted.to_pylist():
        for word in pair["values"].split(KEY_SEPARATOR):
            if word:
                found[word] = found.get(word, 0) + pair["counts"]
    return list(found.items())
