"""Tables as the source of a job: what `pocketmq pipeline export` has made, or the like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pocketmq.pipeline.jobs.queue_rows import NO_PLACE, QueueRows, gone_queues, in_ms
from pocketmq.pipeline.options.offsets import Offsets
from pocketmq.pipeline.progress.checkpoint import Checkpoint, Mark
from pocketmq.pipeline.progress.resume import resume
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.errors import CallerError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

QUEUE_COLUMNS: Final = ("topic", "brokerName", "queueId", "queueOffset")


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

    def queues(self, columns: Sequence[str], stand: Checkpoint) -> list[QueueRows]:
        """From the files whose offsets are wanted; a file's rows of a queue are held in memory.

        A table may lack rows, since it keeps some tags or the last row of a key: only a queue that
        ends before the stand, has another row there or none at all is a loss.
        """
        self._check(columns)
        names = list(dict.fromkeys((*columns, "queueOffset")))
        spans: dict[MessageQueue, list[tuple[int, int, ds.Fragment]]] = {}
        for fragment in self._dataset.get_fragments():
            for queue, low, high in self._spans(fragment):
                spans.setdefault(queue, []).append((low, high, fragment))
        found = []
        for queue, listed in sorted(spans.items(), key=lambda item: item[0]):
            listed.sort(key=lambda span: span[:2])
            low, high = listed[0][0], max(span[1] for span in listed)
            bounds = (min(low, stand.offsets.get(queue, 0)), high)
            was = stand.marks.get(queue)
            now = self._marks(listed, queue, stand.offsets[queue] - 1) if was is not None else []
            same = was if was in now else next(iter(now), None)
            first, loss = resume(queue, stand, bounds, same)
            rows = _of_queue(self._dataset.schema, listed, queue, first, names)
            found.append(QueueRows(queue, min(max(first, low), high), high, rows, loss))
        return found + gone_queues(found, stand, self.topics)

    def marks(self, offsets: Offsets) -> dict[MessageQueue, Mark]:
        """None: a table that is replaced while it is read has other files."""
        return {}

    def _marks(
        self,
        listed: Sequence[tuple[int, int, ds.Fragment]],
        queue: MessageQueue,
        offset: int,
    ) -> list[Mark]:
        """Marks of the rows at an offset, without a place in the log: not all tables have it."""
        schema = self._dataset.schema
        near = [each for each in listed if each[0] <= offset < each[1]]
        return [
            Mark(stored, NO_PLACE)
            for batch in _of_queue(schema, near, queue, offset, ["queueOffset", "storeTimestamp"])
            for at, stored in zip(
                batch.column("queueOffset").to_pylist(),
                in_ms(batch.column("storeTimestamp")).to_pylist(),
                strict=True,
            )
            if at == offset
        ]

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
