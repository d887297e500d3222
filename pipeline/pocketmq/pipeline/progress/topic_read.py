"""Which parts a read of topics has, and what reads one: asked of the cluster, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pocketmq.pipeline.columns.arrow import Shape
from pocketmq.pipeline.options.offsets import split_ranges
from pocketmq.pipeline.options.row_filter import RowFilter
from pocketmq.pipeline.progress import plan_reads
from pocketmq.pipeline.topics.cluster_client import ClusterClient, client_on_loop
from pocketmq.pipeline.topics.partition_numbers import partition_numbers
from pocketmq.pipeline.topics.settings import ReadSettings
from pocketmq.pipeline.topics.wire_read import PullPart, WireRead, in_turn

if TYPE_CHECKING:
    import pyarrow as pa


async def plan(settings: ReadSettings, row_filter: RowFilter) -> list[PullPart]:
    """A part for each queue, or several for its sections. Runs on the shared loop."""
    return await planned(client_on_loop(settings.access), settings, row_filter)


async def planned(
    client: ClusterClient, settings: ReadSettings, row_filter: RowFilter
) -> list[PullPart]:
    """`plan`, by the client's answers."""
    queues = await plan_reads.find_queues(client, settings)
    bounds = await client.bounds(queues)
    start = await plan_reads.resolve(client, settings, settings.start, bounds)
    end = await plan_reads.resolve(client, settings, settings.end, bounds)
    start = plan_reads.checked(settings, start, bounds)
    end = plan_reads.checked(settings, end, bounds)
    # After the options' offsets were checked: a filter must not hide that they are gone.
    ranges = await plan_reads.narrow(
        client, {queue: (start[queue], end[queue]) for queue in queues}, row_filter
    )
    numbers = partition_numbers(queues) if settings.kafka_compatible else {}
    least = 1 if settings.dedupe else settings.least_parts  # repeats must be in one task
    most = None if settings.dedupe else settings.most_part_rows
    return [
        PullPart(queue, low, high, numbers.get(queue, 0))
        for queue, low, high in split_ranges(ranges, least, most)
    ]


def reading(settings: ReadSettings, columns: dict[str, str], row_filter: RowFilter) -> WireRead:
    """The object that reads parts on a worker."""
    pull = settings.pull
    tags = row_filter.texts.get("tags")
    # Filtered by the broker, so that messages with other tags are not sent at all.
    if tags and not pull.is_filtered and all(_is_plain(tag) for tag in tags):
        pull = replace(pull, expression=" || ".join(sorted(tags)))
    return WireRead(
        # A worker waits for brokers that are away; the driver reports them at once.
        replace(settings.access, is_patient=True),
        pull,
        Shape(columns, settings.max_body_bytes),
        row_filter,
        settings.batch_rows,
        permissive=settings.permissive,
        dedupe=settings.dedupe,
    )


def read_parts(
    settings: ReadSettings, columns: dict[str, str], parts: Sequence[PullPart]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task that reads several parts, one part after the other."""
    row_filter = RowFilter.of_tags(settings.tags)
    # A reader each, as it counts what was lost.
    reads = [(reading(settings, columns, row_filter), part) for part in parts]
    return in_turn(reads, settings.batch_rows)


def _is_plain(tag: str) -> bool:
    """Whether a tag expression can contain this tag."""
    return bool(tag) and tag == tag.strip() and "|" not in tag and tag != "*"
