"""A folder as Spark's writers see it: on this machine, in HDFS or at `s3a://`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketmq.runtime.errors import CallerError
from pocketmq.runtime.files.replaced_folder import sync, sync_tree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class HadoopFolder:
    """A folder, which need not exist.

    Args:
        spark: A session that runs in this process, not through Spark Connect.
        folder: Its address.
    """

    def __init__(self, spark: SparkSession, folder: str) -> None:
        context: Any = spark.sparkContext
        self._jvm = context._jvm
        self._settings = context._jsc.hadoopConfiguration()
        self._path = self._jvm.org.apache.hadoop.fs.Path(folder)
        self._system = self._path.getFileSystem(self._settings)

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._path, name)

    def names(self, within: str = "") -> list[str]:
        """What is in it, or in a folder in it; nothing where there is no such folder."""
        path = self._at(within) if within else self._path
        if not self._system.exists(path):
            return []
        return sorted(str(each.getPath().getName()) for each in self._system.listStatus(path))

    def exists(self, name: str) -> bool:
        """Whether there is such a file or folder in it."""
        return bool(self._system.exists(self._at(name)))

    def delete(self, name: str) -> None:
        """Remove a file or folder with all that is in it."""
        self._system.delete(self._at(name), True)

    def make_lasting(self, name: str) -> None:
        """Have a file or folder in it on the disk, if it is one of this machine: neither Spark nor
        Hadoop does, and a power cut could take what is noted as done."""
        # Object stores and HDFS keep what they have acknowledged.
        if self._system.getScheme() != "file":
            return
        path = Path(str(self._path.toUri().getPath())) / name
        if path.is_dir():
            sync_tree(path)
        # The folders too: otherwise a power cut could lose the file's name.
        for each in (path, path.parent, path.parent.parent):
            sync(each)

    def check_written(self, name: str, kind: str, rows: int) -> None:
        """Check that what executors wrote into a folder in it has arrived here.

        On a cluster each machine may have a folder of this name of its own: Spark then takes the
        files of other machines for written, and nobody sees them.

        Args:
            name: Of the folder.
            kind: Of its files. Only Parquet's say how many rows they have; of others it is checked
                that there are any.
            rows: Which executors wrote.

        Raises:
            CallerError: There are fewer.
        """
        files = [f"{name}/{each}" for each in self.names(name) if not each.startswith(("_", "."))]
        if kind == "parquet":
            rows -= sum(map(self._parquet_rows, files))
        elif files:
            return
        if rows > 0:
            raise CallerError(
                f"{self._path}/{name} lacks {rows} rows: executors wrote them to folders of "
                "their own machines; name a folder that all machines share, or an address such "
                "as hdfs://"
            )

    def _parquet_rows(self, name: str) -> int:
        """How many a file says that it has."""
        parquet = self._jvm.org.apache.parquet.hadoop
        file = parquet.util.HadoopInputFile.fromPath(self._at(name), self._settings)
        reader = parquet.ParquetFileReader.open(file)
        try:
            return int(reader.getRecordCount())
        finally:
            reader.close()

    def read(self, name: str) -> Any:
        """What a small JSON file says."""
        stream = self._system.open(self._at(name))
        try:
            return json.loads(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, value: Any) -> None:
        """Write a small JSON file; it is there complete or not at all."""
        part = self._at(f".{name}.part")
        stream = self._system.create(part, True)
        stream.write(bytearray(json.dumps(value).encode()))
        stream.close()
        # A kill before the rename leaves a partial file, which nobody reads.
        self._system.rename(part, self._at(name))
