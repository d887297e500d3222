"""Topics into tables that people keep, incrementally and each message once: a stream that ends.

    export("orders", "parquet:tables/orders", nameServer="127.0.0.1:9876")
    export("orders", "delta:tables/orders", stores="cluster/broker-a")

Spark reads what is new since the last run and writes it; where it stands is its checkpoint, in
folder `_checkpoint` of the table. Each table knows which batches it has (`lake`), so whoever is
killed anywhere and runs again makes the same table. Offsets of brokers and of their stores have the
same names in the checkpoint, so the next run may read the others.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pocketmq.pipeline.jobs.on_spark import Starting, job_session, plain_errors, store_options
from pocketmq.pipeline.lake.hadoop_folder import HadoopFolder
from pocketmq.pipeline.lake.targets import Target, target_of
from pocketmq.runtime.errors import CallerError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LIMIT: Final = "maxOffsetsPerTrigger"


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export has done so far."""

    rows: int = 0
    commits: int = 0
    """Batches that had rows."""
    lost: int = 0
    """With `failOnDataLoss=false`: messages that were removed before they were exported, as far as
    one knows."""


def export(
    topic: str,
    target: str | Target,
    *,
    stores: str = "",
    key: str = "",
    tombstone: str = "",
    rows_per_commit: int = 0,
    spark: SparkSession | None = None,
    master: str = "",
    starting: Starting | None = None,
    on_commit: Callable[[Exported], None] | None = None,
    **options: str,
) -> Exported:
    """Add to a table what a topic has and the table has not, up to the present ends.

    Args:
        topic: One topic, or several separated by commas.
        target: `parquet:FOLDER`, `csv:FOLDER`, `json:FOLDER`, `delta:TABLE` or
            `iceberg:FOLDER/NAMESPACE.NAME`; or one of `pocketmq.pipeline.lake`.
        stores: Store directories to read instead of asking the brokers, separated by commas.
        key: Column of which the table keeps the last row only.
        tombstone: Property that marks a message as the deletion of its key.
        rows_per_commit: Most rows of a commit; 0 for what suits the target.
        spark: The session; else as `job_session` says.
        master: Where Spark runs. Executors of a cluster write files, so a folder must be the same
            on all machines.
        starting: Told where Spark runs before it is started.
        on_commit: Called after each commit.
        options: Of the data source `pocketmq`, or with `stores` of `pocketmq-store`; `columns`
            chooses the table's columns; with `failOnDataLoss=false` what is lost is counted and
            told, and a topic made anew is read from its new beginning.

    Raises:
        JobError: Spark has ended the query, and the message says why: an option is wrong, messages
            were removed before they were exported, a topic was made anew, or a queue went away.
        ColumnsError: The table has other columns.
        CallerError: There is no such target, or another program or version began the table.
        MissingToolError: Spark, or what writes the table, is not installed.
    """
    into = target_of(target, key=key, tombstone=tombstone) if isinstance(target, str) else target
    if not isinstance(target, str) and (key or tombstone):
        raise CallerError(
            "export: key and tombstone are options of the target; give them when you create the "
            "target"
        )
    if spark is None:
        quiet = {"spark.ui.showConsoleProgress": "false"}  # whoever calls counts the rows
        spark = job_session("export", master=master, settings=quiet, starting=starting)
    source = "pocketmq-store" if stores else "pocketmq"
    # The caller's options override these.
    given = {"topic": topic, "startingOffsets": "earliest", **options}
    if stores:
        given = {**store_options(stores.split(",")), "streamBy": "queues", **given}
    given.setdefault(LIMIT, str(rows_per_commit or into.rows_per_commit))
    with plain_errors():
        frame = spark.readStream.format(source).options(**given).load()
        # Before the query starts: a table with other columns is refused before anything is read.
        into.begin(spark, frame.schema)
        run = _Run(into, on_commit)
        query = (
            frame.writeStream.foreachBatch(run.write)
            .option("checkpointLocation", into.checkpoint)
            .queryName(f"export {topic}")
            # `availableNow` fixes the ends at the start, so the query ends even if the topic grows.
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        except KeyboardInterrupt:
            # What was committed stays; the next run continues after it.
            query.stop()
            raise
    return Exported(run.done.rows, run.done.commits, _lost(query))


class _Run:
    """Counts what the batches bring."""

    def __init__(self, into: Target, on_commit: Callable[[Exported], None] | None) -> None:
        self._into = into
        self._on_commit = on_commit
        self.done = Exported()

    def write(self, frame: DataFrame, batch: int) -> None:
        """What Spark calls for each batch."""
        # A power cut could lose the batch's end but not its rows: it would then be planned again
        # with more rows, and be taken for a repeat.
        HadoopFolder(frame.sparkSession, self._into.checkpoint).make_lasting(f"offsets/{batch}")
        rows = self._into.append(frame, batch)
        # No rows were written: the table already has the batch, or the batch is empty.
        if not rows:
            return
        self.done = Exported(self.done.rows + rows, self.done.commits + 1)
        if self._on_commit is not None:
            self._on_commit(self.done)


def _lost(query: StreamingQuery) -> int:
    """What the source has counted: the last progress has it all."""
    from pocketmq.pipeline.spark.stream_figures import figures_of

    found: list[int] = []
    # Spark keeps only the last hundred, which is enough as the counts only grow.
    for progress in query.recentProgress:
        figures = figures_of(json.loads(progress.json))
        found += [figures.lost] if figures is not None else []
    return max(found, default=0)
