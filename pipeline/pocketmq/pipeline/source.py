"""The batch reader of data source `pocketmq`: topics as tables, straight from the brokers.

    spark.read.format("pocketmq").option("nameServer", "127.0.0.1:9876").option("topic", "T").load()

The driver asks for the queues' offsets; each task pulls a range of one queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pocketmq.pipeline.plainly import plainly, rows_plainly
from pocketmq.pipeline.pushdown import QuietPushdown
from pocketmq.pipeline.row_filter import RowFilter
from pocketmq.pipeline.settings import ReadSettings

if TYPE_CHECKING:
    from pocketmq.pipeline.wire_read import WireRead


class TopicReader(DataSourceReader):
    """Plans tasks on the driver, and reads one on a worker."""

    def __init__(self, settings: ReadSettings, columns: dict[str, str]) -> None:
        self.settings = settings
        self.columns = columns
        self.row_filter = row_filter_of(settings)
        self.pushFilters = QuietPushdown(self._absorb)  # type: ignore[method-assign]

    def _absorb(self, filters: list[Any]) -> list[Any]:
        exact = ("topic", "brokerName", "queueId", "queueOffset", "physicalOffset")
        return self.row_filter.absorb(filters, exact=exact)

    @plainly
    def partitions(self) -> list[InputPartition]:
        """Plan a task for each queue, or several for parts of a queue."""
        from pocketmq.pipeline.loop import shared_loop

        return [InputPartition(part) for part in shared_loop().run(self._plan())]

    async def _plan(self) -> list[Any]:
        from pocketmq.pipeline import plan_reads
        from pocketmq.pipeline.cluster_client import client_on_loop
        from pocketmq.pipeline.offsets import split_ranges
        from pocketmq.pipeline.wire_read import PullPart

        settings = self.settings
        client = client_on_loop(settings.access)
        queues = await plan_reads.find_queues(client, settings)
        bounds = await client.bounds(queues)
        start = await plan_reads.resolve(client, settings, settings.start, bounds)
        end = await plan_reads.resolve(client, settings, settings.end, bounds)
        start = plan_reads.checked(settings, start, bounds)
        end = plan_reads.checked(settings, end, bounds)
        ranges = await plan_reads.narrow(
            client, {queue: (start[queue], end[queue]) for queue in queues}, self.row_filter
        )
        numbers = plan_reads.kafka_partitions(queues)
        least = 1 if settings.dedupe else settings.least_parts  # repeats must be in one task
        return [
            PullPart(queue, low, high, numbers[queue])
            for queue, low, high in split_ranges(ranges, least)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of one task as Arrow record batches."""
        if partition.value is None:  # Spark passes None if `partitions` returned nothing
            return iter(())
        read = reading(self.settings, self.columns, self.row_filter)
        return rows_plainly(read.batches(partition.value))


def row_filter_of(settings: ReadSettings) -> RowFilter:
    """The bounds that follow from the options alone."""
    row_filter = RowFilter()
    if settings.tags:
        row_filter.texts["tags"] = frozenset(settings.tags)
    return row_filter


def reading(settings: ReadSettings, columns: dict[str, str], row_filter: RowFilter) -> WireRead:
    """The object that reads parts on a worker."""
    from dataclasses import replace

    from pocketmq.pipeline.arrow import Shape
    from pocketmq.pipeline.wire_read import WireRead

    pull = settings.pull
    tags = row_filter.texts.get("tags")
    if tags and not settings.tags and all(_is_plain(tag) for tag in tags):
        pull = replace(pull, expression=" || ".join(sorted(tags)))
    return WireRead(
        replace(settings.access, is_patient=True),
        pull,
        Shape(columns, settings.max_body_bytes),
        row_filter,
        settings.batch_rows,
        permissive=settings.permissive,
        dedupe=settings.dedupe,
    )


def _is_plain(tag: str) -> bool:
    """Whether a tag expression can contain this tag."""
    return bool(tag) and tag == tag.strip() and "|" not in tag and tag != "*"
