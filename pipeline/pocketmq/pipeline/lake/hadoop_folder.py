"""A folder as Spark's writers see it: on this machine, in HDFS or at `s3a://`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
        self._path = self._jvm.org.apache.hadoop.fs.Path(folder)
        self._system = self._path.getFileSystem(context._jsc.hadoopConfiguration())

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._path, name)

    def names(self) -> list[str]:
        """What is in it; nothing where there is no such folder."""
        if not self._system.exists(self._path):
            return []
        found = self._system.listStatus(self._path)
        return sorted(str(each.getPath().getName()) for each in found)

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
