"""Bodies of topics into tables by their schemas, and those that do not fit into a table of their
own: `pocketmq pipeline schema`.

    schema("store:cluster/broker-a", "schemas.json", "tables", topics=["orders"])

Spark reads, decodes and writes. Each topic becomes a folder `topics/<topic>` of Parquet with the
place of each message (topic, broker, queue, offset, keys, store time), and a column for each field
of its schema: texts, numbers and truth values as such, everything else as JSON text. Folder `bad`
has the place, the reason and the body of what could not be decoded.

With `envelope` bodies are change events of a database (`envelopes.py`): a row for each change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from pocketmq.pipeline.installed import check_installed
from pocketmq.pipeline.jobs.on_spark import (
    Starting,
    chosen_topics,
    job_session,
    messages,
    plain_errors,
)
from pocketmq.pipeline.jobs.schemas.decoded import Decoded
from pocketmq.pipeline.jobs.schemas.registry import KnownVersions, Registry, registry_of
from pocketmq.pipeline.lake.hadoop_folder import HadoopFolder
from pocketmq.pipeline.spark.session import check_spark
from pocketmq.protocol.messages.validation import is_dlq, is_retry, is_system_topic
from pocketmq.runtime.errors import CallerError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OF_BODIES: Final = ("fastavro", "jsonschema", "jsonschema-rs", "protobuf", "grpcio-tools")
"""Packages with which executors decode bodies."""
MOST_REASONS: Final = 100
"""So many of the most frequent are told: those of hostile bodies may all differ."""
TIMES: Final = "spark.sql.parquet.outputTimestampType"
TOPICS: Final = "topics"
BAD_ROWS: Final = "bad"


def schema(
    source: str,
    registry: str | Registry,
    out: str | Path,
    *,
    topics: Sequence[str] = (),
    framed: bool = False,
    envelope: bool = False,
    keys: Sequence[str] = (),
    nameservers: str = "",
    master: str = "",
    starting: Starting | None = None,
) -> Decoded:
    """Decode all messages of a source.

    Args:
        source: As `messages` takes it.
        registry: A file, an address, or a registry, which is sent to executors; empty for change
            events in plain JSON.
        out: Folder for the tables, which must be empty or not be there; any address that Spark can
            write to.
        topics: Only these; else all but retries, dead letters and system topics.
        framed: Whether bodies begin with the id of their schema (Confluent's wire format).
        envelope: Whether they are change events.
        keys: Columns of the primary key, for change events that do not say it.
        nameservers: For topics.
        master: Where Spark runs; two cores of this machine if nothing else is said. Executors of a
            cluster write the tables, so a folder must be the same on all machines.
        starting: Told where Spark runs before it is started.

    Raises:
        CallerError: The source has other topics, one has no schema, the folder is not empty, or
            it is not the same on all machines that write into it.
        RegistryError: The registry does not answer.
        MissingToolError: PySpark, Java 17, or what reads the bodies or the source is not installed.
        JobError: Spark has failed.
    """
    check_spark()
    check_installed("schema", "schema", "pyarrow", "numpy")
    from pyspark import StorageLevel
    from pyspark.sql.pandas.types import from_arrow_schema

    from pocketmq.pipeline.jobs.schemas.body_rows import COLUMNS, JUDGED, BodyJudge

    known = registry_of(registry) if isinstance(registry, str) and registry else registry
    # Only change events describe themselves.
    if not known and not envelope:
        raise CallerError("name a registry of schemas, or set envelope to read change events")
    chosen = chosen_topics(source, topics)

    def judge_of(names: Sequence[str]) -> BodyJudge:
        fixed = KnownVersions.of(known, names) if known else None
        judge = BodyJudge(fixed, framed, envelope, tuple(keys))
        for topic in names:
            _check_name(topic)
            judge.of_topic(topic)
        return judge

    # What is wrong with schemas is told before Spark starts, which takes seconds.
    judge = judge_of(chosen)
    spark = job_session("schema", master=master, also=list(_packages()), starting=starting)
    with plain_errors():
        folder = HadoopFolder(spark, str(out))
        # Files of two runs would mix.
        if folder.names():
            raise CallerError(f"the folder {out} is not empty; name another folder")
        if not chosen:
            chosen = _topics_of(spark, source)
            judge = judge_of(chosen)
        if not chosen:
            return Decoded()
        rows = messages(spark, source, columns=COLUMNS, topics=chosen, nameservers=nameservers)
        judged = rows.mapInArrow(judge, from_arrow_schema(JUDGED))
        # On disks, and not judged again for each table. Bodies would fill the memory.
        judged = judged.persist(StorageLevel.DISK_ONLY)
        written_as = spark.conf.get(TIMES) or "INT96"
        # By default Spark writes nanoseconds, which end in 2262: a change's time may be any.
        spark.conf.set(TIMES, "TIMESTAMP_MICROS")
        try:
            return _written(judged, str(out), folder)
        finally:
            judged.unpersist()
            spark.conf.set(TIMES, written_as)


def _topics_of(spark: SparkSession, source: str) -> list[str]:
    """Those that a source has messages of, without the internal ones, which have no schema."""
    found = messages(spark, source, columns=["topic"]).distinct().collect()
    names = sorted(row.topic for row in found)
    return [name for name in names if not (is_retry(name) or is_dlq(name) or is_system_topic(name))]


def _check_name(topic: str) -> None:
    """Check that a topic can name a folder.

    Raises:
        CallerError: A table calls something so that is no topic of a broker.
    """
    if "/" in topic or topic in ("", ".", ".."):
        raise CallerError(f"{topic!r} is no topic's name")


# -- tables ---------------------------------------------------------------------------------------


def _written(judged: DataFrame, out: str, folder: HadoopFolder) -> Decoded:
    """What the tables got; see `body_rows.JUDGED` for the columns."""
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import from_arrow_schema

    from pocketmq.pipeline.jobs.schemas.body_rows import Opened
    from pocketmq.pipeline.jobs.schemas.columns import BAD, PLACE

    done = Decoded()
    is_bad = f.col("reason").isNotNull()
    sums = judged.groupBy("topic", "message", "columns").agg(
        f.sum("count").alias("rows"), f.count_if(is_bad).alias("bad"), f.count("*").alias("bodies")
    )
    shapes: dict[tuple[str, str], list[tuple[bytes, int]]] = {}
    for row in sums.collect():
        done.rows += row.rows
        done.bad += row.bad
        if row.message is None:
            done.empty += row.bodies - row.bad
        else:
            shape = bytes(row["columns"]), row.rows
            shapes.setdefault((row.topic, row.message), []).append(shape)
    for (topic, message), found in sorted(shapes.items()):
        of_table = judged.where((f.col("topic") == topic) & (f.col("message") == message))
        for number, (columns, count) in enumerate(sorted(found)):
            name = f"{TOPICS}/{table_name(topic, message, number)}"
            opened = Opened(columns)
            rows = of_table.where(f.col("columns") == f.lit(columns))
            rows = rows.select(*PLACE.names, "rows")
            rows = rows.mapInArrow(opened, from_arrow_schema(opened.schema))
            rows.write.parquet(f"{out}/{name}")
            folder.make_lasting(name)
            folder.check_written(name, "parquet", count)
            done.tables.append(name)
    if done.bad:
        judged.where(is_bad).select(*BAD.names).write.parquet(f"{out}/{BAD_ROWS}")
        folder.make_lasting(BAD_ROWS)
        folder.check_written(BAD_ROWS, "parquet", done.bad)
        done.tables.append(BAD_ROWS)
        # Only up to the first colon: what follows may quote the body.
        short = f.substring(f.split("reason", ":")[0], 1, 80).alias("short")
        counts = judged.where(is_bad).groupBy(short).agg(f.count("*").alias("bodies"))
        most = counts.orderBy(f.desc("bodies"), "short").limit(MOST_REASONS)
        done.reasons = {row.short: row.bodies for row in most.collect()}
    return done


def table_name(topic: str, message: str, number: int = 0) -> str:
    """The folder of a table; no two have the same, as no topic's name has `~`.

    Args:
        topic: Of its bodies.
        message: Which they are; empty for the topic's own.
        number: Of those that have this name otherwise: a message that none of the topic's versions
            has may have other columns in each of its own.
    """
    # A type's name may have anything in it, as no rule of Avro's is checked.
    # `quote` leaves `~`, which would then be any message's number.
    quoted = quote(message, safe="").replace("~", "%7E")
    name = f"{topic}~{quoted}" if message else topic
    return f"{name}~{number + 1}" if number else name


def _packages() -> Iterator[str]:
    """What decodes bodies and is installed here; what is missing is said where it is needed."""
    for name in OF_BODIES:
        with suppress(PackageNotFoundError):
            yield distribution(name).name
