"""Figures of streams while they run: rows, bytes, lag by queue, repeated requests, what was lost.

    watch = StreamFigures(print)
    spark.streams.addListener(watch)

Spark's `StreamingQueryProgress` has no place for a Python source's numbers, so the source puts its
own beside the ends of its queues, and this listener reads them. Spark counts the rows; bytes are
those of bodies, where the stream goes through `measured`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from pocketmq.pipeline.checkpoint import COUNTS, Checkpoint
from pocketmq.protocol.message import MessageQueue

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

OBSERVED: Final = "pocketmq"
"""Name of the metrics that `measured` has Spark observe."""


@dataclass(frozen=True, slots=True)
class BatchFigures:
    """One micro-batch of a query that reads topics."""

    query: str
    """The query's name, or its id."""
    batch: int
    rows: int
    rows_per_s: float
    bytes: int | None
    """Of bodies; None unless the stream goes through `measured`."""
    lag: int
    """Messages behind the batch's end, in all queues, when the batch was done."""
    lags: Mapping[MessageQueue, int] = field(repr=False)
    repeated: int = 0
    """Requests of the driver that were not answered and sent again, since the query started."""
    lost: int = 0
    """Messages that could not be read any more, as far as one knows, since the query started."""


class StreamFigures(StreamingQueryListener):
    """Keeps each query's last figures; add it with `spark.streams.addListener`.

    Args:
        on_batch: Called after each batch, in Spark's thread for listeners.
    """

    def __init__(self, on_batch: Callable[[BatchFigures], None] | None = None) -> None:
        self._on_batch = on_batch
        self.last: dict[str, BatchFigures] = {}
        """By the query's name, or its id."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """A batch is done, or there was nothing to read."""
        found = figures_of(json.loads(event.progress.json))
        if found is not None:
            self.last[found.query] = found
            if self._on_batch is not None:
                self._on_batch(found)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing has changed."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """The last figures stay."""


def figures_of(progress: Mapping[str, Any]) -> BatchFigures | None:
    """The figures in a query's progress, such as `query.lastProgress`; None if it reads no topic.

    Args:
        progress: As JSON says it.
    """
    rows, rate = 0, 0.0
    lags: dict[MessageQueue, int] = {}
    counts = {"repeated": 0, "lost": 0}
    is_ours = False
    for source in progress["sources"]:
        latest = _tree(source.get("latestOffset"))
        if COUNTS not in latest:
            continue
        is_ours = True
        for name, count in latest.pop(COUNTS).items():
            counts[name] += count
        at = Checkpoint.of_tree(_tree(source.get("endOffset"))).offsets
        for queue, end in Checkpoint.of_tree(latest).offsets.items():
            lags[queue] = max(0, end - at.get(queue, 0))
        rows += source["numInputRows"]
        rate += source.get("processedRowsPerSecond") or 0.0
    if not is_ours:
        return None
    observed = (progress.get("observedMetrics") or {}).get(OBSERVED)
    return BatchFigures(
        query=progress.get("name") or progress["id"],
        batch=progress["batchId"],
        rows=rows,
        rows_per_s=rate,
        bytes=None if observed is None else int(observed["bytes"] or 0),
        lag=sum(lags.values()),
        lags=lags,
        **counts,
    )


def _tree(value: Any) -> dict[str, Any]:
    """An offset, which some classes of Spark give as text and others as an object."""
    found = json.loads(value) if isinstance(value, str) and value else value
    return dict(found) if isinstance(found, dict) else {}


def measured(frame: DataFrame, body: str = "body") -> DataFrame:
    """The same stream, whose bodies' bytes Spark adds up for each batch.

    Args:
        frame: With the column, before it is transformed.
        body: `value` with `kafkaCompatible`.
    """
    from pyspark.sql import functions as f

    return frame.observe(OBSERVED, f.sum(f.octet_length(body)).alias("bytes"))
