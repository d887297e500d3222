"""What each task has read, as a table: rows, bytes, requests, and what was lost or left out.

    read_counts(spark).groupBy("source", "place").sum("bytes").show()

Spark shows no numbers of a Python source. So each task writes a line into the workers' log, which
Spark keeps when `spark.sql.pyspark.worker.logging.enabled` is true, as in `session()`.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from pocketmq.pipeline.workers.worker_memory import keep_loaded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOGGER: Final = "pocketmq.pipeline.counts"
COLUMNS: Final = (
    "source string, place string, rows long, bytes long, requests long, repeated long, lost long, "
    "skipped long"
)


@dataclass(slots=True)
class ReadCounts:
    """What one task has read."""

    source: str
    """`pocketmq` or `pocketmq-store`."""
    place: str
    """The queue, or the store."""
    rows: int = 0
    """Handed over to Spark."""
    bytes: int = 0
    """Of records: pulled from the broker, or read from the log."""
    requests: int = 0
    """Pulls."""
    repeated: int = 0
    """Pulls that were not answered and therefore sent again."""
    lost: int = 0
    """Messages that were not stored any more."""
    skipped: int = 0
    """Broken messages that were left out."""

    def tell(self) -> None:
        """Write the line; the task's read is over."""
        _log.info(json.dumps(asdict(self)))
        keep_loaded()


_log: Final = logging.getLogger(LOGGER)
_log.addHandler(logging.NullHandler())  # without Spark's, nobody is told
_log.propagate = False


def in_worker() -> None:
    """Let the lines through; called where Spark runs a task and nowhere else."""
    _log.setLevel(logging.INFO)
    _log.propagate = True


def read_counts(spark: SparkSession) -> DataFrame:
    """A row for each task that has ended in this session, as far as Spark still has its log."""
    from pyspark.sql import functions as f

    lines = spark.tvf.python_worker_logs().where(f.col("logger") == LOGGER)
    return lines.select(f.from_json("msg", COLUMNS).alias("counts")).select("counts.*")
