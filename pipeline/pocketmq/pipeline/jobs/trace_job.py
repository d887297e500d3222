"""One key's or one message's life in stores and tables: `pocketmq pipeline trace`.

    trace("order-17", ["store:cluster/broker-a", "store:cluster/broker-b"])

A message that is retried, becomes a dead letter or is replayed is stored again, each time under
another topic with the same UNIQ_KEY. A trace reads them all and puts them in the order of time.
From stores it also tells how far each group is in the queues that have the message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pocketmq.pipeline.installed import check_arrow
from pocketmq.pipeline.jobs.queue_rows import Source
from pocketmq.pipeline.jobs.replay_rows import FROM as REPLAY_FROM
from pocketmq.pipeline.jobs.sources import StoreSource, source_of
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.validation import is_dlq, is_retry, is_system_topic

COLUMNS: Final = (
    *("topic", "brokerName", "queueId", "queueOffset", "keys", "tags", "sysFlag"),
    *("bornTimestamp", "storeTimestamp", "uniqKey", "offsetMsgId", "reconsumeTimes"),
    *("properties", "physicalOffset"),
)
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"

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
    on_batch: Callable[[int], None] | None = None,
) -> list[Step]:
    """The steps of all messages that have this key, UNIQ_KEY or offset id, message by message.

    Args:
        wanted: A key, or a message id of either kind.
        sources: As `source_of` takes them; they are read completely, and where an offset id is
            wanted twice.
        nameservers: For topics.
        on_batch: Told how many messages were read.

    Raises:
        CallerError: There is no such source.
        MissingToolError: PyArrow, NumPy or what reads such a table is not installed.
    """
    check_arrow("trace")
    found = [source_of(source, nameservers=nameservers) for source in sources]
    rows = _search(found, {wanted}, by_key=True, on_batch=on_batch)
    ids = {name for row in rows for name in _ids(row)} - {wanted}
    if any(row["uniqKey"] != wanted and wanted not in _words(row) for row in rows):
        rows = _search(found, ids | {wanted}, by_key=False, on_batch=on_batch)
    steps = [_step(row) for row in _once(rows)]
    stored = {(step.broker, step.topic, step.queue_id, step.offset): step for step in steps}
    steps += _progress(found, stored)
    first = {step.message: step.time_ms for step in reversed(steps)}
    for step in steps:
        first[step.message] = min(first[step.message], step.time_ms)
    return sorted(steps, key=lambda step: (first[step.message], step.message, step.time_ms))


def _search(
    sources: Iterable[Source],
    wanted: set[str],
    *,
    by_key: bool,
    on_batch: Callable[[int], None] | None,
) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    ids = pa.array(sorted(wanted), pa.string())
    found: list[dict[str, Any]] = []
    read = 0
    for source in sources:
        for batch in source.batches(COLUMNS):
            read += len(batch)
            keep = pc.or_(
                pc.is_in(batch.column("uniqKey"), ids), pc.is_in(batch.column("offsetMsgId"), ids)
            )
            for name in _ORIGINS:
                origin = pc.map_lookup(batch.column("properties"), name, "first")
                keep = pc.or_(keep, pc.is_in(origin, ids))
            if by_key:
                for word in wanted:
                    has = pc.match_substring(batch.column("keys"), word)
                    keep = pc.or_(keep, pc.fill_null(has, False))
            for row in batch.filter(keep).to_pylist():
                row["properties"] = dict(row["properties"] or ())
                if not wanted.isdisjoint((*_ids(row), *(_words(row) if by_key else ()))):
                    found.append(row)
            if on_batch is not None:
                on_batch(read)
    return found


def _ids(row: dict[str, Any]) -> list[str]:
    ids = [row["uniqKey"], row["offsetMsgId"], *(row["properties"].get(name) for name in _ORIGINS)]
    return [name for name in ids if name]


def _words(row: dict[str, Any]) -> list[str]:
    return (row["keys"] or "").split(names.KEY_SEPARATOR)


def _once(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Each stored message once: a master's and a slave's store have the same."""
    seen = set()
    for row in rows:
        place = row["offsetMsgId"], row["topic"], row["queueId"], row["queueOffset"]
        if place not in seen:
            seen.add(place)
            yield row


def _step(row: dict[str, Any]) -> Step:
    topic, properties = row["topic"], row["properties"]
    message = row["uniqKey"] or next(
        (properties[name] for name in _ORIGINS if name in properties), row["offsetMsgId"]
    )
    what, group = _told(topic, row["reconsumeTimes"], properties)
    return Step(
        message,
        round(row["storeTimestamp"].timestamp() * 1000),
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


def _progress(
    sources: Iterable[Source], stored: dict[tuple[str, str, int, int], Step]
) -> Iterator[Step]:
    """How far each group is in the queues with the message, when the store was last written."""
    from pathlib import Path

    from pocketmq.pipeline.jobs.commit_samples import samples_of_store

    for source in sources:
        if not isinstance(source, StoreSource):
            continue
        for root in source.roots:
            samples = list(samples_of_store(Path(str(root.path)), root.broker_name))
            for sample in samples[-1:]:
                for name, offsets in sorted(sample.offsets.items()):
                    topic, _, group = name.partition("@")
                    for step in stored.values():
                        at = offsets.get(step.queue_id)
                        if (step.broker, step.topic) != (root.broker_name, topic) or at is None:
                            continue
                        is_done = at > step.offset
                        what = "has committed it" if is_done else "has not committed it"
                        yield Step(
                            step.message,
                            sample.time_ms,
                            f"{what}, is at offset {at}",
                            topic,
                            step.broker,
                            step.queue_id,
                            step.offset,
                            group,
                            step.keys,
                        )
