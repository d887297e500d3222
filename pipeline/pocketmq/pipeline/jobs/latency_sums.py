"""What `latency` finds: sums, percentiles and the most frequent keys, all by Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pocketmq.pipeline.jobs.commit_samples import CommitSamples
from pocketmq.pipeline.jobs.latency_rows import (
    BORN_TO_STORE,
    STORE_TO_COMMIT,
    GroupRow,
    KeyRow,
    Latencies,
    LatencyRow,
    QueueRow,
)
from pocketmq.protocol.messages.properties import KEY_SEPARATOR
from pocketmq.protocol.messages.validation import (
    dlq_topic,
    is_dlq,
    is_retry,
    is_system_topic,
    retry_topic,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS: Final = (
    *("topic", "brokerName", "queueId", "queueOffset", "keys"),
    *("bornTimestamp", "storeTimestamp"),
)
MINUTE_MS: Final = 60_000
MOST_HOT_KEYS: Final = 10
SHARES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}

_SPAN: Final = (
    "ofBroker string, ofTopic string, ofQueue int, group string, low bigint, high bigint, "
    "before bigint, committed bigint"
)


def latency_of(messages: DataFrame, samples: CommitSamples) -> Latencies:
    """The result of `latency` from a data frame with `COLUMNS`."""
    from pyspark.sql import functions as f

    rows = messages.select(
        *COLUMNS[:5],
        f.unix_millis("bornTimestamp").alias("born"),
        f.unix_millis("storeTimestamp").alias("stored"),
    ).persist()  # read once, though several queries use it
    try:
        queues = (
            rows.groupBy("topic", "brokerName", "queueId")
            .agg(f.count("*").alias("messages"), f.count_if(f.expr("stored < born")).alias("ahead"))
            .collect()
        )
        counts = {(row.topic, row.brokerName, row.queueId): row.messages for row in queues}
        # Retries and delayed messages are left out: they would count as slow.
        topics = sorted({row.topic for row in queues if _is_ordinary(row.topic)})
        ordinary = rows.where(f.col("topic").isin(topics))
        committed = _with_commits(ordinary, samples)
        by_group = {
            row.group: row
            for row in committed.groupBy("group")
            .agg(
                f.count_if(f.col("committed").isNull()).alias("pending"),
                f.count_if(f.expr("committed is not null and before is null")).alias("earlier"),
            )
            .collect()
        }
        return Latencies(
            messages=sum(counts.values()),
            clock_ahead=sum(row.ahead for row in queues if row.topic in topics),
            committed_before=sum(row.earlier for row in by_group.values()),
            rows=_latency_rows(ordinary, committed),
            queues=queue_rows(counts),
            keys=_key_rows(ordinary),
            groups=group_rows(
                counts, samples, {name: row.pending for name, row in by_group.items()}
            ),
        )
    finally:
        rows.unpersist()


def _with_commits(ordinary: DataFrame, samples: CommitSamples) -> DataFrame:
    """Each message for each group of its queue, with the look that found it committed."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    # The spans of a group in a queue follow each other from offset 0 on, so in the order of offsets
    # a message's span is the last that began. One sort finds it; a join would compare each message
    # with all spans of its queue, 86,400 a day with one look per second.
    look = f.struct("before", "committed")
    place = ("ofBroker", "ofTopic", "ofQueue", "group")
    spans = _span_frame(ordinary.sparkSession, samples)
    begins = spans.select(*place, f.col("low").alias("at"), look.alias("look"))
    waiting = ordinary.join(
        f.broadcast(spans.select(*place).distinct()),
        (f.col("topic") == f.col("ofTopic"))
        & (f.col("queueId") == f.col("ofQueue"))
        # An empty broker name stands for any broker (see `Span`).
        & f.expr("ofBroker in ('', brokerName)"),
    ).select(*place, f.col("queueOffset").alias("at"), "stored")
    in_order = Window.partitionBy(*place).orderBy("at", f.col("stored").isNotNull())
    return (
        waiting.unionByName(begins, allowMissingColumns=True)
        .withColumn("look", f.last("look", ignorenulls=True).over(in_order))
        .where("stored is not null")
        .select(f.col("ofTopic").alias("topic"), "group", "stored", "look.*")
    )


def _span_frame(spark: SparkSession, samples: CommitSamples) -> DataFrame:
    return spark.createDataFrame(list(map(tuple, samples.spans())), _SPAN)


def _latency_rows(ordinary: DataFrame, committed: DataFrame) -> list[LatencyRow]:
    from pyspark.sql import functions as f

    names = ("measure", "topic", "group", "minute")
    minute = f.expr(f"stored - pmod(stored, {MINUTE_MS})").alias("minute")
    born = ordinary.select(
        f.lit(BORN_TO_STORE).alias("measure"),
        *("topic", f.lit("").alias("group"), minute),
        # A producer's clock that is ahead would give negative times; these are counted separately.
        f.expr("greatest(stored - born, 0)").alias("waited"),
        f.lit(0).cast("bigint").alias("error"),
    )
    # Without a look before it, the time of a commit is unknown.
    commit = committed.where("before is not null").select(
        f.lit(STORE_TO_COMMIT).alias("measure"),
        *("topic", "group", minute),
        f.expr("greatest(committed - stored, 0)").alias("waited"),
        f.expr("least(committed - before, greatest(committed - stored, 0))").alias("error"),
    )
    shares = [
        # `percentile_disc` gives one of the durations, not a value between two of them.
        f.expr(f"percentile_disc({share}) within group (order by waited)")
        .cast("bigint")
        .alias(name)
        for name, share in SHARES.items()
    ]
    found = (
        born.unionByName(commit)
        .groupBy(*names)
        .agg(
            *(f.count("*").alias("messages"), *shares),
            *(f.max("waited").alias("most"), f.max("error").alias("error")),
        )
        .orderBy(*names)
    )
    return [LatencyRow(*row) for row in found.collect()]


def _key_rows(ordinary: DataFrame) -> list[KeyRow]:
    """The most frequent keys of each topic, and their shares; none that is there once."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    of_topic = Window.partitionBy("topic")
    found = (
        ordinary.select("topic", f.explode(f.split("keys", KEY_SEPARATOR)).alias("key"))
        .where("key <> ''")
        .groupBy("topic", "key")
        .agg(f.count("*").alias("times"))
        .select(
            *("topic", "key", "times"),
            (f.col("times") / f.sum("times").over(of_topic)).alias("share"),
            f.row_number().over(of_topic.orderBy(f.desc("times"), "key")).alias("place"),
        )
        # A key that occurs once is no hot key.
        .where(f"place <= {MOST_HOT_KEYS} and times > 1")
        .orderBy("topic", "place")
        .drop("place")
    )
    return [KeyRow(*row) for row in found.collect()]


def group_rows(
    counts: Mapping[tuple[str, str, int], int], samples: CommitSamples, pending: Mapping[str, int]
) -> list[GroupRow]:
    """What each group's messages came to, from the numbers of messages of all queues."""
    sums: dict[str, int] = {}
    for (topic, _, _), count in counts.items():
        sums[topic] = sums.get(topic, 0) + count
    topics = samples.topics_of_groups()
    # The retries also name groups that have no offsets in the samples.
    for topic in sums:
        if is_retry(topic) or is_dlq(topic):
            # Split at the second `%` only: the group's name may have one itself.
            topics.setdefault(topic.split("%", 2)[2], set())
    rows = []
    for group, listed in sorted(topics.items()):
        messages = sum(sums.get(topic, 0) for topic in listed)
        retries, dead = sums.get(retry_topic(group), 0), sums.get(dlq_topic(group), 0)
        # Groups that consume only topics that were not read are left out.
        if messages or retries or dead:
            rows.append(
                GroupRow(
                    group,
                    ",".join(sorted(listed)),
                    messages,
                    retries,
                    dead,
                    retries / messages if messages else 0.0,
                    dead / messages if messages else 0.0,
                    pending.get(group, 0),
                )
            )
    return rows


def queue_rows(counts: Mapping[tuple[str, str, int], int]) -> list[QueueRow]:
    """Messages of each queue of ordinary topics, with their skew."""
    by_topic: dict[str, list[tuple[str, int, int]]] = {}
    for (topic, broker, queue_id), count in counts.items():
        if _is_ordinary(topic):
            by_topic.setdefault(topic, []).append((broker, queue_id, count))
    rows = []
    for topic, listed in sorted(by_topic.items()):
        mean = sum(count for _, _, count in listed) / len(listed)
        rows += [
            QueueRow(topic, broker, queue_id, count, round(count / mean, 3))
            for broker, queue_id, count in sorted(listed)
        ]
    return rows


def _is_ordinary(topic: str) -> bool:
    """Retries and dead letters are stored long after they were born; so are delayed messages."""
    return not (is_retry(topic) or is_dlq(topic) or is_system_topic(topic))
