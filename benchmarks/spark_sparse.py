"""Few rows of a large store: `LIMIT 10`, and the one message in a thousand with a key or a tag.

The store's bytes are on disk (no holes), 4 GB by default; `spark.py --only sparse --sparse-mb 9000`
makes more. Seconds are those of later runs, processor seconds those of driver, JVM and workers;
bytes are what tasks read of the log, by `read_counts`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spark_loads import BODY, Figures, consume, median_s, processor_s

from pocketmq.broker.store import MessageStore, OsDisk, StoreConfig, StoredMessage
from pocketmq.pipeline import read_counts
from pocketmq.protocol.hosts import pack_host
from pocketmq.protocol.messages.subscription import tags_code
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.profile import PROFILE_5_X

EVERY = 1000
"""One of so many messages has the key and the tag."""
_RECORD_BYTES = 1200


def sparse_rows(spark: Any, folder: Path, size_mb: int, rounds: int) -> Figures:
    """A store of one topic with eight queues, read for few of its rows."""
    root = folder / "sparse"
    try:
        size = _make(root, size_mb)
        table = spark.read.format("pocketmq-store").option(
            "columns", "queueId,queueOffset,keys,tags,storeTimestamp"
        )
        frame = table.load(str(root))
        figures: Figures = {"MB of the log": size / 1e6}
        works: dict[str, Callable[[], Any]] = {
            "LIMIT 10": lambda: frame.limit(10).collect(),
            "one key in 1000 messages": lambda: consume(frame.where("keys = 'rare'")),
            "one tag in 1000 messages": lambda: consume(frame.where("tags = 'rare'")),
        }
        for name, work in works.items():
            before = _bytes_read(spark)
            work()
            share = (_bytes_read(spark) - before) / size
            used_s = processor_s()
            (seconds,) = median_s(rounds, work)
            figures[f"{name}: seconds"] = seconds
            figures[f"{name}: processor seconds"] = (processor_s() - used_s) / rounds
            figures[f"{name}: percent of the log's bytes read"] = 100 * share
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return figures


def _bytes_read(spark: Any) -> int:
    total = read_counts(spark).where("source = 'pocketmq-store'").selectExpr("sum(bytes)")
    return int(total.first()[0] or 0)


def _make(root: Path, size_mb: int) -> int:
    """Bytes of the log of the store that was made."""
    store = MessageStore(
        StoreConfig(store_path_root_dir=str(root)), OsDisk(), SystemClock(), PROFILE_5_X.broker
    )
    store.load()
    host = pack_host("127.0.0.1", 10911)
    batch = [
        StoredMessage(
            topic="Bench",
            queue_id=number % 8,
            body=BODY,
            properties=b"TAGS\x01rare\x02KEYS\x01rare\x02"
            if number == 500
            else b"TAGS\x01TagA\x02",
            flag=0,
            sys_flag=0,
            born_timestamp_ms=1_700_000_000_000,
            born_host=host,
            store_host=host,
            tags_code=tags_code("rare" if number == 500 else "TagA"),
            keys="rare" if number == 500 else None,
        )
        for number in range(EVERY)
    ]
    for _ in range(size_mb * 1_000_000 // (_RECORD_BYTES * EVERY)):
        store.put_messages(batch)
    end = store.confirmed_offset
    store.close_files()
    return end
