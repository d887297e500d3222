"""Tables to export to: files by Spark's writers, Delta by `deltalake`, Iceberg by `pyiceberg`.

Each is given Spark's batches by number. A batch that Spark repeats, because the driver was killed
before Spark had noted its end, is found in the table and left out:

    files     batch=N/ is written anew unless it is complete; other folders are not touched
    Delta     the commit names checkpoint and batch (`delta.DeltaAppend`)
    Iceberg   so do the table's properties, set in the same commit as the rows

There is no runtime of Iceberg for Spark 4.2 and later, and Delta's connector is for 4.2 only: rows
of these two pass through the driver. A table begins with an export, whose checkpoint lies in it.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from pocketmq.pipeline.errors import ColumnsError
from pocketmq.pipeline.lake.delta import DeltaAppend, query_id
from pocketmq.pipeline.lake.hadoop_folder import HadoopFolder
from pocketmq.pipeline.lake.last_rows import check_columns, last_of_each, merged
from pocketmq.runtime.errors import CallerError, MissingToolError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, Observation, SparkSession
    from pyspark.sql.types import StructType

CHECKPOINT: Final = "_checkpoint"
COLUMNS: Final = "_columns.json"
"""In a folder of files: their columns, as Spark says them."""
COMPLETE: Final = "_complete"
"""In the folder of a batch: what is in it is complete, and on the disk. Spark's own `_SUCCESS` is
there before that, and not at all where its settings say so."""
FILES: Final = ("parquet", "csv", "json")
THROUGH_DRIVER: Final = 100_000
"""Rows of a commit that the driver holds in memory."""
BY_EXECUTORS: Final = 1_000_000
"""Rows of a commit that executors write."""
CSV: Final = {
    "header": "true",
    # As other programs read CSV: by default Spark escapes quotes by a backslash and trims values.
    "escape": '"',
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
}
"""Options of Spark's writer."""
_BATCH: Final = re.compile(r"batch=(\d+)")
_FORMER: Final = re.compile(r".+~.+~\d+~\d+~\d+(~again\d+)?\.parquet|last-rows\.parquet")
_BATCH_PROPERTY: Final = "pocketmq.batch:"


class Target(Protocol):
    """A table that knows which batches it has."""

    checkpoint: str
    """Where Spark keeps how far the table goes."""
    rows_per_commit: int
    """Most rows of a batch, if nothing else is said."""

    def begin(self, spark: SparkSession, columns: StructType) -> None:
        """Check, before anything is read, that such rows can be added.

        Raises:
            ColumnsError: The table has other columns.
            CallerError: The table was not begun by such an export, or a needed column is missing.
        """

    def append(self, frame: DataFrame, batch: int) -> int:
        """Add a batch unless the table has it; the number of its rows."""


class FilesTarget:
    """A folder with a folder of files for each batch, `batch=N`, which readers see as a column.

    With a key the newest `batch=N` has the last row of each key, and replaces those before it.

    Args:
        folder: Where; any address that Spark can write to.
        kind: `parquet`, `csv` or `json`. Bodies are base64 in CSV and JSON.
        key: Column of which the table keeps the last row only; all rows without it. For Parquet.
        tombstone: Property that marks a message as the deletion of its key.

    Raises:
        CallerError: There is no such kind, or it cannot have a key.
    """

    rows_per_commit = BY_EXECUTORS

    def __init__(
        self, folder: str | Path, kind: str = "parquet", *, key: str = "", tombstone: str = ""
    ) -> None:
        if kind not in FILES:
            raise CallerError(
                f"{kind!r} is not a kind of file that can be written; choose from "
                f"{', '.join(FILES)}"
            )
        if key and kind != "parquet":
            raise CallerError(
                f"{kind} files cannot keep only the last row of each {key}; use parquet"
            )
        self.folder = str(folder)
        self.kind = kind
        self.key = key
        self.tombstone = tombstone
        self.checkpoint = f"{self.folder}/{CHECKPOINT}"

    def begin(self, spark: SparkSession, columns: StructType) -> None:
        """As `Target` says."""
        check_columns(columns.names, self.key, self.tombstone)
        folder = HadoopFolder(spark, self.folder)
        names = folder.names()
        # Either name shows that such an export began the folder; a kill may have left only one.
        if not {CHECKPOINT, COLUMNS} & set(names):
            if any(map(_FORMER.fullmatch, names)):
                raise CallerError(
                    f"{self.folder}: an export without Spark wrote these files, and this export "
                    "cannot continue it; choose another folder"
                )
            if names:
                raise CallerError(
                    f"{self.folder}: the folder has files that no export wrote; choose another "
                    "folder"
                )
        if any(map(_BATCH.fullmatch, names)):
            _check_begun(spark, self.checkpoint, self.folder)
        now = [(field.name, field.dataType.simpleString()) for field in columns]
        # Written before any batch, so that later runs compare with it.
        if COLUMNS not in names:
            folder.write(COLUMNS, {"kind": self.kind, "key": self.key, "columns": now})
            return
        said = folder.read(COLUMNS)
        was = [(name, kind) for name, kind in said["columns"]]
        if (said["kind"], said["key"]) != (self.kind, self.key):
            key = f"the last row of each {said['key']}" if said["key"] else "all rows"
            raise CallerError(
                f"{self.folder}: the earlier export to this folder wrote {key} as "
                f"{said['kind']}; choose another folder"
            )
        if was != now:
            raise ColumnsError(f"{self.folder}: {_differing(was, now)}")

    def append(self, frame: DataFrame, batch: int) -> int:
        """As `Target` says."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        spark = frame.sparkSession
        name, folder = f"batch={batch}", HadoopFolder(spark, self.folder)
        earlier = self._earlier(folder, batch) if self.key else []
        count = 0
        # `COMPLETE` is written last: a batch's folder without it was left by a kill.
        if not folder.exists(f"{name}/{COMPLETE}"):
            # Counted while it is written: a separate count would compute the batch twice.
            observed = of_folder = Observation()
            rows = frame.observe(observed, f.count(f.lit(1)).alias("rows"))
            if self.key:
                # The newest earlier batch contains the rows of all before it.
                for newest in earlier[-1:]:
                    if not folder.exists(f"{newest}/{COMPLETE}"):  # Spark has noted that it is
                        raise CallerError(
                            f"{self.folder}: the batch {newest}, which has all earlier rows, is "
                            "not complete; export into another folder"
                        )
                    before = spark.read.parquet(f"{self.folder}/{newest}")
                    rows = before.unionByName(rows)
                of_folder = Observation()
                rows = last_of_each(rows, self.key, self.tombstone)
                rows = rows.observe(of_folder, f.count(f.lit(1)).alias("rows"))
            is_csv = self.kind == "csv"
            writer = (_as_text(rows) if is_csv else rows).write.mode("overwrite")
            writer.options(**(CSV if is_csv else {})).format(self.kind).save(
                f"{self.folder}/{name}"
            )
            # Before the mark, and before Spark notes the batch as done: otherwise a power cut could
            # lose rows that count as written.
            folder.make_lasting(name)
            folder.check_written(name, self.kind, _counted(of_folder))
            count = _counted(observed)
            written = HadoopFolder(spark, f"{self.folder}/{name}")
            written.write(COMPLETE, {"rows": count})
            written.make_lasting(COMPLETE)
        # Only after the new batch is complete. Also if it was complete before: a kill may have come
        # before this.
        for each in earlier:
            folder.delete(each)
        return count

    def _earlier(self, folder: HadoopFolder, batch: int) -> list[str]:
        """Folders of the batches before this one, in their order."""
        numbers = [int(match[1]) for each in folder.names() if (match := _BATCH.fullmatch(each))]
        return [f"batch={number}" for number in sorted(numbers) if number < batch]


def _counted(observed: Observation) -> int:
    """The rows of a batch; 0 where Spark saw that it has none, and left out what counts them."""
    from py4j.protocol import Py4JJavaError

    try:
        return int(observed.get.get("rows", 0))
    except Py4JJavaError:  # what Spark makes of a count that never was
        return 0


def _as_text(frame: DataFrame) -> DataFrame:
    """What CSV has no form for: bytes as base64, properties as JSON."""
    from pyspark.sql import functions as f

    forms: dict[str, Callable[[Any], Any]] = {"binary": f.base64, "map": f.to_json}
    chosen = [
        forms[kind](field.name).alias(field.name)
        if (kind := field.dataType.typeName()) in forms
        else f.col(field.name)
        for field in frame.schema
    ]
    return frame.select(*chosen)


def _differing(was: Sequence[tuple[str, str]], now: Sequence[tuple[str, str]]) -> str:
    """How columns differ from those of a folder's files."""
    lacking = ", ".join(" ".join(each) for each in was if each not in now)
    new = ", ".join(" ".join(each) for each in now if each not in was)
    differs = [f"have {lacking}" * bool(lacking), f"have not {new}" * bool(new)]
    what = " and ".join(filter(None, differs)) or "have them in another order"
    return (
        f"these rows have other columns than its files, which {what}; export the same columns, or "
        "into another folder"
    )


class DeltaTarget:
    """A Delta table, written by `deltalake`; the driver holds a commit's rows in memory.

    Args:
        table: Path or address; it is made with the first rows.
        key: Column of which the table keeps the last row only; all rows without it.
        tombstone: Property that marks a message as the deletion of its key.
        storage_options: As `deltalake` takes them, for tables that are not local.
        checkpoint: Where Spark keeps how far the table goes; in the table if it is not said.

    Raises:
        MissingToolError: `deltalake` is not installed.
    """

    rows_per_commit = THROUGH_DRIVER

    def __init__(
        self,
        table: str | Path,
        *,
        key: str = "",
        tombstone: str = "",
        storage_options: Mapping[str, str] | None = None,
        checkpoint: str | Path = "",
    ) -> None:
        self.table = str(table)
        self.key = key
        self.tombstone = tombstone
        self.storage_options = dict(storage_options or {})
        self.checkpoint = str(checkpoint) or f"{self.table}/{CHECKPOINT}"
        self._append = DeltaAppend(
            table, key=key, tombstone=tombstone, storage_options=storage_options
        )

    def begin(self, spark: SparkSession, columns: StructType) -> None:
        """As `Target` says."""
        from deltalake import DeltaTable

        check_columns(columns.names, self.key, self.tombstone)
        # A table that does not exist yet begins with the first rows.
        if DeltaTable.is_deltatable(self.table, self.storage_options):
            _check_begun(spark, self.checkpoint, self.table)

    def append(self, frame: DataFrame, batch: int) -> int:
        """As `Target` says."""
        return self._append.append(frame, batch)


class IcebergTarget:
    """An Iceberg table of a catalog; the driver holds a commit's rows in memory.

    Args:
        catalog: A catalog of `pyiceberg`.
        table: `namespace.name`; it is made with the first rows.
        checkpoint: Where Spark keeps how far the table goes.
        key: Column of which the table keeps the last row only; all rows without it.
        tombstone: Property that marks a message as the deletion of its key.
    """

    rows_per_commit = THROUGH_DRIVER

    def __init__(
        self,
        catalog: Any,
        table: str,
        checkpoint: str | Path,
        *,
        key: str = "",
        tombstone: str = "",
    ) -> None:
        self.catalog = catalog
        self.table = table
        self.checkpoint = str(checkpoint)
        self.key = key
        self.tombstone = tombstone

    @classmethod
    def local(
        cls, folder: str | Path, table: str, *, key: str = "", tombstone: str = ""
    ) -> IcebergTarget:
        """A table of a catalog in SQLite, in a folder.

        Raises:
            MissingToolError: `pyiceberg` is not installed.
        """
        try:
            from pyiceberg.catalog.sql import SqlCatalog
        except ImportError:
            raise MissingToolError(
                "pyiceberg", "an Iceberg table", "pip install 'pocketmq[lake]'"
            ) from None
        where = Path(folder).absolute()
        where.mkdir(parents=True, exist_ok=True)
        address = f"sqlite:///{where / 'catalog.db'}"
        catalog = SqlCatalog("pocketmq", uri=address, warehouse=where.as_uri())
        # its connections are pooled and would be left open, which Python 3.13 complains of
        weakref.finalize(catalog, catalog.engine.dispose)
        checkpoint = where / CHECKPOINT / table
        return cls(catalog, table, checkpoint, key=key, tombstone=tombstone)

    def begin(self, spark: SparkSession, columns: StructType) -> None:
        """As `Target` says."""
        check_columns(columns.names, self.key, self.tombstone)
        if self.catalog.table_exists(self.table):
            _check_begun(spark, self.checkpoint, self.table)

    def append(self, frame: DataFrame, batch: int) -> int:
        """One commit: rows appended; with a key, those that they replace are deleted in it."""
        noted = f"{_BATCH_PROPERTY}{query_id(frame)}"
        namespace, _, _ = self.table.rpartition(".")
        self.catalog.create_namespace_if_not_exists(namespace)
        if self.catalog.table_exists(self.table):
            properties = self.catalog.load_table(self.table).properties
            # Noted in the same commit as the rows, so it identifies a repeated batch.
            if int(properties.get(noted, "-1")) >= batch:
                return 0
        new = rows = frame.toArrow()
        # Created with the first batch, whose rows give the columns.
        table = self.catalog.create_table_if_not_exists(self.table, rows.schema)
        replaced = None
        if self.key:
            replaced, existing = self._of_the_same_keys(table, rows)
            rows = merged(existing, rows, self.key, self.tombstone)
            replaced = replaced if len(existing) else None
        # One commit, so that readers see either the old rows or the new ones.
        with table.transaction() as transaction:
            if replaced is not None:
                transaction.delete(replaced)
            transaction.append(rows)
            transaction.set_properties({noted: str(batch)})
        return len(new)

    def _of_the_same_keys(self, table: Any, rows: pa.Table) -> tuple[Any, pa.Table]:
        """The condition for rows of the table with the keys of new ones, and those rows."""
        import pyarrow.compute as pc
        from pyiceberg import expressions

        topics = pc.unique(rows.column("topic")).to_pylist()
        keys = pc.unique(rows.column(self.key).drop_null()).to_pylist()
        # Rows without a key replace nothing.
        if not keys:
            return None, rows.slice(0, 0)
        is_in: Any = expressions.In  # its declared parameters are not those that it takes
        condition = expressions.And(is_in("topic", topics), is_in(self.key, keys))
        return condition, table.scan(row_filter=condition).to_arrow()


def _check_begun(spark: SparkSession, checkpoint: str, table: str) -> None:
    """A table without the checkpoint may have any of the messages, which would come twice."""
    if not HadoopFolder(spark, checkpoint).names():
        raise CallerError(
            f"{table}: the table exists, but its checkpoint {checkpoint} does not: another "
            "program or an export without Spark made the table, or the checkpoint was removed; "
            "export to another table"
        )


def target_of(
    text: str, *, key: str = "", tombstone: str = ""
) -> FilesTarget | DeltaTarget | IcebergTarget:
    """The target that `parquet:FOLDER`, `csv:`, `json:`, `delta:TABLE` or
    `iceberg:FOLDER/NAMESPACE.NAME` means.

    Args:
        text: See above.
        key: Keep the last row for each value of this column only.
        tombstone: Property that marks a deletion.

    Raises:
        CallerError: It means none.
        MissingToolError: What writes it is not installed.
    """
    kind, _, where = text.partition(":")
    # A tombstone deletes rows by their key.
    if tombstone and not key:
        raise CallerError(
            f"{text}: a tombstone deletes rows by their key; say which column is the key"
        )
    if where and kind in FILES:
        return FilesTarget(where, kind, key=key, tombstone=tombstone)
    if where and kind == "delta":
        return DeltaTarget(where, key=key, tombstone=tombstone)
    folder, _, table = where.rpartition("/")
    if kind == "iceberg" and folder and "." in table:
        return IcebergTarget.local(folder, table, key=key, tombstone=tombstone)
    raise CallerError(
        f"{text!r} is not a table; write parquet:FOLDER, csv:FOLDER, json:FOLDER, delta:TABLE or "
        "iceberg:FOLDER/NAMESPACE.NAME"
    )
