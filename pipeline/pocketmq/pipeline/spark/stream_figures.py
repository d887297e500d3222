"""Figures of streams while they run: rows, bytes, lag, repeated requests, what was lost.

    figures(spark).last["my query"].lag       of each query; `session()` has added that listener
    spark.streams.addListener(StreamFigures(print))

Spark's `StreamingQueryProgress` has no place for a Python source's numbers, so the source puts its
own beside the ends of its queues or stores, and this listener reads them. Spark counts the rows;
bytes are those of bodies, where the stream goes through `measured`, and those of a store's log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from pyspark.sql.streaming.listener import StreamingQueryListener

from pocketmq.pipeline.progress.checkpoint import COUNTS, Checkpoint
from pocketmq.pipeline.progress.store_stands import from_tree as stands_of
from pocketmq.protocol.messages.message import MessageQueue

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
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
    """One micro-batch of a query that reads topics or stores."""

    query: str
    """The query's name, or its id."""
    batch: int
    rows: int
    rows_per_s: float
    bytes: int | None
    """Of bodies; None unless the stream goes through `measured`."""
    lag: int
    """Messages behind the batch's end, in all queues, when the batch was planned."""
    lags: Mapping[MessageQueue, int] = field(repr=False)
    repeated: int = 0
    """Requests of the driver that were not answered and sent again, since the query started."""
    lost: int = 0
    """Messages of topics that were gone when a batch was planned, as far as one knows, since the
    query started."""
    remade: int = 0
    """Queues that were made anew or deleted, and stores that were replaced, since the query
    started. What of them had not been read is lost, and counted as far as it had been seen."""
    cut: int = 0
    """Queues whose last messages, which had been read, were lost by their broker, as in a failover
    to a slave that lacked them, since the query started. These messages are in `lost`."""
    unread: int | None = None
    """Messages of this batch that did not become rows: they were removed while its tasks ran, or
    the query wanted no more (`limit`). None where nobody knows: the source leaves out messages
    itself (`tags`, `dedupe`, `mode=PERMISSIVE`), or reads a store."""
    log_bytes: int = 0
    """Of the stores' log files in this batch."""
    log_lag_bytes: int = 0
    """Of log files that were closed when the batch was planned, and come behind its end."""
    log_lags: Mapping[str, int] = field(default_factory=dict, repr=False)
    """The same by the store's path."""
    lost_files: int = 0
    """Log files that were gone when a batch was planned, as far as one knows, since the query
    started."""

    @property
    def lag_s(self) -> float | None:
        """Seconds in which the lag is read at this batch's rate; None while nothing is read."""
        if not self.lag:
            return 0.0
        return self.lag / self.rows_per_s if self.rows_per_s else None

    @property
    def skew(self) -> float:
        """The greatest lag of a queue, as times the mean of all; 1 where all are alike."""
        return max(self.lags.values()) * len(self.lags) / self.lag if self.lag else 1.0


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


_of_session: Final[WeakKeyDictionary[Any, StreamFigures]] = WeakKeyDictionary()


def figures(spark: SparkSession) -> StreamFigures:
    """The listener that a session has for all its queries; made and added if it has none yet."""
    found = _of_session.get(spark)
    if found is None:
        found = _of_session[spark] = StreamFigures()
        spark.streams.addListener(found)
    return found


def figures_of(progress: Mapping[str, Any]) -> BatchFigures | None:
    """The figures in a query's progress, such as `query.lastProgress`; None if it reads neither
    topics nor stores.

    Args:
        progress: As JSON says it.
    """
    sources = [each for source in progress["sources"] if (each := _source_of(source)) is not None]
    # The query has no source of PocketMQ's: all figures would be zero.
    if not sources:
        return None
    observed = (progress.get("observedMetrics") or {}).get(OBSERVED)
    lags = {queue: lag for each in sources for queue, lag in each.lags.items()}
    log_lags = {root: lag for each in sources for root, lag in each.log_lags.items()}
    unread = [each.unread for each in sources]
    return BatchFigures(
        query=progress.get("name") or progress["id"],
        batch=progress["batchId"],
        rows=sum(each.rows for each in sources),
        rows_per_s=sum(each.rows_per_s for each in sources),
        # For a batch without rows Spark observes null.
        bytes=None if observed is None else int(observed["bytes"] or 0),
        lag=sum(lags.values()),
        lags=lags,
        repeated=sum(each.count("repeated") for each in sources),
        lost=sum(each.count("lost") for each in sources),
        remade=sum(each.count("remade") for each in sources),
        cut=sum(each.count("cut") for each in sources),
        unread=None if None in unread else sum(each or 0 for each in unread),
        log_bytes=sum(each.count("logBytes") for each in sources),
        log_lag_bytes=sum(log_lags.values()),
        log_lags=log_lags,
        lost_files=sum(each.count("lostFiles") for each in sources),
    )


@dataclass(frozen=True, slots=True)
class _Source:
    """What a progress says of one source of ours."""

    rows: int
    rows_per_s: float
    counts: Mapping[str, int | None]
    lags: Mapping[MessageQueue, int]
    log_lags: Mapping[str, int]

    @property
    def unread(self) -> int | None:
        planned = self.counts.get("planned")
        return None if planned is None else max(0, planned - self.rows)

    def count(self, name: str) -> int:
        return self.counts.get(name) or 0


def _source_of(source: Mapping[str, Any]) -> _Source | None:
    latest = _tree(source.get("latestOffset"))
    # Another kind of source, or one of ours that has counted nothing yet.
    if COUNTS not in latest:
        return None
    counts = latest.pop(COUNTS)
    reached = _tree(source.get("endOffset"))
    lags: dict[MessageQueue, int] = {}
    log_lags: dict[str, int] = {}
    # Only streams of log files count bytes.
    if "logBytes" in counts:
        ends = {root: each.end for root, each in stands_of(reached).items()}
        for root, stand in stands_of(latest).items():
            log_lags[root] = max(0, stand.end - ends.get(root, 0))
    else:
        at = Checkpoint.of_tree(reached).offsets
        for queue, end in Checkpoint.of_tree(latest).offsets.items():
            # A queue that the batch does not include yet will be read from its beginning.
            lags[queue] = max(0, end - at.get(queue, 0))
    rate = source.get("processedRowsPerSecond") or 0.0
    return _Source(source["numInputRows"], rate, counts, lags, log_lags)


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
