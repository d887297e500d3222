"""What the jobs over messages share: the session that they run in, and messages as data frames.

    spark = job_session("latency", master=master)
    with plain_errors():
        rows = messages(spark, "store:cluster/broker-a", columns=["topic", "body"]).collect()

A job runs on this machine unless it is told otherwise. On a cluster it brings PocketMQ along, which
executors need not have. Starting Spark takes seconds: so a job says that it does, and the session
stays for the next job of this process.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from pocketmq.pipeline.spark.package import package
from pocketmq.pipeline.spark.plainly import told_by_spark
from pocketmq.pipeline.spark.session import check_spark, is_on_this_machine, session, submitted
from pocketmq.runtime.errors import CallerError

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

LOCAL: Final = "local[2]"
"""Where a job runs if nobody says where."""
KINDS: Final = ("store", "parquet", "delta", "iceberg", "topic")
"""Of sources."""

Starting = Callable[[str], None]
"""Told the master before Spark is started, which takes seconds."""


def job_session(
    name: str,
    *,
    master: str = "",
    also: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
    starting: Starting | None = None,
) -> SparkSession:
    """The session of this process, started if there is none.

    Args:
        name: Of the job, for Spark's pages.
        master: Where it runs; else what `SPARK_MASTER` or spark-submit says, else `LOCAL`.
        also: Packages that the executors of a cluster need besides PocketMQ's own (`package`).
        settings: Further settings of Spark.
        starting: Called before Spark is started.

    Raises:
        MissingToolError: PySpark, or Java 17 or later, is not installed.
        CallerError: Spark runs elsewhere already.
    """
    check_spark()
    from pyspark.sql import SparkSession

    # Spark allows one session in a process, so the next job reuses it.
    running = SparkSession.getActiveSession()
    if running is not None:
        runs_at = running.conf.get("spark.master", "")
        if master and runs_at != master:
            raise CallerError(
                f"Spark already runs in this process at {runs_at}, so this job cannot run at "
                f"{master}; use a new process"
            )
        return running
    given = submitted()
    # The caller's choice comes first, then the environment's, then spark-submit's.
    place = master or os.environ.get("SPARK_MASTER") or given.get("spark.master", "") or LOCAL
    if starting is not None:
        starting(place)
    own = dict(settings or {})
    own.setdefault("spark.ui.showConsoleProgress", str(sys.stderr.isatty()).lower())
    # Packages are brought along unless spark-submit was given some already.
    if not is_on_this_machine(place) and "spark.archives" not in given:
        own = {**_brought_along(also), **own}
    return session(name, master=place, settings=own)


def _brought_along(also: Sequence[str]) -> dict[str, str]:
    """Settings with which executors are given PocketMQ, from a folder that lasts as long as this
    process."""
    folder = Path(tempfile.mkdtemp(prefix="pocketmq-spark-"))
    # Executors fetch the folder's files from this process until it ends.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return package(folder, also).settings


@contextmanager
def plain_errors() -> Iterator[None]:
    """Errors of Spark in the block are told in one line, the PocketMQ error inside them first.

    Raises:
        PocketMQError: That error, or `JobError`.
    """
    try:
        yield
    except Exception as exc:
        found = told_by_spark(exc)
        # An error of PocketMQ's own is raised as it is, with its traceback.
        if found is exc:
            raise
        raise found from exc


# -- sources --------------------------------------------------------------------------------------


def messages(
    spark: SparkSession,
    source: str,
    *,
    columns: Sequence[str],
    topics: Sequence[str] = (),
    nameservers: str = "",
) -> DataFrame:
    """The messages of a source as a data frame; nothing is read yet.

    Args:
        spark: The session.
        source: `store:DIR` (several separated by commas), `parquet:DIR`, `delta:TABLE`,
            `iceberg:DIR/NAMESPACE.NAME` or `topic:NAME`; a text without a kind is a store if there
            is such a folder, else a topic.
        columns: Those of the data sources that the job needs.
        topics: Only these; see `chosen_topics`.
        nameservers: For topics.

    Raises:
        CallerError: There is no such source, it has other topics, or the table lacks a column.
        MissingToolError: What reads the table is not installed.
    """
    kind, where = kind_of(source)
    topics = chosen_topics(source, topics)
    if kind == "topic":
        options = {"nameServer": nameservers or "127.0.0.1:9876", "topic": where}
        return spark.read.format("pocketmq").options(**options, columns=",".join(columns)).load()
    if kind == "store":
        options = store_options(where.split(","), topics)
        read = spark.read.format("pocketmq-store").options(**options, columns=",".join(columns))
        return read.load()
    table = _table(spark, kind, where)
    # Checked here: Spark's error would name its own column and not the file.
    for name in (*columns, *(["topic"] if topics else [])):
        if name not in table.columns:
            raise CallerError(
                f"{where}: the table has no column {name!r}; export the table "
                "again with this column"
            )
    if topics:
        table = table.where(table["topic"].isin(list(topics)))
    return table.select(*columns)


def kind_of(source: str) -> tuple[str, str]:
    """One of `KINDS`, and what follows it."""
    kind, colon, where = source.partition(":")
    # A path may contain a colon too, so only known kinds count as a prefix.
    if colon and kind in KINDS:
        return kind, where
    return ("store" if Path(source).expanduser().is_dir() else "topic"), source


def chosen_topics(source: str, topics: Sequence[str]) -> list[str]:
    """The topics that are read of a source; none if it is all that it has.

    Raises:
        CallerError: The source is topics itself, and these are others.
    """
    kind, where = kind_of(source)
    if kind != "topic":
        return list(topics)
    named = [name.strip() for name in where.split(",") if name.strip()]
    # Else they would be ignored without a word.
    if topics and set(topics) != set(named):
        raise CallerError(
            f"{source!r} already names the topics to read; leave out {', '.join(topics)}"
        )
    return named


def store_options(paths: Sequence[str], topics: Sequence[str] = ()) -> dict[str, str]:
    """Options of `pocketmq-store` for these directories, and for brokers' names.

    Raises:
        OptionError: One is no store.
    """
    from pocketmq.pipeline.stores.store_roots import roots_of_job

    roots = roots_of_job(paths)
    options = {
        "path": ",".join(str(root.path) for root in roots),
        "brokerName": ",".join(root.broker_name for root in roots),
        "topic": ",".join(topics),
    }
    return {name: value for name, value in options.items() if value}


def _table(spark: SparkSession, kind: str, where: str) -> DataFrame:
    """Delta and Iceberg have no jars here: their libraries say which Parquet files a table has."""
    if kind == "delta":
        from pocketmq.pipeline.lake.delta import check_deltalake

        check_deltalake()
        from deltalake import DeltaTable

        return _files(spark, _delta_files(DeltaTable(where)))
    if kind == "iceberg":
        from pocketmq.pipeline.lake import IcebergTarget

        folder, _, name = where.rpartition("/")
        table: Any = IcebergTarget.local(folder, name).catalog.load_table(name)
        return _files(spark, [task.file.file_path for task in table.scan().plan_files()])
    if "://" not in where and not Path(where).exists():
        raise CallerError(f"there is no table {where!r}")
    return spark.read.parquet(where)


def _delta_files(table: DeltaTable) -> list[str]:
    """Paths as Spark takes them; addresses are left as they are."""
    # A local table's files begin with its path as in an address, without the scheme. Behind that
    # they are called as on the disk, where a partition's value may have `%` too.
    root = table.table_uri.removeprefix("file://")
    return [
        uri if "://" in uri else unquote(root) + uri.removeprefix(root) for uri in table.file_uris()
    ]


def _files(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    # A table without files has no schema that Spark could find.
    if paths:
        return spark.read.parquet(*paths)
    from pocketmq.pipeline.options.schema import MESSAGE, ddl

    return spark.createDataFrame([], ddl(MESSAGE))
