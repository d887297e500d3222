"""Micro-batches of a stream into a Delta table, each exactly once.

    query = frame.writeStream.foreachBatch(DeltaAppend("tables/orders")).option(...).start()

Each batch is one Delta commit, which also says in the table that this query has written this batch
(Delta's `txn` action). A batch that Spark repeats, because the driver was killed between the commit
and Spark's own note of it, is found there and left out. Rows pass through the driver, so limit a
batch with `maxOffsetsPerTrigger`.

Spark repeats no batch but the last. A batch before it comes from another checkpoint, which numbers
its batches from 0 again, with rows that the table does not have; so it is an error. Which
checkpoint the last batch came from stands in a `txn` action too, beside that of the batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pocketmq.pipeline.errors import OtherCheckpointError
from pocketmq.pipeline.lake.last_rows import last_rows, merge
from pocketmq.pipeline.workers.worker_log import log
from pocketmq.runtime.errors import CallerError, MissingToolError

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import CommitProperties
    from pyspark.sql import DataFrame

QUERY_ID_PROPERTY: Final = "sql.streaming.queryId"
"""Spark makes the id with the checkpoint, where it stays."""
CHECKPOINT_SUFFIX: Final = ".checkpoint"
"""Behind an app_id: the `txn` action whose version says which checkpoint wrote the last batch."""


class DeltaAppend:
    """What `foreachBatch` calls: appends a batch to a Delta table.

    Args:
        table: Path or address of the table; it is made with the first batch.
        app_id: The query's name in the table; its checkpoint's id without it. Where Spark Connect
            runs the query, it must be given. A new checkpoint needs a new one.
        key: Column of which the table keeps the last row only (`last_rows`); all rows without it.
        tombstone: Property that marks a message as the deletion of its key.
        storage_options: As `deltalake` takes them, for tables that are not local.

    Raises:
        MissingToolError: `deltalake` is not installed.
    """

    def __init__(
        self,
        table: str | Path,
        *,
        app_id: str = "",
        key: str = "",
        tombstone: str = "",
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self.table = str(table)
        self.app_id = app_id
        self.key = key
        self.tombstone = tombstone
        self.storage_options = dict(storage_options or {})
        check_deltalake()

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """`append`, as `foreachBatch` calls it."""
        self.append(frame, batch)

    def append(self, frame: DataFrame, batch: int) -> int:
        """Append a batch, unless the table has it already; the number of its rows.

        Raises:
            OtherCheckpointError: The table has a batch of this number or a later one under this
                app_id, from another checkpoint.
            CallerError: No app_id was given, and the session does not tell which query runs.
        """
        from deltalake import CommitProperties, Transaction

        app_id, checkpoint = self._names(frame)
        # Before `toArrow`, so that a repeated batch costs nothing.
        if self.has(app_id, batch, checkpoint):
            log.info("batch.repeated", table=self.table, batch=batch, app_id=app_id)
            return 0
        # This needs the driver's memory for the whole batch (see the module).
        rows = frame.toArrow()
        notes = [Transaction(app_id, batch)]
        # The checkpoint is noted in the same commit as the rows, so that neither exists without the
        # other.
        if checkpoint is not None:
            notes.append(Transaction(app_id + CHECKPOINT_SUFFIX, checkpoint))
        properties = CommitProperties(
            custom_metadata={"pocketmq.batch": str(batch)},
            max_commit_retries=0,  # somebody else's commit may have been this batch
            app_transactions=notes,
        )
        self._commit(rows, properties)
        return len(rows)

    def _commit(self, rows: pa.Table, properties: CommitProperties) -> None:
        """Append the rows, or with a key merge them."""
        from deltalake import DeltaTable, write_deltalake

        if self.key:
            last = last_rows(rows, self.key, self.tombstone)
            # There is no table yet to merge the first batch with.
            if DeltaTable.is_deltatable(self.table, self.storage_options):
                table = DeltaTable(self.table, storage_options=self.storage_options)
                merge(table, last, properties)
                return
            rows = last.kept()
        write_deltalake(
            self.table,
            rows,
            mode="append",
            storage_options=self.storage_options,
            commit_properties=properties,
        )

    def has(self, app_id: str, batch: int, checkpoint: int | None = None) -> bool:
        """Whether the table has this batch of this query.

        Args:
            app_id: The query's name in the table.
            batch: Number of the batch.
            checkpoint: The checkpoint's number; None if it is not known.

        Raises:
            OtherCheckpointError: What it has is from another checkpoint.
        """
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(self.table, self.storage_options):
            return False
        table = DeltaTable(self.table, storage_options=self.storage_options)
        last = table.transaction_version(app_id)
        if last is None or last < batch:
            return False
        written = table.transaction_version(app_id + CHECKPOINT_SUFFIX)
        # Tables of earlier versions have no such note, and may have been written from any
        # checkpoint.
        is_other = None not in (written, checkpoint) and written != checkpoint
        if last > batch or is_other:
            raise OtherCheckpointError(self.table, app_id, last, batch)
        return True

    def _names(self, frame: DataFrame) -> tuple[str, int | None]:
        """The app_id, and beside one that was given the checkpoint's number, where it is known."""
        if not self.app_id:
            return query_id(frame), None
        # With Spark Connect the query is unknown; then only the numbers of batches are compared.
        try:
            query = query_id(frame)
        except CallerError:
            return self.app_id, None
        return self.app_id, _number_of(query)


def check_deltalake() -> None:
    """Make sure that Delta tables can be written.

    Raises:
        MissingToolError: `deltalake` is not installed.
    """
    import importlib.util

    if importlib.util.find_spec("deltalake") is None:
        raise MissingToolError("deltalake", "a Delta table", "pip install 'pocketmq[lake]'")


def query_id(frame: DataFrame) -> str:
    """Id of the query whose batch this is.

    Raises:
        CallerError: The session does not tell.
    """
    try:
        # Spark sets this local property in the thread that runs the batch.
        found = frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID_PROPERTY)
    except Exception as exc:
        raise CallerError(
            "DeltaAppend: the running query cannot be found in this session; give app_id"
        ) from exc
    if not found:
        raise CallerError(
            "DeltaAppend: no streaming query runs here; use DeltaAppend in foreachBatch, or "
            "give app_id"
        )
    return str(found)


def _number_of(query_id: str) -> int:
    """A version for Delta, 63 bits, that no other checkpoint has."""
    return int.from_bytes(hashlib.sha256(query_id.encode()).digest()[:8], "big") >> 1
