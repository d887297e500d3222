"""One key's or one message's life in stores and tables: `pocketmq pipeline trace`.

    trace("order-17", ["store:cluster/broker-a", "store:cluster/broker-b"])

A message that is retried, becomes a dead letter or is replayed is stored again, each time under
another topic with the same UNIQ_KEY. Spark finds them all, and a trace has them in the order of
time. From stores it also tells how far each group is in the queues that have the message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from operator import or_
from typing import TYPE_CHECKING, Any, Final

from pocketmq.pipeline.jobs.commit_samples import Sample, samples_of_source
from pocketmq.pipeline.jobs.on_spark import Starting, job_session, messages, plain_errors
from pocketmq.pipeline.jobs.replay_rows import FROM as REPLAY_FROM
from pocketmq.pipeline.spark.session import check_spark
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.validation import is_dlq, is_retry, is_system_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS: Final = (
    *("topic", "brokerName", "queueId", "queueOffset", "physicalOffset", "storeTimestamp"),
    *("keys", "uniqKey", "offsetMsgId", "reconsumeTimes", "properties"),
)
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
MOST_LITERALS: Final = 1000
"""Each id in a condition is calls to the JVM; more than so many are a data frame instead."""

_ORIGINS: Final = (names.ORIGIN_MESSAGE_ID, names.DLQ_ORIGIN_MESSAGE_ID)


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happened to a message."""

    message: str
    """Its UNIQ_KEY, or the offset id of its first copy."""
    time_ms: int
    what: str
    topic: str
    broker: str
    queue_id: int
    offset: int
    group: str
    keys: str


def trace(
    wanted: str,
    sources: Sequence[str],
    *,
    nameservers: str = "",
    master: str = "",
    starting: Starting | None = None,
) -> list[Step]:
    """The steps of all messages that have this key, UNIQ_KEY or offset id, message by message.

    Args:
        wanted: A key, or a message id of either kind.
        sources: As `messages` takes them; they are read completely, and where an offset id is
            wanted twice.
        nameservers: For topics.
        master: Where Spark runs; two cores of this machine if nothing else is said.
        starting: Told where Spark runs before it is started.

    Raises:
        CallerError: There is no such source.
        MissingToolError: PySpark, Java 17 or what reads such a table is not installed.
        JobError: Spark has failed.
    """
    check_spark()
    # Only the newer of each store's two files.
    looks = [list(each)[-1:] for source in sources for each in samples_of_source(source)]
    spark = job_session("trace", master=master, starting=starting)
    with plain_errors():
        every = reduce(
            lambda one, other: one.unionByName(other),
            (
                messages(spark, source, columns=COLUMNS, nameservers=nameservers)
                for source in sources
            ),
        )
        rows = _search(every, {wanted}, key=wanted)
        ids = {name for row in rows for name in _ids(row)} - {wanted}
        # An offset id belongs to one copy: a second search finds the others by their UNIQ_KEY.
        if any(row["uniqKey"] != wanted and wanted not in _words(row) for row in rows):
            rows = _search(every, ids | {wanted})
    rows.sort(key=lambda row: (row["storeMs"], row["physicalOffset"]))
    steps = [_step(row) for row in rows]
    steps += list(_progress(chain.from_iterable(looks), steps))
    first: dict[str, int] = {}
    for step in steps:
        # A message's steps stay together, placed by the time of the first one.
        first[step.message] = min(first.get(step.message, step.time_ms), step.time_ms)
    return sorted(steps, key=lambda step: (first[step.message], step.message, step.time_ms))


def _search(rows: DataFrame, ids: set[str], *, key: str = "") -> list[Mapping[str, Any]]:
    """Messages with one of these ids, or with the key; a master's and a slave's store have the
    same, so each is given once."""
    from pyspark.sql import functions as f

    columns = [f.col("uniqKey"), f.col("offsetMsgId"), *(f.col("properties")[i] for i in _ORIGINS)]
    if len(ids) > MOST_LITERALS and not key:
        # A message gets a row for each of its ids; duplicates are dropped below.
        named = rows.withColumn("id", f.explode(f.array_compact(f.array(*columns))))
        listed = rows.sparkSession.createDataFrame([(name,) for name in ids], "id string")
        found = named.join(f.broadcast(listed), "id", "leftsemi").drop("id")
    else:
        has = reduce(or_, (column.isin(sorted(ids)) for column in columns))
        if key:
            has |= f.array_contains(f.split("keys", names.KEY_SEPARATOR), key)
        found = rows.where(has)
    found = found.withColumn("storeMs", f.unix_millis("storeTimestamp"))
    # A slave has the master's records with the same offset ids.
    once = found.dropDuplicates(["offsetMsgId", "topic", "queueId", "queueOffset"])
    return [
        row.asDict() | {"properties": row.properties or {}}
        for row in once.drop("storeTimestamp").collect()
    ]


def _ids(row: Mapping[str, Any]) -> list[str]:
    ids = [row["uniqKey"], row["offsetMsgId"], *(row["properties"].get(name) for name in _ORIGINS)]
    return [name for name in ids if name]


def _words(row: Mapping[str, Any]) -> list[str]:
    return (row["keys"] or "").split(names.KEY_SEPARATOR)


def _step(row: Mapping[str, Any]) -> Step:
    topic, properties = row["topic"], row["properties"]
    # A copy without a UNIQ_KEY names the offset id of the first copy.
    message = row["uniqKey"] or next(
        (properties[name] for name in _ORIGINS if name in properties), row["offsetMsgId"]
    )
    what, group = _told(topic, row["reconsumeTimes"], properties)
    return Step(
        message,
        row["storeMs"],
        what,
        topic,
        row["brokerName"],
        row["queueId"],
        row["queueOffset"],
        group,
        row["keys"] or "",
    )


def _told(topic: str, retries: int, properties: dict[str, str]) -> tuple[str, str]:
    """What storing it under this topic means, and for which group."""
    real = properties.get(names.REAL_TOPIC, "")
    if is_dlq(topic):
        return f"became a dead letter after {retries} retries", topic.split("%", 2)[2]
    if is_retry(topic):
        return f"was delivered again, retry {retries}", topic.split("%", 2)[2]
    if topic == SCHEDULE_TOPIC:
        level = properties.get(names.DELAY, "?")
        if is_retry(real):
            group = real.split("%", 2)[2]
            return f"was sent back, waits at delay level {level} for retry {retries}", group
        return f"waits at delay level {level} for {real}", ""
    if topic == HALF_TOPIC:
        return f"was stored as a half message of {real}", properties.get(names.PRODUCER_GROUP, "")
    if topic == TIMER_TOPIC:
        return f"waits for its delivery time for {real}", ""
    if is_system_topic(topic):
        return "was stored in a topic of the system", ""
    if REPLAY_FROM in properties:
        return f"was replayed from {properties[REPLAY_FROM]}", ""
    return "was stored", ""


def _progress(looks: Iterable[Sample], steps: Sequence[Step]) -> Iterator[Step]:
    """How far each group is in the queues with the message, when the store was last written."""
    for look in looks:
        for name, offsets in sorted(look.offsets.items()):
            topic, _, group = name.partition("@")
            for step in steps:
                at = offsets.get(step.queue_id)
                # Every broker has the same queue ids, so the broker is compared too.
                if (step.broker, step.topic) != (look.broker, topic) or at is None:
                    continue
                what = "has committed it" if at > step.offset else "has not committed it"
                said = f"{what}, is at offset {at}"
                yield replace(step, time_ms=look.time_ms, what=said, group=group)
