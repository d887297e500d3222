"""Tables as the source of a job: what `pocketmq pipeline export` has made, or the like."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pocketmq.pipeline.jobs.queue_spans import NO_PLACE, QueueSpan, gone_queues
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
            raise CallerError(
                f"{where}: the table has no column {lacking[0]!r}; export the table again with "
                "this column"
            )

    def queues(self, stand: Checkpoint) -> list[QueueSpan]:
        """From what the files say.

        A table may lack rows, since it keeps some tags or the last row of a key: only a queue that
        ends before the stand, has another row there or none at all is a loss.
        """
        found = []
        for queue, (low, high) in sorted(self._spans().items(), key=lambda item: item[0]):
            # A table may begin anywhere: rows before the saved offset need not be there.
            bounds = (min(low, stand.offsets.get(queue, 0)), high)
            was = stand.marks.get(queue)
            # In a table of a topic that was made anew, several rows may have one offset.
            now = self._marks(queue, stand.offsets[queue] - 1) if was is not None else []
            # The mark that was read, if it is among them; any other one makes `resume` report a
            # loss.
            same = was if was in now else next(iter(now), None)
            first, loss = resume(queue, stand, bounds, same)
            # Kept within the table's rows: the offset to continue from may lie outside.
            found.append(QueueSpan(queue, min(max(first, low), high), high, loss))
        return found + gone_queues(found, stand, self.topics)

    def marks(self, offsets: Offsets) -> dict[MessageQueue, Mark]:
        """None: a table that is replaced while it is read has other files."""
        return {}

    def _marks(self, queue: MessageQueue, offset: int) -> list[Mark]:
        """Marks of the rows at an offset, without a place in the log: not all tables have it."""
        import pyarrow.compute as pc

        at = (
            (pc.field("topic") == queue.topic)
            & (pc.field("brokerName") == queue.broker_name)
            & (pc.field("queueId") == queue.queue_id)
            & (pc.field("queueOffset") == offset)
        )
        rows = self._dataset.to_table(columns=["storeTimestamp"], filter=at)
        return [
            Mark(stored, NO_PLACE)
            for chunk in rows.column("storeTimestamp").chunks
            for stored in _in_ms(chunk).to_pylist()
        ]

    def _of_topics(self) -> Any:
        import pyarrow.compute as pc

        return pc.field("topic").isin(list(self.topics)) if self.topics else None

    def _spans(self) -> dict[MessageQueue, tuple[int, int]]:
        """First and one behind the last offset of each queue."""
        import pyarrow as pa

        found: dict[MessageQueue, tuple[int, int]] = {}
        for batch in self._dataset.to_batches(
            columns=list(QUEUE_COLUMNS), filter=self._of_topics()
        ):
            sums = (
                pa.Table.from_batches([batch])
                .group_by(list(QUEUE_COLUMNS[:3]))
                .aggregate([("queueOffset", "min"), ("queueOffset", "max")])
            )
            for row in sums.to_pylist():
                queue = MessageQueue(row["topic"], row["brokerName"], row["queueId"])
                low, end = row["queueOffset_min"], row["queueOffset_max"] + 1
                was = found.get(queue, (low, end))
                # Batches come in the order of files, which may mix the queues.
                found[queue] = min(low, was[0]), max(end, was[1])
        return found


def _in_ms(column: pa.Array) -> pa.Array:
    """Times as numbers of milliseconds since the epoch; numbers as they are."""
    import pyarrow as pa

    # Parquet of other programs may have seconds or nanoseconds.
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    return column


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
        # Arrow takes paths, not `file://` addresses.
        files = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
        return ds.dataset(files, format="parquet")
    folder_path = Path(where)
    if not folder_path.exists():
        raise CallerError(f"there is no table {where!r}")
    return ds.dataset(folder_path, format="parquet")  # it leaves out names that begin with a dot
