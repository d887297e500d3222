"""The messages of a replay: read in the order of their store times, and as they are sent again.

Spark reads, sorts and makes them; the names and the queues are RocketMQ's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pocketmq.pipeline.jobs.on_spark import kind_of, messages, plain_errors
from pocketmq.pipeline.jobs.queue_spans import NO_PLACE, PLACE, QueueSpan
from pocketmq.pipeline.options.offsets import to_json
from pocketmq.pipeline.progress.checkpoint import Mark
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageQueue

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FROM: Final = "REPLAY_FROM"
BORN_MS: Final = "REPLAY_BORN_MS"
STORE_MS: Final = "REPLAY_STORE_MS"
QUEUE: Final = ("topic", "brokerName", "queueId")
COLUMNS: Final = (
    *(*QUEUE, "queueOffset", "body", "flag"),
    *("bornTimestamp", "storeTimestamp", "properties"),
)

ROWS_AT_ONCE: Final = 2_000
"""About so many come to this process at once, for they have to fit in the memory of its JVM several
times over: with 1 GB, 10,000 messages of 4 KB did not."""

_KEPT: Final = frozenset({names.KEYS, names.TAGS, names.SHARDING_KEY, names.UNIQ_KEY})
_LEFT_OUT: Final = (names.RESERVED - _KEPT) | {FROM, BORN_MS, STORE_MS, names.WAIT}
_PARTS: Final = "topic string, brokerName string, queueId int, low bigint, high bigint"


class Row(NamedTuple):
    """One message, as it is sent."""

    stored_ms: int
    """Of it or of an earlier one of its queue, whose broker's clock was set back since."""
    queue: MessageQueue
    """It was in."""
    offset: int
    body: bytes
    flag: int
    properties: Mapping[str, str]
    key: str
    """Decides the queue: messages with the same one keep their order."""
    mark: Mark
    """Tells it from another message at the offset; of its own store time."""
    was_sent: bool
    """Whether the target has it, of a replay that was killed."""


def read_parts(
    spark: SparkSession, source: str, queues: Sequence[QueueSpan], *, nameservers: str
) -> DataFrame:
    """The messages of these parts of a source's queues, as they are sent again.

    Args:
        spark: Where it is read.
        source: As `messages` takes it.
        queues: Which offsets.
        nameservers: For topics.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    kind, _ = kind_of(source)
    if kind == "topic":
        read = spark.read.format("pocketmq").options(
            nameServer=nameservers,
            # Only the queues with something to read, as planned before.
            assign=json.dumps(_assignment(each.queue for each in queues)),
            startingOffsets=to_json({each.queue: each.low for each in queues}),
            endingOffsets=to_json({each.queue: each.high for each in queues}),
            columns=",".join((*COLUMNS, PLACE)),
        )
        rows = read.load()
    else:
        columns = (*COLUMNS, PLACE) if kind == "store" else COLUMNS
        topics = sorted({each.queue.topic for each in queues})
        rows = messages(spark, source, columns=columns, topics=topics)
    # Tables are read without the place, so their marks have the store time alone.
    if PLACE not in rows.columns:
        rows = rows.withColumn(PLACE, f.lit(NO_PLACE))
    parts = spark.createDataFrame(
        [
            (each.queue.topic, each.queue.broker_name, each.queue.queue_id, each.low, each.high)
            for each in queues
        ],
        _PARTS,
    )
    of_queue = Window.partitionBy(*QUEUE).orderBy("queueOffset")
    stored = f.unix_millis("storeTimestamp")
    return (
        # A join with the queues' bounds: a filter of thousands of queues would be too long.
        rows.join(f.broadcast(parts), list(QUEUE))
        .where("queueOffset >= low and queueOffset < high")
        .select(
            # A broker's clock may have been set back: the order of the queue counts.
            f.max(stored).over(of_queue).alias("latest"),
            *(*QUEUE, "queueOffset", f.ifnull("body", f.lit(b"")).alias("body"), "flag"),
            _properties().alias("properties"),
            _key().alias("key"),
            *(stored.alias("stored"), f.col(PLACE), _place().alias("place")),
        )
    )


def _assignment(queues: Iterable[MessageQueue]) -> dict[str, dict[str, list[int]]]:
    found: dict[str, dict[str, list[int]]] = {}
    for queue in queues:
        found.setdefault(queue.topic, {}).setdefault(queue.broker_name, []).append(queue.queue_id)
    return found


def marked_as_sent(rows: DataFrame, target: DataFrame) -> DataFrame:
    """The same with column `wasSent`.

    Args:
        rows: Of `read_parts`.
        target: Properties of what the target has. A row was sent if one has its place and its
            store time, since a topic made anew has the same places.
    """
    from pyspark.sql import functions as f

    sent = target.select(
        f.col("properties")[FROM].alias("place"),
        f.col("properties")[STORE_MS].try_cast("bigint").alias("stored"),
        f.lit(True).alias("wasSent"),
    ).dropDuplicates()
    # Without `dropDuplicates` above, a message that was sent twice would double its row.
    return rows.join(sent, ["place", "stored"], "left")


def in_order(rows: DataFrame, count: int) -> Iterator[Row]:
    """Rows by store time; those of a queue stay in its order.

    Args:
        rows: Of `read_parts`.
        count: How many there are, about.
    """
    has_sent = "wasSent" in rows.columns
    with plain_errors():
        # Brought to the driver part by part, so that a replay may exceed its memory.
        for row in in_parts(rows, count).toLocalIterator():
            yield Row(
                row.latest,
                MessageQueue(row.topic, row.brokerName, row.queueId),
                row.queueOffset,
                bytes(row.body),
                row.flag,
                row.properties,
                row.key,
                Mark(row.stored, row[PLACE]),
                bool(has_sent and row.wasSent),
            )


def in_parts(rows: DataFrame, count: int) -> DataFrame:
    """The rows sorted, in partitions that follow each other and are small enough to be fetched.

    `orderBy` makes as many as a shuffle does otherwise, however many rows there are.
    """
    order = ("latest", *QUEUE, "queueOffset")
    return rows.repartitionByRange(partitions(count), *order).sortWithinPartitions(*order)


def partitions(count: int) -> int:
    """Into how many of them so many rows are parted."""
    return max(1, -(-count // ROWS_AT_ONCE))


def _given() -> Column:
    from pyspark.sql import functions as f

    return f.ifnull("properties", f.from_json(f.lit("{}"), "map<string,string>"))


def _key() -> Column:
    """The sharding key, else the first of KEYS, else the queue."""
    from pyspark.sql import functions as f

    # The first key alone: with all keys hardly any two messages would share a queue.
    first = f.substring_index(_given()[names.KEYS], names.KEY_SEPARATOR, 1)
    return f.coalesce(
        f.nullif(_given()[names.SHARDING_KEY], f.lit("")),
        f.nullif(first, f.lit("")),
        f.concat_ws("/", "topic", "brokerName", f.col("queueId").cast("string")),
    )


def _place() -> Column:
    """Where the message was; the value of REPLAY_FROM."""
    from pyspark.sql import functions as f

    numbers = (f.col(name).cast("string") for name in ("queueId", "queueOffset"))
    return f.concat_ws("/", "topic", "brokerName", *numbers)


def _properties() -> Column:
    """Those that it is sent with."""
    from pyspark.sql import functions as f

    def is_producers(name: Column, _: Any) -> Column:
        # Properties that a broker sets itself are dropped: it would refuse them, or they would name
        # the old place.
        return ~name.isin(sorted(_LEFT_OUT))

    added = {
        FROM: _place(),
        BORN_MS: f.unix_millis("bornTimestamp").cast("string"),
        STORE_MS: f.unix_millis("storeTimestamp").cast("string"),
        # As a plain producer sends it: the broker may then wait for its disk before it answers.
        names.WAIT: f.lit("true"),
    }
    pairs = [each for name, value in added.items() for each in (f.lit(name), value)]
    return f.map_concat(f.map_filter(_given(), is_producers), f.create_map(*pairs))
