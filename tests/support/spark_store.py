"""Stores to be read by `pocketmq-store`, made by the broker's own store code; and their rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pocketmq.broker.store import MessageStore, OsDisk, StoreConfig, StoredMessage
from pocketmq.pipeline.spark.source import TopicReader
from pocketmq.pipeline.spark.store_queue_stream import StoreQueueReader
from pocketmq.pipeline.spark.store_source import StoreReader
from pocketmq.pipeline.spark.store_stream import StoreStreamReader
from pocketmq.pipeline.stores.store_read import StoreSettings
from pocketmq.protocol.compression import CompressionKind, compress
from pocketmq.protocol.hosts import pack_host
from pocketmq.protocol.messages.ids import UniqKeyFactory
from pocketmq.protocol.messages.message import Message, MessageExt
from pocketmq.protocol.messages.subscription import tags_code
from pocketmq.protocol.stored.record import decode_records
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import PROFILE_5_X

START_MS = 1_700_000_000_000
MESSAGES = 700
"""So many are in the store that tests share (tests/pipeline/conftest.py)."""

_HOST = pack_host("127.0.0.1", 10911)
_new_key = UniqKeyFactory("127.0.0.1", 4711, lambda: START_MS)


def stored(
    body: bytes = b"hello",
    *,
    topic: str = "T",
    queue_id: int = 0,
    tags: str | None = None,
    keys: str | None = None,
    packed: bool = False,
    properties: Mapping[str, str] | None = None,
) -> StoredMessage:
    """A message as a broker stores it."""
    message = Message(topic, body, tags=tags, keys=keys, properties=properties)
    uniq_key = message.properties.setdefault("UNIQ_KEY", _new_key())
    sys_flag = CompressionKind.ZLIB.sys_flag if packed else 0
    return StoredMessage(
        topic=topic,
        queue_id=queue_id,
        body=compress(body) if packed else body,
        properties=message.properties_text().encode(),
        flag=0,
        sys_flag=sys_flag,
        born_timestamp_ms=START_MS - 5,
        born_host=_HOST,
        store_host=_HOST,
        tags_code=tags_code(tags),
        keys=keys,
        uniq_key=uniq_key,
    )


@contextmanager
def open_store(
    root: Path, clock: ManualClock | None = None, **options: Any
) -> Iterator[MessageStore]:
    """A store with small files, so that they roll."""
    defaults = {
        "mapped_file_size_commit_log": 64 * 1024,
        "mapped_file_size_consume_queue": 100 * 20,
        "max_hash_slot_num": 100,
        "max_index_num": 400,
    }
    config = StoreConfig(store_path_root_dir=str(root), **{**defaults, **options})
    store = MessageStore(config, OsDisk(), clock or ManualClock(START_MS), PROFILE_5_X.broker)
    store.load()
    try:
        yield store
    finally:
        store.close_files()


def put(store: MessageStore, messages: Sequence[StoredMessage]) -> None:
    """Store them one by one, as independent messages."""
    for result in store.put_messages(messages):
        assert result.status.name == "PUT_OK", result


def mixed(
    count: int, *, topics: Sequence[str] = ("T", "U"), queues: int = 3
) -> list[StoredMessage]:
    """Messages of several topics and queues with bodies, tags and keys of all kinds."""
    return [
        stored(
            f"body {number} ".encode() * (number % 40 + 1),
            topic=topics[number % len(topics)],
            queue_id=number % queues,
            tags=[None, "TagA", "TagB", "Aa", "BB"][number % 5],
            keys=None if number % 3 else f"key-{number} other",
            packed=number % 7 == 0,
        )
        for number in range(count)
    ]


def pulled(store: MessageStore) -> list[MessageExt]:
    """Every message of every queue as a consumer would get it, in the log's order."""
    found: list[MessageExt] = []
    for topic, queue_id in store.reads.queues():
        at = store.reads.min_offset(topic, queue_id)
        while at < store.reads.max_offset(topic, queue_id):
            result = store.reads.get_message(topic, queue_id, at, 32, max_bytes=1 << 20)
            for view in result.records:
                found += decode_records(bytes(view))
            assert result.next_begin_offset > at
            at = result.next_begin_offset
    return sorted(found, key=lambda message: message.commit_log_offset)


def row_of(message: MessageExt, broker_name: str) -> dict[str, Any]:
    """The row that a message should make."""
    return {
        "topic": message.topic,
        "brokerName": broker_name,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "body": message.body,
        "keys": message.keys,
        "tags": message.tags,
        "bornTimestamp": message.born_timestamp_ms,
        "storeTimestamp": message.store_timestamp_ms,
        "flag": message.flag,
        "sysFlag": message.sys_flag,
        "properties": message.properties,
        "msgId": message.msg_id,
        "uniqKey": message.uniq_key,
        "reconsumeTimes": message.reconsume_times,
        "physicalOffset": message.commit_log_offset,
        "offsetMsgId": message.offset_msg_id,
        "bornHost": message.born_host,
        "storeHost": message.store_host,
    }


def plain(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Arrow's rows with times in epoch ms and maps as dicts."""
    made = []
    for row in rows:
        flat = dict(row)
        for name in ("bornTimestamp", "storeTimestamp"):
            if name in flat:
                flat[name] = round(flat[name].timestamp() * 1000)
        if "properties" in flat:
            flat["properties"] = dict(flat["properties"])
        made.append(flat)
    return made


def as_java_says(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row under the names of `DumpTopics`, as far as that tells them."""
    same = (
        *("topic", "queueId", "queueOffset", "properties", "bornTimestamp", "storeTimestamp"),
        *("flag", "reconsumeTimes", "msgId"),
    )
    return {
        **{name: row[name] for name in same},
        "commitLogOffset": row["physicalOffset"],
        "bodySize": len(row["body"]),
    }


def planned(filters: Sequence[Any] = (), **options: str) -> tuple[StoreReader, list[Any]]:
    """A reader and its partitions, without Spark."""
    settings = StoreSettings(options)
    reader = StoreReader(settings, settings.columns)
    if filters:
        reader.pushFilters(list(filters))
    return reader, reader.partitions()


def read_rows(
    reader: StoreQueueReader | StoreReader | StoreStreamReader | TopicReader,
    partitions: Sequence[Any],
) -> list[dict[str, Any]]:
    """The rows of these partitions, in their order."""
    rows: list[dict[str, Any]] = []
    for partition in partitions:
        for batch in reader.read(partition):
            batch.validate(full=True)
            rows += plain(batch.to_pylist())
    return rows


def rows(filters: Sequence[Any] = (), **options: str) -> list[dict[str, Any]]:
    """Plan and read at once."""
    return read_rows(*planned(filters, **options))


def by_place(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """In the order of the log."""
    return sorted(rows, key=lambda row: row["physicalOffset"])


def log_files(root: Path) -> list[Path]:
    """The files of a store's log, oldest first."""
    return sorted((root / "commitlog").iterdir())
