"""Keeps of each key the last row only: by Spark, in Arrow, and in a Delta table by MERGE.

A row is later than another of its key by store time, then by queue offset. Rows without a key are
all kept. A message whose property `tombstone` is there deletes its key.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pocketmq.runtime.errors import CallerError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

NEEDED: Final = ("topic", "storeTimestamp", "queueOffset")
_DELETED: Final = "__deleted"


def check_columns(names: Collection[str], key: str, tombstone: str) -> None:
    """Check that rows have what tells the last of each key.

    Raises:
        CallerError: A column that this needs is missing.
    """
    needed = (*NEEDED, key, *(("properties",) if tombstone else ())) if key else ()
    for name in needed:
        if name not in names:
            raise CallerError(
                f"the table has no column {name}, which is needed to keep the last row of each "
                f"{key}"
            )


def last_of_each(frame: DataFrame, key: str, tombstone: str = "") -> DataFrame:
    """The last row for each topic and value of a column, without deleted keys."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    latest_first = Window.partitionBy("topic", key).orderBy(
        f.desc("storeTimestamp"), f.desc("queueOffset")
    )
    # All rows without a key are kept, so each gets number 1.
    number = f.when(f.col(key).isNull(), 1).otherwise(f.row_number().over(latest_first))
    last = frame.withColumn("__number", number).where("__number = 1").drop("__number")
    if not tombstone:
        return last
    is_deleted = f.map_contains_key("properties", tombstone)
    # Deletions are dropped last: dropped earlier, an older row of the key would become the last.
    return last.where(~f.coalesce(is_deleted, f.lit(False)))


class LastRows(NamedTuple):
    """The last row of each key."""

    rows: pa.Table
    deleted: pa.Array
    """Which of them delete their key."""
    key: str

    def kept(self) -> pa.Table:
        """Without deletions."""
        import pyarrow.compute as pc

        return self.rows.filter(pc.invert(self.deleted))


def last_rows(rows: pa.Table, key: str, tombstone: str = "") -> LastRows:
    """The last row for each topic and value of a column, in any order.

    Raises:
        CallerError: A column that this needs is missing.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    check_columns(rows.schema.names, key, tombstone)
    numbers = pa.array(np.arange(len(rows)))
    sorted_rows = (
        rows.select(["topic", key, "storeTimestamp", "queueOffset"])
        .append_column("__row", numbers)
        .sort_by([("storeTimestamp", "ascending"), ("queueOffset", "ascending")])
    )
    # Without threads Arrow keeps the order within a group, which `last` needs.
    last = sorted_rows.group_by(["topic", key], use_threads=False).aggregate([("__row", "last")])
    is_null = pc.is_null(rows.column(key))
    chosen = pc.filter(last.column("__row_last"), pc.is_valid(last.column(key)))
    # `union1d` sorts, so the rows keep the order in which they came.
    places = np.union1d(chosen.to_numpy(), np.flatnonzero(is_null.to_numpy()))
    rows = rows.take(pa.array(places.astype(np.int64)))
    if tombstone:
        marks = pc.map_lookup(rows.column("properties"), tombstone, "first")
        deleted = pc.is_valid(marks)
    else:
        deleted = pa.array(np.zeros(len(rows), np.bool_))
    if isinstance(deleted, pa.ChunkedArray):
        deleted = deleted.combine_chunks()
    return LastRows(rows, deleted, key)


def merged(existing: pa.Table, rows: pa.Table, key: str, tombstone: str = "") -> pa.Table:
    """Rows of a table and new ones together: the last of each key, without deleted keys.

    Args:
        existing: Of the table; it must have the rows of all keys that the new ones have.
        rows: The new ones.
        key: The column.
        tombstone: Property that marks a deletion.
    """
    import pyarrow as pa

    # The table's rows first: if place and time are equal, the new row wins.
    both = pa.concat_tables([existing.select(rows.schema.names).cast(rows.schema), rows])
    return last_rows(both, key, tombstone).kept()


def merge(table: Any, last: LastRows, properties: Any) -> None:
    """Merge into a Delta table, in one commit.

    Args:
        table: A `deltalake.DeltaTable`.
        last: What to merge.
        properties: The commit's.
    """
    names = last.rows.schema.names
    source = last.rows.append_column(_DELETED, last.deleted)
    # The table may have a later row, as batches of several queues overlap in time.
    is_later = (
        "s.`storeTimestamp` > t.`storeTimestamp` or (s.`storeTimestamp` = t.`storeTimestamp` "
        "and s.`queueOffset` >= t.`queueOffset`)"
    )
    values = {f"`{name}`": f"s.`{name}`" for name in names}
    (
        table.merge(
            source,
            f"t.`topic` = s.`topic` and t.`{last.key}` = s.`{last.key}`",
            source_alias="s",
            target_alias="t",
            commit_properties=properties,
        )
        .when_matched_delete(f"s.{_DELETED} and ({is_later})")
        .when_matched_update(values, f"not s.{_DELETED} and ({is_later})")
        .when_not_matched_insert(values, f"not s.{_DELETED}")
        .execute()
    )
