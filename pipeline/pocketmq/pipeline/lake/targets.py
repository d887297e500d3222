"""Tables to export to: Parquet files in a folder, Delta by `deltalake`, Iceberg by `pyiceberg`.

What each has of which queue stands in the table itself, and is written with the rows (`notes`):

    Parquet   in the files' names: <topic>~<broker>~<queue>~<start>~<end>.parquet; marks in their
              metadata
    Delta     in its transactions (`txn`): an application for each number (`delta_notes`)
    Iceberg   in the table's properties, set in the same commit as the rows

After a topic was made anew its offsets come a second time. Its rows are added beside those that
were there, in Parquet in files with `~again1` behind the end.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pocketmq.pipeline.errors import ColumnsError
from pocketmq.pipeline.lake import delta_notes
from pocketmq.pipeline.lake.delta import check_deltalake
from pocketmq.pipeline.lake.last_rows import LastRows, last_rows, merge, merged
from pocketmq.pipeline.lake.notes import (
    GONE,
    MARK,
    OFFSET,
    Move,
    Moves,
    Scope,
    of_texts,
    stand_of,
    texts,
)
from pocketmq.pipeline.progress.checkpoint import Checkpoint
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.errors import CallerError, MissingToolError
from pocketmq.runtime.files.new_folders import make_lasting
from pocketmq.runtime.files.replaced_folder import sync

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

LAST_ROWS: Final = "last-rows.parquet"
_FILE: Final = re.compile(r"(.+)~(.+)~(\d+)~(\d+)~(\d+)(?:~again(\d+))?\.parquet")


class ParquetTarget:
    """A folder of Parquet files, one for each range of a queue.

    A range appears with one rename. Files of a commit that was cut off half way stay, since each
    says what it has; names that begin with a dot are remains and mean nothing.

    With a key the folder has one file, which each commit replaces: in memory must be all its rows.
    The file's metadata say how far each queue goes.

    Args:
        folder: Where; it is made with the first rows.
        key: Column of which the table keeps the last row only (`last_rows`); all rows without it.
        tombstone: Property that marks a message as the deletion of its key.
    """

    def __init__(self, folder: str | Path, *, key: str = "", tombstone: str = "") -> None:
        self.folder = Path(folder)
        self.key = key
        self.tombstone = tombstone
        self._columns: pa.Schema | None = None
        """Those of its files, once they were looked at."""

    def stand(self, scope: Scope) -> Checkpoint:
        """The ends in the files' names, or in the one file's metadata."""
        last = self._files()
        if self.key:
            path = self.folder / LAST_ROWS
            return of_texts(scope.topics, _metadata(path) if path.exists() else {})
        last = {queue: each for queue, each in last.items() if queue.topic in scope.topics}
        noted: dict[str, str] = {}
        for each in last.values():
            noted |= _metadata(each.path)
        return stand_of({queue: each.end for queue, each in last.items()}, noted)

    def _files(self) -> dict[MessageQueue, _Last]:
        """The last file of each queue.

        Raises:
            CallerError: A file is of another export.
        """
        found: dict[MessageQueue, _Last] = {}
        for path in self.folder.glob("*.parquet"):
            match = _FILE.fullmatch(path.name)
            if (path.name != LAST_ROWS) if self.key else (match is None):
                raise CallerError(f"{path}: no file of such an export; choose a folder of its own")
            if match is None:
                continue
            queue = MessageQueue(match[1], match[2], int(match[3]))
            last = _Last(int(match[6] or 0), int(match[5]), int(match[4]), path)
            found[queue] = max(found.get(queue, last), last)
        return found

    def append(self, rows: pa.Table, moved: Moves) -> None:
        """Write a file for each queue, or the one file anew.

        Raises:
            ColumnsError: The files that there are have other columns.
        """
        make_lasting(self.folder)
        self._check_columns(rows.schema)
        if self.key:
            self._replace(rows, moved)
            sync(self.folder)
            return
        by_queue = _by_queue(rows, moved)
        last = self._files()
        # Whoever is killed between these files must not find queues with marks and others without
        # a note, which would be taken for new ones.
        begins = [
            self._write_range(rows.slice(0, 0), queue, Move(move.start, move.start), last)
            for queue, move in moved.items()
            if queue not in last and move.start < move.end and len(moved) > 1
        ]
        for queue, move in moved.items():
            self._write_range(by_queue[queue], queue, move, last)
        # A later commit goes on from these files, and those that only note a begin go: by then
        # their names survive a power cut.
        sync(self.folder)
        for path in begins:
            path.unlink()

    def _check_columns(self, columns: pa.Schema) -> None:
        """A folder of files with different columns is no table: readers take those of one file."""
        import pyarrow.parquet as pq

        if self._columns is None:
            last = self.folder / LAST_ROWS
            paths = [each.path for each in self._files().values()]
            paths += [last] if self.key and last.exists() else []
            for path in sorted(paths):
                self._columns = pq.read_schema(path)
                if not self._columns.equals(columns):
                    break
        if self._columns is None:
            self._columns = columns
        if self._columns.equals(columns):
            return
        was = [(field.name, str(field.type)) for field in self._columns]
        now = [(field.name, str(field.type)) for field in columns]
        lacking = ", ".join(" ".join(each) for each in was if each not in now)
        new = ", ".join(" ".join(each) for each in now if each not in was)
        differs = [f"have {lacking}" * bool(lacking), f"have not {new}" * bool(new)]
        what = " and ".join(filter(None, differs)) or "have them in another order"
        raise ColumnsError(
            f"{self.folder}: these rows have other columns than its files, which {what}; export "
            "the same columns, or into another folder"
        )

    def _write_range(
        self, rows: pa.Table, queue: MessageQueue, move: Move, last: Mapping[MessageQueue, _Last]
    ) -> Path:
        again = (last[queue].again if queue in last else 0) + move.is_anew
        name = f"{queue.topic}~{queue.broker_name}~{queue.queue_id}~{move.start}~{move.end}"
        name += f"~again{again}" if again else ""
        return self._write(_noting(rows, {queue: move}), f"{name}.parquet")

    def _replace(self, rows: pa.Table, moved: Moves) -> None:
        import pyarrow.parquet as pq

        path = self.folder / LAST_ROWS
        said: dict[bytes, bytes] = {}
        existing = rows.slice(0, 0)
        if path.exists():
            existing = pq.read_table(path)
            said = dict(existing.schema.metadata or {})
        table = merged(existing, rows, self.key, self.tombstone)
        self._write(_noting(table.replace_schema_metadata(said), moved), LAST_ROWS)

    def _write(self, rows: pa.Table, name: str) -> Path:
        import pyarrow.parquet as pq

        part = self.folder / f".{name}.part"
        pq.write_table(rows, part)
        sync(part)
        return part.rename(self.folder / name)


class _Last(NamedTuple):
    """The last file of a queue; compares by what comes later."""

    again: int
    """How often the topic had been made anew."""
    end: int
    start: int
    """Equal to the end in a file that has no rows and only notes something."""
    path: Path


def _metadata(path: Path) -> dict[str, str]:
    import pyarrow.parquet as pq

    metadata = pq.read_schema(path).metadata or {}
    return {
        name.decode(): text.decode()
        for name, text in metadata.items()
        if name.startswith((OFFSET.encode(), MARK.encode(), GONE.encode()))
    }


def _noting(rows: pa.Table, moved: Moves) -> pa.Table:
    """The rows with the notes of a commit as metadata."""
    noted = {name.encode(): text.encode() for name, text in texts(moved).items()}
    return rows.replace_schema_metadata({**(rows.schema.metadata or {}), **noted})


class DeltaTarget:
    """A Delta table; each commit has its rows and, for each queue, how far it goes.

    Args:
        table: Path or address; it is made with the first rows.
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
        key: str = "",
        tombstone: str = "",
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self.table = str(table)
        self.key = key
        self.tombstone = tombstone
        self.storage_options = dict(storage_options or {})
        check_deltalake()

    def stand(self, scope: Scope) -> Checkpoint:
        """The versions of the queues' transactions; of brokers outside of the scope none."""
        table = self._existing()
        return Checkpoint({}) if table is None else delta_notes.stand(table, scope)

    def _existing(self) -> DeltaTable | None:
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(self.table, self.storage_options):
            return None
        return DeltaTable(self.table, storage_options=self.storage_options)

    def append(self, rows: pa.Table, moved: Moves) -> None:
        """One commit: rows appended, or with a key merged."""
        from deltalake import CommitProperties, Transaction, write_deltalake

        existing = self._existing()
        notes = delta_notes.transactions(existing, moved)
        properties = CommitProperties(
            max_commit_retries=0,  # another export's commit would repeat these rows
            app_transactions=[Transaction(*each) for each in notes],
        )
        if self.key and existing is not None:
            merge(existing, self._last(rows), properties)
            return
        if self.key:
            last = self._last(rows)
            rows = last.kept()
        write_deltalake(
            self.table,
            rows,
            mode="append",
            storage_options=self.storage_options,
            commit_properties=properties,
        )

    def _last(self, rows: pa.Table) -> LastRows:
        return last_rows(rows, self.key, self.tombstone)


class IcebergTarget:
    """An Iceberg table of a catalog.

    Args:
        catalog: A catalog of `pyiceberg`.
        table: `namespace.name`; it is made with the first rows.
        key: Column of which the table keeps the last row only (`last_rows`); all rows without it.
        tombstone: Property that marks a message as the deletion of its key.
    """

    def __init__(self, catalog: Any, table: str, *, key: str = "", tombstone: str = "") -> None:
        self.catalog = catalog
        self.table = table
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
        return cls(catalog, table, key=key, tombstone=tombstone)

    def stand(self, scope: Scope) -> Checkpoint:
        """What the table's properties say."""
        if not self.catalog.table_exists(self.table):
            return Checkpoint({})
        return of_texts(scope.topics, self.catalog.load_table(self.table).properties)

    def append(self, rows: pa.Table, moved: Moves) -> None:
        """One commit: rows appended; with a key, those that they replace are deleted in it."""
        namespace, _, _ = self.table.rpartition(".")
        self.catalog.create_namespace_if_not_exists(namespace)
        table = self.catalog.create_table_if_not_exists(self.table, rows.schema)
        replaced = None
        if self.key:
            replaced, existing = self._of_the_same_keys(table, rows)
            rows = merged(existing, rows, self.key, self.tombstone)
            replaced = replaced if len(existing) else None
        with table.transaction() as transaction:
            if replaced is not None:
                transaction.delete(replaced)
            transaction.append(rows)
            transaction.set_properties(texts(moved))

    def _of_the_same_keys(self, table: Any, rows: pa.Table) -> tuple[Any, pa.Table]:
        """The condition for rows of the table with the keys of new ones, and those rows."""
        import pyarrow.compute as pc
        from pyiceberg import expressions

        topics = pc.unique(rows.column("topic")).to_pylist()
        keys = pc.unique(rows.column(self.key).drop_null()).to_pylist()
        if not keys:
            return None, rows.slice(0, 0)
        is_in: Any = expressions.In  # its declared parameters are not those that it takes
        condition = expressions.And(is_in("topic", topics), is_in(self.key, keys))
        return condition, table.scan(row_filter=condition).to_arrow()


def _by_queue(rows: pa.Table, queues: Iterable[MessageQueue]) -> dict[MessageQueue, pa.Table]:
    """The rows of each queue, without a copy: those of a queue stand together in a batch."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found: dict[MessageQueue, list[pa.RecordBatch]] = {queue: [] for queue in queues}
    if len(found) == 1:
        return dict.fromkeys(found, rows)
    for batch in rows.to_batches():
        if not len(batch):
            continue
        columns = [batch.column(name) for name in ("topic", "brokerName", "queueId")]
        cuts = {0, len(batch)}
        for column in columns:
            differs = pc.not_equal(column.slice(1), column.slice(0, len(batch) - 1))
            cuts |= {at + 1 for at in pc.indices_nonzero(differs).to_pylist()}
        places = sorted(cuts)
        for low, high in pairwise(places):
            queue = MessageQueue(*(column[low].as_py() for column in columns))
            found[queue].append(batch.slice(low, high - low))
    return {queue: pa.Table.from_batches(each, rows.schema) for queue, each in found.items()}


def target_of(
    text: str, *, key: str = "", tombstone: str = ""
) -> ParquetTarget | DeltaTarget | IcebergTarget:
    """The target that `parquet:FOLDER`, `delta:TABLE` or `iceberg:FOLDER/NAMESPACE.NAME` means.

    Args:
        text: See above.
        key: Keep the last row for each value of this column only.
        tombstone: Property that marks a deletion.

    Raises:
        CallerError: It means none.
    """
    kind, _, where = text.partition(":")
    if tombstone and not key:
        raise CallerError(f"{text}: a tombstone deletes a key; say which column has it")
    if where and kind == "parquet":
        return ParquetTarget(where, key=key, tombstone=tombstone)
    if where and kind == "delta":
        return DeltaTarget(where, key=key, tombstone=tombstone)
    folder, _, table = where.rpartition("/")
    if kind == "iceberg" and folder and "." in table:
        return IcebergTarget.local(folder, table, key=key, tombstone=tombstone)
    raise CallerError(
        f"{text!r} is no table; write parquet:FOLDER, delta:TABLE or iceberg:FOLDER/NAMESPACE.NAME"
    )
