"""Where a job's messages come from: a store, a table that was exported, or a topic.

    source_of("store:cluster/broker-a")         a broker's files, several separated by commas
    source_of("parquet:tables/orders")          also delta:TABLE, iceberg:FOLDER/NAMESPACE.NAME
    source_of("topic:orders", nameservers=...)  asked of the brokers

Each gives the columns of the data sources (docs/spark-read.md), all at once or queue by queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from pocketmq.pipeline.row_filter import RowFilter
from pocketmq.protocol.message import MessageQueue
from pocketmq.runtime.errors import CallerError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

KINDS: Final = ("store", "parquet", "delta", "iceberg", "topic")
QUEUE_COLUMNS: Final = ("topic", "brokerName", "queueId", "queueOffset")


class Source(Protocol):
    """Messages as Arrow record batches."""

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """All messages with these columns; in a queue's order only within that queue."""

    def queues(self, columns: Sequence[str], start: Mapping[MessageQueue, int]) -> list[QueueRows]:
        """The messages of each queue from an offset on, in their order."""


@dataclass(frozen=True, slots=True)
class QueueRows:
    """What one queue has to be read."""

    queue: MessageQueue
    low: int
    """First offset."""
    high: int
    """The offset behind the last."""
    batches: Iterator[pa.RecordBatch]


def source_of(text: str, *, topics: Sequence[str] = (), nameservers: str = "") -> Source:
    """The source that `KIND:WHERE` names; without a kind, a directory is a store, else a topic.

    Args:
        text: See the module.
        topics: Only these topics, of a store or a table.
        nameservers: For topics.

    Raises:
        CallerError: There is no such source.
    """
    kind, colon, where = text.partition(":")
    if not colon or kind not in KINDS:
        kind, where = ("store" if Path(text).expanduser().is_dir() else "topic"), text
    if kind == "store":
        return StoreSource(where.split(","), topics)
    if kind == "topic":
        return TopicSource(where, {"nameServer": nameservers or "127.0.0.1:9876"})
    return TableSource(kind, where, topics)


# -- stores ---------------------------------------------------------------------------------------


class StoreSource:
    """Store directories; a broker's name is that of its directory."""

    def __init__(self, paths: Sequence[str], topics: Sequence[str] = ()) -> None:
        from pocketmq.pipeline.store_plan import Root, find_roots

        found = find_roots([path.strip() for path in paths], (), "store")
        names = [root.path.name for root in found]
        unique = len(set(names)) == len(names)
        self.roots = [
            Root(root.path, name if unique else root.broker_name)
            for root, name in zip(found, names, strict=True)
        ]
        self.topics = tuple(topics)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """In the order of each log."""
        from pocketmq.pipeline import store_plan

        scan = _scan(columns)
        for root in self.roots:
            chosen = store_plan.choose_queues(root, self.topics, RowFilter())
            parts = store_plan.plan_queues(
                root,
                chosen,
                RowFilter(),
                part_bytes=store_plan.DEFAULT_PART_BYTES,
                least_parts=1,
            )
            for part in parts:
                yield from scan.batches(part)

    def queues(self, columns: Sequence[str], start: Mapping[MessageQueue, int]) -> list[QueueRows]:
        """What is stored now."""
        from pocketmq.pipeline import store_plan
        from pocketmq.pipeline.store_bounds import Slice
        from pocketmq.pipeline.store_files import log_files

        found = []
        for root in self.roots:
            chosen = store_plan.choose_queues(root, self.topics, RowFilter())
            with log_files(root.path) as log:
                slices, _ = store_plan.snapshot(root, chosen, log)
            for files, low, high in slices:
                files.row.close()
                queue = MessageQueue(files.topic, root.broker_name, files.queue_id)
                low = max(low, min(start.get(queue, low), high))
                part = store_plan.QueuePart(
                    root.path,
                    root.broker_name,
                    (Slice(files.topic, files.queue_id, low, high),),
                )
                found.append(QueueRows(queue, low, high, _read_part(columns, part)))
        return found


def _read_part(columns: Sequence[str], part: Any) -> Iterator[pa.RecordBatch]:
    yield from _scan(columns).batches(part)


def _scan(columns: Sequence[str]) -> Any:
    from pocketmq.pipeline.arrow import Shape
    from pocketmq.pipeline.schema import MESSAGE
    from pocketmq.pipeline.store_scan import Scan

    return Scan(Shape({name: MESSAGE[name] for name in columns}), RowFilter())


# -- topics ---------------------------------------------------------------------------------------


class TopicSource:
    """A topic, or several separated by commas, up to their present ends."""

    def __init__(self, topic: str, options: Mapping[str, str]) -> None:
        self.topic = topic
        self.options = dict(options)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Queue by queue."""
        from pocketmq.pipeline.arrow_reads import read_topic

        yield from read_topic(self.topic, columns=",".join(columns), **self.options)

    def queues(self, columns: Sequence[str], start: Mapping[MessageQueue, int]) -> list[QueueRows]:
        """Offsets before `start` must not have been removed."""
        from pocketmq.pipeline.loop import shared_loop
        from pocketmq.pipeline.settings import ReadSettings
        from pocketmq.pipeline.topic_read import plan, reading

        settings = ReadSettings({"topic": self.topic, "columns": ",".join(columns), **self.options})
        found = []
        for part in shared_loop().run(plan(settings, RowFilter())):
            low = max(part.start, min(start.get(part.queue, part.start), part.end))
            read = reading(settings, settings.columns, RowFilter())
            rows = read.batches(replace(part, start=low))
            found.append(QueueRows(part.queue, low, part.end, rows))
        return found


# -- tables ---------------------------------------------------------------------------------------


class TableSource:
    """A table that `pocketmq pipeline export` has made, or one with the same columns."""

    def __init__(self, kind: str, where: str, topics: Sequence[str] = ()) -> None:
        self.where = where
        self.topics = tuple(topics)
        self._dataset = _dataset(kind, where)
        lacking = [name for name in QUEUE_COLUMNS if name not in self._dataset.schema.names]
        if lacking:
            raise CallerError(f"{where}: the table has no column {lacking[0]!r}; export it with it")

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """In the order of the files."""
        self._check(columns)
        yield from self._dataset.to_batches(columns=list(columns), filter=self._of_topics())

    def queues(self, columns: Sequence[str], start: Mapping[MessageQueue, int]) -> list[QueueRows]:
        """From the files whose offsets are wanted; a file's rows of a queue are held in memory."""
        self._check(columns)
        names = list(dict.fromkeys((*columns, "queueOffset")))
        spans: dict[MessageQueue, list[tuple[int, int, ds.Fragment]]] = {}
        for fragment in self._dataset.get_fragments():
            for queue, low, high in self._spans(fragment):
                spans.setdefault(queue, []).append((low, high, fragment))
        found = []
        for queue, listed in sorted(spans.items(), key=lambda item: item[0]):
            listed.sort(key=lambda span: span[:2])
            first = start.get(queue, 0)
            low, high = max(first, listed[0][0]), max(span[1] for span in listed)
            rows = _of_queue(self._dataset.schema, listed, queue, first, names)
            found.append(QueueRows(queue, min(low, high), high, rows))
        return found

    def _check(self, columns: Sequence[str]) -> None:
        for name in columns:
            if name not in self._dataset.schema.names:
                raise CallerError(f"{self.where}: the table has no column {name!r}")

    def _of_topics(self) -> Any:
        import pyarrow.compute as pc

        return pc.field("topic").isin(list(self.topics)) if self.topics else None

    def _spans(self, fragment: ds.Fragment) -> list[tuple[MessageQueue, int, int]]:
        """First and one behind the last offset of each queue in a file."""
        rows = fragment.to_table(
            schema=self._dataset.schema, columns=list(QUEUE_COLUMNS), filter=self._of_topics()
        )
        sums = rows.group_by(list(QUEUE_COLUMNS[:3])).aggregate(
            [("queueOffset", "min"), ("queueOffset", "max")]
        )
        return [
            (
                MessageQueue(row["topic"], row["brokerName"], row["queueId"]),
                row["queueOffset_min"],
                row["queueOffset_max"] + 1,
            )
            for row in sums.to_pylist()
        ]


def _of_queue(
    schema: pa.Schema,
    listed: Sequence[tuple[int, int, ds.Fragment]],
    queue: MessageQueue,
    start: int,
    columns: list[str],
) -> Iterator[pa.RecordBatch]:
    """Rows of a queue by offset; files whose offsets overlap are read together."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = (
        (pc.field("topic") == queue.topic)
        & (pc.field("brokerName") == queue.broker_name)
        & (pc.field("queueId") == queue.queue_id)
        & (pc.field("queueOffset") >= start)
    )
    bounds = []
    end = -1
    for number, (low, high, _) in enumerate(listed):
        if low >= end:
            bounds.append(number)
        end = max(end, high)
    for _, together in groupby(
        range(len(listed)), key=lambda number: max(at for at in bounds if at <= number)
    ):
        chosen = [listed[number] for number in together]
        if max(high for _, high, _ in chosen) <= start:
            continue
        rows = pa.concat_tables(
            [part.to_table(schema=schema, columns=columns, filter=wanted) for _, _, part in chosen]
        )
        yield from rows.sort_by("queueOffset").to_batches(max_chunksize=8192)


def _dataset(kind: str, where: str) -> ds.Dataset:
    import pyarrow.dataset as ds

    from pocketmq.pipeline.lake import IcebergTarget
    from pocketmq.pipeline.lake.delta import check_deltalake

    if kind == "delta":
        check_deltalake()
        from deltalake import DeltaTable

        return DeltaTable(where).to_pyarrow_dataset()
    if kind == "iceberg":
        folder, _, name = where.rpartition("/")
        table = IcebergTarget.local(folder, name).catalog.load_table(name)
        files = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
        return ds.dataset(files, format="parquet")
    folder_path = Path(where)
    if not folder_path.exists():
        raise CallerError(f"there is no table {where!r}")
    return ds.dataset(folder_path, format="parquet")  # it leaves out names that begin with a dot
