"""Micro-batches of a stream into a Delta table, each exactly once.

    query = frame.writeStream.foreachBatch(DeltaAppend("tables/orders")).option(...).start()

Each batch is one Delta commit, which also says in the table that this query has written this batch
(Delta's `txn` action). A batch that Spark repeats, because the driver was killed between the commit
and Spark's own note of it, is found there and left out. Rows pass through the driver, so limit a
batch with `maxOffsetsPerTrigger`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pocketmq.pipeline.worker_log import log
from pocketmq.runtime.errors import CallerError, MissingToolError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY_ID_PROPERTY: Final = "sql.streaming.queryId"


class DeltaAppend:
    """What `foreachBatch` calls: appends a batch to a Delta table.

    Args:
        table: Path or address of the table; it is made with the first batch.
        app_id: The query's name in the table; its checkpoint's id without it. Where Spark Connect
            runs the query, it must be given.
        storage_options: As `deltalake` takes them, for tables that are not local.

    Raises:
        MissingToolError: `deltalake` is not installed.
    """

    def __init__(
        self,
        table: str | Path,
        *,
        app_id: str = "",
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self.table = str(table)
        self.app_id = app_id
        self.storage_options = dict(storage_options or {})
        check_deltalake()

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Append a batch, unless the table has it already."""
        from deltalake import CommitProperties, Transaction, write_deltalake

        app_id = self.app_id or _query_id(frame)
        if self.has(app_id, batch):
            log.info("batch.repeated", table=self.table, batch=batch, app_id=app_id)
            return
        rows = frame.toArrow()
        write_deltalake(
            self.table,
            rows,
            mode="append",
            storage_options=self.storage_options,
            commit_properties=CommitProperties(
                custom_metadata={"pocketmq.batch": str(batch)},
                max_commit_retries=0,  # somebody else's commit may have been this batch
                app_transactions=[Transaction(app_id, batch)],
            ),
        )

    def has(self, app_id: str, batch: int) -> bool:
        """Whether the table has this batch of this query."""
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(self.table, self.storage_options):
            return False
        table = DeltaTable(self.table, storage_options=self.storage_options)
        last = table.transaction_version(app_id)
        return last is not None and last >= batch


def check_deltalake() -> None:
    """Make sure that Delta tables can be written.

    Raises:
        MissingToolError: `deltalake` is not installed.
    """
    import importlib.util

    if importlib.util.find_spec("deltalake") is None:
        raise MissingToolError("deltalake", "a Delta table", "pip install 'pocketmq[lake]'")


def _query_id(frame: DataFrame) -> str:
    try:
        found = frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID_PROPERTY)
    except Exception as exc:
        raise CallerError(
            "DeltaAppend: this session does not tell which query runs; give app_id"
        ) from exc
    if not found:
        raise CallerError("DeltaAppend: no query runs here; it is for foreachBatch, or give app_id")
    return str(found)
